"""The classifier of a release of moments, as a caller of the Python API has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.datasets import load_digits

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
    predicted = classifier.predict(fresh)
    assert (predicted == fresh["ill"]).mean() > 0.85
    assert predicted.index.equals(fresh.index)
    chances = classifier.predict_proba(fresh.drop(columns="ill"))
    assert list(chances.columns) == ["no", "yes"]
    assert chances.sum(axis=1).round(9).eq(1.0).all()
    assert (chances.idxmax(axis=1) == predicted).all()


IMAGES: dict[str, Any] = {
    "columns": [{"name": "pixel", "kind": "numeric", "bounds": [0, 16], "count": 64}],
    "label": {"name": "digit", "classes": [str(digit) for digit in range(10)]},
}


def test_a_classifier_that_sees_edges_comes_back_from_its_folder(tmp_path: Path) -> None:
    digits = load_digits()
    frame = pd.DataFrame(digits.data, columns=[f"pixel{place}" for place in range(64)])
    frame["digit"] = digits.target.astype(str)
    result = fk.release(
        {name: frame[first:1400:5] for first, name in enumerate(("a", "b", "c", "d", "e"))},
        method="moments",
        schema=IMAGES,
        edges=True,
        epsilon=10,
        out=tmp_path / "run",
        seed=1,
        progress=False,
        pooling={"security": {"dropouts": 1}},
    )
    again = fk.load(result.folder)
    assert isinstance(again, fk.ReleaseResult)
    fresh = frame[1400:]
    assert (again.classifier().predict(fresh) == fresh["digit"]).mean() > 0.7
    assert "rows may be few for edges at this epsilon" in again.card  # without: .92, with: .87
    assert list(again.rows.columns) == list(frame.columns)


def test_a_release_without_moments_says_what_to_do(tmp_path: Path) -> None:
    release = released("balog1", tmp_path / "run", points=20, z={"kind": "gaussian"})
    with pytest.raises(fk.FedkmeError, match="has no moments to classify by"):
        release.classifier()
