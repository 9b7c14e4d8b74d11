"""The example extension, installed and run by each engine, for owners that allow it and for others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError
from tests.parties import WAIT_S
from tests.places import ROOT
from tests.system.launches import launch

EXAMPLE = ROOT / "examples" / "extension"
FEDKME = "from operate.cli import main; main()"
TWO = ("--set", "scenario.owners=2")
SUMMARY = ("sim", "run", "digits", *TWO, "--set", "p=6", "--set", "baselines=[]", "--set", "downstream=false")
AUCTION = ("--set", "auction.kind=best-two", "--set", "broadcast.mechanism=laplace")
RELEASE = ("release", "normal", "digits", *TWO, "--set", "rows=50")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a host on which the example is installed; the suite's own is as it was."""
    folder = tmp_path_factory.mktemp("extension")
    source, target = folder / "source", folder / "site"
    shutil.copytree(EXAMPLE, source)  # building leaves files beside the source
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    install = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    subprocess.run(install, check=True, timeout=WAIT_S)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(target)])}


def fedkme(
    environment: Mapping[str, str], out: Path, engine: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FEDKME, *arguments, "--engine", engine, "--out", str(out)]
    return subprocess.run(
        command, env=environment, cwd=out.parent, text=True, capture_output=True, timeout=WAIT_S, check=False
    )


def metrics(out: Path) -> Any:
    return json.loads((out / "metrics.json").read_text(encoding="utf-8"))


def test_an_auction_and_a_mechanism_of_another_package_run(
    extended: Mapping[str, str], tmp_path: Path
) -> None:
    allowed = ("--set", 'policies.all.protocols=["best-two"]')
    ran = fedkme(extended, tmp_path / "run", "processes", *SUMMARY, *AUCTION, *allowed, "--details")
    assert ran.returncode == 0, ran.stderr
    figures = metrics(tmp_path / "run")
    assert figures["points_accessed"]["total"] == 2 * figures["p"] == 12
    assert "the two best bidders of a round" in " ".join(ran.stdout.split())


def test_a_release_method_of_another_package_runs(extended: Mapping[str, str], tmp_path: Path) -> None:
    allowed = ("--set", 'policies.all.protocols=["normal"]')
    ran = fedkme(extended, tmp_path / "run", "processes", *RELEASE, *allowed)
    assert ran.returncode == 0, ran.stderr
    figures = metrics(tmp_path / "run")
    assert figures["method"] == "normal"
    assert figures["rows"] == 50
    sound = [row["epsilon"] for row in figures["privacy"] if row["accountant"] == "sound"]
    assert pytest.approx(1.0, rel=1e-4) in sound
    assert (tmp_path / "run" / "synthetic.csv").exists()


def test_owners_whose_policy_does_not_list_it_take_no_part(
    extended: Mapping[str, str], tmp_path: Path
) -> None:
    refused = ("--set", 'policies.all.protocols=["clock", "merf"]')
    ran = fedkme(extended, tmp_path / "run", "inprocess", *SUMMARY, *AUCTION, *refused)
    assert ran.returncode == 21, ran.stderr
    output = (ran.stdout + ran.stderr).replace("\n", " ")
    assert "does not take part in the protocol 'best-two', but in clock, merf" in output


def test_a_policy_that_lists_a_protocol_nobody_installed_is_one_line(tmp_path: Path) -> None:
    for assignment, cause in (
        ('policies.all.protocols=["normal"]', "'normal' is no protocol"),
        ("auction.kind=best-two", "'best-two' is no auction"),
    ):
        with pytest.raises(ConfigError, match=cause):
            launch(tmp_path / "run", "engine=inprocess", assignment)


def test_the_example_keeps_to_the_contracts(extended: Mapping[str, str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "tests")]
    ran = subprocess.run(
        command, env=extended, cwd=tmp_path, text=True, capture_output=True, timeout=WAIT_S, check=False
    )
    assert ran.returncode == 0, ran.stdout
