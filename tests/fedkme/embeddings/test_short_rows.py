"""Kernels of rows in few coordinates, compared with the exact kernel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkme.embeddings.kernels import kernel_mean_at, median_gamma, rbf
from fedkme.embeddings.selection import DROPPED, NARROW, ShortRows, shorten


def curved(size: int, width: int) -> NDArray[np.float32]:
    """Rows of fast falling variances, far from 0."""
    random = np.random.default_rng(1)
    scales = 1.0 / np.arange(1, width + 1) ** 1.5
    return (5.0 + random.normal(size=(size, width)) * scales).astype(np.float32)


def exponents(short: ShortRows) -> NDArray[np.float64]:
    return (short.left @ short.right.T).astype(np.float64)


@pytest.mark.parametrize("width", [1, 7, NARROW])
def test_narrow_rows_have_their_exact_kernel(width: int) -> None:
    rows = curved(300, width)
    gamma = median_gamma(rows)
    short = shorten(rows, gamma)
    assert np.abs(np.exp(exponents(short)) - rbf(rows, rows, gamma)).max() < 1e-5
    assert np.abs(short.means() - kernel_mean_at(rows, rows, gamma)).max() < 1e-6


@pytest.mark.parametrize("count", [40, 1500, 2100])
def test_first_rows_have_their_exact_kernel_and_means_over_all_rows(count: int) -> None:
    rows = curved(2100, NARROW + 6)
    gamma = median_gamma(rows)
    candidates, means = shorten(rows, gamma, whole=True).first(count)
    first = rows[:count]
    assert np.abs(candidates.gram - rbf(first, first, gamma)).max() < 1e-5
    assert candidates.column(7).tolist() == candidates.gram[7].tolist()
    assert np.abs(means - kernel_mean_at(first, rows, gamma)).max() < 1e-6


def test_wide_rows_stay_within_the_allowed_root_mean_square_error() -> None:
    rows = curved(3000, 200)
    gamma = median_gamma(rows)
    short = shorten(rows, gamma)
    assert short.left.shape[1] < 60  # of 202
    exact = np.log(rbf(rows, rows, gamma))
    lost = np.sqrt(np.mean((exponents(short) - exact)[~np.eye(len(rows), dtype=bool)] ** 2))
    assert 0.2 * DROPPED < lost < 1.1 * DROPPED
    means, wanted = short.means(), kernel_mean_at(rows, rows, gamma)
    assert np.abs(means - wanted).max() < 0.1 * DROPPED  # what is left out is 0 in the mean
    assert abs(means.mean() - wanted.mean()) < DROPPED**2


def test_a_row_has_kernel_one_with_itself() -> None:
    short = shorten(curved(900, 100), 3.0)
    for row in (0, 899):
        assert short.column(row)[row] == 1.0
    assert (short.means() >= 1.0 / 900).all()


def test_rows_with_more_columns_than_rows_keep_all_coordinates() -> None:
    rows = curved(20, 100)
    gamma = median_gamma(rows)
    assert np.abs(np.exp(exponents(shorten(rows, gamma))) - rbf(rows, rows, gamma)).max() < 1e-5
