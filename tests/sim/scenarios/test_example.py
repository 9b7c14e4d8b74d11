"""The example that the README names, run as it is but smaller."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pytest

from fedkme.errors import ConfigError, MissingDependencyError
from sim.config import load_simulation, simulation_of
from sim.progress import Progress
from sim.release_config import load_release
from sim.run import simulate
from tests.places import ROOT

EXAMPLE = ROOT / "examples" / "own-files" / "scenario.toml"


def test_the_example_runs(tmp_path: Path) -> None:
    # CONVENTIONS, Habits: examples are executed by a test.
    changes = ("engine=inprocess", "p=10", "downstream=false", "baselines=[]")
    settings = load_simulation(str(EXAMPLE), changes)
    with (tmp_path / "progress.txt").open("w") as lines:
        directory, metrics = simulate(settings, tmp_path / "run", Progress(lines))
    assert metrics["status"] == "complete"
    assert metrics["scenario"] == "own-files"  # it was "csv", as every run of own files
    assert metrics["K"] == 3
    assert [one["epsilon"] for one in metrics["privacy"][:2]] == [
        one["epsilon"] for one in metrics["privacy"][:2] if one["epsilon"] <= 1.0 + 1e-9
    ]
    assert (directory / "report.html").is_file()


@pytest.mark.parametrize(
    ("file", "said", "name"),
    [
        ("north/scenario.toml", "", "north"),
        ("north/pilot.toml", "", "pilot"),
        ("north/pilot.toml", "third try", "third try"),
    ],
)
def test_a_scenario_is_called_by_its_file(tmp_path: Path, file: str, said: str, name: str) -> None:
    place = tmp_path / file
    place.parent.mkdir()
    text = EXAMPLE.read_text().replace('"north.csv"', f'"{EXAMPLE.parent / "north.csv"}"')
    place.write_text((f'name = "{said}"\n' if said else "") + text)
    for settings in (load_simulation(str(place)), load_release("moments", str(place))):
        assert settings.title == name
    assert load_simulation("digits").title == "digits"


def test_a_run_that_could_not_be_judged_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The base installation ran the whole protocol, and ended with an error about scikit-learn.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    settings = load_simulation(str(EXAMPLE), ())
    with pytest.raises(MissingDependencyError, match="downstream"):
        simulate(settings, tmp_path / "run", Progress(io.StringIO()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [0, 0.5])
def test_a_folder_of_an_earlier_release_is_run_again_where_nothing_has_changed(value: float) -> None:
    # run.toml has every key. A key that went made the page's "repeat it" fail, though it was at its default.
    values = {
        "scenario": {"kind": "digits"},
        "summary": {"p": 10, "landmarks": 0, "payouts": value, "cells": {"fill": "design"}},
    }
    if not value:
        assert simulation_of(values, (), "run.toml").summary.p == 10
        return
    with pytest.raises(ConfigError, match=r"run.toml: 'summary.payouts' is not a key"):
        simulation_of(values, (), "run.toml")
