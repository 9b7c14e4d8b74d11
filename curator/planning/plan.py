"""Forecasts for every protocol, the protocol to take, and the choice of a run once owners are here.

A choice is a function of public numbers alone (p, |D_v|, epsilon, the schema, every m_j): everybody may know
it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from curator.planning import formulas
from curator.planning.formulas import PublicFacts, held_rows, run_facts
from curator.summary.settings import SummarySettings
from fedkme.exchange import SummaryChoice, SummaryRequest
from fedkme.protocols import ALGORITHM3, AUTO
from fedkme.tables.schema import Schema

SMALL_TARGET = 10
"""m eps below which cells were not measured; at 10 and 20 cells were no worse than as many uniform rows."""
USABLE = 0.8
"""Largest share of the pool that may be ordered."""
EQUAL = 1.15
"""Factor within which two estimates count as equal: means over three seeds differ as much."""
HELD_OUT = (53, 58)
"""Trials on data that set no constant, at rho 2: in how many of them weighted rows of cells were nearer to
D_v than as many weighted uniform rows (lab/forecast/strangers.csv)."""
FACTOR, WITHIN = 3, "half"
"""Share of these trials that were within a factor of the forecast. Ranges that hold nine of ten reach over
two or three powers of ten and decide nothing, so that none is said."""
CLOCK = (0.1, 4, 22)
"""Least and largest MMD^2 of weighted rows by Algorithm 3's clock over that of p weighted uniform rows, and
in how many trials (lab/forecast/measured.csv). No public fact tells which, so that there is no forecast."""
RHOS, RATIOS = (1.0, 1.5, 2.0, 3.0), (1.0, 2.0, 3.0, 5.0)
"""rho of cells, and rows drawn uniformly for each row that is kept."""
PREFERRED = (2.0, 1.5, 1.0)
"""rho of cells: the first for which owners have the rows is taken. A rho of 1 or 1.5 may be as near to
held-out rows, but its weights are so uneven, or its p rows of equal weight so far away, that verdicts fall
(docs/planning.md)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of one way to run.

    Attributes:
        name: protocol and parameters.
        protocol: the protocol's name in settings.
        ratio: owners' rows for each row of the summary, as in settings; 1 for auctions.
        mmd2: MMD^2 to D_v of the best form, weights allowed, over the MMD^2 of p uniform rows of equal
            weight; None where nothing that was measured forecasts it.
        accessed: owners' rows that the curator sees.
        sound: True where both sides' epsilon is proven.
        concern: reason not to take this way; empty for none.
    """

    name: str
    protocol: str
    ratio: float
    mmd2: float | None
    accessed: int
    sound: bool = True
    concern: str = ""

    @property
    def prunes(self) -> bool:
        """Check whether a party with D_v has to see more rows than are returned."""
        return self.ratio > 1.0

    @property
    def settings(self) -> str:
        """Assignments for `--set`."""
        if not self.sound:
            return "preset=published"
        ratio = {"cells": f" cells.rho={self.ratio:g}", "uniform": f" uniform_ratio={self.ratio:g}"}
        return f"protocol={self.protocol}{ratio.get(self.protocol, '')}"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Recommendation that `fedkme plan` prints.

    Attributes:
        facts: public facts that the plan was made from.
        estimates: forecasts of all ways to run, in a fixed order.
        recommended: name of one of the forecasts.
        reason: why this forecast is recommended, in a sentence or two.
        cautions: limits of a plan from public facts.
    """

    facts: PublicFacts
    estimates: tuple[Forecast, ...]
    recommended: str
    reason: str
    cautions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def make_plan(facts: PublicFacts, most: float | None = None, pruning: bool = True) -> Recommendation:
    """Estimate every protocol and recommend one, which is what `protocol = "auto"` takes.

    Only proven forecasts without a concern and within the limits are candidates. Cells come first (see
    PREFERRED), as they were nowhere clearly worse than as many uniform rows. Where no forecast of cells is a
    candidate, uniform rows are taken: the fewest that are nearly as good as the most. `most` limits rows
    accessed over p; `pruning` is true where a party that has D_v may see more rows than are returned.
    """
    estimates = estimates_of(facts)
    limit = math.inf if most is None else most * facts.rows
    fit = [
        e
        for e in estimates
        if e.sound and not e.concern and e.accessed <= limit and (pruning or not e.prunes)
    ]
    chosen = _choose(fit)
    return Recommendation(facts, estimates, chosen.name, _reason(chosen, estimates), tuple(_cautions(facts)))


def _choose(fit: Sequence[Forecast]) -> Forecast:
    by_rho = {e.ratio: e for e in fit if e.protocol == "cells"}
    cells = next((by_rho[rho] for rho in PREFERRED if rho in by_rho), None)
    if cells is not None:
        return cells
    drawn = [e for e in fit if e.protocol == "uniform"]
    best = min(_mmd2(e) for e in drawn)
    return min((e for e in drawn if _mmd2(e) <= EQUAL * best), key=lambda e: (e.accessed, _mmd2(e)))


def _mmd2(forecast: Forecast) -> float:
    """Forecast MMD^2; infinite where there is none."""
    return math.inf if forecast.mmd2 is None else forecast.mmd2


def estimates_of(facts: PublicFacts) -> tuple[Forecast, ...]:
    """Estimate every way to run, in a fixed order; uniform sampling is the first."""
    drawn = [uniform_forecast(facts, ratio) for ratio in RATIOS]
    cells = [cells_forecast(facts, rho) for rho in RHOS]
    return (*drawn, clock_forecast(facts), published_forecast(facts), *cells)


def uniform_forecast(facts: PublicFacts, ratio: float) -> Forecast:
    """Forecast of uniform rows with weights, `ratio` rows for each row that is kept."""
    rows = round(ratio * facts.rows)
    name = "uniform" if ratio == 1.0 else f"uniform {ratio:g}p"
    concern = "" if rows <= facts.pool else "owners have fewer rows"
    return Forecast(name, "uniform", ratio, formulas.uniform(facts, ratio), rows, concern=concern)


def clock_forecast(facts: PublicFacts) -> Forecast:
    """Rows accessed by Algorithm 3 under the sound clock; its MMD^2 has no forecast."""
    rows, (least, largest, trials) = math.ceil(formulas.clock_rows(facts)), CLOCK
    concern = (
        f"no forecast: MMD^2 was {least:g} to {largest:g} times that of p random rows in {trials} trials"
    )
    return Forecast("algorithm3, clock", ALGORITHM3, 1.0, None, rows, concern=concern)


def published_forecast(facts: PublicFacts) -> Forecast:
    """Rows accessed by Algorithm 3 as published; its MMD^2 has no forecast."""
    rows, concern = math.ceil(formulas.privauction_rows(facts)), "no finite epsilon, no forecast"
    return Forecast("algorithm3, published", ALGORITHM3, 1.0, None, rows, False, concern)


def cells_forecast(facts: PublicFacts, rho: float) -> Forecast:
    """Forecast of a summary by cells, with weights."""
    rows = round(rho * facts.rows)
    concern = _concern(facts, rows)
    name, value = f"cells, rho {rho:g}", formulas.cells(facts, rho)
    return Forecast(name, "cells", rho, value, rows, concern=concern)


def _concern(facts: PublicFacts, rows: int) -> str:
    if rows > USABLE * facts.pool:
        return "orders would take nearly all rows"
    reach = facts.validation_rows * facts.of_target
    if reach < SMALL_TARGET:
        return f"m eps = {reach:.3g} is below {SMALL_TARGET}: D_v's histogram is noise"
    return ""


def _reason(chosen: Forecast, estimates: tuple[Forecast, ...]) -> str:
    what = f"with weights about {_mmd2(chosen):.1g} x the MMD^2 of p random rows alike"
    what += f", {chosen.accessed:,} rows accessed"
    if chosen.protocol == "uniform":
        noted = next((e.concern for e in estimates if e.name == "cells, rho 2"), "")
        return f"{what}; cells: {noted}" if noted else f"{what}; it costs no epsilon"
    free = next(e for e in estimates if e.name == "uniform 5p")
    if not free.concern:
        what += f"; the free rival, {free.name}, would have {free.mmd2:.1g} with {free.accessed:,} rows"
        if _mmd2(free) < _mmd2(chosen):
            what += " and epsilon 0: take it where rows accessed do not matter"
    return what


def _cautions(facts: PublicFacts) -> list[str]:
    cautions = [
        f"{WITHIN} of the trials on other data were within {FACTOR} times the forecast; if no owner has rows "
        "like D_v's, no summary is near, and the verdict says so",
        "nothing public says how near owners' rows are to D_v: where they are near, as many uniform rows "
        "with weights are as good (docs/planning.md)",
    ]
    if facts.rows > 0.15 * facts.pool:
        cautions.append("p is a large part of the pool: rows like D_v's may run out for every method")
    if facts.gamma is None:
        cautions.append("gamma will come from public rows: estimates take it to be as on other tables")
    if facts.epsilon > 3 or facts.epsilon < 0.5:
        cautions.append("epsilon is outside of .5 to 3, where cells were measured")
    return cautions


ASSUMED = 1000
"""Assumed rows of each owner where no owner says how many it has."""


def choose(
    settings: SummarySettings,
    schema: Schema,
    request: SummaryRequest,
    owners: Sequence[str],
    sizes: Mapping[str, int],
    seed_rows: int,
) -> SummaryChoice:
    """Choose a run's protocol, or forecast the protocol that the settings name.

    Args:
        settings: the curator's settings.
        schema: schema of the rows.
        request: the consumer's request.
        owners: names of the owners that are here; without owners a named protocol gets no forecast.
        sizes: m_j of the owners that gave it; other owners are assumed to have the median.
        seed_rows: public rows.

    Raises:
        NotEnoughRowsError: owners have fewer rows than are asked for.
    """
    if settings.protocol != AUTO and not owners:
        return SummaryChoice(
            settings.protocol, _ratio(settings), (), 0, f"plan: {settings.protocol}, as named"
        )
    held = held_rows(owners, sizes) or [max(ASSUMED, request.rows)] * len(owners)
    facts = run_facts(
        settings,
        schema,
        request.rows,
        request.validation_rows,
        held,
        seed_rows,
        request.gamma,
        request.count_deviation,
    )
    plan = make_plan(facts)
    best = next(forecast for forecast in plan.estimates if forecast.name == plan.recommended)
    taken = best if settings.protocol == AUTO else _named(settings, facts)
    unknown = sum(name not in sizes for name in owners)
    note = f"; {unknown} of {len(owners)} owners do not say how many rows they have" if unknown else ""
    if taken is None:
        auction = settings.row.base
        line = (
            f"plan: algorithm3 by {auction}, as named; nothing was measured that says how near it comes{note}"
        )
        return SummaryChoice(ALGORITHM3, 1.0, (), 0, line)
    return SummaryChoice(
        taken.protocol,
        taken.ratio,
        () if taken.mmd2 is None else (taken.mmd2,),
        taken.accessed,
        f"plan: {_words(taken)}{note}",
        _disagreement(taken, best),
    )


def _ratio(settings: SummarySettings) -> float:
    return {"cells": settings.cells.rho, "uniform": settings.uniform_ratio}.get(settings.protocol, 1.0)


def _named(settings: SummarySettings, facts: PublicFacts) -> Forecast | None:
    """Forecast of the protocol that settings name; None where nothing was measured."""
    if settings.protocol == "cells":
        return cells_forecast(facts, settings.cells.rho)
    if settings.protocol == "uniform":
        return uniform_forecast(facts, settings.uniform_ratio)
    forecasts = {"clock": clock_forecast, "privauction": published_forecast}
    forecast = forecasts.get(settings.auction.kind)
    return None if forecast is None else forecast(facts)


def _words(taken: Forecast) -> str:
    text = f"{taken.name}, {taken.accessed:,} rows accessed"
    if taken.concern:
        return f"{text}; {taken.concern}"
    if taken.protocol == "cells" and taken.ratio == PREFERRED[0]:
        nearer, trials = HELD_OUT
        text += f"; nearer to D_v than as many random rows in {nearer} of {trials} trials on other data"
    return text if taken.protocol == "cells" else f"{text}; drawn at random, at no epsilon"


def _disagreement(taken: Forecast, best: Forecast) -> str:
    """Reason why the plan would not have taken the named protocol; empty where both are as good."""
    if best.name == taken.name or (not taken.concern and _mmd2(taken) <= EQUAL * _mmd2(best)):
        return ""
    return f"{taken.name} was named; the plan would take {_words(best)}"
