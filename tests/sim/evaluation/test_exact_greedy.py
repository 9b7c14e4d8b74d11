"""sim.evaluation.baselines: the exact-kernel baseline of issue 2, item 4."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.arrays import FloatArray
from fedkme.embeddings.mmd import mmd2
from fedkme.errors import NotEnoughRowsError
from sim.evaluation.baselines import exact_kernel_greedy

GAMMA = 0.5


def brute_force(rows: FloatArray, validation: FloatArray, seeds: FloatArray, p: int) -> list[int]:
    """Greedy by evaluating J (eq. 3) of every S + x."""
    summary = seeds
    chosen: list[int] = []
    for _ in range(p):
        scores = [
            -np.inf if i in chosen else -mmd2(np.vstack([summary, row]), validation, GAMMA)
            for i, row in enumerate(rows)
        ]
        chosen.append(int(np.argmax(scores)))
        summary = np.vstack([summary, rows[chosen[-1]]])
    return chosen


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 6))
def test_greedy_picks_the_rows_of_brute_force(seed: int, p: int, seed_rows: int) -> None:
    # Each pick is argmax J(S + x), with the seed set counted in S and without one.
    random = np.random.default_rng(seed)
    rows, validation = random.normal(size=(15, 3)), random.normal(size=(6, 3)) + 0.5
    seeds = random.normal(size=(seed_rows, 3))
    chosen = exact_kernel_greedy(rows, validation, seeds, p, GAMMA)
    assert chosen.tolist() == brute_force(rows, validation, seeds, p)
    assert seed_rows or exact_kernel_greedy(rows, validation, None, p, GAMMA).tolist() == chosen.tolist()


def test_equal_rows_are_picked_once_each_and_in_order() -> None:
    # A row belongs to the summary at most once, even when its twin is as good.
    rows = np.zeros((3, 2))
    assert exact_kernel_greedy(rows, rows[:1], None, 3, GAMMA).tolist() == [0, 1, 2]


def test_float32_rows_give_a_summary_as_good() -> None:
    # Brief: float32 rows allowed; the loss against float64 is rounding.
    random = np.random.default_rng(5)
    rows, validation = random.normal(size=(400, 20)), random.normal(size=(50, 20))
    exact = rows[exact_kernel_greedy(rows, validation, None, 30, 0.02)]
    single = rows[exact_kernel_greedy(rows.astype(np.float32), validation.astype(np.float32), None, 30, 0.02)]
    assert mmd2(single, validation, 0.02) == pytest.approx(mmd2(exact, validation, 0.02), rel=1e-3)


def test_more_rows_than_there_are_is_an_error_before_any_pick() -> None:
    # P may exceed the rows there are (a clear error).
    with pytest.raises(NotEnoughRowsError, match="4 rows was asked for and there are 3"):
        exact_kernel_greedy(np.zeros((3, 1)), np.zeros((1, 1)), None, 4, GAMMA)
