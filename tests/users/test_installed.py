"""A wheel in an environment of its own: verbs without extras, missing packages, the first figure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fedkme.errors import MissingDependencyError
from tests.places import ROOT
from tests.users.installed import built, environment
from tests.users.notebooks import cells_of, execute, shown
from tests.users.test_notebook import FIRST_FIGURE

OWN = ROOT / "examples" / "own-files" / "scenario.toml"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def typed(place: Path, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Type a command of an environment in a folder."""
    return subprocess.run(
        [place / "fedkme", *words],
        cwd=folder,
        env={"PATH": f"{place}:/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(600)
def test_the_base_install_ends_well_or_says_at_once_what_is_missing(wheel: Path, tmp_path: Path) -> None:
    place = environment(tmp_path / "venv", wheel)
    ran = typed(place, tmp_path, "sim", "run", OWN, *("--set", "downstream=false", "--set", "baselines=[]"))
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "runs" / "own-files-1" / "consumer" / "summary.csv").is_file()
    process = typed(place, tmp_path, "release", "moments", OWN, "--epsilon", "8", "--out", "release")
    assert process.returncode == 0, (
        process.stderr
    )  # it was 13 after the whole release, for want of scikit-learn
    assert "no models will be trained" in process.stderr
    answer = typed(place, tmp_path, "ask", "release", "mean(age)", "--json")
    assert json.loads(answer.stdout)[0]["estimate"] > 0
    for words in (
        ("sim", "run", OWN),  # its models
        ("sim", "run", "digits"),
        ("release", "merf", OWN),
        ("sim", "sweep", OWN, "--grid", "p=10,20"),
    ):
        output = typed(place, tmp_path, *words)
        assert output.returncode == MissingDependencyError.code, output.stderr
        assert output.stderr.splitlines()[-1].startswith("error 13 (missing package): ")
        assert "owners are ready" not in output.stderr  # nothing began
    assert {path.name for path in (tmp_path / "runs").iterdir()} <= {"own-files-1", "sweep"}


@pytest.mark.timeout(600)
def test_from_a_wheel_to_the_first_figure(wheel: Path, tmp_path: Path) -> None:
    place = environment(tmp_path / "venv", wheel, "sim", "ipykernel", "tqdm")
    report, table, figure, verdict = execute(cells_of(FIRST_FIGURE), tmp_path, place / "python")
    assert "fedkme run" in shown(report, "text/html")
    assert "fresh_rows" in shown(table, "text/html")
    assert shown(figure, "image/png")
    assert "grade=" in shown(verdict, "text/plain")
