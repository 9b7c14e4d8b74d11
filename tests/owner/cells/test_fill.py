"""Rows that fill an order: drawn rows first, as many in all as ordered or available."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.directives import SHARES, FillOrder
from fedkme.privacy.noise import SecureNoise, simulated
from owner.cells.fill import drawn_rows, fill_order

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3))
CELLS = RNG.integers(0, 4, 30)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 45), st.floats(0, 1), st.integers(0, 31), st.integers(0, 2**32))
def test_an_order_gets_as_many_rows_as_ordered_or_all(count: int, share: float, mask: int, seed: int) -> None:
    # The length of an answer is min(n_j, m_j), whatever cells are ordered.
    shares = np.array([mask >> cell & 1 for cell in range(5)], dtype=np.float64)
    order = FillOrder(count, shares / max(shares.sum(), 1.0), round(share * count))
    drawn = drawn_rows(30, order.uniform, simulated(seed, "a", "draw"))
    chosen = fill_order(ROWS, CELLS, order, drawn, 0.7, seed)
    assert len(set(chosen.tolist())) == len(chosen) == min(count, 30)
    assert chosen[: len(drawn)].tolist() == drawn.tolist()


TINY = [0.0, 5e-324, 1e-310, 1e-160, 1e-30, 0.5]


@given(
    st.sampled_from([2.0**-40, 0.7, 40.0, 730.0, 2.0**40]),
    st.lists(st.sampled_from(TINY), min_size=5, max_size=5),
)
def test_no_gamma_or_share_of_a_peer_makes_denormal_numbers_of_rows(
    gamma: float, shares: list[float]
) -> None:
    # Some processors take a hundred times as long for them, so that the time of an answer told of the rows.
    order = FillOrder(6, SHARES.array(shares, (5,), "shares"), 1)
    with np.errstate(under="raise"):
        fill_order(ROWS, CELLS, order, np.array([3]), gamma, 1)


def test_uniform_rows_are_drawn_alike() -> None:
    # 2,000 draws of 3 of 6: each row's count is within 5 deviations of 1,000; a chance of 4e-6 in all.
    noise = simulated(1, "a", "draw")
    drawn = np.concatenate([drawn_rows(6, 3, noise) for _ in range(2_000)])
    assert np.abs(np.bincount(drawn, minlength=6) - 1_000).max() < 5 * np.sqrt(2_000 / 4)


@pytest.mark.parametrize("count", [0, 2, 9])
def test_a_draw_is_without_replacement(count: int) -> None:
    drawn = drawn_rows(5, count, SecureNoise())
    assert len(set(drawn.tolist())) == len(drawn) == min(count, 5)
