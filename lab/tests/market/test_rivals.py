"""Published rivals on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.embeddings.kernels import kernel_mean_at, rbf
from lab.market.published.experimental_design import design_rows, design_weights
from lab.market.published.private_kmeans import CentreBudget, nearest, private_centres
from lab.market.published.prototypes import nonnegative_fit, protodash
from lab.market.published.thinning import discrepancy, halve, thin


def test_the_design_for_two_queries_is_the_known_one() -> None:
    """V-optimality on orthogonal rows: L = sum a_i / w_i is least at w_i in proportion to sqrt(a_i)."""
    features, queries = np.eye(4), np.repeat(np.eye(4)[:2], [4, 1], axis=0)
    weights = design_weights(features, queries, 3000)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[:2] / weights[:2].sum() == pytest.approx([2 / 3, 1 / 3], abs=0.02)
    assert weights[2:].max() < 0.01


def test_each_step_of_the_design_lowers_its_loss() -> None:
    """Sherman and Morrison's inverse is that of the second moments that it stands for."""
    rng = np.random.default_rng(0)
    features, queries = rng.normal(size=(300, 6)), rng.normal(size=(40, 6)) * [3, 2, 1, 1, 0.1, 0.1]

    def loss(weights: np.ndarray) -> float:
        second = features.T @ (weights[:, None] * features) + 1e-3 * np.eye(6)
        return float(np.mean(np.einsum("ij,ij->i", queries @ np.linalg.inv(second), queries)))

    few, many = (design_weights(features, queries, steps) for steps in (1, 400))
    assert loss(many) < 0.7 * loss(np.full(300, 1 / 300))
    assert loss(many) < loss(few)


def test_design_rows_are_different_and_follow_the_weights() -> None:
    weights = np.array([0.0, 0.5, 0.0, 0.5])
    assert sorted(design_rows(weights, 2, np.random.default_rng(1)).tolist()) == [1, 3]


def test_protodash_finds_the_rows_of_the_target_and_their_shares() -> None:
    """Rows far apart: the pool's own copies of D_v's rows, weighted as often as they are in it."""
    pool = 10.0 * np.arange(8.0)[:, None]
    target = pool[[2, 2, 5, 7]]
    picked, weights = protodash(
        kernel_mean_at(pool, target, 1.0), lambda places: rbf(pool, pool[places], 1.0), 3
    )
    assert dict(zip(picked.tolist(), weights.round(6).tolist(), strict=True)) == {2: 0.5, 5: 0.25, 7: 0.25}


def test_protodash_stops_where_no_row_helps() -> None:
    pool = np.zeros((3, 1))
    closeness = kernel_mean_at(pool, pool, 1.0)
    picked, weights = protodash(closeness, lambda places: rbf(pool, pool[places], 1.0), 3)
    assert len(picked) == 1
    assert weights == pytest.approx([1.0])


def test_nonnegative_weights_meet_the_conditions_of_karush_kuhn_and_tucker() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20, 3))
    gram, target = rbf(rows, rows, 0.3), rng.normal(size=20)
    weights = nonnegative_fit(gram, target)
    slope = gram @ weights - target
    assert (weights >= 0).all()
    assert (slope > -1e-6).all()
    assert np.abs(slope[weights > 0]).max() < 1e-6


def test_thinning_keeps_one_of_each_pair_of_equal_rows() -> None:
    """The half that has the pool's own mean embedding is there, and swapping finds it."""
    rows = np.repeat(10.0 * np.arange(12.0), 2)[np.random.default_rng(3).permutation(24), None]
    gram = rbf(rows, rows, 1.0)
    thinned = thin(gram, 1, np.random.default_rng(4))
    assert sorted(rows[thinned, 0].tolist()) == [10.0 * i for i in range(12)]


def test_thinning_is_closer_to_the_pool_than_random_rows() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(512, 3))
    gram = rbf(rows, rows, 0.5)
    thinned = thin(gram, 3, rng)
    assert len(set(thinned.tolist())) == 64
    random = [discrepancy(gram, rng.choice(512, 64, replace=False)) for _ in range(50)]
    # Both have -mean(gram), of what the pool is, in common.
    floor = -float(gram.mean())
    assert discrepancy(gram, thinned) - floor < 0.2 * (float(np.median(random)) - floor)


def test_halving_is_closer_to_even_than_coins() -> None:
    """KT-SPLIT alone, without swaps: its two halves differ less than the halves that fair coins make."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(512, 2))
    gram = rbf(rows, rows, 0.5)

    def apart(first: np.ndarray, second: np.ndarray) -> float:
        signs = np.zeros(512)
        signs[first], signs[second] = 1.0, -1.0
        return float(signs @ gram @ signs)

    own = [apart(*halve(gram, np.random.default_rng(seed))) for seed in range(10)]
    shuffled = [rng.permutation(512) for _ in range(10)]
    coins = [apart(order[:256], order[256:]) for order in shuffled]
    assert np.mean(own) < 0.5 * np.mean(coins)


def test_private_centres_without_noise_are_the_means_of_clusters() -> None:
    rng = np.random.default_rng(7)
    means = 0.6 * np.eye(5)[:3]
    rows = np.repeat(means, 200, axis=0) + rng.normal(0.0, 0.01, (600, 5))
    server = np.repeat(means, 3, axis=0) + rng.normal(0.0, 0.02, (9, 5))
    centres = private_centres(rows, server, 3, CentreBudget(1e7, 1e-5), rng)
    order = nearest(means, centres)
    assert sorted(order.tolist()) == [0, 1, 2]
    assert centres[order] == pytest.approx(means, abs=0.005)


def test_noise_of_centres_covers_what_one_row_changes() -> None:
    """Rows of norm 1, one replaced: second moments by at most sqrt 2, sums by centre by at most 2, in L2."""
    rng = np.random.default_rng(8)
    pairs = rng.normal(size=(500, 2, 4))
    pairs /= np.linalg.norm(pairs, axis=2, keepdims=True)
    pairs[0, 1] = -pairs[0, 0]
    moments = [np.linalg.norm(np.outer(a, a) - np.outer(b, b)) for a, b in pairs]
    assert max(moments) <= np.sqrt(2.0) + 1e-12
    assert np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1).max() == pytest.approx(2.0)
    budget = CentreBudget(1.0, 1e-5)
    assert budget.gaussian(2.0, 0.5) > 2.0 * budget.gaussian(1.0)
    assert budget.laplace() == pytest.approx(8.0)
