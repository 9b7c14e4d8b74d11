"""Whole sweeps over small digits: what is run, what is kept, what is shown."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from fedkme.errors import ConfigError, DataError
from sim.cli import app
from sim.jobs import processes
from sim.jobs.processes import Worker
from sim.jobs.tasks import Task, perform
from sim.progress import TableStep
from sim.sweep.grid import SweepSettings, runs_of
from sim.sweep.measure import flattened, measure
from sim.sweep.run import PAGE, SweepResult, sweep
from sim.sweep.table import FILE, mean_over, read_rows, write_rows

SMALL = ("copies=1", "protocol=uniform", "downstream=false", "baselines=[]")
TOO_MANY = 10**6


def settings(out: Path, **changes: Any) -> SweepSettings:
    values = {"scenario": "digits", "out": out, "assignments": SMALL, "jobs": 2}
    return SweepSettings.model_validate(values | {"grid": {"owners": (2, 3), "p": (4, 6)}} | changes)


class LocalWorker(Worker):
    """Performs tasks in this process, which has imported what they need."""

    def perform(self, task: Task) -> Any:
        function, argument = json.loads(json.dumps([task.function, task.argument]))
        return json.loads(json.dumps(perform(function, argument)))


@contextmanager
def local_worker() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "Worker", LocalWorker)
        yield


def sweep_here(settings: SweepSettings, show: Callable[[TableStep], None] = lambda step: None) -> SweepResult:
    """A sweep whose runs are made here, one after another."""
    with local_worker():
        return sweep(settings.model_copy(update={"jobs": 1}), show)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """Four combinations, two of them of more rows than there are, under two seeds."""
    return sweep_here(settings(tmp_path_factory.mktemp("sweep"), grid=GRID, seeds=(0, 1)))


GRID = {"owners": (2, 3), "p": (4, TOO_MANY)}


def test_one_row_a_run_and_failures_among_them(swept: SweepResult) -> None:
    # Issue 13, item 12: "one row a run"; the run that failed does not stop the others.
    assert [(row["set.owners"], row["set.p"], row["seed"], row["code"]) for row in swept.rows] == [
        (owners, p, seed, 20 if p == TOO_MANY else 0)
        for seed in (0, 1)
        for owners in (2, 3)
        for p in (4, TOO_MANY)
    ]
    assert all("rows are asked for" in row["cause"] for row in swept.failures)
    table = parquet.read_table(swept.table)
    assert table.num_rows == 8
    assert str(table.schema.field("mmd2.summary").type) == "double"
    assert str(table.schema.field("points_accessed.total").type) == "int64"


def test_a_row_has_the_numbers_of_the_same_run_alone(swept: SweepResult) -> None:
    (run, *_) = runs_of(settings(swept.table.parent, grid=GRID))
    alone = measure(run.settings)
    assert {name: swept.rows[0][name] for name in alone if name.startswith(("mmd2", "points"))} == {
        name: value for name, value in alone.items() if name.startswith(("mmd2", "points"))
    }
    assert alone["mmd2.summary"] > 0
    assert swept.rows[0]["key"] == run.key


def test_a_second_call_runs_what_is_missing(swept: SweepResult, tmp_path: Path) -> None:
    # Issue 13, item 12: "resumes what is missing"; a run without numbers is tried again.
    shutil.copy(swept.table, tmp_path)
    steps: list[TableStep] = []
    grown = settings(tmp_path, grid=GRID | {"p": (4, 6)}, seeds=(0, 1))
    result = sweep_here(grown, steps.append)
    assert (steps[0].before, steps[0].total) == (4, 8)
    assert ["p=6 " in step.line for step in steps[1:]] == [True] * 4
    assert [step.done for step in steps] == [4, 5, 6, 7, 8]
    assert not result.failures
    by_key = {row["key"]: row for row in read_rows(result.table)}
    assert len(by_key) == 12  # rows of the first grid stay
    assert by_key[swept.rows[0]["key"]] == swept.rows[0]


def test_the_page_shows_each_axis_and_loads_nothing(swept: SweepResult) -> None:
    page = swept.page.read_text(encoding="utf-8")
    for words in ("Against owners", "Against p", "MMD² to D_v", "points accessed", "Failures"):
        assert words in page
    assert "<script" not in page
    assert "://" not in page
    first = page.partition("Against owners")[2].partition("</section>")[0]
    assert first.count("<circle") == 4  # two owners, two drawings; p = 10^6 has no numbers
    assert len(re.findall(r'd="M[\d.]+ [\d.]+V', first)) == 2  # bars of MMD^2; p rows are accessed always


def test_an_interrupt_keeps_what_is_there(tmp_path: Path) -> None:
    # Issue 13, item 12: ctrl-C in the middle; the next call runs the rest.
    def interrupt(step: TableStep) -> None:
        if step.line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep_here(settings(tmp_path), interrupt)
    assert len(read_rows(tmp_path / FILE)) == 1
    assert "1 of 4 runs" in (tmp_path / PAGE).read_text(encoding="utf-8")
    steps: list[TableStep] = []
    assert len(sweep_here(settings(tmp_path), steps.append).rows) == 4
    assert len(steps) == 4


def test_a_process_that_cannot_be_started_costs_its_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sweep waited for ever for the row of a run whose thread had died.
    def full(*args: object, **settings: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess.Popen, "__init__", full)
    rows = sweep(settings(tmp_path, grid={"p": (4, 6)})).rows
    assert [(row["code"], row["cause"]) for row in rows] == [
        (40, f"the run was lost: no process could be started for the task: {os.strerror(errno.EAGAIN)}")
    ] * 2


def test_two_sweeps_do_not_write_one_table(tmp_path: Path) -> None:
    def again(step: TableStep) -> None:
        sweep(settings(tmp_path))

    with pytest.raises(ConfigError, match="another sweep writes to"):
        sweep(settings(tmp_path), again)


def test_without_pyarrow_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError):
        sweep(settings(tmp_path / "sweep"))
    assert not (tmp_path / "sweep").exists()


def test_a_file_that_is_no_table_of_a_sweep_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("mine")
    with pytest.raises(DataError, match="is not the table of a sweep"):
        sweep(settings(tmp_path))
    assert (tmp_path / FILE).read_text() == "mine"


def test_cells_of_a_table_come_back(tmp_path: Path) -> None:
    rows = [
        {"key": "a", "code": 0, "set.x": 1, "mixed": 1, "number": 1, "only": True},
        {"key": "b", "code": 20, "set.x": 2, "mixed": "word", "number": 0.5, "late": float("inf")},
    ]
    write_rows(tmp_path / FILE, rows)
    changed = [{**rows[0], "mixed": "1", "number": 1.0}, rows[1]]
    assert read_rows(tmp_path / FILE) == changed
    assert parquet.read_table(tmp_path / FILE).column_names[:3] == ["key", "code", "set.x"]


def test_metrics_become_columns() -> None:
    statement = {"protected": "D_v", "observer": "curator", "accountant": "sound", "epsilon": "inf"}
    metrics = {
        "mmd2": {"summary": 0.5, "weighted": 0.25},
        "points_accessed": {"total": 3, "by_owner": {"owner-1": 3}, "by_round": [3]},
        "privacy": [statement, {**statement, "protected": "owner-1"}],
        "reason": None,
        "payouts": {"owner-1": 1.0},
    }
    assert flattened(metrics) == {
        "mmd2.summary": 0.5,
        "mmd2.weighted": 0.25,
        "points_accessed.total": 3,
        "privacy.D_v.curator.sound": float("inf"),
    }


def test_a_mean_comes_with_its_standard_error() -> None:
    mean = mean_over([1.0, 3.0, float("nan")])
    assert mean is not None
    assert (mean.mean, mean.error, mean.count) == (2.0, 1.0, 2)
    assert mean_over([float("inf")]) is None


def test_the_command(tmp_path: Path) -> None:
    words = ["sweep", "digits", "--grid", "p=4", "protocol=uniform,cells", "--seeds", "0:1", "--out"]
    fixed = [part for assignment in SMALL if "protocol" not in assignment for part in ("--set", assignment)]
    result = CliRunner().invoke(app, [*words, str(tmp_path / "new"), *fixed])
    assert result.exit_code == 0, result.output
    assert "run 2/2: p=4 protocol=" in result.output
    assert f"table: {tmp_path / 'new' / FILE} (2 runs)" in result.output
    assert re.search(r"\bp +protocol +runs +MMD² to D_v +points accessed", result.output), result.output
    assert re.search(r"^ *4 +uniform +1 +[\d.e-]+ +4\b", result.output, re.MULTILINE), result.output
    assert re.search(r"^ *4 +cells +1 +[\d.e-]+ +\d+\b", result.output, re.MULTILINE), result.output
    with local_worker():
        few = ["--out", str(tmp_path / "few")]
        failing = CliRunner().invoke(app, [*words[:3], f"p={TOO_MANY}", *few, *fixed])
    assert failing.exit_code == 20
    assert "1 of 1 runs: error 20" in failing.output
