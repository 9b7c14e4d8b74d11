"""Estimates that a consumer computes from a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from consumer.releases.estimators import Release, expectation, mmd, probability, pushforward, two_sample_test
from curator.releases.methods.balog import Weights, algorithm1
from curator.releases.reduced_set import algorithm2
from curator.releases.subspace import gaussian_points, subspace
from fedkme.arrays import FloatArray
from fedkme.embeddings.mmd import mmd2
from fedkme.embeddings.weighted_points import (
    WeightedPoints,
    distance,
    distance_to_rows,
    distribution,
    resample,
    uniform_points,
)
from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsMap, rbf
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, ReleasedEmbedding, pooled_sum
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(-4.0, 4.0), count=2),))
GAMMA = 0.5
CENTRES = np.array([[-2.0, 0.0], [1.0, 2.0], [2.0, -1.0]])


def rows(rng: np.random.Generator, count: int, shift: float = 0.0) -> FloatArray:
    """Rows of three blobs, optionally shifted."""
    blobs = CENTRES[rng.integers(0, 3, count)] + 0.5 * rng.standard_normal((count, 2))
    return np.clip(blobs + shift, -4, 4)


def points_map(count: int = 60, tolerance: float = 1e-4) -> PointsMap:
    z = gaussian_points(count, 2, 2.0, seed=5)
    features = subspace(z, GAMMA, tolerance=tolerance, units="table").make(SCHEMA)
    assert isinstance(features, PointsMap)
    return features


def released(features: EmbeddingMap, x: FloatArray, epsilon: float, seed: int) -> ReleasedEmbedding:
    pooled = pooled_sum(Table(x), features, Layout())
    sigma = 0.0
    if math.isfinite(epsilon):
        sigma = PooledRelease((embedding_query(features, Layout()),), epsilon, 1e-6).sigmas[0]
    return release_embedding(pooled, features, Layout(), sigma, simulated(seed, "curator", "estimators"))


def algorithm1_release(x: FloatArray, epsilon: float, seed: int, weights: Weights = "free") -> Release:
    features = points_map()
    embedding = released(features, x, epsilon, seed)
    return Release(algorithm1(embedding, features, weights), embedding, features)


def bump(points: FloatArray) -> FloatArray:
    """A function of the RKHS: h = k(a, .) + k(b, .)/2."""
    values: FloatArray = rbf(points, np.array([[-2.0, 0.5], [1.0, 1.0]]), GAMMA) @ np.array([1.0, 0.5])
    return values


def right(points: FloatArray) -> NDArray[np.bool_]:
    """A half plane: its indicator is not in the RKHS."""
    return points[:, 0] > 0.0


def test_an_expectation_without_noise_is_that_of_the_rows() -> None:
    # Equation 4: sum_m w_m h(z_m) = <mean embedding, h>.
    x = rows(np.random.default_rng(0), 3000)
    estimate = expectation(algorithm1_release(x, math.inf, 0), bump)
    assert estimate.noise == 0.0
    assert estimate.value == pytest.approx(float(bump(x).mean()), abs=0.01)
    assert abs(estimate.value - float(bump(x).mean())) <= 3 * estimate.error


@pytest.mark.parametrize("weights", ["free", "simplex"])
def test_the_error_of_an_expectation_covers_noise_and_sampling(weights: Weights) -> None:
    # 40 releases of 40 samples: two errors hold 95 % of normal deviates; of 40, 33 or more with p = .9998.
    population = rows(np.random.default_rng(1), 400_000)
    samples = [rows(np.random.default_rng(100 + seed), 2000) for seed in range(40)]
    releases = [algorithm1_release(x, 0.5, seed, weights) for seed, x in enumerate(samples)]
    functions: Sequence[Callable[[FloatArray], FloatArray]] = (
        bump,
        lambda z: right(z).astype(np.float64),
        lambda z: z[:, 0],
    )
    for h in functions:
        truth = float(h(population).mean())
        estimates = [expectation(release, h) for release in releases]
        assert all(estimate.noise > 0 for estimate in estimates)
        assert sum(abs(estimate.value - truth) <= 2 * estimate.error for estimate in estimates) >= 33
    assert float(binom.sf(32, 40, 0.95)) > 0.999


def test_the_noise_of_a_function_of_the_kernel_is_that_of_repeated_releases() -> None:
    # The part that the release adds is known from sigma: 200 draws over the same rows, within a fifth.
    x = rows(np.random.default_rng(2), 2000)
    releases = [algorithm1_release(x, 0.2, seed) for seed in range(200)]
    estimates = [expectation(release, bump) for release in releases]
    spread = float(np.std([estimate.linear for estimate in estimates]))
    assert np.median([estimate.noise for estimate in estimates]) == pytest.approx(spread, rel=0.2)


def test_a_probability_from_a_reduced_set() -> None:
    # Algorithm 2's points, whose noise is no longer linear: the parts of the error still cover it.
    x = rows(np.random.default_rng(3), 4000)
    features = FourierMapSpec(dimension=400, gamma=GAMMA, seed=7, units="table").make(SCHEMA)
    embedding = released(features, x, 0.5, 1)
    points = algorithm2(
        embedding, features, Balog2Settings(points=30, steps=100, candidates=64, climbs=40), seed=1
    )
    estimate = probability(Release(points, embedding, features), right)
    truth = float(right(x).mean())
    assert abs(estimate.value - truth) <= 2 * estimate.error
    assert estimate.error < 0.25


def test_mmd_is_the_distance_to_the_sample() -> None:
    rng = np.random.default_rng(4)
    x, y = rows(rng, 2000), rows(rng, 300, shift=0.5)
    release = algorithm1_release(x, math.inf, 0)
    assert mmd(release, y) == pytest.approx(math.sqrt(mmd2(x, y, GAMMA)), abs=0.02)
    exact = Release(uniform_points(x), release.embedding, release.features)
    assert mmd(exact, y) == pytest.approx(math.sqrt(mmd2(x, y, GAMMA)), abs=1e-7)


def rejections(features: EmbeddingMap, sigma: float, shift: float, runs: int, level: float) -> int:
    count = 0
    rng = np.random.default_rng(5)
    for seed in range(runs):
        x, y = rows(rng, 1000), rows(rng, 150, shift)
        mean = features.features(x).mean(axis=0) + sigma * rng.standard_normal(features.dimension)
        embedding = ReleasedEmbedding(features.spec, Layout(), mean[:, None], sigma, 1000)
        count += two_sample_test(embedding, features, (y + 4) / 8, draws=500, seed=seed).p_value <= level
    return count


@pytest.mark.parametrize(("kind", "sigma"), [("fourier", 0.0), ("points", 0.005), ("fourier", 0.05)])
def test_the_level_of_the_two_sample_test(kind: str, sigma: float) -> None:
    # Under the null 10 % of the tests reject at level 0.1, whatever the noise. Of 200, 7 to 35 with p = .9998
    # where the level is exactly 0.1.
    features = (
        points_map()
        if kind == "points"
        else FourierMapSpec(dimension=120, gamma=GAMMA, seed=3, units="table").make(SCHEMA)
    )
    rejected = rejections(features, sigma, 0.0, 200, 0.1)
    assert 7 <= rejected <= 35
    assert float(binom.cdf(35, 200, 0.1) - binom.cdf(6, 200, 0.1)) > 0.999


def test_the_power_of_the_two_sample_test() -> None:
    # The test finds larger shifts more often, and noise lowers its power.
    features = points_map()
    small, large, noisy = (
        rejections(features, s, d, 40, 0.05) for s, d in ((0.005, 0.1), (0.005, 0.4), (0.05, 0.4))
    )
    assert large >= 38
    assert small < large
    assert noisy < large


def test_a_test_that_ignored_the_noise_would_reject_everything() -> None:
    # The null law needs sigma: the same means without it.
    features = points_map()
    rng = np.random.default_rng(6)
    x, y = rows(rng, 1000), rows(rng, 150)
    mean = features.features(x).mean(axis=0)[:, None] + 0.05 * rng.standard_normal((features.dimension, 1))
    aware, untold = (
        two_sample_test(ReleasedEmbedding(features.spec, Layout(), mean, sigma, 1000), features, (y + 4) / 8)
        for sigma in (0.05, 0.0)
    )
    assert untold.p_value < 0.001 < 0.01 < aware.p_value
    assert abs(aware.mmd2) < 4 * aware.mmd2_deviation
    assert untold.mmd2 > 4 * untold.mmd2_deviation


def test_the_corrected_mmd_has_no_bias_and_the_deviation_that_it_tells() -> None:
    features = points_map()
    rng = np.random.default_rng(7)
    scores = []
    for _ in range(300):
        x, y = rows(rng, 1000), rows(rng, 150)
        mean = features.features(x).mean(axis=0)[:, None] + 0.01 * rng.standard_normal(
            (features.dimension, 1)
        )
        embedding = ReleasedEmbedding(features.spec, Layout(), mean, 0.01, 1000)
        result = two_sample_test(embedding, features, (y + 4) / 8, draws=10)
        scores.append(result.mmd2 / result.mmd2_deviation)
    assert abs(np.mean(scores)) < 4 / math.sqrt(300)
    assert 0.8 < np.std(scores) < 1.2


def test_the_embedding_of_a_function_of_the_rows() -> None:
    # Section 3.3, 1: f(z) with the same weights, for bounded weights (theorem 11).
    x = rows(np.random.default_rng(8), 4000)

    def squares(points: FloatArray) -> FloatArray:
        return np.abs(points[:, :1]) ** 1.5

    points = algorithm1_release(x, 1.0, 0, "simplex").points
    moved = pushforward(points, squares)
    assert moved.points.shape == (len(points), 1)
    assert distance_to_rows(moved, squares(x), GAMMA) < 0.1
    assert (
        distance_to_rows(
            uniform_points(squares(rows(np.random.default_rng(9), 4000, 1.0))), squares(x), GAMMA
        )
        > 0.2
    )
    with pytest.raises(DataError):
        pushforward(points, lambda z: z[:3])
    with pytest.raises(DataError):
        pushforward(points, lambda z: z * np.nan)


def test_negative_weights_become_the_nearest_distribution() -> None:
    x = rows(np.random.default_rng(10), 3000)
    release = algorithm1_release(x, 0.3, 0)
    assert release.points.weights.min() < 0
    nearest = distribution(release.points, GAMMA)
    assert nearest.points.weights.min() >= 0.0
    assert nearest.points.weights.sum() == pytest.approx(1.0)
    assert nearest.negative == pytest.approx(-release.points.weights[release.points.weights < 0].sum())
    assert nearest.moved == pytest.approx(distance(nearest.points, release.points, GAMMA))
    # Cutting negative weights off instead ends farther from the release and from the rows.
    cut = np.maximum(release.points.weights, 0.0)
    clipped = WeightedPoints(release.points.points, cut / cut.sum())
    assert nearest.moved < distance(clipped, release.points, GAMMA)
    assert distance_to_rows(nearest.points, x, GAMMA) < distance_to_rows(clipped, x, GAMMA)
    again = distribution(nearest.points, GAMMA)
    np.testing.assert_array_equal(again.points.weights, nearest.points.weights)
    assert again.moved == again.negative == 0.0


def test_resampling_keeps_the_weights_to_one_row() -> None:
    points = WeightedPoints(np.arange(8.0).reshape(4, 2), np.array([0.5, 0.0, 0.37, 0.13]))
    for seed in range(20):
        counts = np.bincount(resample(points, 100, seed), minlength=4)
        assert np.abs(counts - 100 * points.weights).max() < 1.0
        assert counts[1] == 0
    draws = [np.bincount(resample(points, 3, seed), minlength=4) for seed in range(3000)]
    # Deviation of a mean of 3000 counts that vary by less than one: below 0.5/sqrt(3000); five of them.
    np.testing.assert_allclose(np.mean(draws, axis=0), 3 * points.weights, atol=5 * 0.5 / math.sqrt(3000))
    np.testing.assert_array_equal(resample(points, 10, 1), resample(points, 10, 1))


def test_invalid_releases_and_functions_are_refused() -> None:
    release = algorithm1_release(rows(np.random.default_rng(11), 500), 1.0, 0)
    with pytest.raises(DataError):
        resample(release.points, 10, 0)
    with pytest.raises(DataError):
        expectation(release, lambda z: z)
    with pytest.raises(DataError):
        expectation(release, lambda z: np.full(len(z), np.nan))
    with pytest.raises(DataError):
        two_sample_test(release.embedding, release.features, np.zeros((3, 2)))
    with pytest.raises(DataError):
        two_sample_test(release.embedding, release.features, np.zeros((30, 5)))
