"""Run MarketBench: a line for each summary, in a table; what the table has already is not run again."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from lab.experiments.piece import Piece, data_folder
from lab.market.layouts import KINDS, QUICK
from lab.market.methods import FAMILIES, MethodFamily
from lab.market.pool import PooledRows, SummaryQuestion
from lab.market.score import score
from sim.jobs.tasks import named
from sim.progress import TableStep
from sim.sweep.run import fill_table
from sim.sweep.table import FILE, read_rows

LAYOUTS = "lab.market.layouts:layouts"


@dataclass(frozen=True, slots=True)
class Grid:
    """Runs to make: all combinations; families without rho or epsilon get None for it."""

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

    def runs(self, builds: str) -> list[MarketRun]:
        """All runs, grouped by draw; `builds` names the function that returns the layouts."""
        families = [family for family in FAMILIES if family.name in self.families]
        return [
            MarketRun(
                layout=layout,
                rows=rows,
                family=family.name,
                p=p,
                rho=rho,
                epsilon=epsilon,
                seed=seed,
                builds=builds,
            )
            for seed, rows, layout in itertools.product(self.seeds, self.rows, self.layouts)
            for family in families
            for p in self.sizes
            for rho in (self.ratios if family.paced else (None,))
            for epsilon in (self.epsilons if family.private else (None,))
        ]


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
        family: methods that were computed together with it.
        rows: |D_v| that was asked for.
        p: rows that were asked for.
        rho: rows accessed over p that were allowed; NaN where it makes no difference.
        epsilon: epsilon of owners and D_v; NaN where nothing private is released.
        seed: seed of everything random.
        mmd2: squared MMD to D_v.
        mmd2_test: MMD^2 to held-back rows.
        accuracy: accuracy of a linear SVM on held-back rows.
        effective: effective sample size.
        accessed: rows of owners that somebody else saw.
        kendall: Kendall's tau of the private ranking of owners with the exact one; NaN where there is none.
        seconds: time of the family in seconds.
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
    panel: ClassVar = "MMD^2 to test"

    @property
    def value(self) -> float:
        """Figure that stands for the summary in a line of progress."""
        return self.mmd2_test


class MarketRun(Piece):
    """One family of methods on one draw: its lines come together."""

    layout: str
    rows: int
    family: str
    p: int
    rho: float | None
    epsilon: float | None
    builds: str = LAYOUTS
    """`MODULE:NAME` of the function that gives layouts by name."""

    def measure(self) -> list[Line]:
        """Make the family's summaries, and score them."""
        (family,) = (each for each in FAMILIES if each.name == self.family)
        rho, epsilon = (math.nan if value is None else value for value in (self.rho, self.epsilon))
        market = _pooled(self.builds, self.layout, self.rows, self.seed)
        return _lines(market, family, SummaryQuestion(self.p, rho, epsilon, self.seed), self.rows)


@lru_cache(maxsize=1)
def _pooled(builds: str, layout: str, rows: int, seed: int) -> PooledRows:
    """The draw of a layout, which runs that follow each other share."""
    return PooledRows(named(builds)()[layout](data_folder(), rows, seed))


def run(
    grid: Grid, out: Path, hear: Callable[[TableStep], None], builds: str = LAYOUTS
) -> tuple[list[Line], list[str]]:
    """Make the runs of a grid that the table in a folder lacks.

    Args:
        grid: the grid of runs.
        out: the folder.
        hear: is told where the table stands.
        builds: `MODULE:NAME` of the function that gives layouts by name.

    Returns:
        All lines of the table, and the layouts of which a run failed, for want of data say.

    Raises:
        DataError: there is a file of the table's name that is none.
    """
    runs = grid.runs(builds)
    rows = fill_table(runs, 1, out, hear)
    failed = dict.fromkeys(run.layout for run, row in zip(runs, rows, strict=True) if row["code"])
    lines = [Line(*values) for row in read_rows(out / FILE) for values in json.loads(row.get("values", "[]"))]
    return lines, list(failed)


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
