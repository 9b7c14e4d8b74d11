"""Joint release of several pooled embeddings and the class counts: one Gaussian mechanism for all.

fedkme.privacy.sums does the calibration. Next to Fourier features, counts take a share of the budget that is
free: a row's features can turn around within a class (spread 2) but not across classes (sqrt 2). So DP-MERF
with class weights has the noise of one release, 3.7306 per unit at (1, 1e-5), instead of two releases,
5.2759. Next to features without a free share (one-hot, Hermite), counts take COUNT_SHARE of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from curator.releases.progress import Progress, silent
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.features.sums import Layout, PooledSum, ReleasedEmbedding
from fedkme.privacy.events import Event
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.sums import (
    PooledRelease,
    count_query,
    embedding_query,
    free_count_share,
    release_counts,
    release_embedding,
)
from fedkme.tables.schema import Schema

if TYPE_CHECKING:
    from curator.releases.generators import Target, Trained, Training
    from curator.releases.networks import Network


COUNT_SHARE = 0.02
"""Share of the budget for class counts that are not free."""


def calibrate(
    maps: Sequence[EmbeddingMap],
    shares: Sequence[float],
    layout: Layout,
    *,
    epsilon: float,
    delta: float,
    counts: bool,
) -> PooledRelease:
    """Calibrate all embeddings, then the class counts if asked for, together to (epsilon, delta).

    Each embedding gets its share of the budget (of 1 / sigma^2); only the proportions of shares matter.

    Raises:
        ConfigError: a share is not positive and finite, or (epsilon, delta) are out of range.
    """
    if len(shares) != len(maps) or not all(math.isfinite(share) and share > 0 for share in shares):
        raise ConfigError("every embedding needs a positive share of the budget", "Correct the shares.")
    total = math.fsum(shares)
    queries = [embedding_query(phi, layout, share / total) for phi, share in zip(maps, shares, strict=True)]
    if counts and layout.columns > 1:
        free = math.fsum(free_count_share(query) for query in queries)
        queries.append(count_query(max(free, COUNT_SHARE)))
    return PooledRelease(tuple(queries), epsilon, delta)


@dataclass(frozen=True, eq=False)
class JointRelease:
    """Release that the curator may show to anybody.

    Attributes:
        embeddings: released embeddings, in the order of the maps.
        masses: (C,) share of every class among the N rows, with noise and at least one row each; None where
            counts were not released. Masses need not sum to 1: owners may leave rows out (under-sampling at a
            public rate), and a division by the number of kept rows would disclose that number.
        event: event of the whole release, under replace-one; None without noise.
    """

    embeddings: tuple[ReleasedEmbedding, ...]
    masses: FloatArray | None
    event: Event | None


def release(
    maps: Sequence[EmbeddingMap],
    pooled: Sequence[PooledSum],
    layout: Layout,
    rows: int,
    plan: PooledRelease | None,
    noise: NoiseSource,
    counts: bool,
) -> JointRelease:
    """Add noise once to the pooled sums under each map.

    The neighbouring relation is replace-one among `rows`, N, which is public and at least the number of rows
    in the sums. Without a plan there is no noise and no guarantee.

    Raises:
        ConfigError: the sums are not those of the maps.
        DataError: there are no rows, or the sums have more rows than N.
    """
    counts = counts and layout.columns > 1
    if [total.steps.shape for total in pooled] != [(phi.dimension, layout.columns) for phi in maps]:
        cause = "pooled sums do not have the shape of their feature maps"
        raise ConfigError(cause, "Pool under one request.")
    if not 1 <= max(total.rows for total in pooled) <= rows:
        raise DataError("there are no rows to embed, or more than the public number of rows", "Correct N.")
    sigmas = plan.sigmas if plan else (0.0,) * (len(maps) + counts)
    if len(sigmas) != len(maps) + counts:
        raise ConfigError("the noise was calibrated for other queries", "Calibrate for what is released.")
    released = []
    for phi, total, sigma in zip(maps, pooled, sigmas, strict=False):
        embedding = release_embedding(total, phi, layout, sigma, noise)
        scale = total.rows / rows  # the mean is the noisy sum over N, a public number
        released.append(replace(embedding, mean=embedding.mean * scale, sigma=sigma / rows, rows=rows))
    masses = None
    if counts:
        masses = np.maximum(release_counts(pooled[0], sigmas[-1], noise), 1.0) / rows
    return JointRelease(tuple(released), masses, plan.event if plan else None)


@dataclass(frozen=True)
class JointPlan:
    """Plan of embeddings by class and of a generator for them, fixed before an owner reads a row.

    Attributes:
        schema: public domain; its label, if any, is the class.
        specs: feature maps, in the order of the question.
        epsilon: epsilon of the whole release; None: without noise.
        delta: delta of the whole release.
        class_weights: True: release the class counts too; False: classes have equal weight, unless training
            gets public weights or learns them.
        shares: share of each embedding in the budget, 1 / sigma^2.
        gammas: weight of each embedding in the objective.
    """

    schema: Schema
    specs: tuple[MapSpec, ...]
    epsilon: float | None
    delta: float = 1e-5
    class_weights: bool = True
    shares: Sequence[float] = (1.0,)
    gammas: Sequence[float] = (1.0,)

    @property
    def layout(self) -> Layout:
        """Layout with one column per class of the schema's label."""
        return Layout(len(self.schema.classes) or None)

    @cached_property
    def maps(self) -> tuple[EmbeddingMap, ...]:
        """Feature maps of the plan."""
        return tuple(spec.make(self.schema) for spec in self.specs)

    @cached_property
    def calibration(self) -> PooledRelease | None:
        """Noise of all embeddings and of the counts, calibrated jointly; None without noise."""
        if self.epsilon is None:
            return None
        how: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "counts": self.class_weights}
        return calibrate(self.maps, self.shares, self.layout, **how)

    def release(self, pooled: Sequence[PooledSum], rows: int, noise: NoiseSource) -> JointRelease:
        """Add noise once to the pooled sums under each map."""
        return release(self.maps, pooled, self.layout, rows, self.calibration, noise, self.class_weights)


def fit(
    plan: JointPlan,
    released: JointRelease,
    network: Network,
    training: Training,
    masses: FloatArray | None = None,
    progress: Progress = silent,
    stepped: Callable[[int], None] = lambda _: None,
) -> Trained:
    """Train a generator on the objective of all embeddings together; training reads the release alone."""
    from curator.releases.generators import train

    weights = released.masses if masses is None else masses
    released_targets = targets(plan.schema, released.embeddings, weights, plan.gammas)
    return train(network, released_targets, weights, training, progress, stepped)


def targets(
    schema: Schema,
    embeddings: Sequence[ReleasedEmbedding],
    masses: FloatArray | None,
    gammas: Sequence[float] | None = None,
) -> list[Target]:
    """Make the targets of a generator from released embeddings, with weight 1 or the weights `gammas`.

    Columns of the errors are divided by the class weights.

    Raises:
        ConfigError: the number of weights is not the number of embeddings.
    """
    from curator.releases.generators import Target, embedding_by

    gammas = [1.0] * len(embeddings) if gammas is None else gammas
    if len(gammas) != len(embeddings):
        raise ConfigError("every embedding needs a weight in the objective", "Correct the weights.")
    released_targets = []
    for embedding, gamma in zip(embeddings, gammas, strict=True):
        columns = embedding.layout.columns
        scale = np.ones(columns) if masses is None else np.maximum(masses, 1e-6)
        floor = len(embedding.mean) * embedding.sigma**2 * float((1.0 / scale**2).sum())
        embed = embedding_by(embedding.map_spec.make(schema))
        released_targets.append(Target(embedding.mean, embed, gamma, scale, floor))
    return released_targets
