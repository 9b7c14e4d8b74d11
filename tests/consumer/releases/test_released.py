"""A consumer's first minutes with the folder of a release."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.in_memory import OwnersInMemory
from consumer.releases.estimators import expectation, mmd, probability
from consumer.releases.released import Released, load_release
from curator.releases.method import make_method
from fedkme.answers.answer import ask
from fedkme.answers.folder import evidence_of
from fedkme.embeddings.weighted_points import distribution, resample
from fedkme.errors import ConfigError, DataError
from fedkme.features.sums import Layout
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(Numeric(name="age", bounds=(0, 100), integer=True), Numeric(name="dose", bounds=(0, 2))),
    label=Label(name="well", classes=("no", "yes")),
)


def people(count: int, seed: int, older: float = 0.0) -> Table:
    generator = np.random.default_rng(seed)
    age = np.clip(np.rint(generator.normal(40 + older, 12, count)), 0, 100)
    dose = np.clip(0.02 * age + 0.2 * generator.standard_normal(count), 0, 2)
    return Table(np.stack([age, dose], axis=1), (generator.random(count) < 0.3).astype(np.int64))


@cache
def files(kind: str) -> dict[str, bytes]:
    settings: dict[str, dict[str, Any]] = {
        "balog1": {"points": 200, "gamma": 10.0},
        "balog2": {
            "features": 300,
            "gamma": 10.0,
            "points": 30,
            "steps": 100,
            "restarts": 1,
            "candidates": 64,
            "climbs": 30,
        },
        "merf": {"features": 200, "steps": 20, "hidden": [16], "batch": 64, "rows": 100},
        "hermite": {"epochs": 1, "sum_order": 20, "hidden": [16], "batch": 64, "rows": 100},
        "moments": {"rows": 100},
        "marginals": {},
    }
    method = make_method(release_settings({"kind": kind, **settings[kind]}), SCHEMA, people(300, 9), 1)
    release = asyncio.run(method.ask(OwnersInMemory(people(20_000, 0), SCHEMA, owners=1)))
    return dict(method.finish(release, lambda *_: None).files)


def received(kind: str, folder: Path) -> Released:
    for name, data in files(kind).items():
        (folder / name).write_bytes(data)
    return load_release(folder)


@pytest.mark.parametrize("kind", ["balog1", "balog2"])
def test_a_folder_answers_questions_about_the_rows(kind: str, tmp_path: Path) -> None:
    # E[h(X)] with its error, the probability of a set, and MMD to a sample, in the schema's units.
    released = received(kind, tmp_path)
    truth = people(20_000, 0).values
    age = expectation(released.release, released.on_rows(lambda rows: rows[:, 0]))
    assert abs(age.value - truth[:, 0].mean()) <= 3 * age.error
    assert age.error < 10
    old = probability(released.release, released.on_rows(lambda rows: rows[:, 0] > 50))
    assert abs(old.value - (truth[:, 0] > 50).mean()) <= 3 * old.error
    assert old.error < 0.3
    near = mmd(released.release, released.in_kernel(people(500, 1).values))
    far = mmd(released.release, released.in_kernel(people(500, 1, older=30).values))
    assert near < 0.5 * far


@pytest.mark.parametrize("kind", ["balog1", "balog2", "merf", "hermite", "moments"])
def test_a_folder_tests_whether_a_sample_has_the_same_distribution(kind: str, tmp_path: Path) -> None:
    # The test accounts for the privacy noise; a labelled release is summed over its classes.
    released = received(kind, tmp_path)
    assert released.two_sample_test(people(400, 2)).p_value > 0.001
    assert released.two_sample_test(people(400, 2, older=15)).p_value < 0.001


@pytest.mark.parametrize("kind", ["merf", "hermite", "moments"])
def test_methods_without_points_name_the_call_that_answers(kind: str, tmp_path: Path) -> None:
    released = received(kind, tmp_path)
    assert released.points is None
    assert released.synthetic is not None
    SCHEMA.check(released.synthetic, "released")
    with pytest.raises(ConfigError, match="no weighted points") as error:
        _ = released.release
    assert "`fedkme ask`" in error.value.remedy
    (age,) = ask(evidence_of((tmp_path / "release.npz").read_bytes()), "mean(age)")
    assert abs(age.estimate - people(20_000, 0).values[:, 0].mean()) <= age.high - age.low  # seeded


def test_weights_become_rows_for_learners(tmp_path: Path) -> None:
    # A distribution on the points, or rows of equal weight.
    released = received("balog1", tmp_path)
    assert released.rows is not None
    fitted = distribution(released.release.points, 10.0)
    chosen = released.rows.take(resample(fitted.points, 500, 0))
    SCHEMA.check(chosen, "chosen")
    assert chosen.values[:, 0].mean() == pytest.approx(people(20_000, 0).values[:, 0].mean(), abs=5)


def test_classes_add_up_to_the_embedding_of_the_rows(tmp_path: Path) -> None:
    released = received("merf", tmp_path)
    assert released.synthetic is not None
    assert len(released.synthetic) == 100
    each, both = released.stored.embeddings[0], released.embedding()
    np.testing.assert_array_equal(both.mean[:, 0], each.mean[:, 0] + each.mean[:, 1])
    assert both.layout == Layout()
    assert both.sigma == pytest.approx(each.sigma * 2**0.5)


def test_a_release_of_counts_names_the_call_that_reads_it(tmp_path: Path) -> None:
    """`load_release` said of the default method 'classes: Field required. Fetch it again'."""
    with pytest.raises(DataError, match=r"of marginals, .* no embedding. Ask it: `fedkme ask`"):
        received("marginals", tmp_path)


def test_a_folder_without_a_release_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"release\.npz"):
        load_release(tmp_path)
    for name, data in files("balog1").items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "weighted.npz").write_bytes(files("merf")["synthetic.npz"])
    with pytest.raises(DataError, match="weighted"):
        load_release(tmp_path)
    released = received("balog1", tmp_path)
    other = SCHEMA.model_copy(update={"label": None})
    with pytest.raises(DataError, match="another schema"):
        released.in_units_of_kernel(other, people(5, 0).values)
    points, gamma, at = released.in_units_of_kernel(SCHEMA, people(5, 0).values)
    assert (gamma, at.shape) == (10.0, (5, points.points.shape[1]))
