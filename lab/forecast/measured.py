"""Measurements beside forecasts: `python -m lab.forecast.measured` prints the table of docs/planning.md.

measured.csv has a line for each layout, gamma, size and way to run: MMD^2 to D_v of the best form over that
of p uniform rows alike, a geometric mean over seeds. Algorithm 3 by the clock has lines, and no forecast.
`python -m lab.forecast.measure` makes it. gamma is the default, that of the domain, or the layout's own (the
median heuristic on public rows). strangers.csv has
layouts that set no constant.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curator.planning.formulas import PublicFacts
from curator.planning.plan import Forecast, cells_forecast, uniform_forecast

FILE = Path(__file__).with_suffix(".csv")
STRANGERS = FILE.with_name("strangers.csv")
HELD = 2.5
"""MMD^2 of exact greedy on unseen rows, over that of p fresh rows of D_v's law, up to which owners have rows
like D_v's: it sees them all."""
METHODS = ("cells", "uniform")
_SHOWN = (1.0, 2.0)
"""rho of the table."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """Mean over seeds of one way to run.

    Attributes:
        layout: who held what.
        method: one of METHODS.
        facts: public ones of the runs.
        rho: rows accessed over p.
        measured: relative MMD^2.
        nearest: MMD^2 of exact greedy's rows on unseen rows over that of p fresh rows; 0 where not measured.
    """

    layout: str
    method: str
    facts: PublicFacts
    rho: float
    measured: float
    nearest: float = 0.0

    @property
    def data(self) -> str:
        """Table that the layout's rows are of."""
        return self.layout.partition("-")[0]

    @property
    def forecast(self) -> Forecast:
        """Forecast of the plan."""
        return (cells_forecast if self.method == "cells" else uniform_forecast)(self.facts, self.rho)

    @property
    def factor(self) -> float:
        """Measured over forecast."""
        forecast = self.forecast.mmd2
        assert forecast, "cells and uniform rows have a forecast"
        return self.measured / forecast


def points(file: Path = FILE) -> Sequence[MeasuredPoint]:
    """All points of a file."""
    with file.open(newline="", encoding="utf-8") as text:
        return [_point(line) for line in csv.DictReader(text)]


def _point(line: Mapping[str, str]) -> MeasuredPoint:
    facts = PublicFacts(
        validation_rows=int(line["m"]),
        owner_rows=_sizes(int(line["owners"]), int(line["pool"]), int(line["median"])),
        rows=int(line["p"]),
        epsilon=float(line["epsilon"]),
        delta=1e-5,
        width=int(line["width"]),
        gamma=float(line["gamma"]),
    )
    ratio, rho = float(line["ratio"]), float(line["rho"])
    return MeasuredPoint(line["layout"], line["method"], facts, rho, ratio, float(line.get("nearest", 0)))


def _sizes(owners: int, pool: int, median: int) -> tuple[int, ...]:
    """Sizes with this lower median and sum: the rest is with the largest, or lacks in the smallest half."""
    if pool >= owners * median:
        return (*(median,) * (owners - 1), pool - (owners - 1) * median)
    few = (owners - 1) // 2
    return (*((pool - (owners - few) * median) // few,) * few, *(median,) * (owners - few))


def table() -> str:
    """Make markdown: measured / forecast, for the usual points of each layout."""
    columns = [(method, rho) for method in METHODS for rho in _SHOWN]
    lines = [
        "| layout | " + " | ".join(f"{method}, rho {rho:g}" for method, rho in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    measured = points()
    for layout in dict.fromkeys(point.layout for point in measured):
        cells = {(point.method, point.rho): _cell(point) for point in usual(measured, layout)}
        lines.append(f"| {layout} | " + " | ".join(cells.get(column, "-") for column in columns) + " |")
    return "\n".join(lines) + "\n"


def usual(measured: Sequence[MeasuredPoint], layout: str) -> Sequence[MeasuredPoint]:
    """Points of a layout at p = 100, epsilon 1, the default gamma and |D_v| 250, or as many as it has."""
    own = [point for point in measured if point.layout == layout]
    own = [
        point
        for point in own
        if point.facts.rows == 100 and point.facts.epsilon == 1.0 and point.rho in _SHOWN
    ]
    gamma = own[-1].facts.gamma  # of the domain: its lines are the last
    own = [point for point in own if point.facts.gamma == gamma]
    rows = max(point.facts.validation_rows for point in own if point.facts.validation_rows <= 350)
    return [point for point in own if point.facts.validation_rows == rows]


def _cell(point: MeasuredPoint) -> str:
    return f"{point.measured:.2g} / {point.forecast.mmd2:.2g}"


if __name__ == "__main__":
    print(table())
