"""The network of Appendix G: learning, dropout, weights of rows, and its seed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from consumer.summary.evaluation import BATCH, DropoutNetwork


def test_the_network_learns_classes_that_no_line_separates() -> None:
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (400, 2))
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(np.int64)
    assert DropoutNetwork().fit(rows[:200], labels[:200]).score(rows[200:], labels[200:]) > 0.93


def test_the_network_learns_digits_as_well_as_scikit_learns() -> None:
    # Measured on 100 rows, five seeds: .892 against .833 of the earlier network.
    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    rows, labels = rows[order] / 16.0, labels[order]
    ours, theirs = (
        model.fit(rows[:100], labels[:100]).score(rows[100:], labels[100:])
        for model in (DropoutNetwork(), MLPClassifier((32,), solver="lbfgs", max_iter=1000, random_state=0))
    )
    assert ours > theirs - 0.01


def test_a_row_of_a_large_weight_counts_as_its_copies() -> None:
    # Two classes at one place: the heavier one is predicted, whichever it is; a row of weight 0 says nothing.
    rows, labels = np.zeros((3, 2)), np.array([4, 7, 9])
    for weights, expected in (([3.0, 1.0, 0.0], 4), ([1.0, 3.0, 0.0], 7)):
        network = DropoutNetwork().fit(rows, labels, np.array(weights))
        assert network.predict(rows[:1]).tolist() == [expected]


@pytest.mark.parametrize("count", [10, 2 * BATCH + 3])
def test_a_seed_decides_all_that_is_random(count: int) -> None:
    random = np.random.default_rng(1)
    rows, labels = random.random((count, 3)), random.integers(0, 3, count)
    one, same, other, whole = (
        DropoutNetwork(dropout=rate, seed=seed).fit(rows, labels)
        for rate, seed in ((0.2, 5), (0.2, 5), (0.2, 6), (0.0, 5))
    )
    assert (one._parameters == same._parameters).all()
    assert not (one._parameters == other._parameters).all()
    assert not (one._parameters == whole._parameters).all()  # units are left out, and not at rate 0


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    # By finite differences, without dropout: weighted mean cross-entropy plus half the decay of squared
    # weights.
    random = np.random.default_rng(2)
    rows, labels = random.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    network = DropoutNetwork(hidden=4, dropout=0.0).fit(rows, labels)
    goals, weights = np.eye(3)[labels], random.random(6)
    network._parameters = random.normal(size=network._parameters.shape)

    def loss(parameters: np.ndarray) -> float:
        first, bias, second, offset = network._layers(parameters, 3)
        scores = np.maximum(rows @ first + bias, 0.0) @ second + offset
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        decay = 0.5e-4 * ((first**2).sum() + (second**2).sum())
        return float(decay - (weights * np.log((chances * goals).sum(axis=1))).mean())

    step = 1e-6 * np.eye(len(network._parameters))
    slopes = [(loss(network._parameters + e) - loss(network._parameters - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(network._gradient(rows, goals, weights, random), slopes, atol=1e-7)
