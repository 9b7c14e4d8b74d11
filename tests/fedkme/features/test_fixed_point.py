"""Exact arithmetic of bids: the same bits everywhere (DESIGN.md, decision 1), and the cost of a bid."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.features.fixed_point import (
    FEATURE_UNIT,
    MAX_DIMENSION,
    MEAN_LIMIT,
    MEAN_UNIT,
    FeatureMean,
    Features,
    MeanVector,
    NearScores,
    ScoredFeatures,
    feature_mmd2,
    marginal_gain,
    normalised_features,
    normalised_mean,
    quantize_features,
    quantize_mean,
)

D = 12
ONE = 2**14  # the largest feature, in fixed point


def random_features(count: int, seed: int, dimension: int = D) -> Features:
    return np.random.default_rng(seed).integers(-ONE, ONE, (count, dimension), np.int16, endpoint=True)


def random_mean(seed: int, dimension: int = D) -> MeanVector:
    return np.random.default_rng(seed).integers(-MEAN_LIMIT, MEAN_LIMIT, dimension, np.int32, endpoint=True)


def scored(features: Features, target: MeanVector, capacity: int = 64) -> ScoredFeatures:
    fresh = ScoredFeatures(features.shape[1], target, capacity)
    fresh.append(features)
    return fresh


def bids_by_integers(features: Features, target: MeanVector, mean: MeanVector, size: int) -> FloatArray:
    """The bid with inner products in Python's integers, which cannot overflow."""
    rows = features.astype(object)
    to_target, to_mean = rows @ target.astype(object), rows @ mean.astype(object)
    unit = 2.0 / features.shape[1] * FEATURE_UNIT * MEAN_UNIT
    factor = size / (size + 1)
    return np.array([(float(t) - factor * float(m)) * unit for t, m in zip(to_target, to_mean, strict=True)])


features_arrays = npst.arrays(
    np.int16, st.tuples(st.integers(0, 6), st.just(D)), elements=st.integers(-ONE, ONE)
)
means = npst.arrays(np.int32, D, elements=st.integers(-MEAN_LIMIT, MEAN_LIMIT))


@given(features_arrays, means, means, st.integers(0, 10**6))
def test_bids_are_integer_arithmetic(
    features: Features, target: MeanVector, mean: MeanVector, size: int
) -> None:
    bids = scored(features, target).bids(mean, size)
    assert np.array_equal(bids, bids_by_integers(features, target, mean, size))


def test_the_largest_possible_inner_product_is_exact() -> None:
    # MEAN_LIMIT and MAX_DIMENSION: every sum stays at or below 2^53. One odd term shows lost bits.
    features = np.full((2, MAX_DIMENSION), ONE, dtype=np.int16)
    features[1, 0] -= 1
    target = np.full(MAX_DIMENSION, MEAN_LIMIT, dtype=np.int32)
    assert ONE * MEAN_LIMIT * MAX_DIMENSION <= 2**53
    bids = scored(features, target).bids(np.zeros_like(target), 0)
    assert np.array_equal(bids, bids_by_integers(features, target, np.zeros_like(target), 0))
    assert bids[0] > bids[1]


Step = tuple[str, int, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9), st.integers(0, 99)),
        st.tuples(st.just("mean"), st.integers(0, D), st.integers(0, 99)),
    ),
    max_size=12,
)


@given(steps, st.integers(1, 5))
def test_updated_bids_equal_bids_computed_afresh(todo: list[Step], capacity: int) -> None:
    # A bid reads only the changed coordinates of g. Its bits are the same whether few or many coordinates
    # change, and whatever rows are appended in between (the curator's pool grows).
    target, mean = random_mean(0), np.zeros(D, dtype=np.int32)
    rows = random_features(0, 0)
    scored_rows = ScoredFeatures(D, target, capacity)
    for size, (what, count, seed) in enumerate(todo):
        if what == "append":
            rows = np.concatenate([rows, random_features(count, seed)])
            scored_rows.append(rows[len(scored_rows) :])
        else:
            changed = np.random.default_rng(seed).permutation(D)[:count]
            mean[changed] = random_mean(seed)[changed]
        assert np.array_equal(scored_rows.bids(mean, size), scored(rows, target).bids(mean, size))
    assert len(scored_rows) == len(rows)
    assert all(np.array_equal(scored_rows.features(row), rows[row]) for row in range(len(rows)))


@settings(max_examples=10)
@given(st.lists(st.integers(1, 9000), max_size=4), st.integers(0, 64))
def test_the_size_of_blocks_changes_no_bid(cuts: list[int], capacity: int) -> None:
    # fixed_point, head: exact in any order of summation, so blocks of any size and BLAS are free to choose.
    rows, target, mean = random_features(9000, 1), random_mean(2), random_mean(3)
    pieces = ScoredFeatures(D, target, capacity)
    for piece in np.split(rows, sorted(cuts)):
        pieces.append(piece)
    assert np.array_equal(pieces.bids(mean, 5), scored(rows, target, 9000).bids(mean, 5))


def counted(features: Features, monkeypatch: pytest.MonkeyPatch) -> tuple[ScoredFeatures, list[int]]:
    """Scored rows, and the number of rows of each pass over all coordinates."""
    passes: list[int] = []
    whole = ScoredFeatures._score

    def score(self: ScoredFeatures, vector: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        passes.append(stop - start)
        whole(self, vector, scores, start, stop)

    monkeypatch.setattr(ScoredFeatures, "_score", score)
    result = scored(features, random_mean(0))
    passes.clear()
    return result, passes


@pytest.mark.parametrize(("changes", "whole_passes"), [(0, 0), (1, 0), (5, 0), (6, 1), (D, 1)])
def test_a_bid_costs_at_most_one_pass_and_less_for_few_changes(
    changes: int, whole_passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At most one pass over the feature matrix; where h2 changes only a few coordinates of g, only those.
    rows, passes = counted(random_features(50, 1), monkeypatch)
    mean = np.zeros(D, dtype=np.int32)
    mean[:changes] = 7
    rows.bids(mean, 3)
    assert passes == [50] * whole_passes
    rows.bids(mean, 4)  # the same g again: no pass at all
    assert len(passes) == whole_passes


MANY = 5000


def near_ties(count: int, seed: int) -> Features:
    """Rows of which every twentieth is twice the first, but in three coordinates; the others are shorter."""
    rows = random_features(count, seed) // 4
    rows[1::20, 3:] = 2 * rows[0, 3:]
    return rows


@given(st.lists(st.tuples(st.integers(0, D), st.integers(0, 20), st.integers(0, 99)), max_size=12))
@settings(max_examples=25, deadline=None)
def test_the_best_bid_is_the_largest_of_all_bids(todo: list[tuple[int, int, int]]) -> None:
    # Rows are nearly equal, equal, sold, or appended later; coordinates of g change by little and by much.
    rows, mean = near_ties(MANY, 0), np.zeros(D, dtype=np.int32)
    target = quantize_mean(normalised_features(rows[0]))  # rows that are nearly alike bid most at first
    target[:3] = 1, -1, 2
    by_best, by_bids = scored(rows, target), scored(rows, target)
    for size, (changes, bits, seed) in enumerate(todo):
        changed = np.random.default_rng(seed).permutation(D)[:changes]
        mean[changed] = random_mean(seed)[changed] >> bits
        mean[:3] >>= 20
        if seed % 3 == 0:
            for scored_rows in (by_best, by_bids):
                scored_rows.append(near_ties(20 + seed, seed))
        bids = by_bids.bids(mean, size)
        best, value = by_best.best(mean, size)
        assert (best, value) == (int(bids.argmax()), float(bids.max()))
        for scored_rows in (by_best, by_bids):
            scored_rows.retire(best)


def test_float32_scores_stay_within_their_error_and_alone_choose_another_row() -> None:
    # Otherwise the test of the best bid would pass without any bound.
    rows, near, wrong = near_ties(MANY, 0), NearScores(D), 0
    mean = np.zeros(D, dtype=np.int32)
    near.follow(np.ascontiguousarray(rows.T), mean.astype(np.float64))
    for seed in range(30):
        if seed == 5:
            mean = quantize_mean(60 * normalised_features(rows[0]))
        mean[:3] = random_mean(seed)[:3] >> (20 if seed >= 5 else 0)
        exact = mean.astype(np.float64) @ rows.T.astype(np.float64)
        near.follow(np.ascontiguousarray(rows.T), mean.astype(np.float64))
        off = np.abs(near.scores - exact).max()
        assert off <= near.off < 2e-5 * np.abs(exact).max()
        wrong += int(near.scores.argmax() != exact.argmax())
    assert wrong


def test_equal_rows_are_scored_exactly() -> None:
    rows, target = np.repeat(random_features(1, 3), MANY, axis=0), random_mean(4)
    scored_rows = scored(rows, target)
    for sold in range(3):
        assert scored_rows.best(random_mean(5), 7) == (
            sold,
            scored(rows[:1], target).bids(random_mean(5), 7)[0],
        )
        scored_rows.retire(sold)
    for row in range(MANY):
        scored_rows.retire(row)
    assert scored_rows.best(random_mean(5), 7) == (0, -math.inf)


def test_bids_are_the_marginal_gain_of_the_unrounded_features() -> None:
    # MATH.md, "Bid": g~ . h - q/(q+1) g . h. Rounding costs 2^-14 a coordinate, so less than
    # 2 (|g~|_1 + |g|_1) / d * 2^-14 < 3e-4 here.
    random = np.random.default_rng(4)
    u, target, mean = (random.uniform(-1, 1, shape) for shape in ((30, D), D, D))
    scale = math.sqrt(2 / D)
    expected = marginal_gain(scale * u @ (scale * target), scale * u @ (scale * mean), 9)
    bids = scored(quantize_features(u), quantize_mean(target)).bids(quantize_mean(mean), 9)
    np.testing.assert_allclose(bids, expected, atol=3e-4, rtol=0)


@given(features_arrays, means, means, st.integers(0, 1000), st.data())
def test_the_tolerance_covers_one_unit_in_every_coordinate(
    features: Features, target: MeanVector, mean: MeanVector, size: int, data: st.DataObject
) -> None:
    # Two hosts may round a cosine to neighbouring units: that must never read as a mismatch (step 8).
    off = data.draw(npst.arrays(np.int16, features.shape, elements=st.integers(-1, 1)))
    unshifted, shifted = scored(features, target), scored(features + off, target)
    difference = np.abs(unshifted.bids(mean, size) - shifted.bids(mean, size))
    rounding = 1e-12 * unshifted.tolerance(size)  # of the two float64 bids themselves
    assert np.all(difference <= unshifted.tolerance(size) + rounding)


def test_the_tolerance_is_reached() -> None:
    # An owner can change its bid by so much unseen: with q = 0, exactly the worst change of one unit each.
    target, nothing = random_mean(1), np.zeros(D, dtype=np.int32)
    worst = scored(np.sign(target)[np.newaxis].astype(np.int16), target)
    assert worst.bids(nothing, 0)[0] == worst.tolerance(0)


@given(npst.arrays(np.float64, (2, D), elements=st.floats(-1, 1)))
def test_features_are_rounded_towards_zero(u: FloatArray) -> None:
    # Rounding never lengthens h1(x) and changes a coordinate by less than a unit; multiples of 2^-14 are
    # exact.
    back = normalised_features(quantize_features(u))
    assert np.all(np.abs(back) <= np.abs(u))
    assert np.all(np.abs(u - back) < FEATURE_UNIT)
    assert np.array_equal(quantize_features(back), quantize_features(u))


@given(npst.arrays(np.float64, D, elements=st.floats(-100, 100)))
def test_means_are_rounded_to_the_nearest_unit_and_cut_at_the_limit(mean: FloatArray) -> None:
    # MEAN_LIMIT: 64 in normalised units, beyond any useful noise; a Gaussian release can pass it.
    quantized = quantize_mean(mean)
    assert np.abs(quantized).max() <= MEAN_LIMIT
    inside = np.abs(mean) <= MEAN_LIMIT * MEAN_UNIT
    assert np.all(np.abs(normalised_mean(quantized) - mean)[inside] <= MEAN_UNIT / 2)
    assert np.all(quantized[~inside] == np.sign(mean[~inside]) * MEAN_LIMIT)


@given(features_arrays, st.randoms(use_true_random=False))
def test_the_mean_is_an_integer_sum_in_any_order(features: Features, random: Random) -> None:
    together, apart = FeatureMean(D), FeatureMean(D)
    together.add(features)
    for row in random.sample(list(features), len(features)):
        apart.add(row[np.newaxis])
    assert together.count == apart.count == len(features)
    assert np.array_equal(together.normalised(), apart.normalised())
    exact: NDArray[Any] = features.astype(object).sum(axis=0) if len(features) else np.zeros(D)
    expected = [float(total) * (FEATURE_UNIT / max(len(features), 1)) for total in exact]
    assert together.normalised().tolist() == expected


def test_distance2_is_the_squared_distance_of_two_means_of_h1() -> None:
    # Progress shows this estimate of MMD.
    rows, target = random_features(7, 8), quantize_mean(np.linspace(-1, 1, D))
    mean = FeatureMean(D)
    mean.add(rows)
    scale = math.sqrt(2 / D)
    expected = feature_mmd2(scale * normalised_mean(target), scale * normalised_features(rows).mean(axis=0))
    assert mean.distance2(target) == pytest.approx(expected, rel=1e-12)
