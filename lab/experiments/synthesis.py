"""Synthetic tables by DP-MERF or DP-HP, pooled over simulated owners, and the settings of each data set.

A `Choice` holds what a person chooses in public before a release: feature maps, length scales, how training
goes. Those written down in lab.experiments.scores were chosen by looking at results on these very data, as
the papers' were: a choice that is not private, and that no epsilon here covers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from audit.in_memory import pool
from curator.releases.joint import JointPlan, fit
from curator.releases.methods.generated import hermite_plan
from fedkme.embeddings.kernels import median_gamma
from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, PooledSum, pooled_sum
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Event
from fedkme.privacy.noise import simulated
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

Method = Literal["merf", "hermite", "hermite-sum"]
"""DP-MERF; DP-HP as its paper has it, a sum kernel and product kernels; its sum kernel alone."""
DELTA = 1e-5


@dataclass(frozen=True)
class Choice:
    """Public settings of a release.

    Attributes:
        features: Fourier features of DP-MERF.
        gamma: gamma of its kernel.
        weight: of its one-hot part. With many more 0/1 columns than categories it is cheap: squared spread is
            4 + 2 weight^2 c'/W (fedkme.features.fourier_map), so weight 4 on 8 categories of 102 names costs
            a quarter more noise on numbers and takes two thirds off the names'. Training heeds errors by
            weight squared, so numbers may suffer (those of census do, those of covtype do not).
        scales: a factor for each named column before its kernel; others have 1.
        hermite: settings that differ from `_HERMITE`; None: as `default_hermite` has them.
        hidden: layers of the generator.
        learning_rate: learning rate of its training.
        even: synthetic rows have as many of each class, not as many as were released.
        joint: DP-MERF through one kernel of all columns, categories too, and not numbers beside categories.
        steps: share of the steps that a size allows: wide tables take longer over each.
    """

    features: int = 2000
    gamma: float = 5.0
    weight: float = 1.0
    scales: Mapping[str, float] = field(default_factory=dict)
    hermite: Mapping[str, Any] | None = None
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-3
    even: bool = False
    joint: bool = False
    steps: float = 1.0


_HERMITE = {"epochs": 5, "product_columns": 3, "sum_order": 30, "sum_length": 0.1}


def default_hermite(schema: Schema) -> Mapping[str, Any]:
    """Settings of DP-HP for tables of categories alone (marginals), and for others."""
    if all(isinstance(column, Category) for column in schema.columns):
        pairs = min(math.comb(schema.width, 2), 105)
        return {"epochs": pairs, "product_columns": 2, "gamma": 10.0, "sum_share": 0.1}
    return {"epochs": 10, "product_columns": 2, "sum_order": 60, "sum_length": 0.05}


def pooled(owners: Sequence[Table], features: EmbeddingMap, layout: Layout) -> PooledSum:
    """Every owner's sum, and their total."""
    return pool(pooled_sum(rows, features, layout) for rows in owners if len(rows))


def synthesise(
    method: Method,
    schema: Schema,
    owners: Sequence[Table],
    rows: int,
    epsilon: float | None,
    seed: int,
    steps: int,
    count: int,
    choice: Choice,
) -> tuple[Table, float]:
    """Release (without noise if epsilon is None), train and sample.

    Returns:
        The synthetic rows, and epsilon at DELTA by the sound accountant (infinite without noise).
    """
    from curator.releases.generators import Training
    from curator.releases.networks import TableNetwork

    layout = Layout(len(schema.classes) or None)
    noise = simulated(seed, "curator", method)
    network = TableNetwork(schema, layout.columns, hidden=choice.hidden)
    training = Training(
        steps=max(1, round(steps * choice.steps)), learning_rate=choice.learning_rate, seed=seed
    )

    if method == "merf":
        scales = tuple(choice.scales.get(column.name, 1.0) for column in schema.columns)
        draw: dict[str, Any] = {
            "dimension": choice.features,
            "gamma": choice.gamma,
            "seed": seed,
            "scales": scales,
        }
        spec = FourierMapSpec(**draw) if choice.joint else MixedSpec(**draw, weight=choice.weight)
        plan = JointPlan(schema, (spec,), epsilon, DELTA)
    else:
        fields = default_hermite(schema) if choice.hermite is None else choice.hermite
        alone = {"epochs": 0} if method == "hermite-sum" else {}
        values = {"delta": DELTA, "seed": seed, **_HERMITE, **fields, **alone}
        settings = HermiteSettings.model_validate(values)
        plan = hermite_plan(schema, epsilon, settings)
    released = plan.release([pooled(owners, phi, layout) for phi in plan.maps], rows, noise)
    trained = fit(plan, released, network, training)
    shares = np.ones(layout.columns) if choice.even else None
    return trained.sample(count, seed, shares), paid(released.event)


def paid(event: Event | None) -> float:
    """Epsilon at DELTA by the sound accountant; infinite where there is no event that it could count."""
    return float("inf") if event is None else Sound().epsilon([event], DELTA).epsilon


def rkhs_distance(owners: Sequence[Table], synthetic: Table, schema: Schema, seed: int) -> float:
    """Distance of the mean embeddings of real and synthetic rows, without labels; reads private rows.

    A figure of an experiment, never of a release. Features are fresh ones (2,000, from a seed that no release
    uses) of a Gaussian kernel over all columns, gamma by the median rule on synthetic rows; the empty release
    has about 1 to 0.5, and two samples of n rows of one law differ by about 1/sqrt(n).
    """
    try:
        gamma = median_gamma(schema.encode(synthetic.values[:1000]))
    except DataError:  # most rows are equal
        gamma = 3.0 / schema.width
    spec = FourierMapSpec(dimension=2000, gamma=gamma, seed=2**40 + seed)
    features = spec.make(schema)
    real = pooled([Table(part.values) for part in owners], features, Layout())
    drawn = pooled([Table(synthetic.values)], features, Layout())
    return float(np.linalg.norm(real.sum / real.rows - drawn.sum / drawn.rows))
