"""Measurements beside predictions: `python -m sim.planning.measured` prints the table.

It stands in docs/planning.md.

MMD^2 to D_v over that of uniform sampling at the same p. Cells and pruned uniform rows: the prototype
of the protocol, 3 seeds, epsilon 1, delta 1e-5, no public code book; constants were fitted to these points.
Sites: `python -m sim.experiments.cells --layouts hospitals acs isolet`, labelled code book, 3, 2 and 1 seeds.
Of their cells only the hospitals' were used, for what scarce rows cost. Clock: `fedkme sim run`, 3 seeds, in
process, 150 seed rows, gamma as shipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sim.planning import formulas
from sim.planning.facts import PublicFacts

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
    def factor(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


_UNIFORM = {"MNIST": (52.3, 46.4, 42.0), "Fashion": (92.1, 84.5, 80.5), "digits x10": (80.6, 68.0, 66.6)}
"""1000 MMD^2 at P."""

_CELLS: Sequence[tuple[str, str, int, int, int, float, tuple[float, ...]]] = (
    ("MNIST", "group", 250, 5, 2400, 1.0, (9.1, 6.2, 5.3)),
    ("MNIST", "group", 250, 5, 2400, 1.5, (5.8, 3.3, 2.1)),
    ("MNIST", "group", 250, 5, 2400, 2.0, (5.5, 2.9, 1.8)),
    ("MNIST", "group", 250, 5, 2400, 3.0, (5.3, 2.7, 1.6)),
    ("MNIST", "mixed", 250, 5, 2400, 1.0, (13.9, 11.5, 9.6)),
    ("MNIST", "mixed", 250, 5, 2400, 2.0, (6.3, 3.5, 2.5)),
    ("MNIST", "group", 250, 50, 240, 1.0, (10.9, 7.9, 7.4)),
    ("MNIST", "group", 250, 50, 240, 2.0, (6.3, 3.3, 2.1)),
    ("MNIST", "mixed", 250, 50, 240, 1.0, (21.5, 14.6, 13.0)),
    ("MNIST", "mixed", 250, 50, 240, 2.0, (7.9, 4.2, 2.9)),
    ("MNIST", "group", 1000, 5, 2400, 1.0, (5.6, 2.8, 1.8)),
    ("MNIST", "group", 1000, 5, 2400, 2.0, (4.5, 2.0, 1.0)),
    ("MNIST", "mixed", 1000, 5, 2400, 1.0, (9.5, 7.4, 6.5)),
    ("MNIST", "mixed", 1000, 5, 2400, 2.0, (5.2, 2.5, 1.3)),
    ("MNIST", "group", 25, 5, 2400, 1.0, (math.nan, math.nan, 31.0)),
    ("MNIST", "group", 25, 5, 2400, 2.0, (math.nan, math.nan, 23.0)),
    ("MNIST", "group", 50, 5, 2400, 1.0, (math.nan, math.nan, 24.0)),
    ("MNIST", "group", 50, 5, 2400, 2.0, (math.nan, math.nan, 7.8)),
    ("MNIST", "group", 100, 5, 2400, 1.0, (math.nan, math.nan, 19.0)),
    ("MNIST", "group", 100, 5, 2400, 2.0, (math.nan, math.nan, 4.0)),
    ("MNIST", "group", 250, 200, 60, 1.0, (math.nan, math.nan, 23.0)),
    ("MNIST", "group", 250, 200, 60, 2.0, (math.nan, math.nan, 3.5)),
    ("MNIST", "mixed", 250, 200, 60, 1.0, (math.nan, math.nan, 37.0)),
    ("MNIST", "mixed", 250, 200, 60, 2.0, (math.nan, math.nan, 14.0)),
    ("MNIST", "group", 250, 500, 24, 1.0, (math.nan, math.nan, 25.0)),
    ("MNIST", "group", 250, 500, 24, 2.0, (math.nan, math.nan, 4.3)),
    ("MNIST", "mixed", 250, 500, 24, 1.0, (math.nan, math.nan, 41.0)),
    ("MNIST", "mixed", 250, 500, 24, 2.0, (math.nan, math.nan, 11.0)),
    ("Fashion", "group", 250, 5, 2400, 1.0, (5.0, 3.8, 3.3)),
    ("Fashion", "group", 250, 5, 2400, 2.0, (2.4, 1.3, 0.7)),
    ("Fashion", "mixed", 250, 5, 2400, 1.0, (10.4, 8.4, 8.4)),
    ("Fashion", "mixed", 250, 5, 2400, 2.0, (3.2, 1.6, 1.1)),
    ("Fashion", "group", 250, 50, 240, 1.0, (6.4, 4.9, 4.3)),
    ("Fashion", "group", 250, 50, 240, 2.0, (2.9, 1.5, 0.9)),
    ("Fashion", "mixed", 250, 50, 240, 1.0, (7.4, 7.1, 7.3)),
    ("Fashion", "mixed", 250, 50, 240, 2.0, (3.5, 1.8, 1.9)),
    ("digits x10", "group", 175, 5, 3200, 1.0, (15.0, 15.2, 11.8)),
    ("digits x10", "group", 175, 5, 3200, 2.0, (4.2, 2.7, 2.2)),
    ("digits x10", "mixed", 175, 5, 3200, 1.0, (19.3, 20.9, 20.9)),
    ("digits x10", "mixed", 175, 5, 3200, 2.0, (6.4, 4.0, 3.9)),
    ("digits x10", "mixed", 175, 50, 320, 2.0, (4.5, 3.3, 2.9)),
)
"""Data, layout, m, K, m_j, rho, 1000 MMD^2 at P."""

_PRUNED = ((2.0, (20.3, 18.1, 17.8)), (5.0, (9.3, 7.1, 3.8)))
"""Uniform rho p rows and pruning on MNIST, m = 250: rho, 1000 MMD^2 at P."""

_SITES: Sequence[
    tuple[str, int, int, int, int, dict[float, tuple[float, ...]], dict[float, tuple[float, ...]]]
] = (
    (
        *("hospitals", 147, 4, 175, 123),
        {
            1: (0.15, 0.321, 0.716),
            1.5: (0.021, 0.143, 0.433),
            2: (0.019, 0.10, 0.374),
            3: (0.015, 0.072, 0.231),
        },
        {2: (0.23, 0.209, 0.313), 3: (0.05, 0.038, 0.206), 5: (0.012, 0.03, 0.204)},
    ),
    (
        *("ACS areas", 250, 19, 1382, 1269),
        {
            1: (0.214, 0.194, 0.177),
            1.5: (0.086, 0.058, 0.042),
            2: (0.073, 0.041, 0.024),
            3: (0.053, 0.027, 0.016),
        },
        {2: (0.159, 0.149, 0.084), 3: (0.08, 0.041, 0.023), 5: (0.057, 0.029, 0.014)},
    ),
    (
        *("ISOLET", 250, 4, 1560, 1560),
        {
            1: (0.17, 0.179, 0.206),
            1.5: (0.076, 0.063, 0.065),
            2: (0.05, 0.036, 0.036),
            3: (0.035, 0.025, 0.022),
        },
        {2: (0.212, 0.161, 0.156), 3: (0.098, 0.036, 0.035), 5: (0.033, 0.027, 0.021)},
    ),
)
"""Data, m, K, mean and median m_j, relative MMD^2 at P by rho: of cells, of pruned uniform rows."""

_CLOCK: Sequence[tuple[str, int, int, int, float, tuple[float, ...], tuple[int, ...]]] = (
    ("digits", 330, 5, 3220, 1, (0.94, 0.87, 0.95), (163, 230, 469)),
    ("digits", 330, 5, 3220, 3, (0.95, 0.81, 0.90), (104, 171, 326)),
    ("digits", 330, 5, 3220, 10, (1.02, 0.90, 0.84), (81, 135, 268)),
    ("digits", 330, 5, 3220, 100, (0.57, 0.61, 0.37), (83, 129, 257)),
    ("hospitals", 73, 4, 147, 1, (0.90, 1.37, 1.51), (135, 224, 432)),
    ("hospitals", 73, 4, 147, 3, (0.61, 1.15, 1.15), (97, 156, 297)),
    ("hospitals", 73, 4, 147, 10, (0.59, 0.93, 0.98), (79, 131, 252)),
    ("hospitals", 73, 4, 147, 100, (0.37, 0.33, 0.27), (78, 127, 230)),
    ("MNIST", 360, 5, 2403, 1, (0.66, 0.75, 0.72), (151, 238, 457)),
    ("MNIST", 360, 5, 2403, 3, (0.78, 0.81, 0.76), (100, 167, 306)),
    ("MNIST", 360, 5, 2403, 10, (0.82, 0.74, 0.62), (76, 126, 250)),
    ("MNIST", 360, 5, 2403, 100, (0.67, 0.50, 0.36), (73, 115, 243)),
)
"""Data, m, K, median m_j, epsilon, MMD^2 over uniform's and rows accessed at P."""


def points() -> Iterator[MeasuredPoint]:
    """All of them."""
    for data, layout, m, owners, size, rho, values in _CELLS:
        bias = formulas.PURE_BIAS if layout == "group" else formulas.MIXED_BIAS
        for p, value, base in zip(P, values, _UNIFORM[data], strict=True):
            if not math.isnan(value):
                facts = PublicFacts(m, (size,) * owners, p, 1.0, 1e-5)
                name = f"{data} {layout}{owners}, m = {m}, cells rho {rho:g}"
                yield MeasuredPoint(name, facts, rho, bias, value / base)
    for rho, values in _PRUNED:
        for p, value, base in zip(P, values, _UNIFORM["MNIST"], strict=True):
            facts = PublicFacts(250, (2400,) * 5, p, 1.0, 1e-5)
            name = f"MNIST group5, m = 250, uniform {rho:g}p + prune"
            yield MeasuredPoint(name, facts, rho, None, value / base)
    for data, m, owners, mean, median, *methods in _SITES:
        sizes = _sizes(owners, mean, median)
        told: tuple[float | None, ...] = (formulas.MIDDLE_BIAS, None)
        for kind, method, by_rho in zip(told, ("cells rho", "uniform"), methods, strict=True):
            for rho, ratios in by_rho.items():
                name = f"{data}, m = {m}, {method} {rho:g}{'' if kind else 'p + prune'}"
                for p, ratio in zip(P, ratios, strict=True):
                    yield MeasuredPoint(
                        name, PublicFacts(m, sizes, p, 1.0, 1e-5), float(rho), kind, ratio, site=True
                    )
    for data, m, owners, size, epsilon, ratios, accessed in _CLOCK:
        for p, ratio, rows in zip(P, ratios, accessed, strict=True):
            facts = PublicFacts(m, (size,) * owners, p, epsilon, 1e-5, seed_rows=150)
            yield MeasuredPoint(f"{data}, m = {m}, clock, epsilon {epsilon:g}", facts, 0.0, None, ratio, rows)


def _sizes(owners: int, mean: int, median: int) -> tuple[int, ...]:
    """Sizes with this lower median and mean: the rest is with the largest."""
    return (*(median,) * (owners - 1), owners * mean - (owners - 1) * median)


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
