"""Constants of the forecast, fitted to measurements: `python -m lab.forecast.fit`.

Levels and powers of curator/planning/formulas.py are fitted by least squares in logarithms, all layouts with
equal weight; the cost of a coalition is not fitted, since it was measured separately.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curator.planning import formulas
from fedkme.arrays import FloatArray
from lab.forecast.measured import METHODS, MeasuredPoint, points

TERMS = ("level", "columns", "scale", "rows", "target", "epsilon")


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


def fitted(chosen: Sequence[MeasuredPoint]) -> FloatArray:
    """Fit the logarithm of the level, and the powers, in the order of TERMS, to points of one method."""
    root = np.sqrt(evenly(chosen))
    design = np.array([terms(point) for point in chosen]) * root[:, None]
    target = np.array([logarithm(point) for point in chosen]) * root
    constants: FloatArray = np.linalg.lstsq(design, target, rcond=None)[0]
    return constants


def main() -> None:
    """Print constants."""
    measured = points()
    for method in METHODS:
        level, *powers = fitted([point for point in measured if point.method == method])
        text = ", ".join(f"{term} {power:.2f}" for term, power in zip(TERMS[1:], powers, strict=True))
        print(f"{method}: level {np.exp(level):.3f}, powers {text}")


if __name__ == "__main__":
    main()
