"""Tasks where they are done: the choice, Slurm's arrays through submitit, audits that resume."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.attacks.repeat import FILE
from fedkme.errors import ConfigError, DataError, MissingDependencyError, PartyFailedError
from operate.audit_cli import app
from sim.jobs.choice import carry_out, parse_jobs
from sim.jobs.slurm import submitted
from sim.jobs.tasks import LostTask, Task, task_of


def double(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    raise ValueError(number)


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def tasks(*arguments: Any) -> list[Task]:
    return [task_of(f"double {argument}", double, argument) for argument in arguments]


@pytest.mark.parametrize("text", ["1", "12", "ray", "ray://head:10001", "slurm"])
def test_jobs_accepts_a_place_to_run(text: str) -> None:
    assert str(parse_jobs(text)) == text


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "", "Ray", "ray://", "dask", "slurm:short"])
def test_jobs_refuses_other_text(text: str) -> None:
    with pytest.raises(ConfigError, match="--jobs"):
        parse_jobs(text)


def test_tasks_in_processes(tmp_path: Path) -> None:
    work = [*tasks(1, 2), task_of("die", die, 3), *tasks(4)]
    results = dict(carry_out(work, 2, tmp_path))
    assert results == {0: 2, 1: 4, 2: LostTask("its process was killed by SIGKILL"), 3: 8}
    assert dict(carry_out([], "slurm", tmp_path)) == {}


def test_tasks_as_an_array_of_jobs(tmp_path: Path) -> None:
    # Slurm arrays through submitit, here by its executor of this machine.
    submitit = pytest.importorskip("submitit")
    work = [*tasks(1, 2), task_of("fail", fail, 3)]
    results = dict(submitted(work, submitit.LocalExecutor(folder=tmp_path), 0.1))
    assert (results[0], results[1]) == (2, 4)
    assert isinstance(results[2], LostTask)
    assert results[2].cause.startswith("it raised")


def test_missing_parts_of_slurm_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no sbatch"):
        list(carry_out(tasks(1), "slurm", tmp_path))
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingDependencyError, match="submitit"):
        list(carry_out(tasks(1), "slurm", tmp_path))


AUDIT = ("attack", "ask-everyone", "--scale", "0.02", "--repeat", "3", "--seed", "7", "--json")


def audit(*more: str) -> Any:
    return CliRunner().invoke(app, [*AUDIT, *more])


def found_by(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    for mechanism in report["mechanisms"]:
        mechanism.pop("seconds")
    return report


def test_repetitions_of_an_audit_are_tasks_that_resume(tmp_path: Path) -> None:
    # Audit repetitions "on the same key and resume rules" as sweeps.
    place = ("--jobs", "2", "--out", str(tmp_path))
    first = audit(*place)
    assert found_by(first) == found_by(audit())
    file = tmp_path / FILE
    lines = file.read_text().splitlines(keepends=True)
    assert sorted(json.loads(line)["seed"] for line in lines) == [7, 8, 9]
    file.write_text("".join(lines[:2]) + lines[2][:10])  # it died while it wrote the third
    again = audit(*place)
    assert "3 repetitions, 2 of them there already" in again.stderr
    assert found_by(again) == found_by(first)
    file.write_text("mine\n")
    assert isinstance(audit(*place).exception, DataError)


def test_a_lost_repetition_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any) -> Any:
        yield 0, LostTask("its process was killed by SIGKILL")

    monkeypatch.setattr("audit.attacks.repeat.carry_out", lost)
    result = audit("--repeat", "1", "--out", str(tmp_path))
    assert isinstance(result.exception, PartyFailedError)
    assert "ask-everyone, seed 7: its process was killed" in result.exception.cause
    assert (tmp_path / FILE).read_text() == ""
