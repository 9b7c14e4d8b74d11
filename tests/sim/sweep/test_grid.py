"""Grid of a sweep: which runs there are, and their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError
from sim.jobs import tasks
from sim.sweep.grid import SweepRun, SweepSettings, parse_grid, parse_seeds, runs_of


def runs(**changes: Any) -> list[SweepRun]:
    return runs_of(SweepSettings(scenario="digits", out=Path("unused"), **changes))


def test_axes_as_the_command_line_has_them() -> None:
    axes = ["owners=5,20", "p=50", 'baselines=[],["greedy","uniform"]', "kernel.gamma='median-seeds',0.1"]
    assert parse_grid(axes) == {
        "owners": ("5", "20"),
        "p": ("50",),
        "baselines": ("[]", '["greedy","uniform"]'),
        "kernel.gamma": ("'median-seeds'", "0.1"),
    }


@pytest.mark.parametrize("axes", [["p"], ["=5"], ["p="], ["p=5,,6"], ["p=5", "p=6"], ["seed=1"]])
def test_bad_axes(axes: list[str]) -> None:
    with pytest.raises(ConfigError, match="--grid"):
        parse_grid(axes)


def test_seeds_as_the_command_line_has_them() -> None:
    assert parse_seeds("0:5") == (0, 1, 2, 3, 4)
    assert parse_seeds("3,0,3") == (3, 0)
    for text in ("", "5:5", "a", "1:", "-1:2"):
        with pytest.raises(ConfigError, match="no seeds"):
            parse_seeds(text)


@pytest.mark.parametrize("changes", [{"assignments": ("seed=7",)}, {"grid": {"seed": (1, 2)}}])
def test_a_seed_that_would_be_overruled_is_refused(changes: dict[str, Any]) -> None:
    # `--set seed=7` was run with seed 0, without a word.
    with pytest.raises(ConfigError, match="seed"):
        runs(**changes)


def test_every_combination_under_every_seed() -> None:
    # `--grid owners=5,20,50 p=50,100 protocol=cells,uniform --seeds 0:5`.
    grid_runs = runs(grid={"owners": (5, 20), "p": (50, 100), "protocol": ("cells", "uniform")}, seeds=(0, 1))
    assert len(grid_runs) == len({run.key for run in grid_runs}) == 16
    assert [run.seed for run in grid_runs] == [0] * 8 + [1] * 8  # a whole grid under one seed comes first
    last = grid_runs[-1]
    assert last.choices == {"owners": 20, "p": 100, "protocol": "uniform"}
    assert last.settings.summary.p == 100
    assert last.settings.summary.protocol == "uniform"
    assert last.settings.engine == "inprocess"
    assert last.words() == "owners=20 p=100 protocol=uniform seed=1"


def test_short_names_are_those_of_set() -> None:
    short, long = (runs(grid={key: (7,)}, assignments=("p=9",))[0] for key in ("owners", "scenario.owners"))
    assert short.settings == long.settings
    assert short.settings.scenario.model_dump()["owners"] == 7


def test_a_combination_that_is_there_twice_is_run_once() -> None:
    assert len(runs(grid={"p": (50, 50, "50")})) == 1


def test_the_key_is_that_of_the_resolved_configuration_and_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # "key: digest of the resolved configuration".
    (run,) = runs()
    assert runs(assignments=("p=100",))[0].key == run.key  # what the scenario says anyway
    assert runs(assignments=("p=99",))[0].key != run.key
    assert runs(seeds=(1,))[0].key != run.key
    monkeypatch.setattr(tasks, "__version__", "another")
    assert runs()[0].key != run.key


@pytest.mark.parametrize(
    "axes", [{"nonsense": (1,)}, {"p": ("many",)}, {"protocol": ("cells", "nonsense")}, {"owners": (0,)}]
)
def test_a_wrong_key_or_value_is_told_before_anything_runs(axes: dict[str, tuple[Any, ...]]) -> None:
    with pytest.raises(ConfigError):
        runs(grid=axes)


def test_a_key_of_another_scenario_is_told_as_that() -> None:
    with pytest.raises(ConfigError) as refused:
        runs_of(SweepSettings(scenario="hospitals", out=Path("unused"), grid={"owners": (3,)}))
    assert refused.value.remedy.startswith('It belongs to kind = "')
