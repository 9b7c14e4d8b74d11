"""Estimates for every protocol, and the one to take."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from sim.planning import formulas
from sim.planning.facts import PublicFacts

SMALL_TARGET = 50
"""m eps below which cells at rho = 1 are not worth it (SOUND.md, failure modes)."""
OWNER_FACTOR = 5
"""m_j eps_2 should be at least this many times B."""
SMALLEST_CODE_BOOK = 8
USABLE = 0.8
"""Share of the pool that may be ordered at most."""
EQUAL = 1.15
"""Estimates within this factor are no different: so are means over three seeds."""
OFF = 2.8
"""Nine of ten measured points lie within this factor of their estimate."""
_BELOW, _ABOVE = 2.8, 1.9
"""How far below and above their estimate cells may be; Fashion is far below, many small owners above."""
_PRUNED_BELOW, _PRUNED_ABOVE = 4.0, 2.6
_CLOCK_BELOW, _CLOCK_ABOVE = 1.9, 1.75


@dataclass(frozen=True, slots=True)
class Forecast:
    """One way to run.

    Attributes:
        name: protocol and parameters.
        settings: for `--set`.
        mmd2: MMD^2 to D_v over that of uniform sampling at the same p; the middle of what is likely.
        low: nine of ten measured points lie above; for cells with owners that hold one kind of rows each.
        high: nine of ten lie below; for cells with owners that all hold all kinds.
        accessed: owners' rows that the curator sees.
        sound: whether both sides' epsilon is proven.
        prunes: whether somebody with D_v has to see more rows than are returned.
        concern: why not to take it; empty for none.
    """

    name: str
    settings: str
    mmd2: float
    low: float
    high: float
    accessed: int
    sound: bool
    prunes: bool = False
    concern: str = ""


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
    """Estimate every protocol and recommend one.

    Of those that are proven, have no concern against them and keep to the limits, the best; among equals (see
    EQUAL) the one that accesses the fewest rows. `most` limits rows accessed over p; `pruning` says that
    curator or consumer may see more rows than are returned, beside D_v.
    """
    estimates = tuple(_estimates(facts))
    limit = math.inf if most is None else most * facts.rows
    fit = [
        e
        for e in estimates
        if e.sound and not e.concern and e.accessed <= limit and (pruning or not e.prunes)
    ]
    fit = fit or [e for e in estimates if e.name == "uniform"]
    best = min(fit, key=lambda e: e.mmd2)
    chosen = min((e for e in fit if e.mmd2 <= EQUAL * best.mmd2), key=lambda e: (e.accessed, e.mmd2))
    return Recommendation(
        facts, estimates, chosen.name, _reason(chosen, best, estimates), tuple(_cautions(facts))
    )


def _estimates(facts: PublicFacts) -> list[Forecast]:
    p = facts.rows
    base = formulas.uniform(p)
    found = [Forecast("uniform", "protocol=uniform", 1.0, 1.0, 1.0, p, sound=True)]
    for rho in formulas.UNIFORM_LEFT:
        value = formulas.uniform_pruned(facts, rho) / base
        rows = math.ceil(rho * p)
        concern = "" if rows <= facts.pool else "owners have fewer rows"
        name = f"uniform {rho:g}p + prune"
        found.append(
            Forecast(
                name,
                f"protocol=uniform uniform_ratio={rho:g}",
                value,
                value / _PRUNED_BELOW,
                value * _PRUNED_ABOVE,
                rows,
                True,
                True,
                concern,
            )
        )
    value = formulas.clock(facts)
    rows = math.ceil(formulas.clock_rows(facts))
    concern = "no better than uniform" if value > 1 / EQUAL else ""
    clock = Forecast(
        "algorithm3, clock",
        "protocol=algorithm3",
        value,
        value / _CLOCK_BELOW,
        value * _CLOCK_ABOVE,
        rows,
        True,
        concern=concern,
    )
    rows = math.ceil(formulas.privauction_rows(facts))
    published = Forecast(
        "algorithm3, published", "preset=published", 1.0, 0.4, 1.9, rows, False, concern="no finite epsilon"
    )
    found += [clock, published]
    for rho in formulas.LEFT:
        value, low, high = (
            formulas.cells(facts, rho, bias) / base
            for bias in (formulas.MIDDLE_BIAS, formulas.PURE_BIAS, formulas.MIXED_BIAS)
        )
        rows = math.ceil(rho * p)
        found.append(
            Forecast(
                f"cells, rho {rho:g}",
                f"protocol=cells cells.rho={rho:g}",
                value,
                low / _BELOW,
                high * _ABOVE,
                rows,
                True,
                rho > 1,
                _concern(facts, rho, rows),
            )
        )
    return found


def _concern(facts: PublicFacts, rho: float, rows: int) -> str:
    if rows > USABLE * facts.pool:
        return "orders would take nearly all rows"
    reach = facts.validation_rows * facts.epsilon
    if reach < SMALL_TARGET / 2 or (reach < SMALL_TARGET and rho == 1):
        return f"m eps = {reach:.3g} is below {SMALL_TARGET}: D_v's histogram is noise"
    held = facts.median_owner * formulas.histogram_epsilon(facts)
    if held < OWNER_FACTOR * SMALLEST_CODE_BOOK and rho < 3:
        return f"m_j eps_2 = {held:.3g} is below 5 x 8 cells: pool small owners, or take rho = 3"
    return ""


def _reason(chosen: Forecast, best: Forecast, estimates: tuple[Forecast, ...]) -> str:
    what = f"about {chosen.mmd2:.2g} x uniform's MMD^2 with {chosen.accessed:,} rows accessed"
    if chosen is not best:
        what += f"; {best.name} is not clearly better ({best.mmd2:.2g}) and accesses {best.accessed:,}"
    free = next(e for e in estimates if e.name == "uniform 5p + prune")
    if chosen.name.startswith("cells") and not free.concern:
        better = free.mmd2 / chosen.mmd2
        what += (
            f"; the free rival, uniform 5p + prune, would have {free.mmd2:.2g} with {free.accessed:,} rows"
        )
        if better < 1:
            what += " and epsilon 0: take it where rows accessed do not matter"
    elif chosen.name.startswith("uniform"):
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
