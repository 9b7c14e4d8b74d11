"""The classifier of a release of moments, as a caller of the Python API has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedkme as fk
from tests.sim.api.frames import SCHEMA, people


def released(method: str, out: Path, **settings: Any) -> fk.ReleaseResult:
    rows = {name: people(1500, seed) for seed, name in enumerate(("north", "south", "west"))}
    return fk.release(
        rows, method=method, schema=SCHEMA, epsilon=2, out=out, seed=1, progress=False, **settings
    )


@pytest.mark.parametrize("shape", ["quadratic", "linear"])
def test_classes_are_told_apart_straight_from_the_release(shape: Any, tmp_path: Path) -> None:
    # Whoever is over 60 is ill, 43 of 70 ages are not: the larger class alone would be right .59 of the time.
    classifier = released("moments", tmp_path / "run").classifier(shape)
    fresh = people(400, 9)
    said = classifier.predict(fresh)
    assert (said == fresh["ill"]).mean() > 0.85
    assert said.index.equals(fresh.index)
    chances = classifier.predict_proba(fresh.drop(columns="ill"))
    assert list(chances.columns) == ["no", "yes"]
    assert chances.sum(axis=1).round(9).eq(1.0).all()
    assert (chances.idxmax(axis=1) == said).all()


def test_a_release_without_moments_says_what_to_do(tmp_path: Path) -> None:
    release = released("balog1", tmp_path / "run", points=20, z={"kind": "gaussian"})
    with pytest.raises(fk.FedkmeError, match="has no moments to classify by"):
        release.classifier()
