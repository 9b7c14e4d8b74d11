"""The sketch of second moments: sensitivity, exact sums, noise once."""

import itertools
import math

import numpy as np
import pytest

from fedkme.cells import sketch
from fedkme.cells.projection import Projection, ProjectionSpec, spec_for
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.secagg.noise import plan_noise
from fedkme.tables.schema import Category, Numeric, Schema
from tests.fedkme.secagg.runs import Run, parameters

PLANE = Schema(columns=(Numeric(name="x", bounds=(0, 1)), Numeric(name="y", bounds=(0, 1))))
IMAGES = Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=30),))
FLAT = Projection(ProjectionSpec(0, 2, 2, "domain"), PLANE)
SHORT = Projection(ProjectionSpec(5, 30, 6, "row"), IMAGES)


def row_at(angle: float) -> np.ndarray:
    """Row whose z has this angle."""
    return np.array([[0.5 + 0.4 * math.cos(angle), 0.5 + 0.4 * math.sin(angle)]])


def moved(first: np.ndarray, second: np.ndarray, classes: int | None, other: bool) -> float:
    """Distance of the queries of two data sets that differ in one row, in units of the query."""
    zero = None if classes is None else np.zeros(1, np.int64)
    one = zero if zero is None or not other else zero + 1
    before = sketch.coordinates(first, zero, FLAT, classes)
    after = sketch.coordinates(second, one, FLAT, classes)
    return float(np.linalg.norm((before - after).astype(np.float64))) * sketch.STEP


@pytest.mark.parametrize(("classes", "other"), [(None, False), (3, False), (3, True)])
def test_no_neighbour_moves_the_query_by_more_than_the_sensitivity(classes: int | None, other: bool) -> None:
    # docs/decisions/007: ||v - v'|| <= 3/sqrt 2 over all pairs of rows, and the bound is reached (cosine -1/2
    # in the same class, 0 in another), so labels and counts cost nothing. Brute force over all pairs of 60
    # angles.
    angles = np.linspace(0.0, 2.0 * math.pi, 60, endpoint=False)
    rows = [row_at(angle) for angle in angles] + [np.array([[0.5, 0.5]])]
    distances = [moved(a, b, classes, other) for a, b in itertools.product(rows, rows)]
    assert max(distances) <= sketch.SENSITIVITY
    assert max(distances) > 0.998 * sketch.SENSITIVITY


def test_random_neighbours_stay_within_the_sensitivity_when_projected() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        pair = rng.random((2, 30)) ** rng.uniform(0.1, 4.0)
        one, two = (sketch.coordinates(row[None], None, SHORT, None) for row in pair)
        assert np.linalg.norm((one - two).astype(np.float64)) <= sketch.DIAMETER_STEPS


def test_the_length_of_z_is_nearly_and_at_most_one() -> None:
    rows = np.random.default_rng(2).random((500, 30))
    lengths = np.linalg.norm(SHORT(rows), axis=1)
    assert lengths.max() <= 1.0
    assert lengths.min() > 0.998
    assert not SHORT(np.full((1, 30), 0.3)).any()  # a row that is its own centre has no direction


PINNED = [1803.0, 1578.0, 1465.0, 1465.0, -1465.0, -2142.0]


def test_the_projection_is_equal_for_all_parties_and_versions() -> None:
    # The signs come from SHAKE-256. Their values are pinned, as all parties must draw equal signs with any
    # version.
    assert SHORT.steps(np.eye(30)[:1])[0].tolist() == PINNED


@pytest.mark.parametrize("classes", [None, 4])
def test_the_sum_has_the_same_bits_for_every_split_of_the_rows(classes: int | None) -> None:
    # Sums are integers, so any split of the rows over owners gives the same bits.
    rng = np.random.default_rng(3)
    rows, labels = rng.random((5000, 30)), rng.integers(0, 4, 5000)
    whole = sketch.coordinates(rows, labels if classes else None, SHORT, classes)
    assert whole.dtype == np.int64
    assert whole.shape == (sketch.length(6, classes),)
    order = rng.permutation(5000)
    for cuts in ([1000, 1001, 4000], [7], list(range(100, 5000, 100))):
        parts = np.split(order, cuts)
        owners = [
            sketch.coordinates(rows[part], labels[part] if classes else None, SHORT, classes)
            for part in parts
        ]
        assert np.array_equal(np.sum(owners, axis=0), whole)


def test_without_noise_the_sketch_is_the_moments() -> None:
    rng = np.random.default_rng(4)
    rows, labels = rng.random((50, 30)), rng.integers(0, 4, 50)
    total = sketch.coordinates(rows, labels, SHORT, 4)
    exact = sketch.release(total, 50, 6, 4, 0.0, simulated(0, "curator", "sketch"))
    z = SHORT(rows)
    assert np.allclose(exact.second, z.T @ z, atol=1e-12)
    assert np.allclose(exact.sums, [z[labels == c].sum(axis=0) for c in range(4)], atol=1e-12)
    assert exact.counts.tolist() == np.bincount(labels, minlength=4).tolist()
    unlabelled = sketch.release(
        sketch.coordinates(rows, None, SHORT, None), 50, 6, None, 0.0, simulated(0, "c", "s")
    )
    assert np.allclose(unlabelled.sums, [z.sum(axis=0)], atol=1e-12)


def test_noise_is_symmetric_added_once_and_has_the_stated_deviation() -> None:
    # sigma on the diagonal and the sums, sigma 29/41 (sigma/sqrt 2 but for .03 %) off the diagonal, 2 sigma
    # on counts. 20,000 draws: 5 standard errors of a deviation are 2.5 %. Seeds are fixed.
    d, classes = 80, 40
    empty = np.zeros(sketch.length(d, classes), dtype=np.int64)
    draws = [sketch.release(empty, 1, d, classes, 10.0, simulated(s, "curator", "x")) for s in range(8)]
    sigma = 10.0 * sketch.SENSITIVITY
    assert all(draw.deviation == sigma and np.array_equal(draw.second, draw.second.T) for draw in draws)
    off = np.concatenate([draw.second[np.triu_indices(d, 1)] for draw in draws])
    sums = np.concatenate([draw.sums.ravel() for draw in draws])
    assert off.std() == pytest.approx(sigma * 29 / 41, rel=0.025)
    assert sums.std() == pytest.approx(sigma, rel=0.025)
    diagonal = np.concatenate([np.diag(draw.second) for draw in draws])
    assert diagonal.std() == pytest.approx(sigma, rel=0.15)
    assert np.concatenate([draw.counts for draw in draws]).std() == pytest.approx(2.0 * sigma, rel=0.2)


def test_secure_noise_is_whole() -> None:
    total = np.full(sketch.length(3, None), 10**12, dtype=np.int64)
    noisy = total + SecureNoise().gaussian(11.0 * sketch.DIAMETER_STEPS, len(total))
    assert np.array_equal(noisy, np.round(noisy))
    assert len(np.unique(noisy)) > 1


def test_wrong_rows_and_sums_are_refused() -> None:
    rows = np.random.default_rng(5).random((4, 30))
    with pytest.raises(DataError, match="not finite: 1"):
        SHORT(np.where(np.arange(4)[:, None] == 2, np.nan, rows))
    with pytest.raises(DataError, match="no labels"):
        sketch.coordinates(rows, None, SHORT, 3)
    with pytest.raises(DataError, match="does not have: 2"):
        sketch.coordinates(rows, np.array([0, 3, -1, 2]), SHORT, 3)
    with pytest.raises(DataError, match="do not fit"):
        SHORT(rows[:, :7])
    with pytest.raises(ConfigError, match="does not fit"):
        sketch.release(np.zeros(4, np.int64), 4, 6, None, 1.0, simulated(0, "c", "s"))
    with pytest.raises(ConfigError, match="no projection"):
        ProjectionSpec(0, 5, 6, "row")
    with pytest.raises(ConfigError, match="does not fit"):
        Projection(ProjectionSpec(0, 5, 5, "row"), IMAGES)


def test_tables_are_centred_by_their_public_domain() -> None:
    schema = Schema(
        columns=(Numeric(name="age", bounds=(0, 10)), Category(name="sex", categories=("f", "m")))
    )
    spec = spec_for(schema, 1)
    assert (spec.dimension, spec.centre) == (3, "domain")
    assert spec_for(IMAGES, 1, 6).centre == "row"
    z = Projection(spec, schema)(schema.encode(np.array([[5.0, 0.0], [5.0, 1.0]])))
    assert np.allclose(z, [[0.0, 0.7071, -0.7071], [0.0, -0.7071, 0.7071]], atol=3e-4)


def test_secure_aggregation_carries_the_sketch() -> None:
    # Decision 005: secure aggregation sums the owners' integers, with distributed noise of the deviation that
    # a trusted curator would add (no drop-outs, no colluders).
    rng = np.random.default_rng(6)
    rows = rng.random((60, 30))
    parts = {
        f"o{i:03d}": sketch.coordinates(rows[20 * i : 20 * (i + 1)], None, SHORT, None) for i in range(3)
    }
    whole = sketch.coordinates(rows, None, SHORT, None)
    size, bound = sketch.length(6, None), sketch.largest_step(60)
    assert np.abs(whole).max() <= bound
    plain = parameters(owners=3, dropouts=0, length=size, bits=64, bound=bound, step=1.0)
    assert np.array_equal(Run(plain, parts).total().steps, whole)
    plan = plan_noise(
        0.3, 1e-5, owners=3, dropouts=0, colluders=0, length=size, diameter=sketch.DIAMETER_STEPS
    )
    noisy = parameters(owners=3, dropouts=0, length=size, bits=64, bound=bound, step=1.0, noise=plan.share)
    total = Run(noisy, parts, noise=lambda name: simulated(0, name, "sketch")).total().steps
    deviation = float((total - whole).std()) / sketch.DIAMETER_STEPS
    assert deviation == pytest.approx(
        gaussian_sigma(0.3, 1e-5), rel=0.6
    )  # 27 draws: 4 standard errors; seeds are fixed
    noisy_sketch = sketch.from_coordinates(total.astype(np.float64), 60, 6, None, deviation)
    assert np.array_equal(noisy_sketch.second, noisy_sketch.second.T)
