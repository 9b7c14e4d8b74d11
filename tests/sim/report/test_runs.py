"""The list of past simulations."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from sim.cli import runs
from sim.report.runs import past_runs
from tests.system.launches import launch


def test_a_run_is_listed_with_what_it_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, metrics = launch(tmp_path / "digits-1", "engine=inprocess")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "metrics.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.json").write_text("[]")
    release = {"status": "complete", "scenario": "adult", "method": "merf", "K": 5, "N": 900, "rows": 800}
    (tmp_path / "merf-1").mkdir()
    (tmp_path / "merf-1" / "metrics.json").write_text(json.dumps(release))
    os.utime(tmp_path / "merf-1" / "metrics.json", (1e9, 1e9))
    first, last = past_runs(tmp_path)
    assert (first.what, first.rows, first.accessed, first.ended) == (
        "merf",
        800,
        None,
        "2001-09-09T01:46:40+00:00",
    )
    assert (last.directory, last.status, last.owners) == (str(directory), metrics["status"], metrics["K"])
    forms = ("summary", "summary_weighted", "summary_repeats")
    assert last.mmd2 == min(metrics["mmd2"][name] for name in forms)
    assert last.accessed == metrics["points_accessed"]["total"]
    runs(tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == [asdict(first), asdict(last)]
    runs(tmp_path, as_json=False)
    shown = capsys.readouterr().out
    assert "digits-1" in shown
    assert f"{last.mmd2:#.3g}" in shown


def test_a_pipe_has_a_line_for_each_run_with_whole_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = {"status": "complete", "scenario": "adult", "method": "merf", "K": 5, "N": 900, "rows": 800}
    directory = tmp_path / ("a-name-that-is-long-" * 8)
    directory.mkdir()
    (directory / "metrics.json").write_text(json.dumps(release))
    runs(tmp_path, as_json=False)
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{directory} ")


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs(tmp_path, as_json=False)
    assert "fedkme sim run digits" in capsys.readouterr().out
