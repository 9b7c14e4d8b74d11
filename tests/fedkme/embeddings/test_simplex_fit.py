"""fedkme.embeddings.simplex_fit: weights on the simplex, with a proof of optimality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import kernel_mean_at, rbf
from fedkme.embeddings.simplex_fit import GAP, fit_simplex

RIDGES = st.sampled_from([0.0, 0.01, 1.0])


def problem(seed: int, size: int, distinct: int, gamma: float) -> tuple[FloatArray, FloatArray]:
    """G and c of `size` rows with repetition of `distinct` rows, and of 20 rows to match."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(distinct, 2))[random.integers(0, distinct, size)]
    return rbf(rows, rows, gamma), kernel_mean_at(rows, random.normal(size=(20, 2)) + 0.5, gamma)


def objective(weights: FloatArray, gram: FloatArray, target: FloatArray, ridge: float) -> float:
    return float(weights @ gram @ weights - 2.0 * target @ weights + ridge * weights @ weights)


PROBLEMS: dict[str, Any] = {
    "seed": st.integers(0, 10**6),
    "size": st.integers(1, 60),
    "distinct": st.integers(1, 60),
    "gamma": st.sampled_from([1e-6, 0.01, 0.3, 5.0]),
    "ridge": RIDGES,
}


@settings(max_examples=60, deadline=None)
@given(**PROBLEMS)
def test_the_conditions_of_optimality_hold(
    seed: int, size: int, distinct: int, gamma: float, ridge: float
) -> None:
    # Karush, Kuhn, Tucker: no row's slope is below that of the support, computed here anew; also where rows
    # are equal, or so alike that G is singular to rounding.
    gram, target = problem(seed, size, distinct, gamma)
    fit = fit_simplex(gram, target, ridge)
    assert fit.weights.min() >= 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    slope = gram @ fit.weights + ridge * fit.weights - target
    gap = 2.0 * (slope @ fit.weights - slope.min())
    assert gap <= GAP
    assert fit.gap == pytest.approx(gap, abs=1e-13)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), RIDGES)
def test_another_solver_gives_the_same_weights(seed: int, size: int, ridge: float) -> None:
    gram, target = problem(seed, size, size, 0.3)
    fit = fit_simplex(gram, target, ridge)
    other = minimize(
        objective,
        np.full(size, 1.0 / size),
        (gram, target, ridge),
        jac=lambda w, G, c, x: 2.0 * (G @ w - c + x * w),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * size,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(size)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert objective(fit.weights, gram, target, ridge) <= other.fun + 1e-9
    assert objective(fit.weights, gram, target, ridge) == pytest.approx(other.fun, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(**PROBLEMS)
def test_no_weights_gain_more_than_the_gap(
    seed: int, size: int, distinct: int, gamma: float, ridge: float
) -> None:
    gram, target = problem(seed, size, distinct, gamma)
    fit = fit_simplex(gram, target, ridge)
    others = np.random.default_rng(seed).dirichlet(np.full(size, 0.1), size=200)
    reached = objective(fit.weights, gram, target, ridge)
    assert all(
        reached <= objective(w, gram, target, ridge) + fit.gap + 1e-14 for w in [*others, *np.eye(size)]
    )


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_equal_rows_together_have_the_weight_of_one_row(ridge: float) -> None:
    gram, target = problem(3, 10, 10, 0.3)
    alone = fit_simplex(gram, target, ridge / 2.0).weights
    twice = np.repeat(np.arange(10), 2)
    shared = fit_simplex(gram[np.ix_(twice, twice)], target[twice], ridge).weights
    np.testing.assert_allclose(shared[::2] + shared[1::2], alone, atol=1e-6)
    if ridge:  # then half each is best: |w|^2 is smallest
        np.testing.assert_allclose(shared[::2], shared[1::2], atol=1e-9)


def test_a_first_support_does_not_change_the_answer() -> None:
    gram, target = problem(5, 300, 300, 5.0)
    fit = fit_simplex(gram, target, 0.01)
    for support in (np.array([7]), np.arange(300)):
        again = fit_simplex(gram, target, 0.01, support)
        assert again.gap <= GAP
        np.testing.assert_allclose(again.weights, fit.weights, atol=1e-6)
