"""DP-MERF over pooled sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curator.releases.joint import JointPlan, targets
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.sums import Layout, pool, pooled_sum
from fedkme.privacy.accountants import Sound
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(
        Numeric(name="x", bounds=(0, 1)),
        Numeric(name="z", bounds=(-5, 5)),
        Category(name="c", categories=("a", "b", "c")),
    ),
    label=Label(name="y", classes=("no", "yes", "maybe")),
)
FOURIER = FourierMapSpec(dimension=40, gamma=1.0, seed=3)
MIXED = MixedSpec(dimension=40, gamma=1.0, seed=3)


def rows(count: int = 300, seed: int = 0) -> Table:
    generator = np.random.default_rng(seed)
    values = np.stack(
        [generator.random(count), generator.uniform(-5, 5, count), generator.integers(0, 3, count)], axis=1
    )
    return Table(values, generator.choice(3, count, p=[0.7, 0.2, 0.1]))


@pytest.mark.parametrize("spec", [FOURIER, MIXED])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_event_is_exactly_the_epsilon_that_was_asked(
    spec: FourierMapSpec | MixedSpec, epsilon: float
) -> None:
    plan = JointPlan(SCHEMA, (spec,), epsilon, 1e-5)
    released = plan.release(
        [pooled_sum(rows(), plan.maps[0], plan.layout)], 300, simulated(0, "curator", "merf")
    )
    assert released.event is not None
    assert Sound().epsilon([released.event], 1e-5).epsilon == pytest.approx(epsilon, rel=1e-6)


def test_the_whole_matrix_is_one_gaussian_and_fourier_class_weights_are_free() -> None:
    """MATH section 3: diameter 2 and not C of them; two queries apart would need 5.2759 at (1, 1e-5)."""
    alone = JointPlan(SCHEMA, (FOURIER,), 1.0, 1e-5, class_weights=False).calibration
    both = JointPlan(SCHEMA, (FOURIER,), 1.0, 1e-5).calibration
    assert alone is not None
    assert both is not None
    expected = 2.0 * gaussian_sigma(1.0, 1e-5)
    assert alone.sigmas == pytest.approx((expected,), rel=1e-5)
    assert both.sigmas == pytest.approx((expected, expected), rel=1e-5)


def test_heterogeneous_rows_have_the_tight_diameter() -> None:
    plan = JointPlan(SCHEMA, (MIXED,), 1.0, 1e-5, class_weights=False)
    assert plan.calibration is not None
    assert plan.calibration.sigmas[0] == pytest.approx(
        math.sqrt(4.0 + 2.0 / 3.0) * gaussian_sigma(1.0, 1e-5), rel=1e-5
    )
    assert plan.maps[0].spread <= math.sqrt(5.0)


@pytest.mark.parametrize("owners", [5, 20, 100])
def test_pooling_over_owners_gives_the_release_of_one_that_holds_everything(owners: int) -> None:
    plan = JointPlan(SCHEMA, (MIXED,), 1.0)
    table = rows()
    noise = [simulated(4, "curator", "merf") for _ in range(2)]
    whole = plan.release([pooled_sum(table, plan.maps[0], plan.layout)], 300, noise[0])
    parts = [table.take(part) for part in np.array_split(np.arange(300), owners)]
    total = pool([pooled_sum(part, plan.maps[0], plan.layout) for part in parts], plan.maps[0], plan.layout)
    pieces = plan.release([total], 300, noise[1])
    np.testing.assert_array_equal(pieces.embeddings[0].mean, whole.embeddings[0].mean)
    assert pieces.masses is not None
    assert whole.masses is not None
    np.testing.assert_array_equal(pieces.masses, whole.masses)


def test_without_noise_the_release_is_the_joint_embedding_of_rows_and_labels() -> None:
    plan = JointPlan(SCHEMA, (MIXED,), None)
    table = rows()
    assert table.labels is not None
    released = plan.release(
        [pooled_sum(table, plan.maps[0], plan.layout)], 300, simulated(0, "curator", "merf")
    )
    expected = plan.maps[0].features(table.values).T @ (table.labels[:, None] == np.arange(3)) / 300
    np.testing.assert_allclose(released.embeddings[0].mean, expected, atol=5e-6)  # angles by table
    assert released.masses is not None
    np.testing.assert_allclose(released.masses, np.bincount(table.labels, minlength=3) / 300)
    assert released.event is None


def test_rows_left_out_at_a_public_rate_leave_no_trace_in_the_divisor() -> None:
    """N is the public number of all rows, not how many an owner's coins kept."""
    plan = JointPlan(SCHEMA, (FOURIER,), None)
    total = pooled_sum(rows(200), plan.maps[0], plan.layout)
    noise = simulated(0, "curator", "merf")
    sampled, public = plan.release([total], 200, noise), plan.release([total], 400, noise)
    np.testing.assert_allclose(public.embeddings[0].mean, sampled.embeddings[0].mean / 2.0, atol=1e-12)
    assert public.embeddings[0].rows == 400
    assert public.masses is not None
    assert public.masses.sum() == pytest.approx(0.5)
    with pytest.raises(DataError, match="public number"):
        plan.release([total], 199, noise)


def test_noise_has_the_calibrated_deviation() -> None:
    """2,000 coordinates x 3 columns: their deviation is within 5 % with an error rate below 1e-6."""
    spec = FourierMapSpec(dimension=2000, gamma=1.0, seed=3)
    plan, plain = JointPlan(SCHEMA, (spec,), 1.0), JointPlan(SCHEMA, (spec,), None)
    total = pooled_sum(rows(50), plan.maps[0], plan.layout)
    noisy = plan.release([total], 50, simulated(0, "curator", "merf")).embeddings[0]
    exact = plain.release([total], 50, simulated(0, "curator", "merf")).embeddings[0]
    assert plan.calibration is not None
    assert np.std(noisy.mean - exact.mean) == pytest.approx(plan.calibration.sigmas[0] / 50, rel=0.05)
    assert noisy.sigma == pytest.approx(plan.calibration.sigmas[0] / 50)


def test_columns_are_divided_by_the_class_weights() -> None:
    pytest.importorskip("jax")
    plan = JointPlan(SCHEMA, (FOURIER,), 1.0)
    released = plan.release(
        [pooled_sum(rows(), plan.maps[0], plan.layout)], 300, simulated(0, "curator", "merf")
    )
    (target,) = targets(SCHEMA, released.embeddings, released.masses)
    assert target.column_scale is not None
    assert released.masses is not None
    np.testing.assert_array_equal(target.column_scale, released.masses)
    sigma = released.embeddings[0].sigma
    assert target.floor == pytest.approx(40 * sigma**2 * (1 / released.masses**2).sum())
    with pytest.raises(ConfigError, match="weight"):
        targets(SCHEMA, released.embeddings, None, [1.0, 2.0])


def test_a_continuous_label_is_one_more_numeric_column() -> None:
    """k((x, y), (x', y')) = k(x, x') k(y, y') for the Gaussian kernel."""
    spec = FourierMapSpec(dimension=20_000, gamma=2.0, seed=1)
    joint = Schema(columns=(Numeric(name="x", bounds=(0, 1)), Numeric(name="y", bounds=(0, 1))))
    plan = JointPlan(joint, (spec,), 1.0)
    assert plan.layout == Layout(None)
    one, two = plan.maps[0].features(np.array([[0.1, 0.9], [0.4, 0.2]]))
    assert one @ two == pytest.approx(math.exp(-2 * 0.3**2) * math.exp(-2 * 0.7**2), abs=0.04)


def test_generators_meet_released_values_only() -> None:
    """End to end: after the release the rows can be thrown away."""
    pytest.importorskip("jax")
    from curator.releases.generators import Training
    from curator.releases.joint import fit
    from curator.releases.networks import TableNetwork

    plan = JointPlan(SCHEMA, (MIXED,), 1.0)
    table = rows(20_000)
    released = plan.release(
        [pooled_sum(table, plan.maps[0], plan.layout)], 20_000, simulated(0, "curator", "merf")
    )
    table.values[:] = np.nan
    settings = Training(steps=120, batch=96, learning_rate=0.01, reports=1)
    result = fit(plan, released, TableNetwork(SCHEMA, 3, 4, (16,)), settings)
    assert result.objectives[-1] < 0.5 * result.objectives[0]
    SCHEMA.check(result.sample(10, 0), "synthetic")
