"""Owner's herding and consumer's pruning: equal to brute force, with defined ties."""

import itertools

import numpy as np
import pytest

from fedkme.embeddings.kernels import kernel_sum_at, rbf
from fedkme.embeddings.mmd import mmd2
from fedkme.embeddings.prune import candidates, greedy, prune, swapped
from fedkme.errors import DataError, NotEnoughRowsError
from owner.cells.fill import cell_weights, herd
from sim.evaluation.baselines import exact_kernel_greedy

GAMMA = 0.7
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
CELLS = RNG.integers(0, 4, 40)
ORDER = np.array([0.5, 0.0, 0.2, 0.3, 0.1])  # the code book has cell 4, this owner has no row in it


def herded(rows: np.ndarray, cells: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    return herd(rows, kernel_sum_at(rows, rows, cell_weights(cells, order), GAMMA), count, GAMMA)


def brute_force(rows: np.ndarray, weights: np.ndarray, count: int) -> list[int]:
    """Each next row is the one whose summary is closest to the target after it: herding, with all kernels."""
    gram = rbf(rows, rows, GAMMA)
    chosen: list[int] = []
    for size in range(count):
        gains = [gram[i] @ weights - gram[i, chosen].sum() / (size + 1) for i in range(len(rows))]
        order = sorted(range(len(rows)), key=lambda i: (-round(gains[i], 12), i))
        chosen.append(next(i for i in order if i not in chosen))
    return chosen


def test_herding_equals_brute_force() -> None:
    # The target is the mean of the ordered cells' means, in the proportions of the order.
    sizes = np.bincount(CELLS, minlength=5)
    weights = np.array([ORDER[c] / sizes[c] for c in CELLS])
    weights /= weights.sum()
    assert np.allclose(cell_weights(CELLS, ORDER), weights)
    assert herded(ROWS, CELLS, ORDER, 12).tolist() == brute_force(ROWS, weights, 12)


def test_a_smaller_order_is_a_prefix_and_a_short_owner_sends_what_it_has() -> None:
    whole = herded(ROWS, CELLS, ORDER, 100)
    assert sorted(whole.tolist()) == list(range(40))
    assert np.array_equal(herded(ROWS, CELLS, ORDER, 7), whole[:7])


def test_an_owner_without_the_cells_weighs_its_rows_alike() -> None:
    only_last = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    assert np.allclose(cell_weights(CELLS, only_last), 1.0 / 40)
    assert np.allclose(cell_weights(CELLS, 0.0 * ORDER), 1.0 / 40)
    assert herded(ROWS, CELLS, only_last, 5).tolist() == brute_force(ROWS, np.full(40, 1 / 40), 5)
    assert not len(herded(ROWS, CELLS, ORDER, 0))
    assert not len(herded(ROWS[:0], CELLS[:0], ORDER, 5))


def test_rows_that_are_sent_in_any_case_are_not_picked() -> None:
    scores = kernel_sum_at(ROWS, ROWS, cell_weights(CELLS, ORDER), GAMMA)
    best = herd(ROWS, scores, 3, GAMMA)
    others = herd(ROWS, scores, 40, GAMMA, best)
    assert sorted([*best.tolist(), *others.tolist()]) == list(range(40))


def test_equal_rows_tie_and_the_first_goes_first() -> None:
    rows = np.repeat(ROWS[:5], 4, axis=0)
    picks = herded(rows, np.zeros(20, np.int64), np.ones(1), 5)
    assert set((picks % 4).tolist()) == {0}


def test_scores_do_not_depend_on_blocks() -> None:
    rows = RNG.normal(size=(2500, 2))
    weights = np.zeros(2500)
    weights[::2] = 1.0 / 1250
    assert np.allclose(
        kernel_sum_at(rows, rows, weights, GAMMA), rbf(rows, rows, GAMMA) @ weights, atol=1e-12
    )
    with pytest.raises(DataError, match="finite scores"):
        herd(ROWS, np.full(40, np.nan), 3, GAMMA)


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
