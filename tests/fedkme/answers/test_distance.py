"""Distance of two releases: without bias, with intervals that hold, and 0 of a release to itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.distance import NoisyMean, corrected_mmd2, distance_of
from fedkme.answers.folder import AskedFolder
from fedkme.errors import DataError
from fedkme.releases.settings import release_settings
from fedkme.tables.npz import npz_bytes
from fedkme.tables.table import Table
from operate.cli import main
from sim.api.releases import ReleaseResult
from tests.fedkme.answers.people import people, released, schema

KINDS = ("merf", "hermite", "marginals")
SETTINGS: dict[str, dict[str, Any]] = {
    "merf": {"features": 300, "gamma": 2.0},
    "hermite": {"epochs": 3},
    "marginals": {"mechanism": "independent"},
}


def folder_of(tmp_path: Path, name: str, data: bytes) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "release.npz").write_bytes(data)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_two_releases_of_the_same_rows_are_not_told_apart(kind: str, tmp_path: Path) -> None:
    # The interval misses 0 for 5 % of all pairs; for these seeds it does not.
    one, two = (
        AskedFolder(folder_of(tmp_path, str(noise), released(noise, 3000, kind=kind, **SETTINGS[kind])))
        for noise in (1, 2)
    )
    answer = one.distance(two)
    assert answer.low == 0.0 < answer.high
    assert answer.noise > 0.0
    assert one.distance(one).high == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_difference_is_found(kind: str, tmp_path: Path) -> None:
    table = people(4000)
    values = table.values.copy()
    values[:, 0] = np.clip(values[:, 0] + 15.0, 18, 97)
    method = make_method(release_settings({"kind": kind, **SETTINGS[kind]}), schema(), people(300, 9), 1)
    older = asyncio.run(method.ask(FreshNoise(Table(values, table.labels), schema(), 3)))
    plain = released(1, 4000, kind=kind, **SETTINGS[kind])
    one, two = (folder_of(tmp_path, name, data) for name, data in (("plain", plain), ("older", older)))
    answer = AskedFolder(one).distance(AskedFolder(two))
    assert answer.low > 1 / 4000 + 1 / 4000  # more than two samples of one law differ
    assert answer.low < answer.estimate < answer.high


def test_intervals_hold_and_the_estimate_has_no_bias() -> None:
    # 4,000 pairs: the mean is within 4 deviations (error 6e-5); 4 deviations of a coverage of 95 % are 1.4 %.
    rng = np.random.default_rng(7)
    for size, gap, deviation in ((400, 0.02, 0.002), (400, 0.0, 0.002), (50, 0.3, 0.01)):
        shift = np.full(size, gap / np.sqrt(size))
        held, values = 0, []
        for _ in range(4000):
            one, two = (
                NoisyMean(mean + deviation * rng.standard_normal(size), deviation**2, 1.0)
                for mean in (shift, np.zeros(size))
            )
            value, low, high, _ = corrected_mmd2([(one, two)])
            held += low <= gap**2 <= high
            values.append(value)
        assert abs(np.mean(values) - gap**2) < 4 * np.std(values) / np.sqrt(4000)
        assert 0.936 < held / 4000 < 0.975


def test_releases_without_common_features_are_compared_by_rows(tmp_path: Path) -> None:
    one = folder_of(tmp_path, "one", released(1, 3000, kind="merf", features=100, gamma=2.0))
    two = folder_of(tmp_path, "two", released(2, 3000, kind="merf", features=100, gamma=3.0))
    with pytest.raises(DataError, match="same settings and seed"):
        AskedFolder(one).distance(AskedFolder(two))
    for folder, seed in ((one, 1), (two, 2)):
        (folder / "synthetic.npz").write_bytes(npz_bytes({"x": people(2000, seed).values}))
    answer = AskedFolder(one).distance(AskedFolder(two))
    assert np.isnan(answer.low)
    assert 0.0 < answer.estimate < 0.01


def test_a_terminal_and_a_program_get_the_distance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (
        folder_of(tmp_path, str(seed), released(seed, 3000, kind="marginals", mechanism="independent"))
        for seed in (1, 2)
    )
    words = ["fedkme", "ask", str(one), "count()", "--distance-to", str(two), "--json"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    apart, count = json.loads(capsys.readouterr().out)
    assert apart["question"] == f"mmd2 to {two}"
    assert count["question"] == "count()"
    left, right = (ReleaseResult(folder, {}) for folder in (one, two))
    assert left.distance(right).estimate.tolist() == [apart["estimate"]]
    monkeypatch.setattr("sys.argv", words[:3])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 15
    assert "--distance-to" in capsys.readouterr().err


def test_other_schemas_are_refused(tmp_path: Path) -> None:
    one = AskedFolder(folder_of(tmp_path, "one", released(kind="marginals", mechanism="independent")))
    unlabelled = replace(one.stored, schema=schema().model_copy(update={"label": None}))
    with pytest.raises(DataError, match="another schema"):
        distance_of(one.stored, unlabelled, "unlabelled", (lambda: None, lambda: None))
