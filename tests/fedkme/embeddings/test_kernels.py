"""fedkme.embeddings.kernels: the exact kernel of every MMD in a report."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import BLOCK_ROWS, kernel_mean_at, mean_kernel, median_gamma, rbf
from fedkme.errors import DataError


def naive(x: FloatArray, y: FloatArray, gamma: float) -> FloatArray:
    return np.array([[np.exp(-gamma * np.sum((a - b) ** 2)) for b in y] for a in x])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 7), st.floats(0.01, 10))
def test_rbf_matches_its_definition(seed: int, m: int, k: int, gamma: float) -> None:
    # MATH.md, section 1: k(x,y) = exp(-gamma ||x-y||^2).
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(m, 3)), random.normal(size=(k, 3))
    np.testing.assert_allclose(rbf(x, y, gamma), naive(x, y, gamma), atol=1e-12)


def test_equal_rows_have_kernel_one_and_none_exceeds_it() -> None:
    # Rounding in the expanded distance must not give k > 1 (brief: degenerate distances).
    x = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32) * 3
    matrix = rbf(x, x, 0.5)
    assert matrix.dtype == np.float64
    assert matrix.max() <= 1.0
    np.testing.assert_allclose(np.diag(matrix), 1.0, atol=1e-11)


def test_blocked_means_are_the_means_of_the_whole_matrix() -> None:
    # Sizes that are no multiple of a block on either side.
    random = np.random.default_rng(1)
    x, y = random.normal(size=(BLOCK_ROWS + 3, 2)), random.normal(size=(2 * BLOCK_ROWS + 1, 2))
    whole = rbf(x, y, 0.7)
    np.testing.assert_allclose(kernel_mean_at(x, y, 0.7), whole.mean(axis=1), rtol=1e-12)
    assert mean_kernel(x, y, 0.7) == pytest.approx(whole.mean(), rel=1e-12)


def test_memory_of_a_mean_does_not_grow_with_the_kernel_matrix() -> None:
    # 6000 x 6000 float64 would be 288 MB; tiles need about 8 MiB a piece.
    x = np.zeros((6000, 1), np.float32)
    tracemalloc.start()
    mean_kernel(x, x, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_the_mean_over_no_rows_is_an_error() -> None:
    # CONVENTIONS: errors carry cause and remedy, never a NaN.
    some, none = np.zeros((3, 2)), np.zeros((0, 2))
    with pytest.raises(DataError, match="no rows"):
        kernel_mean_at(some, none, 1.0)
    with pytest.raises(DataError, match="no rows"):
        mean_kernel(none, some, 1.0)


def test_median_gamma_is_one_over_the_median_squared_distance() -> None:
    # Squared distances of 0, 1 and 3 are 1, 4 and 9.
    assert median_gamma(np.array([[0.0], [1.0], [3.0]])) == pytest.approx(1 / 4)


def test_median_gamma_of_many_rows_uses_the_same_evenly_spaced_rows_each_time() -> None:
    x = np.random.default_rng(2).normal(size=(5000, 3))
    rows = x[np.linspace(0, 4999, 100).round().astype(int)]
    assert median_gamma(x, limit=100) == median_gamma(rows) == median_gamma(x, limit=100)


@pytest.mark.parametrize("x", [np.full((40, 3), 0.3, np.float32), np.zeros((1, 2)), np.zeros((0, 2))])
def test_median_gamma_without_a_scale_asks_for_gamma(x: FloatArray) -> None:
    # Brief: degenerate data end in a DataError whose remedy is to give gamma.
    with pytest.raises(DataError, match="Give gamma"):
        median_gamma(x)
