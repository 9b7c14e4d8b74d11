"""`fedkme audit attack` on the command line: table, JSON, exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.attacks import subjects
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.planted_faults import FAULTS
from fedkme.errors import AuditError, ConfigError, DataError, PartyFailedError
from operate.audit_cli import app
from sim.jobs.tasks import LostTask
from sim.sweep.table import FILE, read_rows, write_rows


def attack(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["attack", *arguments])


def test_a_sound_mechanism_passes_and_says_at_what_power() -> None:
    # "Output: claimed epsilon, measured lower bound, power, JSON and exit code"; a bound certifies nothing.
    result = attack("uniform", "--quick", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["passed"]
    (mechanism,) = report["mechanisms"]
    assert mechanism["mechanism"] == "uniform"
    assert mechanism["verdict"] == "no violation found at this power"
    keys = {"layer", "statistic", "violated", "claimed", "measured", "trials", "alpha", "power", "note"}
    assert set(mechanism["findings"][0]) == keys


def test_what_must_be_broken_passes_when_it_is() -> None:
    # "exit code 0 when every mechanism labelled published-only behaves as expected".
    result = attack("winner-only", "--quick", "--json")
    assert result.exit_code == 0
    assert "not private" in " ".join(result.output.split())
    (mechanism,) = json.loads(result.stdout)["mechanisms"]
    assert mechanism["broken"]
    assert mechanism["claim"]["epsilon"] == "inf"


def test_a_fault_ends_with_the_audits_number(monkeypatch: pytest.MonkeyPatch) -> None:
    # "else 51", as one line by operate.cli.
    FAULTS["features rounded away from zero"].plant(monkeypatch)
    result = attack("h1-paired", "--quick")
    assert isinstance(result.exception, AuditError)
    assert result.exception.code == 51
    assert "h1-paired" in result.exception.cause
    assert "UNEXPECTED" in result.output


REPEATED = ("ask-everyone", "--scale", "0.02", "--repeat", "3", "--seed", "7", "--json")


def repeated(*more: str) -> Any:
    return attack(*REPEATED, *more)


def found_by(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    for mechanism in report["mechanisms"]:
        mechanism.pop("seconds")
    return report


def test_repetitions_of_an_audit_are_tasks_that_resume(tmp_path: Path) -> None:
    # Issue 15, item 1: audit repetitions "on the same key and resume rules" as sweeps.
    place = ("--jobs", "1", "--out", str(tmp_path))
    first = repeated(*place)
    assert "ask-everyone: 3 of 3 repetitions passed" in first.output
    assert found_by(first) == found_by(repeated())
    file = tmp_path / FILE
    rows = read_rows(file)
    assert sorted(row["seed"] for row in rows) == [7, 8, 9]
    write_rows(file, rows[:2])  # it died before it wrote the third
    again = repeated(*place)
    assert "3 runs, 2 of them there already" in again.stderr
    assert found_by(again) == found_by(first)
    file.write_text("mine\n")
    assert isinstance(repeated(*place).exception, DataError)


def test_a_repetition_that_is_lost_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any) -> Any:
        yield 0, LostTask("its process was killed by SIGKILL")

    monkeypatch.setattr("sim.sweep.run.carry_out", lost)
    result = repeated("--repeat", "1", "--out", str(tmp_path))
    assert isinstance(result.exception, PartyFailedError)
    assert "ask-everyone, seed 7: the run was lost: its process was killed" in result.exception.cause
    assert "status" not in read_rows(tmp_path / FILE)[0]  # the next call does it again


def test_one_repetition_that_fails_is_named_and_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same rule: one of three that is broken is error 51, with its seed and its finding.
    def check(effort: Effort) -> CheckResult:
        return CheckResult("law", "a coin", effort.seed == 8, 0.0, 1.0)

    subject = Subject("coin", "sound", Claim(0.0, 0.0, ""), (check,))
    monkeypatch.setattr(subjects, "SUBJECTS", {"coin": lambda: subject})
    result = attack("coin", "--repeat", "3", "--seed", "7", "--json")
    assert isinstance(result.exception, AuditError)
    assert "coin: 2 of 3 repetitions passed" in result.output
    assert "seed 8" in result.output
    (mechanism,) = json.loads(result.stdout)["mechanisms"]
    assert [again["seed"] for again in mechanism["unexpected"]] == [8]
    assert mechanism["unexpected"][0]["findings"][0]["statistic"] == "a coin"


def test_what_must_break_must_break_every_time() -> None:
    # With too few trials the attack on "winner only" cannot succeed: that is no success of the audit.
    result = attack("winner-only", "--scale", "0.01", "--repeat", "2")
    assert isinstance(result.exception, AuditError)
    assert "0 of 2 repetitions were found broken" in result.output


def test_quick_and_scale_exclude_each_other() -> None:
    # CONVENTIONS.md: two answers to one question are an error.
    assert isinstance(attack("uniform", "--quick", "--scale", "2").exception, ConfigError)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    # CONVENTIONS.md: errors name the remedy.
    result = attack("h3")
    assert isinstance(result.exception, ConfigError)
    assert "clock" in result.exception.remedy
