"""A sweep: what is missing is run, and the table and the page are written."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedkme import __version__, durable
from fedkme.errors import ConfigError
from sim.config import plain
from sim.sweep.grid import SweepRun, SweepSettings, runs_of
from sim.sweep.measure import Row
from sim.sweep.page import render_sweep
from sim.sweep.pool import measured
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
    with _held(settings.out) as folder:
        table, page = folder / FILE, folder / PAGE
        kept = {row["key"]: row for row in read_rows(table)}
        kept |= {run.key: _common(run) | kept[run.key] for run in runs if run.key in kept}
        missing = [run for run in runs if "status" not in kept.get(run.key, {})]
        done = before = len(runs) - len(missing)
        hear(SweepStep(done, before, len(runs)))
        try:
            with closing(measured(missing, settings.jobs)) as results:
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


def _common(run: SweepRun) -> Row:
    """Columns that do not depend on what came of a run."""
    axes = {f"{AXIS}{key}": value for key, value in run.choices.items()}
    configuration = json.dumps(plain(run.settings))
    return {"key": run.key, "version": __version__, "seed": run.seed, **axes, "configuration": configuration}


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """The folder, for this sweep alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        cause = f"{folder} cannot be written: {error.strerror}"
        raise ConfigError(cause, "Choose another --out.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another sweep writes to {folder}", "Wait for its end, or choose another --out."
            ) from None
        yield folder
