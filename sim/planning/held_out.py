"""Ranges of a plan on what was not used to set them: `python -m sim.planning.held_out` prints the shares.

Each data set is left out in turn. The others set by which factors ranges are wider (or narrower) than the
plan's, so that all their points are inside, for cells, pruned uniform rows and the clock apart; then the
points of the one left out are looked at. Constants of the formulas are not fitted again: those of cells were
fitted to images and hospitals alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.planning.measured import MeasuredPoint, points

_SITES = ("group", "mixed")


def data_of(point: MeasuredPoint) -> str:
    """Name of the data set of a point."""
    name = point.name.partition(",")[0]
    return name.rpartition(" ")[0] if name.rpartition(" ")[2].startswith(_SITES) else name


def kind_of(point: MeasuredPoint) -> str:
    """Kind of protocol of a point: its estimates have ranges of their own."""
    return point.forecast.protocol


def widening(chosen: Sequence[MeasuredPoint]) -> tuple[float, float]:
    """Factors by which ranges are to reach below and above those of the plan, to hold the points."""
    below = max(point.forecast.low / point.measured for point in chosen)
    return below, max(point.measured / point.forecast.high for point in chosen)


def held(found: Sequence[MeasuredPoint]) -> dict[str, tuple[int, int]]:
    """Count of points inside of ranges that were set without their data set, and of all, by data set."""
    shares: dict[str, tuple[int, int]] = {}
    for data, kind in sorted({(data_of(point), kind_of(point)) for point in found}):
        alike = [point for point in found if kind_of(point) == kind]
        left_out = [point for point in alike if data_of(point) == data]
        below, above = widening([point for point in alike if data_of(point) != data])
        inside = sum(
            point.forecast.low / below <= point.measured <= point.forecast.high * above for point in left_out
        )
        before = shares.get(data, (0, 0))
        shares[data] = before[0] + inside, before[1] + len(left_out)
    return shares


if __name__ == "__main__":
    measured = list(points())
    for name, (inside, count) in held(measured).items():
        print(f"{name}: {inside} of {count}")
    for kind in sorted(set(map(kind_of, measured))):
        print(kind, "wider by", widening([point for point in measured if kind_of(point) == kind]))
