"""`fedkme sim reproduce` on a machine without the papers' data."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim.cli import app


@pytest.mark.parametrize("name", ["balog-fig2", "merf-adult", "sarpatwar-fig1", "sarpatwar-fig2"])
def test_what_lacks_its_data_is_skipped_with_a_word(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Issue 5: "`fedkme sim reproduce balog-fig2 --quick` and `merf-adult --quick` work from a fresh clone".
    # Without the data nothing fails, and it is said what to do.
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", name, "--quick", "--out", "out"])
    assert result.exit_code == 0, result.output
    assert "skipped" in result.output or "nothing was run" in result.output
    assert name in result.output
    assert ("train.csv is given with --data" in result.output) is (name == "sarpatwar-fig1")


def test_a_name_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(app, ["reproduce", "balog-fig3"])
    assert result.exit_code == 2
    assert "balog-fig2" in result.output
