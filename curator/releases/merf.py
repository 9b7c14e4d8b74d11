"""DP-MERF: a released random-feature embedding of rows and labels, and a generator for it (Harder 2021).

A table is embedded as `fourier` (homogeneous: everything through one Gaussian kernel) or as `mixed`
(numbers through the kernel, categories as scaled one-hot codes through the public schema). With labels
the embedding has a column per class, (1/N) sum of phi(x_n) f(y_n)^T; one row moves one column, so the
matrix is one Gaussian query of diameter 2 and not C of them. A continuous label is one more numeric
column: the Gaussian kernel of (x, y) is the product of those of x and of y, so `fourier` without classes
is the joint embedding that the paper writes down. Images go in as pixels, or as codes of an auto-encoder
(curator.releases.encoded).

Class weights (for imbalance) are the class counts, released together with the embedding; see
curator.releases.joint for why Fourier features leave room for them at no cost. Training divides each
column by its weight, so that a rare class counts as much as a frequent one, and rows can be drawn in any
proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from curator.releases.joint import FloatArray, JointRelease, calibrate, release
from curator.releases.progress import Progress, silent
from fedkme.errors import ConfigError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, PooledSum, ReleasedEmbedding
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.sums import PooledRelease
from fedkme.tables.schema import Schema

if TYPE_CHECKING:
    from curator.releases.generators import Target, Trained, Training
    from curator.releases.networks import Network

NAME = "DP-MERF (Harder 2021)"


@dataclass(frozen=True)
class MerfPlan:
    """Plan that is settled before an owner reads a row.

    Attributes:
        schema: public domain; its label, if any, is the class.
        spec: feature map.
        epsilon: of the whole release; None: without noise.
        delta: of the whole release.
        class_weights: release the class counts too; without, classes have equal weight unless training is
            told a public weight or learns it.
    """

    schema: Schema
    spec: FourierMapSpec | MixedSpec
    epsilon: float | None
    delta: float = 1e-5
    class_weights: bool = True

    @property
    def layout(self) -> Layout:
        """One column per class of the schema's label."""
        return Layout(len(self.schema.classes) or None)

    @cached_property
    def map(self) -> EmbeddingMap:
        """The feature map."""
        return self.spec.make(self.schema)

    @cached_property
    def calibration(self) -> PooledRelease | None:
        """Noise of embedding and counts, calibrated jointly; None without noise."""
        if self.epsilon is None:
            return None
        return calibrate(
            [self.map],
            [1.0],
            self.layout,
            epsilon=self.epsilon,
            delta=self.delta,
            counts=self.class_weights,
        )

    def release(self, pooled: PooledSum, rows: int, noise: NoiseSource) -> JointRelease:
        """Add noise, once: see curator.releases.joint.release."""
        return release([self.map], [pooled], self.layout, rows, self.calibration, noise, self.class_weights)


def fit(
    plan: MerfPlan,
    released: JointRelease,
    network: Network,
    training: Training,
    masses: FloatArray | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train a generator; reads the release only."""
    from curator.releases.generators import train

    weights = released.masses if masses is None else masses
    return train(network, targets(plan.schema, released.embeddings, weights), weights, training, progress)


def targets(
    schema: Schema,
    embeddings: Sequence[ReleasedEmbedding],
    masses: FloatArray | None,
    gammas: Sequence[float] | None = None,
) -> list[Target]:
    """Released embeddings as what a generator is trained against, of weight 1 or as `gammas` says.

    Columns of the errors are divided by the class weights.

    Raises:
        ConfigError: another number of weights than of embeddings.
    """
    from curator.releases.generators import Target, embedding_by

    gammas = [1.0] * len(embeddings) if gammas is None else gammas
    if len(gammas) != len(embeddings):
        raise ConfigError("every embedding needs a weight in the objective", "Correct the weights.")
    found = []
    for each, gamma in zip(embeddings, gammas, strict=True):
        columns = each.layout.columns
        scale = np.ones(columns) if masses is None else np.maximum(masses, 1e-6)
        floor = len(each.mean) * each.sigma**2 * float((1.0 / scale**2).sum())
        embed = embedding_by(each.map_spec.make(schema))
        found.append(Target(each.mean, embed, gamma, scale, floor))
    return found
