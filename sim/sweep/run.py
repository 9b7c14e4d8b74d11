"""A sweep: what is missing is run, and the table and the page are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from fedkme import __version__, durable
from fedkme.errors import PartyFailedError
from sim.config import plain
from sim.jobs.choice import carry_out, held
from sim.jobs.tasks import LostTask, task_of
from sim.sweep.grid import SweepRun, SweepSettings, runs_of
from sim.sweep.measure import Row, measure_plain
from sim.sweep.page import render_sweep
from sim.sweep.table import AXIS, FILE, read_rows, write_rows

PAGE = "sweep.html"


@dataclass(frozen=True, slots=True)
class SweepStep:
    """Standing of a sweep, before its first run and after each.

    Attributes:
        done: runs that are in the table, those of an earlier call among them.
        before: of these, runs that were there when this call began.
        total: runs of the grid.
        run: the one that has just ended.
        row: its row.
    """

    done: int
    before: int
    total: int
    run: SweepRun | None = None
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Outcome of a sweep.

    Attributes:
        rows: one a run, in the order of the grid.
        table: the Parquet file; it may have rows of earlier grids too.
        page: the HTML file.
    """

    rows: tuple[Row, ...]
    table: Path
    page: Path

    @property
    def failures(self) -> tuple[Row, ...]:
        """Rows whose code is not 0."""
        return tuple(row for row in self.rows if row["code"])


def sweep(settings: SweepSettings, hear: Callable[[SweepStep], None] = lambda step: None) -> SweepResult:
    """Run every combination of a grid that the table in `settings.out` lacks, and write the page.

    A run that ended without numbers is tried again. After an interrupt, or the death of this process, the
    table has all runs that had ended.

    Args:
        settings: which runs.
        hear: is told where the sweep stands.

    Returns:
        The rows of the grid, failures among them.

    Raises:
        ConfigError: a key or value is wrong, the folder cannot be written, or another sweep writes there.
        DataError: there is a file of the table's name that is none.
        ModuleNotFoundError: pyarrow, of [sim], is not installed; nothing has been run then.
    """
    runs = runs_of(settings)
    import_module("pyarrow")  # without it nothing is begun, nor a folder left behind
    with held(settings.out, "sweep") as folder:
        table, page = folder / FILE, folder / PAGE
        kept = {row["key"]: row for row in read_rows(table)}
        kept |= {run.key: _common(run) | kept[run.key] for run in runs if run.key in kept}
        missing = [run for run in runs if "status" not in kept.get(run.key, {})]
        done = before = len(runs) - len(missing)
        hear(SweepStep(done, before, len(runs)))
        try:
            with closing(measured(missing, settings.jobs, folder)) as results:
                for run, row in results:
                    kept[run.key] = _common(run) | row
                    write_rows(table, list(kept.values()))
                    done += 1
                    hear(SweepStep(done, before, len(runs), run, row))
        finally:
            rows = tuple(kept[run.key] for run in runs if run.key in kept)
            text = render_sweep(settings.scenario, list(settings.grid), rows, len(runs))
            durable.replace(page, text.encode())
    return SweepResult(rows, table, page)


def measured(
    runs: Sequence[SweepRun], jobs: int | str, folder: Path
) -> Generator[tuple[SweepRun, Row], None, None]:
    """Measure runs where `jobs` says; yields each with its row when it is done, one that was lost too."""
    tasks = [task_of(f"sweep: {run.words()}", measure_plain, plain(run.settings)) for run in runs]
    with closing(carry_out(tasks, jobs, folder)) as results:
        for place, row in results:
            if isinstance(row, LostTask):
                row = {"code": PartyFailedError.code, "cause": f"the run was lost: {row.cause}"}
            yield runs[place], row


def _common(run: SweepRun) -> Row:
    """Columns that do not depend on what came of a run."""
    axes = {f"{AXIS}{key}": value for key, value in run.choices.items()}
    configuration = json.dumps(plain(run.settings))
    return {"key": run.key, "version": __version__, "seed": run.seed, **axes, "configuration": configuration}
