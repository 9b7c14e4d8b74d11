"""Estimates for every protocol, and the one to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from curator.planning import formulas
from curator.planning.facts import PublicFacts
from fedkme.cells.coalitions import MANY, pools_help
from fedkme.protocols import ALGORITHM3

SMALL_TARGET = 50
"""m eps below which cells at rho = 1 are not worth it (SOUND.md, failure modes)."""
OWNER_FACTOR = 5
"""m_j eps_2 should be at least this many times B."""
SMALLEST_CODE_BOOK = 8
USABLE = 0.8
"""Share of the pool that may be ordered at most."""
NO_BETTER = "no better than uniform"
EQUAL = 1.15
"""Estimates within this factor are no different: so are means over three seeds."""
OFF = 2.8
"""Nine of ten measured points lie within this factor of their estimate."""
_BELOW, _ABOVE = 175.0, 3.85
"""Factors below and above the estimate of cells; Fashion is far below, many small owners above."""
_PRUNED_BELOW, _PRUNED_ABOVE = 420.0, 2.25
_CLOCK_BELOW, _CLOCK_ABOVE = 1.85, 1.75


PREFERRED = (2.0, 1.5, 1.0, 3.0)
"""rho of cells, the first without a concern: 2 where owners have the rows, 3 where histograms are weak."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One way to run.

    Attributes:
        name: protocol and parameters.
        protocol: its word in settings.
        ratio: rows of owners for each row of the summary, as settings have it; 1 for auctions.
        mmd2: MMD^2 to D_v over that of uniform sampling at the same p; the middle of what is likely.
        low: nine of ten measured points lie above; for cells with owners that hold one kind of rows each.
        high: nine of ten lie below; for cells with owners that all hold all kinds.
        accessed: owners' rows that the curator sees.
        sound: whether both sides' epsilon is proven.
        concern: why not to take it; empty for none.
    """

    name: str
    protocol: str
    ratio: float
    mmd2: float
    low: float
    high: float
    accessed: int
    sound: bool = True
    concern: str = ""

    @property
    def prunes(self) -> bool:
        """Check whether somebody with D_v has to see more rows than are returned."""
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
        facts: what it was made from.
        estimates: all ways, in a fixed order.
        recommended: name of one of them.
        reason: why, in a sentence or two.
        cautions: what public facts cannot tell.
    """

    facts: PublicFacts
    estimates: tuple[Forecast, ...]
    recommended: str
    reason: str
    cautions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "facts": self.facts.to_json(),
            "estimates": [asdict(estimate) for estimate in self.estimates],
            "recommended": self.recommended,
            "reason": self.reason,
            "cautions": list(self.cautions),
            "off_by": OFF,
        }


def make_plan(facts: PublicFacts, most: float | None = None, pruning: bool = True) -> Recommendation:
    """Estimate every protocol and recommend one, which is what `protocol = "auto"` takes.

    Of those that are proven, have no concern against them and keep to the limits: cells (see PREFERRED), but
    where as many uniform rows are estimated to be no worse, which cost no epsilon, the best number of those;
    Algorithm 3 where it is clearly better than that. `most` limits rows accessed over p; `pruning` says that
    curator or consumer may see more rows than are returned, beside D_v.
    """
    estimates = estimates_of(facts)
    limit = math.inf if most is None else most * facts.rows
    fit = [
        e
        for e in estimates
        if e.sound and not e.concern and e.accessed <= limit and (pruning or not e.prunes)
    ]
    chosen = _chosen(fit)
    return Recommendation(facts, estimates, chosen.name, _reason(chosen, estimates), tuple(_cautions(facts)))


def _chosen(fit: Sequence[Forecast]) -> Forecast:
    by_rho = {e.ratio: e for e in fit if e.protocol == "cells"}
    drawn = [e for e in fit if e.protocol == "uniform"]
    cells = next((by_rho[rho] for rho in PREFERRED if rho in by_rho), None)
    free = [e for e in drawn if cells is not None and e.accessed <= cells.accessed]
    if cells is None or any(e.mmd2 <= cells.mmd2 for e in free):
        best = min(drawn, key=lambda e: e.mmd2).mmd2
        chosen = min((e for e in drawn if e.mmd2 <= EQUAL * best), key=lambda e: (e.accessed, e.mmd2))
    else:
        chosen = cells
    ranked = (e for e in fit if e.protocol == ALGORITHM3)
    return min((e for e in ranked if EQUAL * e.mmd2 < chosen.mmd2), key=lambda e: e.mmd2, default=chosen)


def estimates_of(facts: PublicFacts) -> tuple[Forecast, ...]:
    """Estimate every way to run, in a fixed order; uniform sampling is the first."""
    drawn = [uniform_forecast(facts, ratio) for ratio in formulas.UNIFORM_LEFT]
    cells = [cells_forecast(facts, rho) for rho in formulas.LEFT]
    return (*drawn, clock_forecast(facts), published_forecast(facts), *cells)


def uniform_forecast(facts: PublicFacts, ratio: float) -> Forecast:
    """Forecast of uniform rows, so many for each that is kept."""
    rows = round(ratio * facts.rows)
    if ratio == 1.0:
        return Forecast("uniform", "uniform", 1.0, 1.0, 1.0, 1.0, rows)
    value = formulas.uniform_pruned(facts, ratio) / formulas.uniform(facts.rows)
    concern = "" if rows <= facts.pool else "owners have fewer rows"
    low, high = value / _PRUNED_BELOW, value * _PRUNED_ABOVE
    return Forecast(f"uniform {ratio:g}p + prune", "uniform", ratio, value, low, high, rows, True, concern)


def clock_forecast(facts: PublicFacts) -> Forecast:
    """Forecast of Algorithm 3 under the sound clock."""
    value, rows = formulas.clock(facts), math.ceil(formulas.clock_rows(facts))
    concern = NO_BETTER if value > 1 / EQUAL else ""
    low, high = value / _CLOCK_BELOW, value * _CLOCK_ABOVE
    return Forecast("algorithm3, clock", ALGORITHM3, 1.0, value, low, high, rows, True, concern)


def published_forecast(facts: PublicFacts) -> Forecast:
    """Forecast of Algorithm 3 as published."""
    rows = math.ceil(formulas.privauction_rows(facts))
    concern = "no finite epsilon"
    return Forecast("algorithm3, published", ALGORITHM3, 1.0, 1.0, 0.4, 1.9, rows, False, concern)


def cells_forecast(facts: PublicFacts, rho: float) -> Forecast:
    """Forecast of a summary by cells."""
    value, low, high = (
        formulas.cells(facts, rho, bias) / formulas.uniform(facts.rows)
        for bias in (formulas.MIDDLE_BIAS, formulas.PURE_BIAS, formulas.MIXED_BIAS)
    )
    rows = round(rho * facts.rows)
    concern = _concern(facts, rho, rows)
    low, high = low / _BELOW, high * _ABOVE
    return Forecast(f"cells, rho {rho:g}", "cells", rho, value, low, high, rows, True, concern)


def _concern(facts: PublicFacts, rho: float, rows: int) -> str:
    if rows > USABLE * facts.pool:
        return "orders would take nearly all rows"
    reach = facts.validation_rows * facts.epsilon
    if reach < SMALL_TARGET / 2 or (reach < SMALL_TARGET and rho == 1):
        return f"m eps = {reach:.3g} is below {SMALL_TARGET}: D_v's histogram is noise"
    epsilon = formulas.histogram_epsilon(facts)
    held = facts.median_owner * epsilon
    if pools_help(facts.owner_rows, epsilon) and not facts.seed_rows:
        return ""  # they count in coalitions: no worse than estimated for their own histograms
    if held < OWNER_FACTOR * SMALLEST_CODE_BOOK and rho < 3:
        return (
            f"m_j eps_2 = {held:.3g} is below 5 x 8 cells, {MANY} owners would count together: take rho = 3"
        )
    return ""


def _reason(chosen: Forecast, estimates: tuple[Forecast, ...]) -> str:
    what = f"about {chosen.mmd2:.2g} x uniform's MMD^2 with {chosen.accessed:,} rows accessed"
    free = next(e for e in estimates if e.name == "uniform 5p + prune")
    if chosen.protocol == "cells" and not free.concern:
        what += (
            f"; the free rival, uniform 5p + prune, would have {free.mmd2:.2g} with {free.accessed:,} rows"
        )
        if free.mmd2 < chosen.mmd2:
            what += " and epsilon 0: take it where rows accessed do not matter"
    elif chosen.protocol == "uniform":
        noted = next((e.concern for e in estimates if e.name == "cells, rho 2"), "")
        what += f"; cells: {noted}" if noted else "; it costs no epsilon"
    return what


def _cautions(facts: PublicFacts) -> list[str]:
    cautions = [
        f"estimates are off by a factor of up to {OFF:g} nine times in ten; their order is surer",
        "nothing public says how near owners' rows are to D_v: at real sites, where they are near, uniform "
        "5p + prune was better than cells with rho 2 (docs/planning.md); it costs no epsilon, and more rows",
        "a target of fewer than 3 % of the pool is found badly by cells (1.3 x uniform 2p + prune at rho 1)",
    ]
    if facts.rows > 0.15 * facts.pool:
        cautions.append("p is a large part of the pool: rows like D_v's may run out for every method")
    if not facts.seed_rows:
        cautions.append("a public seed set would spare owners the sketch: 0.3 of their epsilon")
    if facts.labelled:
        cautions.append(
            "with labels a code book can tell classes apart, which helps owners that hold all kinds"
        )
    if facts.epsilon > 3 or facts.epsilon < 0.3:
        cautions.append("epsilon is outside of .3 to 3, where cells were not measured")
    return cautions
