"""Oracles that answer marginals: the interfaces of algorithms, and oracles over tables in this process.

An algorithm uses one of two interfaces. A `CountOracle` gives exact pooled counts to a curator that the
owners trust with exact counts. A `NoisyOracle` gives counts with noise, which may be added before any party
sees the sum (secure aggregation with noise of every owner), so the curator learns nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.counts import Clique, marginal_counts
from fedkme.privacy.noise import NoiseSource
from fedkme.releases.counts import Measurement


class CountOracle(Protocol):
    """Oracle of exact sums over all owners."""

    async def counts(self, cliques: Sequence[Clique]) -> list[IntArray]:
        """Pooled counts of every marginal, (cells,) each; one query to the owners."""


class NoisyOracle(Protocol):
    """Oracle of sums with Gaussian noise."""

    async def noisy(self, cliques: Sequence[Clique], sigmas: Sequence[float]) -> list[Measurement]:
        """Pooled counts with independent noise; one query to the owners.

        The noise of marginal i has at least the standard deviation sigmas[i] in every cell: owners that drop
        out or lie must not reduce the noise. The answer has the actual deviation.
        """


class PooledOracle:
    """`CountOracle` over owners' tables of codes in this process."""

    def __init__(self, owners: Sequence[IntArray], sizes: Sequence[int]) -> None:
        """Keep owners' tables of codes, (m_j, c) each; `sizes` is the number of codes of each column.

        Raises:
            DataError: the tables have no rows.
        """
        if sum(len(codes) for codes in owners) < 1:
            raise DataError("there are no rows to count", "Leave owners without rows out of the release.")
        self._owners, self._sizes = tuple(owners), tuple(sizes)

    async def counts(self, cliques: Sequence[Clique]) -> list[IntArray]:
        """Exact pooled counts of every marginal, (cells,) each."""
        return [
            np.sum([marginal_counts(codes, clique, self._sizes) for codes in self._owners], axis=0)
            for clique in cliques
        ]


class TrustedNoise:
    """`NoisyOracle` of a trusted curator, which adds the noise itself, once, to whole numbers."""

    def __init__(self, oracle: CountOracle, noise: NoiseSource) -> None:
        """Take an oracle of exact counts, and the curator's noise."""
        self._oracle, self._noise = oracle, noise

    async def noisy(self, cliques: Sequence[Clique], sigmas: Sequence[float]) -> list[Measurement]:
        """Pooled counts with the curator's noise."""
        if len(cliques) != len(sigmas):
            raise ConfigError("every marginal needs its noise", "Name one sigma a marginal.")
        exact = await self._oracle.counts(cliques)
        return [
            Measurement(clique, add_noise(counts, sigma, self._noise), sigma)
            for clique, counts, sigma in zip(cliques, exact, sigmas, strict=True)
        ]


def add_noise(counts: IntArray, sigma: float, noise: NoiseSource) -> FloatArray:
    """Add Gaussian noise to counts, without rounding or clipping at 0, which would be post-processing."""
    return counts.astype(np.float64) + noise.gaussian(sigma, counts.size)
