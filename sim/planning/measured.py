"""Measurements beside predictions: `python -m sim.planning.measured` prints the table.

It stands in docs/planning.md; the measurements are in measured.toml.

MMD^2 to D_v over that of uniform sampling at the same p. Cells and pruned uniform rows: the prototype
of the protocol, 3 seeds, epsilon 1, delta 1e-5, no public code book; constants were fitted to these points.
Sites: `python -m sim.experiments.cells --layouts hospitals acs isolet`, labelled code book, 3, 2 and 1 seeds.
Of their cells only the hospitals' were used, for what scarce rows cost. Air, forest, patients and people:
`python -m sim.planning.measure`, one seed, on 2026-11-22; nothing was fitted to them.
Clock: `fedkme sim run`, 3 seeds, in process, 150 seed rows, gamma as shipped.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from curator.planning import formulas
from curator.planning.facts import PublicFacts
from curator.planning.plan import Forecast, cells_forecast, clock_forecast, uniform_forecast

P = (50, 100, 200)


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured mean.

    Attributes:
        name: data, layout, method.
        facts: public facts of the runs.
        rho: of cells, or of pruned uniform rows; 0 for the clock.
        bias: of owners that hold one kind or all kinds; None for pruned uniform rows.
        measured: relative MMD^2.
        accessed: rows, where they are not rho p.
        site: of the data with real sites.
    """

    name: str
    facts: PublicFacts
    rho: float
    bias: float | None
    measured: float
    accessed: float | None = None
    site: bool = False

    @property
    def predicted(self) -> float:
        """Prediction by formulas that are told the layout: what a plan cannot know is no error of theirs."""
        if not self.rho:
            return formulas.clock(self.facts)
        if self.bias is None:
            return formulas.uniform_pruned(self.facts, self.rho) / formulas.uniform(self.facts.rows)
        return formulas.cells(self.facts, self.rho, self.bias) / formulas.uniform(self.facts.rows)

    @property
    def forecast(self) -> Forecast:
        """Forecast of a plan, which is not told how owners divide the kinds of rows."""
        if not self.rho:
            return clock_forecast(self.facts)
        return (uniform_forecast if self.bias is None else cells_forecast)(self.facts, self.rho)

    @property
    def factor(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def points() -> Iterator[MeasuredPoint]:
    """All of them."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    uniform, tables = found["uniform"], found["tables"]
    for data, layout, m, owners, size, rho, values in tables["cells"]:
        bias = formulas.PURE_BIAS if layout == "group" else formulas.MIXED_BIAS
        for p, value, base in zip(P, values, uniform[data], strict=True):
            if not math.isnan(value):
                facts = PublicFacts(m, (size,) * owners, p, 1.0, 1e-5)
                name = f"{data} {layout}{owners}, m = {m}, cells rho {rho:g}"
                yield MeasuredPoint(name, facts, rho, bias, value / base)
    for rho, values in tables["pruned"]:
        for p, value, base in zip(P, values, uniform["MNIST"], strict=True):
            facts = PublicFacts(250, (2400,) * 5, p, 1.0, 1e-5)
            name = f"MNIST group5, m = 250, uniform {rho:g}p + prune"
            yield MeasuredPoint(name, facts, rho, None, value / base)
    for data, m, owners, mean, median, method, rho, ratios in tables["sites"]:
        sizes = _sizes(owners, mean, median)
        told = formulas.MIDDLE_BIAS if method == "cells" else None
        how = f"cells rho {rho:g}" if told else f"uniform {rho:g}p + prune"
        for p, ratio in zip(P, ratios, strict=True):
            facts = PublicFacts(m, sizes, p, 1.0, 1e-5)
            yield MeasuredPoint(f"{data}, m = {m}, {how}", facts, rho, told, ratio, site=True)
    for data, m, owners, size, epsilon, ratios, accessed in tables["clock"]:
        for p, ratio, rows in zip(P, ratios, accessed, strict=True):
            facts = PublicFacts(m, (size,) * owners, p, epsilon, 1e-5, seed_rows=150)
            yield MeasuredPoint(f"{data}, m = {m}, clock, epsilon {epsilon:g}", facts, 0.0, None, ratio, rows)


def _sizes(owners: int, mean: int, median: int) -> tuple[int, ...]:
    """Sizes with this lower median and mean: the rest is with the largest, or lacks in the smallest half."""
    if mean >= median:
        return (*(median,) * (owners - 1), owners * mean - (owners - 1) * median)
    few = (owners - 1) // 2
    return (*((owners * mean - (owners - few) * median) // few,) * few, *(median,) * (owners - few))


def table() -> str:
    """Markdown: measured / predicted for each p, and rows accessed where they had to be predicted."""
    groups: dict[str, list[MeasuredPoint]] = {}
    for point in points():
        groups.setdefault(point.name, []).append(point)
    lines = ["| | p = 50 | p = 100 | p = 200 |", "|---|---|---|---|"]
    for name, members in groups.items():
        by_size = {point.facts.rows: _cell(point) for point in members}
        lines.append(f"| {name} | " + " | ".join(by_size.get(p, "-") for p in P) + " |")
    return "\n".join(lines) + "\n"


def spread(chosen: Sequence[MeasuredPoint]) -> tuple[float, float, float]:
    """Factor between predicted and measured, whichever is larger: median, nine of ten, worst."""
    off = sorted(max(point.factor, 1 / point.factor) for point in chosen)
    return off[len(off) // 2], off[math.ceil(0.9 * len(off)) - 1], off[-1]


def _cell(point: MeasuredPoint) -> str:
    rows = ""
    if point.accessed is not None:
        rows = f"; {point.accessed:g} / {formulas.clock_rows(point.facts):.0f}"
    return f"{point.measured:.3g} / {point.predicted:.2g}{rows}"


if __name__ == "__main__":
    found = list(points())
    print(table())
    for kind, chosen in (
        ("cells", [point for point in found if point.bias is not None and not point.site]),
        ("cells at sites", [point for point in found if point.bias is not None and point.site]),
        ("pruned", [point for point in found if point.rho and point.bias is None]),
        ("clock", [point for point in found if not point.rho]),
    ):
        print(
            kind, len(chosen), "median, nine of ten, worst:", *(f"{factor:.2f}" for factor in spread(chosen))
        )
