"""Gaussians by class out of noisy moments (docs/decisions/026)."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.features.sums import Layout, ReleasedEmbedding, pooled_sum
from fedkme.moments.coordinates import Coordinates
from fedkme.moments.discriminant import Discriminant, discriminant_of
from fedkme.moments.features import SecondMoments, SecondMomentsSpec, ShellMoments, ShellsSpec, T
from fedkme.moments.gaussians import gaussians_of
from fedkme.moments.scales import Scales, scales_of, second_question
from fedkme.releases.file import StoredRelease
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

WIDTH = 6
SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(-10.0, 10.0), count=WIDTH),),
    label=Label(name="kind", classes=("round", "long", "rare")),
)
WIDE = Schema(
    columns=(Numeric(name="x", bounds=(-10.0, 10.0), count=60),), label=Label(name="kind", classes=("a", "b"))
)
SHARES = np.array([0.55, 0.4, 0.05])
CENTRES = np.array([[1.0, 0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0, 0], [-1.0, 1.0, 0, 0, 0, 0]])
DEVIATIONS = np.array([[1.0] * WIDTH, [2.0, 2.0, 0.4, 0.4, 1.0, 1.0], [1.0] * WIDTH])
ROWS = 20_000


def rows(count: int = ROWS, seed: int = 0) -> Table:
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, count, p=SHARES)
    values = CENTRES[labels] + DEVIATIONS[labels] * generator.standard_normal((count, WIDTH))
    return Table(np.clip(values, -10, 10), labels.astype(np.int64))


def released(multiplier: float, seed: int = 1, affordable: float = 24.0) -> tuple[ReleasedEmbedding, Scales]:
    """Both answers, with noise of `multiplier` times the sensitivity on each."""
    generator, table = np.random.default_rng(seed), rows()
    sigma = multiplier * math.sqrt(2.0) * (1.0 + T) / ROWS
    first = ShellsSpec().make(SCHEMA)
    told = pooled_sum(table, first, Layout()).sum[:, 0] / ROWS
    assert isinstance(first, ShellMoments)
    scales = scales_of(told + sigma * generator.standard_normal(told.shape), sigma, first)
    spec = second_question(scales, first, WIDTH, affordable)
    mean = pooled_sum(table, spec.make(SCHEMA), Layout(3)).sum / ROWS
    noisy = mean + sigma * generator.standard_normal(mean.shape)
    return ReleasedEmbedding(spec, Layout(3), noisy, sigma, ROWS), scales


@cache
def discriminant(multiplier: float) -> Discriminant:
    embedding, _ = released(multiplier)
    features = embedding.map_spec.make(SCHEMA)
    assert isinstance(features, SecondMoments)
    return Discriminant(features, gaussians_of(embedding))


def bayes(table: Table) -> float:
    """Accuracy of the classifier that knows the law."""
    away = (table.values[:, None, :] - CENTRES) / DEVIATIONS
    scores = np.log(SHARES) - 0.5 * (away**2).sum(axis=2) - np.log(DEVIATIONS).sum(axis=1)
    return float((scores.argmax(axis=1) == table.labels).mean())


def test_shells_find_mean_and_variance_of_rows_that_lie_deep_inside_their_bounds() -> None:
    _, scales = released(3.73)
    model = SCHEMA.encode(rows().values).astype(np.float64)
    np.testing.assert_allclose(scales.mean, model.mean(axis=0), atol=4e-3)
    np.testing.assert_allclose(scales.variance, model.var(axis=0), rtol=0.2, atol=1e-4)


def test_rows_are_clipped_the_less_the_fewer_coordinates_there_are() -> None:
    for affordable, mean_square in ((WIDTH, 1.0), (2 * WIDTH, 2.0**-1.5), (100 * WIDTH, 1 / 6)):
        embedding, scales = released(0.01, affordable=affordable)
        spec = embedding.map_spec
        assert isinstance(spec, SecondMomentsSpec)
        chosen = list(spec.chosen)
        squared = float((scales.variance[chosen] / np.array(spec.scale) ** 2).sum())
        assert squared == pytest.approx(mean_square)


def test_classes_are_told_apart_nearly_as_by_who_knows_the_law() -> None:
    test = rows(5000, 7)
    for multiplier, worse in ((1e-6, 0.03), (3.73, 0.04)):
        accuracy = float((discriminant(multiplier).predict(test.values) == test.labels).mean())
        assert bayes(test) - worse < accuracy <= bayes(test) + 0.01


def spread_out(count: int, seed: int) -> Table:
    """Two classes about one mean, one of them spread 1.5 times as far in every direction."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, count)
    values = (1.0 + 0.5 * labels[:, None]) * generator.standard_normal((count, WIDE.width))
    return Table(np.clip(values, -10, 10), labels)


def test_classes_of_unlike_spread_are_told_apart_where_no_entry_of_a_covariance_is_known() -> None:
    # Issue 16: epileptic, where one class lies in another shell than the other, was at chance at some seeds.
    generator, table = np.random.default_rng(3), spread_out(4000, 1)
    chosen = tuple(range(WIDE.width))
    spec = SecondMomentsSpec(chosen=chosen, centre=(0.5,) * len(chosen), scale=(0.5,) * len(chosen))
    features, sigma = spec.make(WIDE), 3.93 * math.sqrt(2.0) * (1.0 + T) / 4000
    mean = pooled_sum(table, features, Layout(2)).sum / 4000
    embedding = ReleasedEmbedding(
        spec, Layout(2), mean + sigma * generator.standard_normal(mean.shape), sigma, 4000
    )
    made, test = gaussians_of(embedding), spread_out(1000, 2)
    squares = (features.z(WIDE.encode(table.values).astype(np.float64)) ** 2).sum(axis=1)
    theirs = [squares[table.labels == label].mean() for label in (0, 1)]
    np.testing.assert_allclose(made.spreads, theirs, rtol=0.1)
    assert (Discriminant(features, made).predict(test.values) == test.labels).mean() > 0.9


def test_posteriors_are_probabilities() -> None:
    chances = np.exp(discriminant(3.73).log_posterior(rows(100, 3).values))
    assert chances.shape == (100, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.parametrize("multiplier", [3.73, 200.0, 1e5])
def test_covariances_are_positive_whatever_the_noise(multiplier: float) -> None:
    made = gaussians_of(released(multiplier)[0])
    assert made.shares.min() > 0
    assert made.shares.sum() == pytest.approx(1.0)
    for covariance in (*made.covariances, made.pooled):
        assert np.linalg.eigvalsh(covariance).min() > 0


def test_noise_alone_gives_every_class_the_pooled_covariance() -> None:
    # Empirical Bayes: what the noise explains is not kept.
    made = gaussians_of(released(1e4)[0])
    for one, other in itertools.combinations(made.covariances, 2):
        assert np.abs(one - other).max() < 0.2 * np.abs(made.pooled).max()


@pytest.mark.parametrize("count", [3, 64, 100, 65])
def test_coordinates_are_orthonormal_and_go_back(count: int) -> None:
    schema = Schema(columns=(Numeric(name="a", bounds=(0, 1)), Numeric(name="b", bounds=(0, 1), count=count)))
    coordinates = Coordinates(schema)
    points = np.random.default_rng(0).random((20, count + 1))
    turned = coordinates.of_model(points)
    np.testing.assert_allclose(turned @ turned.T, points @ points.T, atol=1e-9)
    np.testing.assert_allclose(coordinates.to_model(turned), points, atol=1e-9)
    every = np.concatenate([band for bands in coordinates.bands for band in bands])
    assert sorted(every) == list(range(count + 1))


def test_a_release_of_something_else_has_no_classifier() -> None:
    spec = ShellsSpec()
    other = ReleasedEmbedding(spec, Layout(), np.zeros((spec.make(SCHEMA).dimension, 1)), 0.1, 5)
    with pytest.raises(ConfigError, match="no moments to classify by"):
        discriminant_of(StoredRelease("merf", {}, SCHEMA, (other,), None, None, 1e-5, 1))


def test_the_sensitivity_is_reached_within_a_class_and_across() -> None:
    features = SecondMomentsSpec(chosen=(0, 1), centre=(0.5, 0.5), scale=(0.1, 0.1)).make(SCHEMA)
    angle = math.acos(-T)
    units = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    values = np.zeros((2, WIDTH))
    values[:, :2] = 5.0 * units
    one, other = features.features(values)
    assert np.linalg.norm(one - other) == pytest.approx(features.spread, rel=1e-9)
    assert math.sqrt(2.0) * np.linalg.norm(one) == pytest.approx(features.spread, rel=1e-9)
