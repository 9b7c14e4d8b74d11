"""DP-MERF over pooled sums."""

from __future__ import annotations

import numpy as np
import pytest

from curator.releases.joint import JointPlan, targets
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.sums import pooled_sum
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


def test_the_whole_matrix_is_one_gaussian_and_fourier_class_weights_are_free() -> None:
    """MATH section 3: diameter 2 and not C of them; two queries apart would need 5.2759 at (1, 1e-5)."""
    alone = JointPlan(SCHEMA, (FOURIER,), 1.0, 1e-5, class_weights=False).calibration
    both = JointPlan(SCHEMA, (FOURIER,), 1.0, 1e-5).calibration
    assert alone is not None
    assert both is not None
    expected = 2.0 * gaussian_sigma(1.0, 1e-5)
    assert alone.sigmas == pytest.approx((expected,), rel=1e-5)
    assert both.sigmas == pytest.approx((expected, expected), rel=1e-5)


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
