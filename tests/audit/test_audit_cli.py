"""`fedkme audit attack` on the command line: table, JSON, exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.errors import AuditError, ConfigError
from sim.audit import public, subjects
from sim.audit.cli import app

from .faults import AwayFromZero


def attack(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["attack", *arguments])


def test_a_sound_mechanism_passes_and_says_at_what_power(tmp_path: Path) -> None:
    # "Output: claimed epsilon, measured lower bound, power, JSON and exit code"; a bound certifies nothing.
    file = tmp_path / "audit.json"
    result = attack("uniform", "--quick", "--json", str(file))
    assert result.exit_code == 0
    found = json.loads(file.read_text())
    assert found["passed"]
    (mechanism,) = found["mechanisms"]
    assert mechanism["mechanism"] == "uniform"
    assert mechanism["verdict"] == "no violation found at this power"
    keys = {"layer", "statistic", "violated", "claimed", "measured", "trials", "alpha", "power", "note"}
    assert set(mechanism["findings"][0]) == keys


def test_what_must_be_broken_passes_when_it_is(tmp_path: Path) -> None:
    # "exit code 0 when every mechanism labelled published-only behaves as expected".
    file = tmp_path / "audit.json"
    result = attack("winner-only", "--quick", "--json", str(file))
    assert result.exit_code == 0
    assert "not private" in " ".join(result.output.split())
    (mechanism,) = json.loads(file.read_text())["mechanisms"]
    assert mechanism["broken"]
    assert mechanism["claim"]["epsilon"] == "inf"


def test_a_fault_ends_with_the_audits_number(monkeypatch: pytest.MonkeyPatch) -> None:
    # "else 51", as one line by fedkme.cli.
    faulty = dict(subjects.SUBJECTS) | {"h1-paired": lambda: public.h1("paired", AwayFromZero)}
    monkeypatch.setattr(subjects, "SUBJECTS", faulty)
    result = attack("h1-paired", "--quick")
    assert isinstance(result.exception, AuditError)
    assert result.exception.code == 51
    assert "h1-paired" in result.exception.cause
    assert "UNEXPECTED" in result.output


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    # CONVENTIONS.md: errors name the remedy.
    result = attack("h3")
    assert isinstance(result.exception, ConfigError)
    assert "clock" in result.exception.remedy


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    # The same, for --json.
    result = attack("encoding", "--quick", "--json", str(tmp_path / "no" / "audit.json"))
    assert isinstance(result.exception, ConfigError)
