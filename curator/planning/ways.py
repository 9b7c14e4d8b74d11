"""Ways to rows like D_v, compared before anything is spent: real rows, rows for the target, release, D_v.

Errors are MMD^2 to fresh rows of the target over those of exact greedy choice, as measured on other data
(`python -m lab.market.target`, lab/results/targets.md); a plan reads no row and has none of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curator.planning.plan import Recommendation

MEASURED = "fourteen runs of eight layouts"
REAL_ROWS, TARGET_ROWS, ALONE = (1.00, 1.54), (1.06, 1.35), (0.96, 1.30)
"""Median and worst error of a summary of 100 real rows, of 100 rows for the target, and of D_v of 250."""


@dataclass(frozen=True, slots=True)
class Way:
    """Way to rows like D_v, with its costs and error.

    Attributes:
        name: the way's name.
        rows: real rows that leave owners.
        owners_epsilon: epsilon of an owner's row, towards other owners (real rows) or the consumer.
        validation_epsilon: epsilon of a row of D_v, towards owners and curator.
        error: median and worst of what was measured, in words; "-" where nothing was.
        use: when to take it.
    """

    name: str
    rows: int
    owners_epsilon: float
    validation_epsilon: float
    error: str
    use: str


def ways_of(advice: Recommendation, closed: Sequence[str] = ()) -> tuple[Way, ...]:
    """Compare four ways for the public facts of a plan.

    Args:
        advice: plan of a summary.
        closed: owners whose policy lets no row leave.
    """
    epsilon = advice.facts.epsilon
    chosen = next(each for each in advice.estimates if each.name == advice.recommended)
    pays = epsilon if chosen.protocol == "cells" else 0.0
    refused = f"refused by {', '.join(closed[:2])}" if closed else "rows may leave owners"
    return (
        Way(f"real rows ({chosen.protocol})", chosen.accessed, pays, pays, _error(REAL_ROWS), refused),
        Way("rows for the target", 0, epsilon, 0.0, _error(TARGET_ROWS), "no row may leave"),
        Way("the release", 0, epsilon, 0.0, "-", "to train on many rows"),
        Way("D_v alone", 0, 0.0, 0.0, _error(ALONE), "classes go otherwise in D_v"),
    )


def _error(median_and_worst: tuple[float, float]) -> str:
    return "{:.2f}, worst {:.2f}".format(*median_and_worst)
