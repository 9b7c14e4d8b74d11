"""Measurements of an experiment: curves with error bars, differences between them, a tidy CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from lab.experiments.paper import PaperClaim, Place
from sim.sweep.table import SeedMean, mean_over


@dataclass(frozen=True, slots=True)
class CurveValue:
    """A measured value.

    Attributes:
        panel: the measured quantity.
        method: how rows were chosen, or which formula was computed.
        x: p, K, rounds or points; a word where it is a data set or a classifier.
        seed: seed of the draw.
        value: measured value in the panel's unit.
    """

    panel: str
    method: str
    x: Place
    seed: int
    value: float


Curve = Mapping[Place, SeedMean]
"""Mean over seeds by x: numbers ascending, words as they come."""


def curves_of(measurements: Iterable[CurveValue], panel: str) -> dict[str, Curve]:
    """Curves of a panel by method, in the order in which methods come."""
    values: dict[str, dict[Place, list[float]]] = {}
    for measurement in measurements:
        if measurement.panel == panel:
            values.setdefault(measurement.method, {}).setdefault(measurement.x, []).append(measurement.value)
    curves = {method: _means(by_x) for method, by_x in values.items()}
    return {method: curve for method, curve in curves.items() if curve}


def claimed_curve(measurements: Iterable[CurveValue], claim: PaperClaim) -> Curve:
    """Curve of a claim: a method's values, minus or divided by another method's of the same draw."""
    values: dict[str, dict[tuple[Place, int], float]] = {}
    for measurement in measurements:
        if measurement.panel == claim.panel:
            values.setdefault(measurement.method, {})[measurement.x, measurement.seed] = measurement.value
    minus, unit = values.get(claim.minus, {}), values.get(claim.times, {})
    by_place: dict[Place, list[float]] = {}
    for (x, seed), value in values.get(claim.method, {}).items():
        if (not claim.minus or (x, seed) in minus) and (not claim.times or (x, seed) in unit):
            compared = (value - minus.get((x, seed), 0.0)) / unit.get((x, seed), 1.0)
            by_place.setdefault(x, []).append(compared)
    return _means(by_place)


def holds(claim: PaperClaim, curve: Curve, errors: float = 0.0) -> bool:
    """Check that means lie in the claim's range, give or take `errors` standard errors; False without any."""
    if not curve:
        return False
    if claim.over == "mean":
        squares = sum(_error(point) ** 2 for point in curve.values())
        return _inside(claim, overall(curve), errors * math.sqrt(squares) / len(curve))
    inside = [_inside(claim, point.mean, errors * _error(point)) for point in curve.values()]
    return all(inside) if claim.over == "every" else 2 * sum(inside) > len(inside)


def _inside(claim: PaperClaim, value: float, slack: float) -> bool:
    return claim.low - slack <= value <= claim.high + slack


def _error(point: SeedMean) -> float:
    return point.error if point.count > 1 else 0.0


def overall(curve: Curve) -> float:
    """Mean of a curve over its points."""
    return sum(point.mean for point in curve.values()) / len(curve)


def at(axis: str, x: Place) -> str:
    """Name a place on an axis: `p = 10`, or the place itself where it is a word."""
    return x if isinstance(x, str) else f"{axis} = {x:g}"


def write_csv(path: Path, measurements: Iterable[CurveValue]) -> None:
    """Write one line a measurement."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(CurveValue)])
        writer.writerows(astuple(measurement) for measurement in measurements)


def _means(by_x: Mapping[Place, list[float]]) -> Curve:
    words = [x for x in by_x if isinstance(x, str)]
    numbers = sorted(x for x in by_x if not isinstance(x, str))
    places: list[Place] = [*numbers, *words]
    means = {x: mean_over(by_x[x]) for x in places}
    return {x: mean for x, mean in means.items() if mean is not None}
