"""The auto-encoder variant of DP-MERF (issue 5, item 5): DP-SGD over owners, its cost and what it gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from curator.releases.autoencoder import (
    GRADIENT_STEP,
    AutoEncoder,
    GradientOwner,
    Origin,
    PrivateTraining,
    gradient_sum,
    poisson_sample,
    pooled_by,
    train_openly,
    train_private,
)
from curator.releases.encoded import EncodedPlan, fit, gaussian_beside, sample
from curator.releases.generators import Training
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import pool, pooled_sum
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Composed, Gaussian, SubsampledGaussian
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 10.0), count=6),), label=Label(name="y", classes=("a", "b"))
)
NETWORK = AutoEncoder(SCHEMA, code=2)
TRAINING = PrivateTraining(steps=5, rate=0.2, expected=40.0, noise_multiplier=2.0)


def rows(count: int = 200, seed: int = 0) -> Table:
    """Rows near a line, so that a code of two numbers can hold them."""
    generator = np.random.default_rng(seed)
    along = generator.random((count, 1))
    values = np.clip(10.0 * along + generator.normal(0, 0.2, (count, 6)), 0, 10)
    return Table(values, (along[:, 0] > 0.5).astype(np.int64))


def test_one_row_moves_a_step_by_its_sensitivity_at_most() -> None:
    """The proof in the module: ||f(x)|| <= clip (1 + slack), rounded gradients included."""
    parameters = NETWORK.initial(0)
    for clip in (1e-3, 0.5, 100.0):
        training = PrivateTraining(1, 0.5, 1.0, 1.0, clip=clip)
        longest = training.sensitivity(NETWORK.size)
        everybody = rows(50)
        whole = gradient_sum(NETWORK, parameters, everybody, clip)
        for i in range(5):
            without = gradient_sum(NETWORK, parameters, everybody.take(np.arange(50) != i), clip)
            alone = gradient_sum(NETWORK, parameters, everybody.take(np.array([i])), clip)
            assert np.linalg.norm(alone.astype(float)) * clip * GRADIENT_STEP <= longest
            assert np.array_equal(whole - without, alone)  # the others' gradients keep all their bits
    shortened = gradient_sum(NETWORK, parameters, everybody.take(np.array([0])), 1e-3)
    assert np.linalg.norm(shortened * GRADIENT_STEP) == pytest.approx(1.0, abs=1e-5)


def test_a_gradient_is_that_of_the_loss() -> None:
    parameters, table = NETWORK.initial(1), rows(3)
    encoded = jnp.asarray(SCHEMA.encode(table.values))
    expected = sum(np.asarray(jax.grad(NETWORK.loss)(jnp.asarray(parameters), row)) for row in encoded)
    found = gradient_sum(NETWORK, parameters, table, 100.0) * 100.0 * GRADIENT_STEP
    assert found == pytest.approx(expected, abs=1e-4)


def test_pooled_owners_answer_as_one_and_nobody_is_needed() -> None:
    parameters, whole = NETWORK.initial(0), rows(60)
    together = gradient_sum(NETWORK, parameters, whole, 0.1)
    apart = sum(
        gradient_sum(NETWORK, parameters, whole.take(part), 0.1) for part in np.split(np.arange(60), 3)
    )
    assert np.array_equal(together, apart)
    assert not gradient_sum(NETWORK, parameters, whole.take(np.arange(0)), 0.1).any()


def test_coins_are_independent_of_each_other_and_of_the_rate_given() -> None:
    taken = [len(poisson_sample(1000, 0.1, simulated(seed, "owner", "coins"))) for seed in range(20)]
    assert abs(np.mean(taken) - 100) < 5 * math.sqrt(90 / 20)  # fails once in two million
    assert len(set(taken)) > 5


def test_training_is_accounted_as_a_subsampled_gaussian_under_add_remove() -> None:
    event = TRAINING.event
    assert event == SubsampledGaussian(2.0, 0.2, 5)
    assert event.assumes == {"add-remove"}
    found = Sound().epsilon([event], 1e-5).epsilon
    whole = Sound().epsilon([Gaussian(2.0, 5)], 1e-5).epsilon
    assert found < 0.7 * whole


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_encoder_and_embedding_together_cost_what_was_asked(epsilon: float) -> None:
    training = PrivateTraining(100, 0.01, 600.0, 2.0)
    plan = EncodedPlan(
        NETWORK, FourierMapSpec(dimension=20, gamma=1.0, seed=0), 200, epsilon, 1e-5, "private", training
    )
    assert plan.event is not None
    paid = Sound().epsilon([plan.event], 1e-5).epsilon
    assert 0.98 * epsilon < paid <= epsilon
    assert plan.multiplier is not None
    assert plan.multiplier > gaussian_beside([], epsilon, 1e-5)


def test_an_encoder_that_costs_more_than_everything_is_refused() -> None:
    with pytest.raises(ConfigError, match="training the encoder alone"):
        gaussian_beside([SubsampledGaussian(1.0, 0.5, 100)], 1.0, 1e-5)


def test_the_published_encoder_has_no_finite_epsilon_and_a_public_one_is_free() -> None:
    spec = FourierMapSpec(dimension=20, gamma=1.0, seed=0)
    published = EncodedPlan(NETWORK, spec, 200, 1.0, origin="published")
    assert published.event is not None
    figure = Sound().epsilon([published.event], 1e-5)
    assert math.isinf(figure.epsilon)
    assert "an encoder trained on the rows themselves" in figure.reason
    public = EncodedPlan(NETWORK, spec, 200, 1.0, origin="public")
    assert public.event is not None
    assert not isinstance(public.event, Composed)
    assert Sound().epsilon([public.event], 1e-5).epsilon == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("origin", ["private", "published"])
def test_an_encoder_is_trained_as_its_origin_says(origin: Origin) -> None:
    training = TRAINING if origin == "published" else None
    with pytest.raises(ConfigError, match="private encoder"):
        EncodedPlan(NETWORK, FourierMapSpec(dimension=20, gamma=1.0, seed=0), 9, 1.0, 1e-5, origin, training)


def test_the_sum_is_divided_by_the_nominal_number_of_rows() -> None:
    """Add-remove: how many rows there are is not public."""
    plan = EncodedPlan(NETWORK, FourierMapSpec(dimension=20, gamma=1.0, seed=0), 1000, None, origin="public")
    codes = NETWORK.encoded(NETWORK.initial(0), rows(200))
    released = plan.release(
        pool([pooled_sum(codes, plan.map, plan.layout)], plan.map, plan.layout), simulated(0, "c", "n")
    )
    assert released.rows == 1000
    expected = plan.map.features(codes.values).sum(axis=0) / 1000
    assert released.mean.sum(axis=1) == pytest.approx(expected, abs=1e-6)


def test_a_wrong_answer_of_the_owners_is_refused() -> None:
    with pytest.raises(DataError, match="one integer a parameter"):
        train_private(NETWORK, TRAINING, lambda p, s: np.zeros(3, np.int64), simulated(0, "c", "n"), 0)


def test_rows_come_back_through_a_privately_trained_encoder() -> None:
    """DP-SGD over owners learns with little noise, and codes of a generator give rows of both classes."""
    table = rows(300)
    training = PrivateTraining(150, 0.4, 120.0, 0.3, clip=1.0)
    parts = [table.take(part) for part in np.array_split(np.arange(300), 3)]
    owners = [
        GradientOwner(NETWORK, part, training.rate, training.clip, simulated(0, f"o{i}", "coins"))
        for i, part in enumerate(parts)
    ]
    told: list[int] = []
    parameters = train_private(
        NETWORK,
        training,
        pooled_by(owners),
        simulated(0, "c", "n"),
        0,
        lambda done, steps, length: told.append(done),
    )
    assert told[-1] == 150

    def error(values: np.ndarray) -> float:
        codes = NETWORK.encoded(values, table)
        return float(np.square(NETWORK.decoded(values, codes).values - table.values).mean())

    assert error(parameters) < 0.3 * error(NETWORK.initial(0))
    openly = train_openly(NETWORK, table, 200, 0, learning_rate=3e-2)
    assert error(openly) < 0.3 * error(NETWORK.initial(0))
    spec = FourierMapSpec(dimension=100, gamma=2.0, seed=0)
    plan = EncodedPlan(NETWORK, spec, 300, None, 1e-5, "private", training)
    codes = [NETWORK.encoded(parameters, part) for part in parts]
    sums = [pooled_sum(each, plan.map, plan.layout) for each in codes]
    released = plan.release(pool(sums, plan.map, plan.layout), simulated(0, "c", "codes"))
    trained = fit(plan, released, Training(steps=150, batch=128, reports=1), np.full(2, 0.5), hidden=(32,))
    found = sample(plan, parameters, trained, 400, 0)
    SCHEMA.check(found, "synthetic rows")
    assert found.labels is not None
    low, high = (found.values[found.labels == c].mean() for c in (0, 1))
    assert low < 4.0 < 6.0 < high  # 2.5 and 7.5 in the rows
