"""A sweep: runs the missing configurations, and writes the table and the page."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

from fedkme import __version__, durable
from fedkme.errors import PartyFailedError
from sim.jobs.choice import carry_out, held
from sim.jobs.tasks import LostTask, Task
from sim.progress import TableStep
from sim.sweep.grid import SweepSettings, runs_of
from sim.sweep.measure import Row
from sim.sweep.page import render_sweep
from sim.sweep.table import FILE, read_rows, write_rows

PAGE = "sweep.html"
RunT = TypeVar("RunT", bound="TableRun")


class TableRun(Protocol):
    """One thing to compute, whose numbers are a row of a table."""

    @property
    def key(self) -> str:
        """SHA-256, in hex, of this package's version and of all that the numbers depend on."""

    @property
    def seed(self) -> int:
        """Seed of everything random in it."""

    def words(self) -> str:
        """The run in a line."""

    def task(self) -> Task:
        """The run as a task for any machine, whose result is a row."""

    def columns(self) -> Row:
        """Columns known before the run."""


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


def sweep(settings: SweepSettings, hear: Callable[[TableStep], None] = lambda step: None) -> SweepResult:
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
    runs, page = runs_of(settings), settings.out / PAGE

    def show(rows: tuple[Row, ...]) -> None:
        text = render_sweep(settings.scenario, list(settings.grid), rows, len(runs))
        durable.replace(page, text.encode())

    rows = fill_table(runs, settings.jobs, settings.out, hear, show)
    return SweepResult(rows, settings.out / FILE, page)


def fill_table(
    runs: Sequence[TableRun],
    jobs: int | str,
    out: Path,
    hear: Callable[[TableStep], None],
    show: Callable[[tuple[Row, ...]], None] = lambda rows: None,
) -> tuple[Row, ...]:
    """Compute what a folder's table lacks of some runs, and write the table anew after each.

    Args:
        runs: none twice.
        jobs: where, as `--jobs` has it.
        out: the folder; the table may have rows of other runs too.
        hear: is told where the table stands.
        show: gets the rows that there are at the end, after an interrupt too.

    Returns:
        The rows of the runs, in their order.

    Raises:
        ConfigError: the folder cannot be written, or somebody else writes there.
        DataError: there is a file of the table's name that is none.
        ModuleNotFoundError: pyarrow, of [sim], is not installed; nothing has been run then.
    """
    import_module("pyarrow")  # without it nothing is begun, nor a folder left behind
    with held(out, "sweep") as folder:
        table = {row["key"]: row for row in read_rows(folder / FILE)}
        table |= {run.key: _common(run) | table[run.key] for run in runs if run.key in table}
        missing = [run for run in runs if "status" not in table.get(run.key, {})]
        done = before = len(runs) - len(missing)
        hear(TableStep(done, before, len(runs)))
        try:
            with closing(measured(missing, jobs, folder)) as results:
                for run, row in results:
                    table[run.key] = _common(run) | row
                    write_rows(folder / FILE, list(table.values()))
                    done += 1
                    hear(TableStep(done, before, len(runs), f"{run.words()}: {_outcome(table[run.key])}"))
        finally:
            rows = tuple(table[run.key] for run in runs if run.key in table)
            show(rows)
    return rows


def measured(runs: Sequence[RunT], jobs: int | str, folder: Path) -> Generator[tuple[RunT, Row], None, None]:
    """Measure runs where `jobs` says; yields each with its row when it is done, one that was lost too."""
    with closing(carry_out([run.task() for run in runs], jobs, folder)) as results:
        for place, row in results:
            if isinstance(row, LostTask):
                row = {"code": PartyFailedError.code, "cause": f"the run was lost: {row.cause}"}
            yield runs[place], row


def _outcome(row: Row) -> str:
    """Outcome of a run, in a few words."""
    words = [
        str(row.get("said", "")),
        f"MMD^2 {row['mmd2.summary']:.3g}" if "mmd2.summary" in row else "",
        f"{row['points_accessed.total']} points accessed" if "points_accessed.total" in row else "",
        f"error {row['code']}: {row['cause']}" if row["code"] else "",
    ]
    return ", ".join(filter(None, words)) or "done"


def _common(run: TableRun) -> Row:
    return {"key": run.key, "version": __version__, "seed": run.seed, **run.columns()}
