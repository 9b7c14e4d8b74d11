"""Constants and ranges of the forecast, fitted to measurements: `python -m lab.forecast.fit`.

Levels and powers of curator/planning/formulas.py are fitted by least squares in logarithms, all layouts with
equal weight; the cost of a coalition is not fitted, since it was measured separately. A range comes from the
errors of each table of data, with all its layouts, under constants fitted without that table: a fit's own
residuals would be too small. To check the ranges, each table is left out once more: constants *and*
ranges are fitted to the other tables, so that they hold 1 - 2 TAIL of their points, and checked on the points
of the table left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.planning import formulas
from fedkme.arrays import FloatArray
from lab.forecast.measured import MeasuredPoint, points

TAIL = 0.03
"""Share of the fitted points beyond each end of a range."""
TERMS = ("level", "columns", "scale", "rows", "target", "epsilon")


@dataclass(frozen=True, slots=True, eq=False)
class FittedForecast:
    """Constants and ranges fitted to some points.

    Attributes:
        constants: logarithm of the level, and the powers, in the order of TERMS.
        below: a share 1 - TAIL of the points is above the estimate divided by this factor.
        above: a share 1 - TAIL of the points is below the estimate's square root times this factor.
    """

    constants: FloatArray
    below: float
    above: float


def terms(point: MeasuredPoint) -> list[float]:
    """Logarithms of a point's facts in the order of TERMS; the level's is 0."""
    facts = point.facts
    assert facts.gamma is not None, "it was measured"
    ratios = [
        min(facts.width, formulas.COLUMNS) / formulas.COLUMNS,
        facts.gamma * facts.width / 6.0,
        formulas.ROWS / (point.rho * facts.rows),
        formulas.TARGET / facts.validation_rows,
        1.0 / facts.epsilon if point.method == "cells" else 1.0,
    ]
    return [1.0, *np.log(ratios).tolist()]


def logarithm(point: MeasuredPoint) -> float:
    """Logarithm of the measurement, without the cost of coalitions."""
    return float(np.log(point.measured)) - _together(point)


def _together(point: MeasuredPoint) -> float:
    together = point.method == "cells" and formulas.in_coalitions(point.facts)
    return float(np.log(formulas.COALITIONS)) if together else 0.0


def evenly(chosen: Sequence[MeasuredPoint]) -> FloatArray:
    """Weights that give every layout the same sum, (n,)."""
    names, places = np.unique([point.layout for point in chosen], return_inverse=True)
    weights: FloatArray = 1.0 / np.bincount(places, minlength=len(names))[places] / len(names)
    return weights


def fitted(chosen: Sequence[MeasuredPoint]) -> FittedForecast:
    """Fit constants and ranges to points of one method."""
    thought = np.empty(len(chosen))
    data = np.array([point.data for point in chosen])
    for name in np.unique(data):
        own = [point for point in chosen if point.data == name]
        thought[data == name] = estimates(own, _constants([point for point in chosen if point.data != name]))
    seen = np.log([point.measured for point in chosen])
    low = _reached(chosen, seen - thought, TAIL)
    high = _reached(chosen, seen - thought / 2.0, 1.0 - TAIL)
    return FittedForecast(_constants(chosen), float(np.exp(-low)), float(np.exp(high)))


def _reached(chosen: Sequence[MeasuredPoint], off: FloatArray, share: float) -> float:
    """Quantile of the points' errors at `share`, with equal weight for each layout."""
    order = np.argsort(off)
    return float(off[order][np.searchsorted(np.cumsum(evenly(chosen)[order]), share)])


def _constants(chosen: Sequence[MeasuredPoint]) -> FloatArray:
    root = np.sqrt(evenly(chosen))
    design = np.array([terms(point) for point in chosen]) * root[:, None]
    target = np.array([logarithm(point) for point in chosen]) * root
    constants: FloatArray = np.linalg.lstsq(design, target, rcond=None)[0]
    return constants


def estimates(chosen: Sequence[MeasuredPoint], constants: FloatArray) -> FloatArray:
    """Logarithms of the points' forecasts under some constants, at most 0, (n,)."""
    together = [_together(point) for point in chosen]
    logarithms: FloatArray = np.array([np.dot(terms(point), constants) for point in chosen]) + together
    return np.minimum(logarithms, 0.0)


def held_out(chosen: Sequence[MeasuredPoint]) -> Mapping[str, float]:
    """Share of each layout's points inside the ranges that were fitted without the layout's data."""
    shares: dict[str, float] = {}
    for data in sorted({point.data for point in chosen}):
        fit = fitted([point for point in chosen if point.data != data])
        for layout in sorted({point.layout for point in chosen if point.data == data}):
            own = [point for point in chosen if point.layout == layout]
            thought, seen = np.exp(estimates(own, fit.constants)), np.array([p.measured for p in own])
            low, high = thought / fit.below, np.minimum(1.0, fit.above * np.sqrt(thought))
            shares[layout] = float(np.mean((seen >= low) & (seen <= high)))
    return shares


def main() -> None:
    """Print constants, ranges and shares."""
    measured = points()
    for method in ("cells", "uniform"):
        chosen = [point for point in measured if point.method == method]
        fit = fitted(chosen)
        level, *powers = fit.constants
        text = ", ".join(f"{term} {power:.2f}" for term, power in zip(TERMS[1:], powers, strict=True))
        print(f"{method}: level {np.exp(level):.3f}, powers {text}; / {fit.below:.0f}, {fit.above:.2f} root")
        shares = held_out(chosen)
        print(f"  left out: {np.mean(list(shares.values())):.2f} of points, layouts alike")
        print("  " + ", ".join(f"{name} {share:.2f}" for name, share in shares.items() if share < 1.0))


if __name__ == "__main__":
    main()
