"""Weights of an owner's rows by an order, and the consumer's pruning: equal to brute force."""

import itertools

import numpy as np
import pytest

from fedkme.embeddings.kernels import kernel_sum_at, rbf
from fedkme.embeddings.mmd import mmd2
from fedkme.embeddings.prune import candidates, greedy, prune, swapped
from fedkme.errors import NotEnoughRowsError
from owner.cells.fill import cell_weights
from sim.evaluation.baselines import exact_kernel_greedy

GAMMA = 0.7
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
CELLS = RNG.integers(0, 4, 40)
ORDER = np.array([0.5, 0.0, 0.2, 0.3, 0.1])  # the code book has cell 4, this owner has no row in it


def test_rows_have_the_share_of_their_cell() -> None:
    # Cells without rows of the owner are left out, in the proportions of the order.
    sizes = np.bincount(CELLS, minlength=5)
    weights = np.array([ORDER[c] / sizes[c] for c in CELLS])
    assert np.allclose(cell_weights(CELLS, ORDER), weights / weights.sum())


def test_an_owner_without_the_cells_weighs_its_rows_alike() -> None:
    only_last = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    assert np.allclose(cell_weights(CELLS, only_last), 1.0 / 40)
    assert np.allclose(cell_weights(CELLS, 0.0 * ORDER), 1.0 / 40)


def test_scores_do_not_depend_on_blocks() -> None:
    rows = RNG.normal(size=(2500, 2))
    weights = np.zeros(2500)
    weights[::2] = 1.0 / 1250
    assert np.allclose(
        kernel_sum_at(rows, rows, weights, GAMMA), rbf(rows, rows, GAMMA) @ weights, atol=1e-12
    )


def test_pruning_starts_as_exact_greedy() -> None:
    validation = RNG.normal(size=(30, 3)) * 0.5
    expected = exact_kernel_greedy(ROWS, validation, None, 8, GAMMA)
    assert greedy(candidates(ROWS, validation, GAMMA), 8).tolist() == expected.tolist()


def test_swaps_end_where_no_exchange_helps() -> None:
    # J never falls, and at the end no pair of a kept and a discarded row improves it: all pairs are tried.
    validation = np.random.default_rng(3).normal(size=(30, 3)) * 1.5
    seen = candidates(ROWS, validation, GAMMA)
    start = greedy(seen, 6)
    chosen = swapped(seen, start)
    assert len(set(chosen.tolist())) == 6
    best = -mmd2(ROWS[chosen], validation, GAMMA)
    assert best > -mmd2(ROWS[start], validation, GAMMA)
    for place, new in itertools.product(range(6), sorted(set(range(40)) - set(chosen.tolist()))):
        other = chosen.copy()
        other[place] = new
        assert -mmd2(ROWS[other], validation, GAMMA) <= best + 1e-9


def test_pruning_few_rows_keeps_them_all() -> None:
    assert prune(ROWS[:5], ROWS, 5, GAMMA).tolist() == [0, 1, 2, 3, 4]
    assert prune(ROWS[:3], ROWS, 5, GAMMA).tolist() == [0, 1, 2]
    with pytest.raises(NotEnoughRowsError, match="0 rows"):
        prune(ROWS, ROWS, 0, GAMMA)
