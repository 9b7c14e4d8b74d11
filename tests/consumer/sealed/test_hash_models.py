"""Issue 6, item 3: "linear SVM / ridge on h1 features, with accuracy against training on rows"."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from consumer.sealed.hash_models import KINDS, Kind, _ridge, compare, in_units, train
from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.features.fixed_point import quantize_features
from tests.fedkme.sealed.maps import secret_map

RNG = np.random.default_rng(2)


def rings(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two classes that no straight line separates: a disc and the ring around it."""
    angle, inner = RNG.random(count) * 2 * np.pi, RNG.random(count) < 0.5
    radius = np.where(inner, 0.2 * np.sqrt(RNG.random(count)), 0.3 + 0.15 * RNG.random(count))
    rows = 0.5 + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return rows, inner.astype(np.int64)


X, Y = rings(120)
AT, TRUTH = rings(400)
GAMMA = 10.0
H1 = secret_map(dimension=200, gamma=GAMMA, width=2)


@pytest.mark.parametrize("kind", KINDS)
def test_models_on_hashes_predict_rows_through_the_map(kind: Kind) -> None:
    model = train(H1.fixed_point(X), Y, kind)
    assert np.mean(model.predict(AT, H1) == TRUTH) > 0.95
    assert np.array_equal(model.predict(AT, H1), model.predict_hashes(H1.fixed_point(AT)))


def test_hashes_reach_the_exact_kernel_and_rows_do_not() -> None:
    for line in compare(X, Y, AT, TRUTH, H1, GAMMA, ("ridge", "svm")):
        assert line.on_rows < 0.75
        assert line.on_hashes > 0.95
        assert abs(line.on_hashes - line.with_kernel) < 0.04
    (logistic,) = compare(X, Y, AT, TRUTH, H1, GAMMA, ("logistic",))
    assert logistic.on_hashes > 0.95
    assert np.isnan(logistic.with_kernel)


def test_without_the_draw_a_model_says_nothing_about_rows() -> None:
    other = secret_map(dimension=202, gamma=GAMMA, width=2)
    model = train(H1.fixed_point(X), Y)
    wrong = model.predict_hashes(other.fixed_point(AT)[:, :200])
    assert np.mean(wrong == TRUTH) < 0.7


def test_digits_on_hashes_come_close_to_digits_on_rows() -> None:
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    rows, labels = sklearn_datasets.load_digits(return_X_y=True)
    rows = rows / 16.0
    h1 = secret_map(dimension=500, gamma=0.1, width=64)
    (line,) = compare(rows[:400], labels[:400], rows[1000:], labels[1000:], h1, 0.1, ("ridge",))
    assert line.on_hashes > 0.90
    assert line.on_hashes > line.on_rows - 0.01


def test_ridge_finds_the_least_leave_one_out_error() -> None:
    # The formula against leaving rows out one by one.
    x, y = RNG.normal(size=(12, 5)), RNG.normal(size=(12, 2))
    _, _, chosen = _ridge(x, y, None)

    def left_out(penalty: float) -> float:
        errors = []
        for i in range(len(x)):
            keep = np.arange(len(x)) != i
            # the same absolute penalty as with all rows
            weights, intercept, _ = _ridge(x[keep], y[keep], penalty * len(x) / (len(x) - 1))
            errors.append((y[i] - x[i] @ weights - intercept) ** 2)
        return float(np.mean(errors))

    assert all(left_out(chosen) <= left_out(chosen * factor) + 1e-12 for factor in (0.1, 0.3, 3.0, 10.0))


def test_several_classes_and_one() -> None:
    rows = RNG.random((90, 2))
    labels = (rows[:, 0] * 3).astype(np.int64) + 4  # class indices need not begin at 0
    h1 = secret_map(dimension=60, gamma=5.0, width=2)
    for kind in KINDS:
        model = train(h1.fixed_point(rows), labels, kind)
        assert model.classes.tolist() == [4, 5, 6]
        assert np.mean(model.predict(rows, h1) == labels) > 0.9
        alone = train(h1.fixed_point(rows), np.full(90, 7), kind)
        assert set(alone.predict(rows, h1).tolist()) == {7}


def test_a_class_of_one_row_can_be_trained_with() -> None:
    labels = np.array([0] * 20 + [1])
    for kind in KINDS:
        assert len(train(H1.fixed_point(X[:21]), labels, kind).classes) == 2


def test_given_strength_is_used_and_hashes_have_norm_one() -> None:
    assert train(H1.fixed_point(X), Y, "ridge", 0.5).strength == 0.5
    assert train(H1.fixed_point(X), Y, "svm", 3.0).strength == 3.0
    assert np.allclose(np.linalg.norm(in_units(H1.fixed_point(X)), axis=1), 1.0, atol=1e-3)


def test_what_cannot_be_trained_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown: Any = "forest"
    nothing = quantize_features(np.zeros((0, 200)))
    with pytest.raises(DataError):
        train(nothing, np.zeros(0, dtype=np.int64))
    with pytest.raises(DataError):
        train(H1.fixed_point(X), Y[:-1])
    with pytest.raises(ConfigError):
        train(H1.fixed_point(X), Y, unknown)
    for name in ("sklearn.svm", "sklearn.exceptions", "sklearn.linear_model"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError):
        train(H1.fixed_point(X), Y, "svm")
    train(H1.fixed_point(X), Y, "ridge")  # needs numpy alone
