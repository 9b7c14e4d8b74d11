"""Generators learn from released embeddings alone, the same way for the same seed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import optax

from curator.releases import generators
from curator.releases.generators import Target, Training, embedding_by, train
from curator.releases.networks import TableNetwork, decode, soften
from curator.releases.progress import Report
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import MixedSpec
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(20, 60), integer=True),
        Category(name="colour", categories=("red", "green", "blue")),
    ),
    label=Label(name="y", classes=("no", "yes")),
)
MAP = MixedSpec(dimension=60, gamma=10.0, seed=1).make(SCHEMA)
NETWORK = TableNetwork(SCHEMA, 2, code=4, hidden=(24,))
TRAINING = Training(steps=150, batch=128, learning_rate=0.01, reports=3)


def rows(count: int) -> Table:
    """Class 0 is young and red or green, class 1 older and always blue."""
    generator = np.random.default_rng(5)
    labels = (generator.random(count) < 0.25).astype(np.int64)
    ages = np.clip(np.rint(generator.normal(np.where(labels == 1, 50, 30), 2.0)), 20, 60)
    colours = np.where(labels == 1, 2, generator.integers(0, 2, count))
    return Table(np.stack([ages, colours], axis=1), labels)


def target(table: Table) -> Target:
    assert table.labels is not None
    members = table.labels[:, None] == np.arange(2)
    return Target(MAP.features(table.values).T @ members / len(table), embedding_by(MAP))


@pytest.fixture(scope="module")
def trained() -> tuple[generators.Trained, list[Report]]:
    reports: list[Report] = []
    masses = np.array([0.75, 0.25])
    return train(NETWORK, [target(rows(4000))], masses, TRAINING, reports.append), reports


def test_a_training_tells_its_steps_between_reports_and_can_be_stopped_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A tenth of a long training may take minutes. Without calls in between there is no progress report, and a
    # curator that is told to stop cannot end.
    monkeypatch.setattr(generators, "_TELL_S", 0.0)
    steps: list[int] = []

    def stepped(step: int) -> None:
        steps.append(step)
        if step == 7:
            raise DataError("it is not carried out any more", "Ask again.")

    with pytest.raises(DataError, match="not carried out"):
        train(NETWORK, [target(rows(400))], None, TRAINING, stepped=stepped)
    assert steps == [1, 2, 3, 4, 5, 6, 7]


def test_training_decreases_the_objective_and_reports_it(
    trained: tuple[generators.Trained, list[Report]],
) -> None:
    result, reports = trained
    assert result.objectives[-1] < 0.1 * result.objectives[0]
    assert [report.step for report in reports] == [50, 100, 150]
    assert reports[0].initial == result.objectives[0]


def test_progress_gives_early_results_that_fit_the_schema(
    trained: tuple[generators.Trained, list[Report]],
) -> None:
    early = trained[1][0].sample(17)
    SCHEMA.check(early, "early")
    assert len(early) == 17


def test_generated_rows_have_the_distribution_that_was_embedded(
    trained: tuple[generators.Trained, list[Report]],
) -> None:
    table = trained[0].sample(3000, seed=3)
    SCHEMA.check(table, "synthetic")
    assert table.labels is not None
    assert abs(table.labels.mean() - 0.25) < 0.04  # four standard deviations
    old = table.values[table.labels == 1]
    young = table.values[table.labels == 0]
    assert abs(old[:, 0].mean() - 50) < 4
    assert abs(young[:, 0].mean() - 30) < 4
    assert (old[:, 1] == 2).mean() > 0.85
    assert (young[:, 1] == 2).mean() < 0.15
    assert 0.25 < (young[:, 1] == 0).mean() < 0.75


def test_training_and_sampling_are_the_same_for_the_same_seed(
    trained: tuple[generators.Trained, list[Report]],
) -> None:
    again = train(NETWORK, [target(rows(4000))], np.array([0.75, 0.25]), TRAINING)
    assert again.objectives == trained[0].objectives
    one, two = again.sample(50, seed=8), trained[0].sample(50, seed=8)
    np.testing.assert_array_equal(one.values, two.values)
    assert not np.array_equal(one.values, again.sample(50, seed=9).values)


def test_a_diverged_training_returns_the_best_reported_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    # Steps of a hundred times the length after the first half: the end is far worse than the middle.
    def schedule(rate: float, *_: float) -> optax.Schedule:
        return lambda step: jnp.where(step < 60, rate, 100.0 * rate)

    monkeypatch.setattr(optax, "cosine_decay_schedule", schedule)
    samples: list[Table] = []
    settings = Training(steps=120, batch=128, learning_rate=0.01, reports=2)
    trained = train(
        NETWORK,
        [target(rows(4000))],
        np.array([0.75, 0.25]),
        settings,
        lambda report: samples.append(report.sample(40)),
    )
    assert trained.objectives[-1] > 2.0 * trained.objectives[1]
    np.testing.assert_array_equal(trained.sample(40, seed=0).values, samples[0].values)


def test_a_longer_sample_starts_with_rows_of_other_shares_only_where_asked(
    trained: tuple[generators.Trained, list[Report]],
) -> None:
    table = trained[0].sample(400, seed=0, shares=np.array([0.0, 1.0]))
    assert table.labels is not None
    assert table.labels.all()


def test_class_shares_are_learnt_where_none_are_released() -> None:
    settings = Training(steps=300, batch=64, learning_rate=0.01, reports=1)
    result = train(NETWORK, [target(rows(4000))], None, settings)
    assert abs(result.masses[1] - 0.25) < 0.05
    assert abs(result.masses.sum() - 1.0) < 1e-5


def test_training_takes_released_values_and_no_rows() -> None:
    """`everything after is post-processing`: nothing that trains has an argument for a table."""
    for name in ("train", "embedding_by", "Target", "Trained"):
        annotations = inspect.signature(getattr(generators, name)).parameters
        assert not any("Table" in str(p.annotation) for k, p in annotations.items() if k != "network"), name


def test_the_objective_has_no_bias_from_the_batch() -> None:
    """The estimate is zero in the mean at the truth, where the norm of one batch's error is its variance."""
    schema = Schema(columns=(Category(name="c", categories=("a", "b")),))
    features = MixedSpec(dimension=2, gamma=1.0, seed=0).make(schema)
    network = TableNetwork(schema, 1, code=2, hidden=(8,))
    truth = np.full((2, 1), 0.5**0.5 / 2.0)  # either category, each over sqrt(2)
    training = Training(batch=8, categories="gumbel")
    objective, _ = generators._compiled(
        network, [Target(truth, embedding_by(features))], np.ones(1), training, optax.sgd(0.0)
    )
    start = network.initial(jax.random.key(0))
    level = [*start[:-1], {**start[-1], "w": start[-1]["w"] * 0}]  # probabilities 1/2 whatever the noise
    parameters = {"network": level, "mass": jnp.zeros(1)}
    objectives = [float(objective(parameters, jax.random.key(seed))) for seed in range(400)]
    error = np.std(objectives) / len(objectives) ** 0.5
    assert abs(np.mean(objectives)) < 4 * error  # error rate 1e-4
    assert error < 0.01  # the variance of a half batch of 4 rows is 1/16


def test_heads_stay_in_the_domain_and_reach_its_bounds() -> None:
    logits = jnp.asarray([[-50.0, 0.0, 0.0, 0.0], [50.0, 9.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0]])
    soft = np.asarray(soften(SCHEMA, logits))
    np.testing.assert_allclose(soft[:, 0], [0.0, 1.0, 0.5])
    np.testing.assert_allclose(soft[:, 1:].sum(axis=1), 0.5**0.5, rtol=1e-6)
    values = decode(SCHEMA, soft, np.random.default_rng(0))
    np.testing.assert_array_equal(values[:, 0], [20.0, 60.0, 40.0])
    assert values[1, 1] == 0
    assert values[2, 1] == 2


def test_a_number_on_a_bound_has_a_gradient_to_leave_it() -> None:
    slope = jax.grad(lambda x: soften(SCHEMA, x)[0, 0])(jnp.full((1, 4), -50.0))
    assert float(slope[0, 0]) > 0


def test_categories_are_drawn_by_probability_and_not_the_largest() -> None:
    soft = np.tile(np.array([[0.5, 0.6, 0.3, 0.1]]) * [1, 0.5**0.5, 0.5**0.5, 0.5**0.5], (4000, 1))
    drawn = decode(SCHEMA, soft, np.random.default_rng(0))[:, 1]
    shares = np.bincount(drawn.astype(int), minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.04)


def test_what_does_not_fit_is_refused_with_a_typed_error() -> None:
    with pytest.raises(ConfigError, match="one column per class"):
        train(NETWORK, [Target(np.zeros((63, 3)), embedding_by(MAP))], None, TRAINING)
    with pytest.raises(ConfigError, match="one column per class"):
        train(NETWORK, [], None, TRAINING)
    with pytest.raises(DataError, match="finite"):
        Target(np.full((63, 2), np.nan), embedding_by(MAP))
