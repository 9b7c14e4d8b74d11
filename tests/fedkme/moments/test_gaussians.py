"""Gaussians of the classes from noisy moments (docs/decisions/022)."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit.in_memory import OwnersInMemory
from curator.releases.method import make_method
from curator.releases.moments import rows_of
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.sums import Layout, ReleasedEmbedding, pooled_sum
from fedkme.moments.coordinates import Coordinates
from fedkme.moments.discriminant import Discriminant, discriminant_of
from fedkme.moments.features import SecondMoments, SecondMomentsSpec, ShellMoments, ShellsSpec, T
from fedkme.moments.gaussians import gaussians_of
from fedkme.moments.scales import Scales, scales_of, second_question
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.releases.settings import MomentsSettings
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table


def released_moments(
    schema: Schema, owners: Sequence[Table], seed: int, edges: bool = False
) -> StoredRelease:
    """Release moments of the owners' rows."""
    method = make_method(MomentsSettings(seed=seed, edges=edges), schema, None, seed)
    return from_bytes(asyncio.run(method.ask(_Owners(owners, schema, seed))))


class _Owners(OwnersInMemory):
    """Owners in memory with one stream of noise for all questions, by seed."""

    def __init__(self, owners: Sequence[Table], schema: Schema, seed: int) -> None:
        super().__init__(Table(np.zeros((0, schema.width))), schema, 1)
        self.tables = list(owners)
        self._stream = simulated(seed, "curator", "moments")

    @property
    def noise(self) -> NoiseSource:
        """One stream for all questions."""
        return self._stream


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
    """Answers to both questions, with noise of `multiplier` times the sensitivity on each."""
    generator, table = np.random.default_rng(seed), rows()
    sigma = multiplier * math.sqrt(2.0) * (1.0 + T) / ROWS
    first = ShellsSpec().make(SCHEMA)
    exact = pooled_sum(table, first, Layout()).sum[:, 0] / ROWS
    assert isinstance(first, ShellMoments)
    scales = scales_of(exact + sigma * generator.standard_normal(exact.shape), sigma, first)
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


def bayes_accuracy(table: Table) -> float:
    """Accuracy of the Bayes classifier, which knows the law."""
    away = (table.values[:, None, :] - CENTRES) / DEVIATIONS
    scores = np.log(SHARES) - 0.5 * (away**2).sum(axis=2) - np.log(DEVIATIONS).sum(axis=1)
    return float((scores.argmax(axis=1) == table.labels).mean())


def test_shells_estimate_mean_and_variance_of_rows_deep_inside_their_bounds() -> None:
    _, scales = released(3.73)
    model = SCHEMA.encode(rows().values).astype(np.float64)
    np.testing.assert_allclose(scales.mean, model.mean(axis=0), atol=4e-3)
    np.testing.assert_allclose(scales.variance, model.var(axis=0), rtol=0.2, atol=1e-4)


def test_fewer_coordinates_clip_fewer_rows() -> None:
    for affordable, mean_square in ((WIDTH, 1.0), (2 * WIDTH, 2.0**-1.5), (100 * WIDTH, 1 / 6)):
        embedding, scales = released(0.01, affordable=affordable)
        spec = embedding.map_spec
        assert isinstance(spec, SecondMomentsSpec)
        chosen = list(spec.chosen)
        squared = float((scales.variance[chosen] / np.array(spec.scale) ** 2).sum())
        assert squared == pytest.approx(mean_square)


def test_the_discriminant_is_nearly_as_accurate_as_the_bayes_classifier() -> None:
    test = rows(5000, 7)
    for multiplier, worse in ((1e-6, 0.03), (3.73, 0.04)):
        accuracy = float((discriminant(multiplier).predict(test.values) == test.labels).mean())
        assert bayes_accuracy(test) - worse < accuracy <= bayes_accuracy(test) + 0.01


def spread_out(count: int, seed: int) -> Table:
    """Two classes with one mean; the second class has 1.5 times the spread in every direction."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, count)
    values = (1.0 + 0.5 * labels[:, None]) * generator.standard_normal((count, WIDE.width))
    return Table(np.clip(values, -10, 10), labels)


def test_classes_that_differ_in_spread_alone_are_classified() -> None:
    # As in the data set epileptic, where the classes lie in different shells. No entry of a covariance is
    # above its noise here.
    generator, table = np.random.default_rng(3), spread_out(4000, 1)
    chosen = tuple(range(WIDE.width))
    spec = SecondMomentsSpec(chosen=chosen, centre=(0.5,) * len(chosen), scale=(0.5,) * len(chosen))
    features, sigma = spec.make(WIDE), 3.93 * math.sqrt(2.0) * (1.0 + T) / 4000
    mean = pooled_sum(table, features, Layout(2)).sum / 4000
    embedding = ReleasedEmbedding(
        spec, Layout(2), mean + sigma * generator.standard_normal(mean.shape), sigma, 4000
    )
    gaussians, test = gaussians_of(embedding), spread_out(1000, 2)
    squares = (features.z(WIDE.encode(table.values).astype(np.float64)) ** 2).sum(axis=1)
    exact = [squares[table.labels == label].mean() for label in (0, 1)]
    np.testing.assert_allclose(gaussians.spreads, exact, rtol=0.1)
    assert (Discriminant(features, gaussians).predict(test.values) == test.labels).mean() > 0.9


def test_posteriors_are_probabilities() -> None:
    chances = np.exp(discriminant(3.73).log_posterior(rows(100, 3).values))
    assert chances.shape == (100, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.parametrize("multiplier", [3.73, 200.0, 1e5])
def test_covariances_are_positive_definite_under_any_noise(multiplier: float) -> None:
    gaussians = gaussians_of(released(multiplier)[0])
    assert gaussians.shares.min() > 0
    assert gaussians.shares.sum() == pytest.approx(1.0)
    for covariance in (*gaussians.covariances, gaussians.pooled):
        assert np.linalg.eigvalsh(covariance).min() > 0


def test_noise_alone_gives_every_class_the_pooled_covariance() -> None:
    # Empirical Bayes removes differences that noise explains.
    gaussians = gaussians_of(released(1e4)[0])
    for one, other in itertools.combinations(gaussians.covariances, 2):
        assert np.abs(one - other).max() < 0.2 * np.abs(gaussians.pooled).max()


@pytest.mark.parametrize("count", [3, 64, 100, 65])
def test_coordinates_are_orthonormal_and_invertible(count: int) -> None:
    schema = Schema(columns=(Numeric(name="a", bounds=(0, 1)), Numeric(name="b", bounds=(0, 1), count=count)))
    coordinates = Coordinates(schema)
    points = np.random.default_rng(0).random((20, count + 1))
    turned = coordinates.of_model(points)
    np.testing.assert_allclose(turned @ turned.T, points @ points.T, atol=1e-9)
    np.testing.assert_allclose(coordinates.to_model(turned), points, atol=1e-9)
    every = np.concatenate([band for bands in coordinates.bands for band in bands])
    assert sorted(every) == list(range(count + 1))


def test_a_release_without_moments_has_no_classifier() -> None:
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


IMAGE = Schema(
    columns=(Numeric(name="age", bounds=(0, 1)), Numeric(name="pixel", bounds=(0, 1), count=64)),
    label=Label(name="kind", classes=("stripes", "plaid")),
)


def patterns(count: int, seed: int) -> Table:
    """Horizontal or vertical stripes, and sums of both; their pixels have equal means and covariances."""
    generator = np.random.default_rng(seed)
    wave = 0.15 * np.sin(np.pi / 4 * (np.arange(8) + 0.5))
    lying, standing = np.repeat(wave, 8), np.tile(wave, 8)
    signs = generator.choice([-1.0, 1.0], (2, count, 1))
    labels = generator.integers(0, 2, count)
    one = np.where(generator.random((count, 1)) < 0.5, lying, standing) * math.sqrt(2.0)
    drawn = np.where(labels[:, None] == 0, signs[0] * one, signs[0] * lying + signs[1] * standing)
    pixels = 0.5 + drawn + 0.02 * generator.standard_normal((count, 64))
    return Table(np.column_stack([generator.random(count), np.clip(pixels, 0, 1)]), labels)


@pytest.mark.parametrize(("edges", "least", "most"), [(False, 0.4, 0.6), (True, 0.95, 1.0)])
def test_edges_classify_images_that_second_moments_of_pixels_cannot(
    edges: bool, least: float, most: float
) -> None:
    stored = released_moments(IMAGE, [patterns(5_000, 1), patterns(5_000, 2)], 3, edges)
    test = patterns(2000, 4)
    accuracy = float((discriminant_of(stored).predict(test.values) == test.labels).mean())
    assert least < accuracy <= most
    assert rows_of(stored).sample(50, 1).values.shape == (50, 65)


def test_the_inverse_map_leaves_edges_out() -> None:
    points = np.random.default_rng(0).integers(0, 2, (500, 65)).astype(np.float64)
    features = ShellsSpec(edges=True).make(IMAGE)
    assert isinstance(features, ShellMoments)
    turned = features.coordinates.of_model(points)
    assert turned.shape == (500, features.coordinates.width) == (500, 65 + 4 * 64)
    np.testing.assert_allclose(features.coordinates.to_model(turned), points, atol=1e-9)
    assert [(columns.start, columns.stop) for columns, _ in features.parts] == [(0, 65), (65, 321)]
    every = np.concatenate([band for bands in features.coordinates.bands for band in bands])
    assert sorted(every) == list(range(features.coordinates.width))


LINES = st.sampled_from([[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]])
IMAGES = st.one_of(
    arrays(np.float64, 65, elements=st.floats(0, 1)),
    arrays(np.float64, 65, elements=st.sampled_from([0.0, 1.0])),
    st.tuples(LINES, LINES).map(  # plaids and checkerboards, which have the longest edges
        lambda two: np.append(1.0, (np.add.outer(np.tile(two[0], 2), np.tile(two[1], 2)) % 2).ravel())
    ),
)


@settings(deadline=None)
@given(IMAGES, IMAGES, st.sampled_from([np.float32, np.float64]), st.sampled_from([1e-3, 0.1, 1.0, 10.0]))
def test_no_image_moves_a_sum_by_more_than_the_sensitivity(
    one: FloatArray, other: FloatArray, dtype: type[np.floating[Any]], scale: float
) -> None:
    # Replace-one within a class and across classes, with edges, for both questions.
    points = np.stack([one, other]).astype(dtype)
    shells = ShellsSpec(edges=True).make(IMAGE)
    assert isinstance(shells, ShellMoments)
    away = shells.coordinates.of_model(points) - shells.middle
    for columns, radii in shells.parts:
        assert np.linalg.norm(away[:, columns], axis=1).max() <= radii[0] * (1 + 1e-6)
    spec = SecondMomentsSpec(
        edges=True, chosen=tuple(range(0, 321, 5)), centre=(0.1,) * 65, scale=(scale,) * 65
    )
    for features in (shells, spec.make(IMAGE)):
        phi = features.of_model(points).astype(np.float64)
        lengths = np.linalg.norm(phi, axis=1)
        assert lengths.max() <= features.norm_bound * (1 + 1e-6)
        assert np.linalg.norm(phi[0] - phi[1]) <= features.spread * (1 + 1e-6)
        assert np.hypot(*lengths) <= features.spread * (1 + 1e-6)


def test_a_spec_without_edges_lacks_the_key() -> None:
    assert "edges" not in ShellsSpec().model_dump(mode="json")
    assert ShellsSpec(edges=True).model_dump(mode="json")["edges"]
    with pytest.raises(ConfigError, match="no image"):
        ShellsSpec(edges=True).make(SCHEMA)
