"""Balog 2018, Algorithms 1 and 2, over pooled embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from curator.releases.methods.balog import Weights, algorithm1
from curator.releases.reduced_set import Step, algorithm2
from curator.releases.subspace import gaussian_points, matched_tolerance, subspace
from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.weight_fit import fit_weights
from fedkme.embeddings.weighted_points import WeightedPoints, distance, distance_to_rows, uniform_points
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMap, FourierMapSpec
from fedkme.features.kernel_points import PointsMap, rbf
from fedkme.features.kernel_space import to_table
from fedkme.features.maps import EmbeddingMap, spec_from_json, spec_to_json
from fedkme.features.sums import Layout, ReleasedEmbedding, pooled_sum, same_class_distance
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(-4.0, 4.0), count=2),))
GAMMA = 0.5


def rows(count: int, seed: int = 0) -> FloatArray:
    """Three blobs."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-2.0, 0.0], [1.0, 2.0], [2.0, -1.0]])
    return np.clip(centres[rng.integers(0, 3, count)] + 0.5 * rng.standard_normal((count, 2)), -4, 4)


def points_map(z: FloatArray, tolerance: float = 1e-5) -> PointsMap:
    features = subspace(z, GAMMA, tolerance, units="table").make(SCHEMA)
    assert isinstance(features, PointsMap)
    return features


def released(
    features: EmbeddingMap, x: FloatArray, epsilon: float = math.inf, seed: int = 0
) -> ReleasedEmbedding:
    pooled = pooled_sum(Table(x), features, Layout())
    sigma = 0.0
    if math.isfinite(epsilon):
        sigma = PooledRelease((embedding_query(features, Layout()),), epsilon, 1e-6).sigmas[0]
    return release_embedding(pooled, features, Layout(), sigma, simulated(seed, "curator", "balog"))


def best_distance(z: FloatArray, x: FloatArray) -> float:
    """Brute force: distance of the rows' embedding to the span of the k(z, .), by the pseudo-inverse."""
    at = rbf(z, x, GAMMA).mean(axis=1)
    inside = at @ np.linalg.pinv(rbf(z, z, GAMMA), rcond=1e-10, hermitian=True) @ at
    return math.sqrt(max(mean_kernel(x, x, GAMMA) - float(inside), 0.0))


def test_algorithm_1_without_noise_is_the_projection() -> None:
    # Line 6: the projection onto the span; it can only come closer as points are added.
    x, z = rows(400), gaussian_points(40, 2, 2.0, seed=1)
    distances = []
    for M in (2, 5, 12, 40):
        features = points_map(z[:M], 1e-9)
        points = algorithm1(released(features, x), features)
        distances.append(distance_to_rows(points, x, GAMMA))
        assert distances[-1] == pytest.approx(best_distance(z[:M], x), abs=2e-5)
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.3 * distances[0]


def test_a_basis_is_orthonormal_whatever_the_points() -> None:
    # The sensitivity rests on it; duplicates and near duplicates are left out and change nothing.
    z = gaussian_points(30, 2, 1.0, seed=2)
    twice = np.concatenate([z, z[:10], z[:5] + 1e-9])
    once, doubled = points_map(z), points_map(twice)
    for features in (once, doubled):
        gram = (
            features.whitening
            @ rbf(features.spec.matrix(), features.spec.matrix(), GAMMA)
            @ features.whitening.T
        )
        np.testing.assert_allclose(gram, np.eye(features.dimension), atol=1e-8)
        assert features.norm_bound == pytest.approx(1.0, abs=1e-6)
        assert same_class_distance(features) <= math.sqrt(2.0) * features.norm_bound
    assert doubled.dimension <= 30
    x = rows(200)
    distances = [distance_to_rows(algorithm1(released(f, x), f), x, GAMMA) for f in (once, doubled)]
    assert distances[0] == pytest.approx(distances[1], abs=3e-3)  # the truncation's tolerance


def test_the_truncation_keeps_every_point_within_its_tolerance() -> None:
    z, tolerance = gaussian_points(80, 2, 1.0, seed=3), 1e-3
    coarse = points_map(z, tolerance=tolerance)
    at = coarse.of_model((z + 4.0) / 8.0)
    missed = 1.0 - (at**2).sum(axis=1)
    assert missed.max() <= tolerance * (1 + 1e-6)
    assert coarse.dimension < points_map(z, tolerance=1e-6).dimension


def test_a_tolerance_matched_to_the_noise() -> None:
    # Coarse where a basis function costs much, and never so fine that the basis is rounding error.
    tolerances = [matched_tolerance(epsilon, 1e-6, 100_000) for epsilon in (1e-4, 0.01, 0.1, 1.0, 100.0)]
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[0] == 1e-2
    assert tolerances[-1] == 1e-8
    x, z = rows(2000), rows(300, 8)
    errors = []
    for tolerance in (matched_tolerance(0.01, 1e-6, 2000), 1e-8):
        features = points_map(z, tolerance=tolerance)
        errors.append(distance_to_rows(algorithm1(released(features, x, 0.01), features), x, GAMMA))
    assert errors[0] < errors[1]


def test_noise_is_calibrated_to_the_coordinates() -> None:
    # "The sensitivity is computed from the feature map's norm bound". MATH.md has
    # 4.2247 per unit at (1, 1e-6), and kernel functions are at most sqrt(2) apart.
    features, x = points_map(gaussian_points(25, 2, 2.0, seed=4)), rows(500)
    sigma = released(features, x, 1.0).sigma
    assert sigma * 500 == pytest.approx(4.2247 * math.sqrt(2.0), rel=1e-3)
    # The error of line 8 in the RKHS is that noise: F coordinates, orthonormal.
    exact = algorithm1(released(features, x), features)
    errors = [
        distance(algorithm1(released(features, x, 1.0, seed), features), exact, GAMMA) ** 2
        for seed in range(60)
    ]
    expected = features.dimension * sigma**2
    # The mean of 60 F chi-squares: relative deviation sqrt(2/(60 F)) = 0.038 at F = 23; five of them.
    assert np.mean(errors) == pytest.approx(expected, rel=5 * math.sqrt(2 / (60 * features.dimension)))


@pytest.mark.parametrize("constraint", ["l1", "simplex"])
def test_constrained_weights(constraint: Weights) -> None:
    # Theorem 11: argmin over the L1 ball. The bound holds exactly, and noise is taken away rather than added.
    x, z = rows(2000), gaussian_points(60, 2, 2.0, seed=5)
    features = points_map(z)
    noisy = released(features, x, 0.1, seed=1)
    free = algorithm1(noisy, features)
    bounded = algorithm1(noisy, features, constraint, points=z)
    assert free.l1 > 1.5
    assert len(bounded) == 60
    assert bounded.l1 <= 1.0 + 1e-12
    assert distance_to_rows(bounded, x, GAMMA) < distance_to_rows(free, x, GAMMA)
    if constraint == "simplex":
        assert bounded.weights.min() >= 0.0
        assert bounded.weights.sum() == pytest.approx(1.0)
    wide = algorithm1(noisy, features, "l1", bound=free.l1 + 1.0)
    assert distance(wide, free, GAMMA) < 5e-3  # a ball that holds the free weights changes nothing


@pytest.mark.parametrize("constraint", ["l1", "simplex"])
def test_the_certificate_of_fitted_weights_is_true(constraint: Any) -> None:
    # Fit.gap bounds what any feasible weights could gain: here against many random ones.
    rng = np.random.default_rng(6)
    z = rng.normal(size=(8, 2))
    gram = rbf(z, z, GAMMA)
    target = gram @ rng.normal(size=8)
    fit = fit_weights(gram, target, constraint)

    def objective(w: FloatArray) -> float:
        return float(w @ gram @ w - 2 * target @ w)

    others = rng.dirichlet(np.full(8, 0.3), size=5000)
    if constraint == "l1":
        others = others * rng.choice([-1.0, 1.0], size=others.shape) * rng.random((5000, 1)) ** 0.1
    reached = objective(fit.weights)
    assert fit.gap <= 1e-9
    assert all(reached <= objective(w) + fit.gap + 1e-12 for w in np.concatenate([others, np.eye(8)]))


def fourier(dimension: int = 400) -> FourierMap:
    features = FourierMapSpec(dimension=dimension, gamma=GAMMA, seed=7, units="table").make(SCHEMA)
    assert isinstance(features, FourierMap)
    return features


@pytest.mark.parametrize(("weights", "sizes"), [("l1", (2, 24)), ("simplex", (24,)), ("uniform", (24,))])
def test_algorithm_2_finds_the_rows_distribution(weights: Any, sizes: tuple[int, ...]) -> None:
    # Line 6 against its target without noise: more points come closer, far below as many random rows.
    x, features = rows(1000), fourier()
    exact = released(features, x)
    distances = []
    for M in sizes:
        settings = Balog2Settings(points=M, weights=weights, steps=150, restarts=1, candidates=64, climbs=40)
        fitted = algorithm2(exact, features, settings, seed=1)
        assert len(fitted) == M
        assert fitted.l1 <= 1.0 + 1e-12
        assert np.abs(fitted.points).max() <= 4.0 + 1e-9  # inside the public bounds
        distances.append(distance_to_rows(fitted, x, GAMMA))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.5 * distance_to_rows(uniform_points(x[:24]), x, GAMMA)
    if weights == "uniform":
        np.testing.assert_array_equal(fitted.weights, np.full(24, 1 / 24))


def test_many_points_are_no_further_than_the_noise() -> None:
    # An earlier search put all of 10^4 points at a few modes, far from Figure 2.
    features = fourier()
    noisy = released(features, rows(3000), 1.0)
    steps: list[Step] = []
    settings = Balog2Settings(points=10_000, steps=1, restarts=1, candidates=64)
    fitted = algorithm2(noisy, features, settings, 1, steps.append)
    assert steps[-1].objective < 1.1 * steps[-1].floor
    assert len(fitted) <= 10_000
    assert fitted.l1 == pytest.approx(1.0)


def test_algorithm_2_takes_noise_away() -> None:
    # The data's own embedding is feasible: the answer is closer to it than the noisy mean is.
    x, features = rows(3000), fourier()
    noisy = released(features, x, 0.05)
    fitted = algorithm2(
        noisy, features, Balog2Settings(points=20, steps=150, restarts=1, candidates=64), seed=1
    )
    assert distance_to_rows(fitted, x, GAMMA) < 0.3 * noisy.sigma * math.sqrt(features.dimension)


def test_algorithm_2_repeats_itself_and_tells_of_its_progress() -> None:
    # Deterministic by seed; each restart is reported; what is told are public values.
    x, features = rows(500), fourier(64)
    noisy = released(features, x, 1.0)
    settings = Balog2Settings(points=6, steps=30, restarts=2, candidates=32, climbs=10)
    steps: list[Step] = []
    first = algorithm2(noisy, features, settings, 1, steps.append)
    again = algorithm2(noisy, features, settings, 1)
    other = algorithm2(noisy, features, settings, 2)
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.weights, again.weights)
    assert not np.array_equal(first.points, other.points)
    assert [step.restart for step in steps] == [1] * 10 + [2] * 10
    assert steps[-1].step == 30
    assert steps[9].objective < steps[0].objective
    assert steps[0].floor == pytest.approx(64 * noisy.sigma**2)
    assert "restart 1/2" in str(steps[0])


def test_points_go_back_to_the_columns_and_units_of_the_schema() -> None:
    features = points_map(gaussian_points(20, 2, 3.0, seed=1))
    weighted = algorithm1(released(features, rows(100)), features)
    table, weights = to_table(weighted, features)
    SCHEMA.check(table, "release")
    inside = (np.abs(weighted.points) <= 4.0).all(axis=1)
    np.testing.assert_allclose(table.values[inside], weighted.points[inside], atol=1e-12)
    np.testing.assert_array_equal(weights, weighted.weights)


def test_public_points_are_drawn_alike_by_every_party() -> None:
    # "z from a public subset, from N(0, s^2 I)"; every party makes the same map from the spec.
    z = rows(12)
    spec = subspace(z, GAMMA, units="table")
    assert spec_from_json(spec_to_json(spec)) == spec
    drawn = gaussian_points(20_000, 3, 500.0, seed=1)
    assert np.std(drawn) == pytest.approx(500.0, rel=0.02)
    np.testing.assert_array_equal(drawn[:5], gaussian_points(20_000, 3, 500.0, seed=1)[:5])


def test_impossible_settings_are_refused() -> None:
    features, x = points_map(rows(10)), rows(50)
    exact = released(features, x)
    other = points_map(rows(10, 3))
    with pytest.raises(ConfigError):
        algorithm1(exact, other)
    with pytest.raises(ConfigError):
        algorithm1(exact, features, "l1", bound=0.5)
    with pytest.raises(ConfigError):
        algorithm1(exact, features, points=x)
    broken = ReleasedEmbedding(exact.map_spec, Layout(), np.full_like(exact.mean, np.nan), 0.0, 50)
    with pytest.raises(DataError, match="not finite"):
        algorithm1(broken, features)
    with pytest.raises(ConfigError):
        subspace(x, GAMMA, tolerance=0.0)
    with pytest.raises(DataError):
        subspace(np.full((2, 2), np.inf), GAMMA)
    with pytest.raises(ConfigError):
        gaussian_points(3, 2, 0.0, seed=1)
    with pytest.raises(DataError):
        WeightedPoints(x, np.ones(3))
    with pytest.raises(DataError):
        uniform_points(np.zeros((0, 2)))
