"""Tasks where they are done: the choice, Slurm's arrays through submitit."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError, MissingDependencyError
from sim.jobs import processes
from sim.jobs.choice import carry_out, parse_jobs
from sim.jobs.clusters import submitted
from sim.jobs.processes import Worker
from sim.jobs.tasks import LostTask, Task, task_of
from tests.parties import WAIT_S


def tasks(*arguments: Any) -> list[Task]:
    """Tasks of the standard library: a process that does them imports nothing else."""
    return [task_of(f"root of {each}", math.sqrt, each) for each in arguments]


@pytest.mark.parametrize("text", ["1", "12", "ray", "ray://head:10001", "slurm"])
def test_a_place_to_run(text: str) -> None:
    assert str(parse_jobs(text)) == text


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "", "Ray", "ray://", "dask", "slurm:short"])
def test_no_place_to_run(text: str) -> None:
    with pytest.raises(ConfigError, match="--jobs"):
        parse_jobs(text)


def test_tasks_in_processes(tmp_path: Path) -> None:
    work = [*tasks(1, 4), task_of("die", signal.raise_signal, signal.SIGKILL), *tasks(9)]
    results = dict(carry_out(work, 1, tmp_path))
    assert results == {0: 1, 1: 2, 2: LostTask("its process was killed by SIGKILL"), 3: 3}
    assert dict(carry_out([], "slurm", tmp_path)) == {}


def dies_with_files(begun: str) -> None:
    """Task that is killed while it has a temporary folder."""
    Path(begun).write_text(tempfile.mkdtemp(), encoding="utf-8")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_leaves_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second SIGTERM, while a run's folder was removed, left owners' rows and keys in /tmp.
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    work = [task_of("die", dies_with_files, str(tmp_path / "begun")), *tasks(9)]
    results = dict(carry_out(work, 1, tmp_path))
    assert results == {0: LostTask("its process was killed by SIGKILL"), 1: 3}
    folder = Path((tmp_path / "begun").read_text(encoding="utf-8"))
    assert folder.is_relative_to(tmp_path / "scratch")
    assert not list((tmp_path / "scratch").iterdir())


def until_told(begun: str) -> str:
    """Task that ends in its own way when it is interrupted, as a run does."""
    with contextlib.suppress(KeyboardInterrupt):
        Path(begun).write_text("begun", encoding="utf-8")  # a pipe: waits for who reads
        signal.pause()
    return "partial"


def test_a_process_that_is_told_to_end_needs_no_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A sweep took twice ten seconds to stop: after its interrupted run each process awaited another one.
    monkeypatch.setattr(processes, "GRACE_S", WAIT_S)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: pytest.fail("it was killed"))
    worker, begun = Worker(), tmp_path / "begun"
    os.mkfifo(begun)
    with ThreadPoolExecutor() as thread:
        result = thread.submit(worker.perform, task_of("stubborn", until_told, str(begun)))
        assert begun.read_text(encoding="utf-8") == "begun"
        worker.stop()
        assert result.result() == "partial"


def test_tasks_as_an_array_of_jobs(tmp_path: Path) -> None:
    # Issue 15, item 1: Slurm arrays through submitit, here by its executor of this machine.
    submitit = pytest.importorskip("submitit")
    results = dict(submitted(tasks(4, -1), submitit.LocalExecutor(folder=tmp_path), 0.1))
    assert results[0] == 2
    assert isinstance(results[1], LostTask)
    assert results[1].cause.startswith("it raised")


def test_what_slurm_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no sbatch"):
        list(carry_out(tasks(1), "slurm", tmp_path))
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingDependencyError, match="submitit"):
        list(carry_out(tasks(1), "slurm", tmp_path))
