"""The example that the README names, run as it is but smaller."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pytest

from fedkme.errors import MissingDependencyError
from sim.config import load_simulation
from sim.report.progress import make_progress
from sim.run import simulate
from tests.places import ROOT

EXAMPLE = ROOT / "examples" / "own-files" / "scenario.toml"


def test_the_example_runs(tmp_path: Path) -> None:
    # CONVENTIONS, Habits: examples are executed by a test.
    changes = ("engine=inprocess", "p=10", "downstream=false", "baselines=[]")
    settings = load_simulation(str(EXAMPLE), changes)
    with (tmp_path / "progress.txt").open("w") as lines:
        directory, metrics = simulate(settings, tmp_path / "run", make_progress(lines))
    assert metrics["status"] == "complete"
    assert metrics["K"] == 3
    assert [one["epsilon"] for one in metrics["privacy"][:2]] == [
        one["epsilon"] for one in metrics["privacy"][:2] if one["epsilon"] <= 1.0 + 1e-9
    ]
    assert (directory / "report.html").is_file()


def test_what_could_not_be_judged_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The base installation ran the whole protocol, and ended with an error about scikit-learn.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    settings = load_simulation(str(EXAMPLE), ())
    with pytest.raises(MissingDependencyError, match="downstream"):
        simulate(settings, tmp_path / "run", make_progress(io.StringIO()))
    assert not (tmp_path / "run").exists()
