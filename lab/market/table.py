"""The tables of MarketBench: the readable one first, the layouts behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.market.layouts import KINDS
from lab.market.methods import FREE, GREEDY, NEEDS, OURS, OURS_EQUAL
from lab.market.run import Grid, Line

SMALL = math.log(1.05)
"""A mean log ratio below this is no difference."""
_ONE_SEED = math.log(1.15)
"""Log ratio that one seed alone has to exceed."""

LEGEND = f"""Error (MMD^2) on held-back rows over exact greedy's: median over layouts, worst, how many
within 1.15; median accuracy less greedy's; median rows accessed; layouts clearly worse than {FREE}.
"""
SHORT: Mapping[str, str] = {
    OURS: "ours w",
    OURS_EQUAL: "ours",
    "exact greedy + weights": "greedy w",
    FREE: "uniform w",
    "FedDP-KMeans cells + weights": "k-means w",
    "vendors by MMD + weights": "vendors w",
    "kernel thinning + weights": "thinned w",
    "DAVED + weights": "DAVED w",
    "ProtoDash": "ProtoDash",
}
"""Methods in the tables by layout, by their names there: w with weights."""

Scores = Mapping[tuple[str, str], Mapping[int, Line]]
"""Lines by layout and method, by seed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting that a table shows."""

    rows: int = 250
    p: int = 100
    rho: float = 2.0
    epsilon: float = 1.0

    def __str__(self) -> str:
        return f"|D_v| {self.rows}, p {self.p}, rho {self.rho:g}, epsilon {self.epsilon:g}."

    def select(self, lines: Sequence[Line]) -> Scores:
        """Lines of this setting, and of methods that know no rho or epsilon."""
        by_layout: dict[tuple[str, str], dict[int, Line]] = {}
        for line in lines:
            same = line.rows == self.rows and line.p == self.p
            paced = line.rho == self.rho or math.isnan(line.rho)
            if same and paced and (line.epsilon == self.epsilon or math.isnan(line.epsilon)):
                by_layout.setdefault((line.layout, line.method), {})[line.seed] = line
        return by_layout


@dataclass(frozen=True, slots=True)
class SeedComparison:
    """Comparison of two methods over seeds of one layout: log ratios of errors on held-back rows."""

    logs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Geometric mean of the ratios."""
        return math.exp(float(np.mean(self.logs)))

    @property
    def worse(self) -> bool:
        """Check whether the method is worse by more than 5 % and two standard errors."""
        if len(self.logs) == 1:
            return self.logs[0] > _ONE_SEED
        error = float(np.std(self.logs, ddof=1)) / math.sqrt(len(self.logs))
        return float(np.mean(self.logs)) > max(SMALL, 2.0 * error)


def compare(scores: Scores, layout: str, method: str, base: str) -> SeedComparison | None:
    """Compare two methods on a layout; None where they have no seed in common."""
    mine, theirs = scores.get((layout, method), {}), scores.get((layout, base), {})
    seeds = sorted(mine.keys() & theirs.keys())
    if not seeds:
        return None
    return SeedComparison(tuple(math.log(_test(mine[seed]) / _test(theirs[seed])) for seed in seeds))


def _test(line: Line) -> float:
    return max(line.mmd2_test, 1e-9)


def tables(lines: Sequence[Line], grid: Grid) -> str:
    """All tables, at the usual setting as far as the grid has it."""

    def usual(value: float, values: Sequence[float]) -> float:
        return value if value in values else values[0]

    default = Setting()
    shown = Setting(
        int(usual(default.rows, grid.rows)),
        int(usual(default.p, grid.sizes)),
        usual(default.rho, grid.ratios),
        usual(default.epsilon, grid.epsilons),
    )
    parts = {
        f"{LEGEND}{shown}": overview(lines, shown),
        "By layout; of greedy 1000 MMD^2 to D_v / to held-back rows and accuracy": by_layout(lines, shown),
        "Accuracy less exact greedy's": accuracies(lines, shown),
        "Private ranking of owners": rankings(lines, shown),
        "Ours with weights at every setting: median and worst layout": by_setting(lines),
    }
    return "\n".join(f"{title}\n\n{table}" for title, table in parts.items())


def overview(lines: Sequence[Line], setting: Setting) -> str:
    """Markdown, one line a method: how far from exact greedy, where worst, and what it takes."""
    scores = setting.select(lines)
    names = [name for name in KINDS if any(layout == name for layout, _ in scores)]
    heads = ("method", "needs", "median", "worst layout", "<= 1.15", "accuracy", "rows", "worse")
    table = [_row(heads), _row(["---"] * len(heads))]
    families = {method: next(iter(by.values())).family for (_, method), by in scores.items()}
    for method in sorted(families, key=lambda method: list(NEEDS).index(families[method])):
        table.append(_row(_summed_up(scores, names, method)))
    return "\n".join(table) + "\n"


def _summed_up(scores: Scores, names: Sequence[str], method: str) -> list[str]:
    ratios = {
        name: comparison
        for name in names
        if (comparison := compare(scores, name, method, GREEDY)) is not None
    }
    free = [comparison for name in names if (comparison := compare(scores, name, method, FREE)) is not None]
    family = next(line.family for (_, m), by in scores.items() if m == method for line in by.values())
    if not ratios:
        return [method, NEEDS[family], "-", "-", "-", "-", "-", "-"]
    worst = max(ratios, key=lambda name: ratios[name].ratio)
    gaps = [_accuracy(scores, name, method) - _accuracy(scores, name, GREEDY) for name in ratios]
    accessed = [np.mean([line.accessed for line in scores[name, method].values()]) for name in ratios]
    within = sum(comparison.ratio <= 1.15 for comparison in ratios.values())
    return [
        f"**{method}**" if method in (OURS, OURS_EQUAL) else method,
        NEEDS[family],
        f"{np.median([comparison.ratio for comparison in ratios.values()]):.2f}",
        f"{ratios[worst].ratio:.2f} ({worst})",
        f"{within} of {len(ratios)}",
        f"{np.median(gaps):+.3f}",
        f"{np.median(accessed):,.0f}",
        "-" if method == FREE else f"{sum(comparison.worse for comparison in free)} of {len(free)}",
    ]


def _accuracy(scores: Scores, layout: str, method: str) -> float:
    return float(np.mean([line.accuracy for line in scores[layout, method].values()]))


def by_layout(lines: Sequence[Line], setting: Setting) -> str:
    """Markdown, one line a layout: ratios to exact greedy's error on held-back rows."""
    scores = setting.select(lines)

    def cell(name: str, method: str) -> str:
        comparison = compare(scores, name, method, GREEDY)
        return "-" if comparison is None else f"{comparison.ratio:.2f}"

    return _layouts(scores, cell)


def accuracies(lines: Sequence[Line], setting: Setting) -> str:
    """Markdown, one line a layout: accuracy of a linear SVM less exact greedy's."""
    scores = setting.select(lines)

    def cell(name: str, method: str) -> str:
        if not {(name, method), (name, GREEDY)} <= scores.keys():
            return "-"
        return f"{_accuracy(scores, name, method) - _accuracy(scores, name, GREEDY):+.2f}"

    return _layouts(scores, cell)


def _layouts(scores: Scores, cell: Callable[[str, str], str]) -> str:
    heads = ("layout", "K", "greedy", *SHORT.values())
    table = [_row(heads), _row(["---"] * len(heads))]
    for name in KINDS:
        if greedy := list(scores.get((name, GREEDY), {}).values()):
            cells = [cell(name, method) for method in SHORT]
            table.append(_row([name, str(greedy[0].owners), _plain(greedy), *cells]))
    return "\n".join(table) + "\n"


def _plain(lines: Sequence[Line]) -> str:
    def mean(field: str) -> float:
        return float(np.mean([getattr(line, field) for line in lines]))

    return f"{1e3 * mean('mmd2'):.2f} / {1e3 * mean('mmd2_test'):.2f}; {mean('accuracy'):.2f}"


def by_setting(lines: Sequence[Line]) -> str:
    """Markdown, one line a setting that was run: median and worst ratio of ours to greedy and to uniform."""
    settings = sorted({(x.rows, x.p, x.rho, x.epsilon) for x in lines if x.family == "ours"})
    heads = ("D_v", "p", "rho", "epsilon", "layouts", "over exact greedy", f"over {FREE}", "worse")
    table = [_row(heads), _row(["---"] * len(heads))]
    for values in settings:
        scores = Setting(*values).select(lines)
        greedy, free = (
            [comparison for name in KINDS if (comparison := compare(scores, name, OURS, base)) is not None]
            for base in (GREEDY, FREE)
        )
        if greedy and free:
            shown = [
                f"{np.median([f.ratio for f in part]):.2f}, {max(f.ratio for f in part):.2f}"
                for part in (greedy, free)
            ]
            numbers = [f"{value:g}" for value in values]
            table.append(_row([*numbers, str(len(greedy)), *shown, str(sum(f.worse for f in free))]))
    return "\n".join(table) + "\n"


def rankings(lines: Sequence[Line], setting: Setting) -> str:
    """Markdown, one line a layout: Kendall's tau of the private ranking of owners with the exact one."""
    scores = setting.select(lines)
    table = [_row(["layout", "K", "Kendall's tau"]), _row(["---"] * 3)]
    for name in KINDS:
        runs = list(scores.get((name, OURS), {}).values())
        values = [line.kendall for line in runs if not math.isnan(line.kendall)]
        if values:
            table.append(_row([name, str(runs[0].owners), f"{np.mean(values):.2f}"]))
    return "\n".join(table) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
