"""`fedkme sim reproduce sarpatwar-fig1` on a small file with Allstate's columns."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkme.errors import ConfigError, DataError
from lab.papers.summaries import QUICK, Reproduction, reproduce_sarpatwar
from sim.cli import app
from sim.progress import TableStep
from tests.sim.scenarios.allstate import write_allstate


def test_figure_1_on_allstate(tmp_path: Path) -> None:
    # Curves as SVG and PNG, a tidy CSV, verdict.md; "on Allstate's train.csv by path".
    write_allstate(tmp_path / "train.csv", {"FL": 60, "CT": 80, "OH": 40})
    size = replace(QUICK["sarpatwar-fig1"], p=(8,), seeds=1, assignments=("seeds=30",))
    lines: list[str] = []
    steps: list[TableStep] = []
    request = Reproduction(
        "sarpatwar-fig1", tmp_path / "out", size, tmp_path / "train.csv", 1, lines.append, steps.append
    )
    assert reproduce_sarpatwar(request) == 0
    with (tmp_path / "out" / "measurements.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    methods = ("published", "sound", "cells", "greedy", "uniform")
    assert {(row["panel"], row["method"]) for row in rows} == {
        (panel, method) for panel in ("mmd2", "mmd2_counted", "accuracy") for method in methods
    }
    assert {row["value"] for row in rows if row["method"] == "greedy" and row["panel"] == "mmd2"} == {"0.0"}
    text = (tmp_path / "out" / "verdict.md").read_text(encoding="utf-8")
    assert "with train.csv" in text
    assert sum(bool(step.line) for step in steps) == 3
    assert "3 runs, 0 failed" in text
    assert {path.name for path in (tmp_path / "out").glob("curves.*")} == {"curves.svg", "curves.png"}


@pytest.mark.parametrize(
    ("name", "line"), [("sarpatwar-fig1", "there is no file"), ("sarpatwar-privacy", "needs no file")]
)
def test_data_that_are_not_there_are_an_error(name: str, line: str, tmp_path: Path) -> None:
    request = Reproduction(name, tmp_path, QUICK[name], tmp_path / "train.csv", 1, print, print)
    with pytest.raises(ConfigError, match=line):
        reproduce_sarpatwar(request)


def test_data_is_for_these_alone() -> None:
    result = CliRunner().invoke(app, ["reproduce", "merf-adult", "--data", "train.csv"])
    assert isinstance(result.exception, ConfigError)
    assert "takes no --data" in str(result.exception)


def test_points_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    # Each of 78 pieces failed by itself.
    (tmp_path / "z.npz").write_bytes(b"x")
    words = ["reproduce", "balog-fig2", "--quick", "--data", str(tmp_path / "z.npz"), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, DataError)
    assert "--data" in str(result.exception)
    assert "run 1" not in result.output
