"""Run MarketBench: one line of a csv file for each summary; what the file has already is not run again."""

from __future__ import annotations

import csv
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from fedkme.errors import ConfigError, DataError
from lab.experiments.cells_draw import Build
from lab.market.layouts import KINDS, QUICK, layouts
from lab.market.methods import FAMILIES, MethodFamily
from lab.market.pool import PooledRows, SummaryQuestion
from lab.market.score import score

Key = tuple[str, str, int, int, float, float, int]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Runs to make: all combinations, but for rho and epsilon where a family does not know them."""

    layouts: tuple[str, ...] = tuple(KINDS)
    rows: tuple[int, ...] = (100, 250, 1000)
    """|D_v|, or as many as a layout can hold back."""
    sizes: tuple[int, ...] = (100,)
    """p."""
    ratios: tuple[float, ...] = (1.0, 2.0, 5.0)
    """rho."""
    epsilons: tuple[float, ...] = (0.5, 1.0, 3.0)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    families: tuple[str, ...] = tuple(family.name for family in FAMILIES)

    def questions(self, family: MethodFamily, seed: int) -> Iterator[SummaryQuestion]:
        """Questions to a family about one draw; NaN for what it does not know."""
        ratios = self.ratios if family.paced else (math.nan,)
        epsilons = self.epsilons if family.private else (math.nan,)
        for p, rho, epsilon in itertools.product(self.sizes, ratios, epsilons):
            yield SummaryQuestion(p, rho, epsilon, seed)


QUICK_GRID = Grid(QUICK, (250,), (100,), (2.0,), (1.0,), (0, 1))
"""About two minutes on two cores."""


@dataclass(frozen=True, slots=True)
class Line:
    """One summary.

    Attributes:
        layout: who held what.
        owners: K.
        pool: N, rows of all owners.
        validation: |D_v| that there was.
        method: what made it.
        family: with what else it was computed.
        rows: |D_v| that was asked for.
        p: rows that were asked for.
        rho: rows accessed over p that were allowed; NaN where it makes no difference.
        epsilon: of owners and D_v; NaN where nothing private is released.
        seed: of everything random.
        mmd2: squared MMD to D_v.
        mmd2_test: to held-back rows.
        accuracy: of a linear SVM on held-back rows.
        effective: effective sample size.
        accessed: rows of owners that somebody else saw.
        kendall: of the private ranking of owners with the exact one; NaN where there is none.
        seconds: of the family.
    """

    layout: str
    owners: int
    pool: int
    validation: int
    method: str
    family: str
    rows: int
    p: int
    rho: float
    epsilon: float
    seed: int
    mmd2: float
    mmd2_test: float
    accuracy: float
    effective: float
    accessed: int
    kendall: float
    seconds: float

    @property
    def key(self) -> Key:
        """Key of the computation: the lines of a family come together."""
        return _key(self.layout, self.family, self.rows, self.p, self.rho, self.epsilon, self.seed)


def _key(layout: str, family: str, rows: int, p: int, rho: float, epsilon: float, seed: int) -> Key:
    return layout, family, rows, p, _known(rho), _known(epsilon), seed


def _known(value: float) -> float:
    """Make what a family does not know equal to itself, which NaN is not."""
    return -1.0 if math.isnan(value) else value


def read_lines(file: Path) -> list[Line]:
    """Lines of a csv file, none if there is no file.

    Raises:
        DataError: it was not written by `run`.
    """
    if not file.exists():
        return []
    kinds = get_type_hints(Line)
    try:
        with file.open(newline="", encoding="utf-8") as text:
            return [Line(**{n: kinds[n](cell) for n, cell in row.items()}) for row in csv.DictReader(text)]
    except (KeyError, ValueError, TypeError, UnicodeDecodeError):
        raise DataError(f"{file} is no result of fedkme bench market", "Give another --out.") from None


def run(
    grid: Grid, data: Path, file: Path, say: Say, builds: Mapping[str, Build] | None = None
) -> list[Line]:
    """Make the runs of a grid that `file` lacks, and append them; a layout without its data is skipped.

    Args:
        grid: of runs.
        data: folder of the data sets.
        file: csv file, made where there is none.
        say: hears of each draw.
        builds: layouts by name; those of the benchmark by default.

    Returns:
        All lines of the file.
    """
    lines_so_far, builds = read_lines(file), builds or layouts()
    finished = {line.key for line in lines_so_far}
    for seed, rows, name in itertools.product(grid.seeds, grid.rows, grid.layouts):
        missing = list(_missing(grid, name, rows, seed, finished))
        if not missing:
            continue
        started = time.monotonic()
        try:
            market = PooledRows(builds[name](data, rows, seed))
        except (ConfigError, DataError) as error:
            say(f"{name}: skipped, {error}")
            continue
        for family, question in missing:
            lines = _lines(market, family, question, rows)
            _append(file, lines)
            lines_so_far += lines
        say(f"{name}, |D_v| {rows}, seed {seed}: {len(missing)} runs, {time.monotonic() - started:.0f} s")
    return lines_so_far


def incomplete_layouts(grid: Grid, lines: Sequence[Line]) -> list[str]:
    """Layouts of a grid of which some runs are not among those found, for want of data."""
    finished = {line.key for line in lines}
    return [
        name
        for name in grid.layouts
        if any(
            next(_missing(grid, name, rows, seed, finished), None)
            for seed, rows in itertools.product(grid.seeds, grid.rows)
        )
    ]


def _missing(
    grid: Grid, name: str, rows: int, seed: int, finished: set[Key]
) -> Iterator[tuple[MethodFamily, SummaryQuestion]]:
    for family in (
        family_of_methods for family_of_methods in FAMILIES if family_of_methods.name in grid.families
    ):
        for question in grid.questions(family, seed):
            key = _key(name, family.name, rows, question.p, question.rho, question.epsilon, seed)
            if key not in finished:
                yield family, question


def _lines(market: PooledRows, family: MethodFamily, question: SummaryQuestion, rows: int) -> list[Line]:
    draw, started = market.draw, time.perf_counter()
    summaries = family.choose(market, question)
    seconds = time.perf_counter() - started
    return [
        Line(
            layout=draw.name,
            owners=len(draw.owners),
            pool=len(market.rows),
            validation=len(draw.validation),
            method=method,
            family=family.name,
            rows=rows,
            **asdict(question),
            **asdict(score(draw, chosen)),
            accessed=chosen.accessed,
            kendall=chosen.kendall,
            seconds=seconds,
        )
        for method, chosen in summaries.items()
    ]


def _append(file: Path, lines: Sequence[Line]) -> None:
    """Write whole lines at once, so that a run that is cut short leaves none in part."""
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, [field.name for field in fields(Line)])
        if new:
            writer.writeheader()
        plain: list[dict[str, Any]] = [asdict(line) for line in lines]
        writer.writerows(plain)
