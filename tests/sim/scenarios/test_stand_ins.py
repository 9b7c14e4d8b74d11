"""Stand-ins of the shipped scenarios: taken where nobody named the data, and named as such everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.tables.schema import Category
from sim.config import SimulationSettings, load_simulation
from sim.progress import Follower
from sim.release_config import load_release
from sim.run import simulate
from sim.scenarios import build_scenario
from sim.scenarios.adult import Adult
from sim.scenarios.base import domain
from sim.scenarios.stand_ins import STAND_IN
from tests.fedkme.test_verbs import Typed, typed

__all__ = ["typed"]
NAMES = ("adult", "hospitals", "mnist", "states")
SMALL = ("engine=inprocess", "p=10", "downstream=false", "baselines=[]", "protocol=uniform")


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FEDKME_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Heard(Follower):
    """Keeps the warnings of a run."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, line: str) -> None:
        self.warnings.append(line)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_runs_without_its_data(name: str, nothing_here: Path) -> None:
    settings = load_simulation(name, SMALL)
    assert settings.title == f"{name}-stand-in"
    assert settings.stand_in.startswith(f"stand-in: invented rows in the shape of {name}, for trying")
    heard = Heard()
    directory, metrics = simulate(settings, nothing_here / "run", heard)
    assert heard.warnings[0] == settings.stand_in
    assert metrics["status"] == "complete"
    assert json.loads((directory / "metrics.json").read_text())["stand_in"] == settings.stand_in
    assert "not the data" in (directory / "report.html").read_text(encoding="utf-8").partition("<section")[0]
    # the run's own settings repeat it, also where the data are
    assert load_simulation(str(directory / "run.toml")).scenario == settings.scenario


def test_a_release_of_a_stand_in_says_so(nothing_here: Path) -> None:
    settings = load_release("moments", "adult")
    assert (settings.title, bool(settings.stand_in)) == ("adult-stand-in", True)


def test_the_first_line_names_the_stand_in(nothing_here: Path, typed: Typed) -> None:
    words = "--set p=10 --set downstream=false --set 'baselines=[]' --set protocol=uniform"
    code, out = typed(f"fedkme sim run hospitals --engine inprocess {words}")
    assert code == 0
    assert out.startswith("stand-in: invented rows in the shape of hospitals, for trying commands")
    code, swept = typed(f"fedkme sim sweep hospitals --grid seeds=20 --out sweep {words}")
    assert code == 0
    assert "stand-in: invented rows in the shape of hospitals" in swept
    assert "not the data" in (nothing_here / "sweep" / "sweep.html").read_text(encoding="utf-8")
    _, planned = typed("fedkme plan hospitals")
    assert planned.startswith("stand-in: ")


def test_who_names_a_file_or_a_folder_gets_it_or_an_error(
    nothing_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = load_simulation("adult", ["path=elsewhere.parquet"])
    assert not named.stand_in
    with pytest.raises(ConfigError, match=r"there is no file .*elsewhere\.parquet"):
        build_scenario(named.scenario, 0)
    monkeypatch.setenv("FEDKME_DATA", str(nothing_here))
    for name in NAMES:
        settings = load_simulation(name)
        assert not settings.stand_in
        with pytest.raises(ConfigError, match=f"`fedkme data {name}` brings it"):
            build_scenario(settings.scenario, 0)
    # a file that is here is taken without the variable
    monkeypatch.delenv("FEDKME_DATA")
    (nothing_here / "data").mkdir()
    (nothing_here / "data" / "adult_raw.parquet").touch()
    assert isinstance(load_simulation("adult").scenario, Adult)
    assert not load_simulation("adult").stand_in
    assert load_simulation("adult", ["path=stand-in"]).stand_in


def test_a_stand_in_is_the_same_every_time_and_has_rows_of_every_kind(nothing_here: Path) -> None:
    settings: SimulationSettings = load_simulation("adult")
    first, again = (build_scenario(settings.scenario, 3) for _ in range(2))
    assert all(np.array_equal(first.owners[name].values, again.owners[name].values) for name in first.owners)
    # every target has rows enough for D_v
    (levels,) = (
        spec.categories
        for spec in domain("adult").columns
        if isinstance(spec, Category) and spec.name == "education"
    )
    for target in levels:
        build_scenario(Adult(path=STAND_IN, target=target), 0)
