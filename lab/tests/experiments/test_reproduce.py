"""`fedkme sim reproduce` on a machine without the papers' data."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkme.errors import DataError
from sim.cli import app


@pytest.mark.parametrize("name", ["balog-fig2", "merf-adult", "sarpatwar-fig1", "sarpatwar-fig2"])
def test_what_lacks_its_data_says_so_and_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "`fedkme sim reproduce balog-fig2 --quick` and `merf-adult --quick` work from a fresh clone".
    # "whatever is incomplete exits with its number, on every verb".
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", name, "--quick", "--out", "out"])
    assert isinstance(result.exception, DataError)
    assert "there is no" in result.exception.cause
    assert "FEDKME_DATA" in str(result.exception)
    assert name in result.output
    assert ("train.csv is given with --data" in result.output) is (name == "sarpatwar-fig1")


def test_all_goes_on_after_what_lacks_its_data_and_fails_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    names = ("sarpatwar-fig1", "balog-fig1", "merf-adult")
    monkeypatch.setattr("lab.papers.cli.NAMES", names)
    result = CliRunner().invoke(app, ["reproduce", "all", "--quick", "--out", str(tmp_path / "out")])
    assert result.exit_code == DataError.code, result.output
    assert result.output.count("skipped, or cut short: error") == len(names)


def test_a_name_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(app, ["reproduce", "balog-fig3"])
    assert result.exit_code == 2
    assert "balog-fig2" in result.output
