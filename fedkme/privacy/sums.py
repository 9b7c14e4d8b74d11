"""Noise of pooled embeddings: several sums over the same rows, calibrated as one Gaussian release.

Relation: replace one row of the pool by another, N public. Sums Q_1, ..., Q_k over the rows (embeddings under
several maps, of several epochs, the vector of class counts) get independent Gaussian noise of deviation
sigma_q in every coordinate. A neighbour moves Q_q by at most d_q in L2.

Proof. Divide each sum by its sigma: the joint output is one vector with noise N(0, I), and a neighbour moves
it by at most mu = sqrt(sum of (d_q / sigma_q)^2). This is the Gaussian mechanism of noise multiplier 1/mu,
which is (epsilon, delta)-DP exactly where gaussian_delta(1/mu, epsilon) <= delta (Balle and Wang 2018,
theorem 8). A query may be chosen after seeing earlier noisy answers (Dong, Roth, Su 2019). The d_q belong to
one pair of neighbours: the new row is of the same class or of another class, and mu is the larger of the two
roots. A bound that takes the worst case of each query separately (MATH.md: 5.2759 for class weights with an
embedding at (1, 1e-5)) pays for two changes where a row can make only one of them.

All later steps are post-processing: means, class weights, generators, reduced sets.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.maps import ROW_UNIT, EmbeddingMap
from fedkme.features.sums import (
    Layout,
    PooledSum,
    ReleasedEmbedding,
    counted,
    other_class_distance,
    same_class_distance,
)
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.privacy.noise import NoiseSource


@dataclass(frozen=True)
class Query:
    """A sum over the rows, and the L2 distance by which one replaced row moves the sum.

    Attributes:
        within: distance where the new row is of the same class.
        across: distance where the new row is of another class.
        share: share of the budget, relative to other queries'; noise falls with the root of the share.
    """

    within: float
    across: float
    share: float = 1.0

    def __post_init__(self) -> None:
        values = (self.within, self.across, self.share)
        if not (all(math.isfinite(v) and v >= 0 for v in values) and self.share and self.diameter):
            cause = "a query of a release has no finite diameter or no share"
            raise ConfigError(cause, "Diameters and shares are positive and finite.")

    @property
    def diameter(self) -> float:
        """Sensitivity of this sum alone."""
        return max(self.within, self.across)


def embedding_query(features: EmbeddingMap, layout: Layout, share: float = 1.0) -> Query:
    """Query of the (J, C) sum of phi; the map's bounds give its distances (see fedkme.features.sums)."""
    within = counted(same_class_distance(features), features)
    across = counted(other_class_distance(features), features) if layout.columns > 1 else within
    return Query(within, across, share)


def count_query(share: float = 1.0) -> Query:
    """Query of the (C,) class counts: a row of another class takes 1 from one count and adds 1 to another."""
    return Query(0.0, math.sqrt(2.0), share)


def free_count_share(embedding: Query) -> float:
    """Share of `count_query` next to an `embedding` of share 1 at which counts cost the embedding nothing.

    The share is 1 - (across/within)^2, with which both cases of a replaced row have the same mu. Paired
    Fourier features have within 2 and across sqrt(2), so counts come free with noise of the same sigma. At
    share 0 counts are not free.
    """
    return max(0.0, 1.0 - (embedding.across / embedding.within) ** 2) * embedding.share


@dataclass(frozen=True)
class PooledRelease:
    """Queries that together are (epsilon, delta)-DP under replace-one, and the noise that makes them so.

    Attributes:
        queries: all queries of the same rows; a further query needs another calibration.
        epsilon: epsilon of all queries together.
        delta: delta of all queries together.

    Raises:
        ConfigError: on construction, for no query or parameters out of their range.
    """

    queries: tuple[Query, ...]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.queries:
            raise ConfigError("a release has no queries", "Name at least one embedding.")
        if not self.epsilon > 0:
            raise ConfigError(f"epsilon {self.epsilon} of a release is not positive", "Take epsilon > 0.")
        _ = self.multiplier

    @functools.cached_property
    def multiplier(self) -> float:
        """Noise over sensitivity of the joint vector: 1/mu."""
        return gaussian_sigma(self.epsilon, self.delta)

    @functools.cached_property
    def sigmas(self) -> tuple[float, ...]:
        """Standard deviation of the noise in every coordinate of each sum, in the sum's own units."""
        total = math.fsum(query.share for query in self.queries)
        loads = [query.share / (total * query.diameter**2) for query in self.queries]
        within = math.fsum(load * query.within**2 for load, query in zip(loads, self.queries, strict=True))
        across = math.fsum(load * query.across**2 for load, query in zip(loads, self.queries, strict=True))
        scale = self.multiplier * math.sqrt(max(within, across))
        return tuple(scale / math.sqrt(load) for load in loads)

    @property
    def event(self) -> Gaussian:
        """All queries as one event under replace-one."""
        return Gaussian(self.multiplier)

    def usable_epsilon(
        self,
        query: int,
        features: EmbeddingMap,
        layout: Layout,
        rows: int,
        ratio: float = 1.0,
        share: float = 1.0,
    ) -> float:
        """An epsilon, of two digits, at which an embedding is more than noise; 0 where this release suffices.

        It reads nothing private, since N is public.

        Args:
            query: place of the embedding's query in `queries`.
            features: phi.
            layout: columns of the embedding.
            rows: N, at least 1.
            ratio: largest bearable length of the mean's noise (root mean square) over the norm bound B, the
                largest length of the mean itself.
            share: this release's part of 1/m^2 in a larger budget; the returned epsilon is of that budget.
        """
        noise, bearable = self._noise(query, features, layout), ratio * features.norm_bound * rows
        if noise <= bearable:
            return 0.0
        return _round_up(gaussian_epsilon(self.multiplier * math.sqrt(share) * bearable / noise, self.delta))

    def _noise(self, query: int, features: EmbeddingMap, layout: Layout) -> float:
        """Root mean square length of the noise of a query's sum."""
        return self.sigmas[query] * math.sqrt(features.dimension * layout.columns)


def release_embedding(
    pooled: PooledSum, features: EmbeddingMap, layout: Layout, sigma: float, noise: NoiseSource
) -> ReleasedEmbedding:
    """The mean embedding with noise, which is added once, to the integers of the sum.

    Args:
        pooled: the sum of all owners.
        features: phi.
        layout: columns of the embedding.
        sigma: sigma of this query, from `PooledRelease.sigmas`; 0: no noise, for baselines.
        noise: source of the noise.
    """
    steps = pooled.steps.astype(np.float64)
    if sigma > 0:
        steps += noise.gaussian(sigma / ROW_UNIT, steps.size).reshape(steps.shape)
    mean: FloatArray = steps * (ROW_UNIT / pooled.rows)
    return ReleasedEmbedding(features.spec, layout, mean, sigma / pooled.rows, pooled.rows)


def release_counts(pooled: PooledSum, sigma: float, noise: NoiseSource) -> FloatArray:
    """Class counts with noise, (C,); rounding and cutting at 0 are post-processing and happen elsewhere."""
    counts = pooled.count.astype(np.float64)
    return counts + noise.gaussian(sigma, counts.size) if sigma > 0 else counts


def _round_up(epsilon: float) -> float:
    """Round epsilon up to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 1) if epsilon > 0 else 1.0
    return math.ceil(epsilon / unit) * unit
