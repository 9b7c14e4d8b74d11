"""DP-MERF through an auto-encoder (Algorithm 2): the embedding of codes, a generator of codes, rows again.

Everything here is under add-remove, as DP-SGD's amplification is (curator.releases.autoencoder): a row
that is added moves the (J, C) sum of features of codes by its norm bound at most, in one column, whatever the
encoder is. How many rows there are is not public then, so the noisy sum is divided by a nominal number,
settled before. An epsilon under add-remove does not compare with one under replace-one: for paired
features the sum's sensitivity is 1 here and 2 there.

The release of an encoder trained with privacy and of the embedding is the composition of both events; the
noise of the embedding is what is left of (epsilon, delta) after the encoder's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from curator.releases.autoencoder import AutoEncoder, Origin, PrivateTraining
from curator.releases.generators import Trained, Training, train
from curator.releases.joint import targets
from curator.releases.networks import TableNetwork
from curator.releases.progress import Progress, silent
from fedkme.errors import ConfigError, DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, PooledSum, ReleasedEmbedding, counted
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Composed, Event, ExactStatistic, Gaussian, Relation
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.sums import release_embedding
from fedkme.tables.table import Table

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class EncodedPlan:
    """Plan that is settled before an owner reads a row.

    Attributes:
        network: the auto-encoder.
        spec: feature map of codes.
        rows: nominal number of rows, a public constant.
        epsilon: of the whole release, the encoder's training included; None: without noise.
        delta: of the whole release.
        origin: how the encoder comes to be; `published` has no finite epsilon.
        training: of a `private` encoder.

    Raises:
        ConfigError: a private encoder without its training, or another with one, or no rows.
    """

    network: AutoEncoder
    spec: FourierMapSpec
    rows: int
    epsilon: float | None
    delta: float = 1e-5
    origin: Origin = "private"
    training: PrivateTraining | None = None
    relation: Relation = "add-remove"

    def __post_init__(self) -> None:
        if (self.origin == "private") != (self.training is not None) or self.rows < 1:
            raise ConfigError(
                "a private encoder is trained with noise, others are not, and a release is about rows",
                "Give the training of a private encoder, and the nominal number of rows.",
            )
        if self.relation != "add-remove":
            raise ConfigError(
                "codes are released under add-remove", "Amplification by sampling is stated for no other."
            )

    @property
    def layout(self) -> Layout:
        """One column per class of the schema's label."""
        return Layout(len(self.network.schema.classes) or None)

    @cached_property
    def map(self) -> EmbeddingMap:
        """Features of codes."""
        return self.spec.make(self.network.code_schema)

    @cached_property
    def multiplier(self) -> float | None:
        """Noise of the embedding over its sensitivity; None without noise.

        Raises:
            ConfigError: the encoder's training alone costs more than epsilon.
        """
        if self.epsilon is None:
            return None
        before = [] if self.training is None else [self.training.event]
        return gaussian_beside(before, self.epsilon, self.delta)

    @property
    def event(self) -> Event | None:
        """Event of all that is disclosed, under add-remove; None without noise."""
        if self.multiplier is None:
            return None
        embedding = Gaussian(self.multiplier)
        if self.origin == "published":
            what = "an encoder trained on the rows themselves"
            return Composed((ExactStatistic(what), embedding))
        return embedding if self.training is None else Composed((self.training.event, embedding))

    def release(self, pooled: PooledSum, noise: NoiseSource) -> ReleasedEmbedding:
        """The pooled sum of features of codes with noise, once, over the nominal number of rows.

        Its count is not used.

        Raises:
            DataError: the sum is not of the plan's map.
        """
        if pooled.steps.shape != (self.map.dimension, self.layout.columns):
            raise DataError("a pooled sum is not of the plan's feature map", "Pool under one request.")
        sensitivity = counted(self.map.norm_bound, self.map)  # one row more or less
        sigma = 0.0 if self.multiplier is None else self.multiplier * sensitivity
        each = release_embedding(pooled, self.map, self.layout, sigma, noise)
        scale = max(pooled.rows, 1) / self.rows  # from the private to the nominal number of rows
        return replace(each, mean=each.mean * scale, sigma=sigma / self.rows, rows=self.rows)


def gaussian_beside(before: Sequence[Event], epsilon: float, delta: float) -> float:
    """Smallest multiplier (to 0.1 %) of a Gaussian that is (epsilon, delta)-DP together with other events.

    Raises:
        ConfigError: the other events alone cost epsilon or more.
    """
    accountant = Sound()

    def cost(multiplier: float) -> float:
        return accountant.epsilon([*before, Gaussian(multiplier)], delta).epsilon

    if (before and accountant.epsilon(before, delta).epsilon >= epsilon) or cost(1e4) > epsilon:
        raise ConfigError(
            f"training the encoder alone costs epsilon {epsilon:g} or more",
            "Take more noise, fewer steps or a lower rate for it.",
        )
    low, high = 0.0, 0.0
    multiplier = 1.0
    while not high or high > low * 1.001:
        if cost(multiplier) <= epsilon:
            high = multiplier
        else:
            low = multiplier
        if not high:
            multiplier *= 2.0
        elif not low:
            multiplier /= 2.0
        else:
            multiplier = math.sqrt(low * high)
    return high


def fit(
    plan: EncodedPlan,
    released: ReleasedEmbedding,
    training: Training,
    masses: FloatArray | None = None,
    hidden: tuple[int, ...] = (256, 256),
    progress: Progress = silent,
) -> Trained:
    """Train a generator of codes; reads the release only.

    Without public class weights they are learnt with it.
    """
    schema = plan.network.code_schema
    network = TableNetwork(schema, plan.layout.columns, hidden=hidden)
    return train(network, targets(schema, [released], masses), masses, training, progress)


def sample(plan: EncodedPlan, parameters: FloatArray, trained: Trained, rows: int, seed: int) -> Table:
    """Rows in the schema's columns: codes of the generator, through the decoder."""
    return plan.network.decoded(parameters, trained.sample(rows, seed))
