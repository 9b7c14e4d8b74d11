"""fedkme.embeddings.mmd: eq. 1, eq. 3 and the bid (SARPATWAR.md, section 2; errata 1 to 4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.embeddings.kernels import mean_kernel, rbf
from fedkme.embeddings.mmd import FloatArray, mmd2
from fedkme.features.fixed_point import feature_mmd2, marginal_gain

GAMMA = 0.3
INSTANCES = 200


def instance(seed: int) -> tuple[list[FloatArray], list[FloatArray]]:
    """Random D_v (m), S (q) and candidates, with exact features: rows of a factor L of K = L L^T."""
    random = np.random.default_rng(seed)
    m, q, candidates = (int(random.integers(low, high)) for low, high in [(1, 12), (0, 15), (10, 30)])
    rows = random.normal(size=(m + q + candidates, 6))
    factor: FloatArray = np.linalg.cholesky(rbf(rows, rows, GAMMA) + 1e-13 * np.eye(len(rows)))
    parts = np.split(np.arange(len(rows)), [m, m + q])
    return [rows[part] for part in parts], [factor[part] for part in parts]


def mean(features: FloatArray) -> FloatArray:
    total: FloatArray = features.sum(axis=0)
    return total / max(len(features), 1)


def objective(summary: FloatArray, validation: FloatArray, gamma: float) -> float:
    """J(S) = 2 mean k(D_v, S) - mean k(S, S) (Sarpatwar 2019, eq. 3); larger is better."""
    return 2.0 * mean_kernel(validation, summary, gamma) - mean_kernel(summary, summary, gamma)


def objectives(validation: FloatArray, summary: FloatArray, candidates: FloatArray) -> FloatArray:
    return np.array([objective(np.vstack([summary, x]), validation, GAMMA) for x in candidates])


def test_the_best_bid_is_the_exact_argmax_of_j() -> None:
    for seed in range(INSTANCES):
        (validation, summary, candidates), (f_validation, f_summary, f_candidates) = instance(seed)
        bids = marginal_gain(f_candidates @ mean(f_validation), f_candidates @ mean(f_summary), len(summary))
        assert np.argmax(bids) == np.argmax(objectives(validation, summary, candidates))


def test_the_misprinted_sign_never_gives_the_argmax_of_j() -> None:
    # Errata 1: g_l . h1 - g~ . h1 l/(l+1) maximises distance from the target (0 of 1000 in SARPATWAR.md).
    agreements = 0
    for seed in range(INSTANCES):
        (validation, summary, candidates), (f_validation, f_summary, f_candidates) = instance(seed)
        size = len(summary)
        target, present = mean(f_validation), mean(f_summary)
        printed = f_candidates @ (present - (size + 1) / (size + 2) * target)
        agreements += np.argmax(printed) == np.argmax(objectives(validation, summary, candidates))
    assert agreements == 0


def test_the_gain_matches_the_corrected_equation_12() -> None:
    # SARPATWAR.md, section 2, and errata 4 (factor 2 and the third sign), to 1e-12.
    for seed in range(INSTANCES):
        (validation, summary, candidates), _ = instance(seed)
        q, m = len(summary), len(validation)
        if q == 0:
            continue  # J of the empty set is undefined (errata 24)
        closeness = rbf(candidates, validation, GAMMA).mean(axis=1)
        crowding = rbf(candidates, summary, GAMMA).mean(axis=1)
        bid = closeness - q / (q + 1) * crowding
        gain = (
            2 / (q + 1) * bid
            - 1 / (q + 1) ** 2
            + 2 * (1 / (q + 1) - 1 / q) * rbf(validation, summary, GAMMA).sum() / m
            - (1 / (q + 1) ** 2 - 1 / q**2) * rbf(summary, summary, GAMMA).sum()
        )
        difference = objectives(validation, summary, candidates) - objective(summary, validation, GAMMA)
        np.testing.assert_allclose(gain, difference, atol=1e-12, rtol=0)


def test_mmd2_is_the_v_statistic_and_j_is_its_mirror() -> None:
    # Eq. 1 by its sums, and eq. 3: J(S) = mean k(D_v, D_v) - MMD^2(D_v, S).
    random = np.random.default_rng(3)
    x, y = random.normal(size=(5, 2)), random.normal(size=(7, 2)) + 1
    xx, xy, yy = rbf(x, x, GAMMA), rbf(x, y, GAMMA), rbf(y, y, GAMMA)
    expected = xx.sum() / 25 - 2 * xy.sum() / 35 + yy.sum() / 49
    assert mmd2(x, y, GAMMA) == pytest.approx(expected, abs=1e-14)
    assert objective(x, y, GAMMA) == pytest.approx(yy.mean() - expected, abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_mmd2_is_a_squared_distance(seed: int, m: int, k: int) -> None:
    # A squared norm: not negative, symmetric, 0 for the same rows in another order, at most 2.
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(m, 2)), random.normal(size=(k, 2))
    assert 0.0 <= mmd2(x, y, GAMMA) <= 2.0
    assert mmd2(x, y, GAMMA) == pytest.approx(mmd2(y, x, GAMMA), abs=1e-14)
    assert mmd2(x, random.permutation(x), GAMMA) < 1e-14


def test_feature_mmd2_is_mmd2_when_features_are_exact() -> None:
    # Rounds show the distance of the broadcast means as the estimate of MMD^2.
    (validation, summary, _), (f_validation, f_summary, _) = instance(11)
    estimate = feature_mmd2(mean(f_validation), mean(f_summary))
    assert estimate == pytest.approx(mmd2(summary, validation, GAMMA), abs=1e-12)
