"""Owners in memory, for experiments and tests of methods that pool owners' sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from curator.releases import joint
from curator.releases.joint import JointRelease
from curator.releases.method import NoisyTable
from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.counts import Clique, Groups, codes_with, marginal_counts, parity_sums, sizes_with
from fedkme.features.sums import Layout, PooledSum
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.privacy.sums import PooledRelease
from fedkme.releases.counts import Measurement, Screen
from fedkme.sums.values import Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class OwnersInMemory:
    """`SumOracle` over a table split among owners; it counts questions and simulates the noise."""

    noise_ratio = 1.0

    def __init__(self, table: Table, schema: Schema, owners: int = 5) -> None:
        self.tables = [table.take(part) for part in np.array_split(np.arange(len(table)), owners)]
        self.schema = schema
        self.asked = 0

    @property
    def rows(self) -> int:
        """N, rows of all owners."""
        return sum(len(table) for table in self.tables)

    @property
    def owners(self) -> int:
        """Owners that take part."""
        return len(self.tables)

    def tell(self, stage: str, line: str, fraction: float) -> None:
        """Ignore progress reports."""

    async def joint(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """All sums of a question with noise."""
        vector = SumVector(query, self.schema)
        sums = vector.sums(self._total(vector), self.rows)
        return joint.release(vector.maps, sums, query.layout, self.rows, release, self.noise, query.counts)

    async def followed(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """All sums of a question with noise; no answer has to be stored."""
        return await self.joint(query, release)

    @property
    def noise(self) -> NoiseSource:
        """Source of noise that starts again with the same seed for every question."""
        return simulated(3, "curator", "release")

    async def marginals(self, marginals: Marginals, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled counts of every marginal with noise."""
        return self._noisy(SumQuery((), Layout(), marginals=marginals), sigmas)

    async def parities(self, parities: Parities, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled parities with noise."""
        return self._noisy(SumQuery((), Layout(), parities=parities), sigmas)

    async def products(self, products: ScoreProducts, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled products of scores with noise."""
        return self._noisy(SumQuery((), Layout(), products=products), sigmas)

    def _noisy(self, query: SumQuery, sigmas: Sequence[float]) -> list[NoisyTable]:
        vector = SumVector(query, self.schema)
        noise = self.noise
        blocks = zip(vector.tables(self._total(vector)), sigmas, strict=True)
        return [(sums + noise.gaussian(sigma, sums.size), sigma) for sums, sigma in blocks]

    def _total(self, vector: SumVector) -> NDArray[np.int64]:
        """Add up all owners' answers to one more question."""
        self.asked += 1
        return np.asarray(np.sum([vector.of(table) for table in self.tables if len(table)], axis=0))


class FreshNoise(OwnersInMemory):
    """Owners whose simulated noise is drawn anew for every question of every release."""

    def __init__(self, table: Table, schema: Schema, seed: int, ratio: float = 1.0) -> None:
        """Draw noise by a seed; a ratio above 1 is that of owners' noise."""
        super().__init__(table, schema)
        self.noise_ratio = ratio
        self._seed = seed
        self._drawn = 0

    @property
    def noise(self) -> NoiseSource:
        """Source of noise for the next question."""
        self._drawn += 1
        return simulated(self._seed, "curator", f"question-{self._drawn}")

    async def marginals(self, marginals: Marginals, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled counts of every marginal, with noise that `noise_ratio` enlarges."""
        return await super().marginals(marginals, [sigma * self.noise_ratio for sigma in sigmas])

    async def parities(self, parities: Parities, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled parities, with noise that `noise_ratio` enlarges."""
        return await super().parities(parities, [sigma * self.noise_ratio for sigma in sigmas])

    async def products(self, products: ScoreProducts, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Pooled products of scores, with noise that `noise_ratio` enlarges."""
        return await super().products(products, [sigma * self.noise_ratio for sigma in sigmas])


class PooledOracle:
    """Exact counts over owners' tables of codes in this process."""

    def __init__(self, owners: Sequence[IntArray], sizes: Sequence[int]) -> None:
        """Keep owners' tables of codes, (m_j, c) each; `sizes` is the number of codes of each column.

        Raises:
            DataError: the tables have no rows.
        """
        if sum(len(codes) for codes in owners) < 1:
            raise DataError("there are no rows to count", "Leave owners without rows out of the release.")
        self._owners, self._sizes = tuple(owners), tuple(sizes)

    async def counts(self, cliques: Sequence[Clique], groups: Sequence[Groups] = ()) -> list[IntArray]:
        """Exact pooled counts of every marginal, (cells,) each."""
        sizes, owners = sizes_with(groups, self._sizes), [codes_with(groups, each) for each in self._owners]
        return [
            np.sum([marginal_counts(codes, clique, sizes) for codes in owners], axis=0) for clique in cliques
        ]

    def parity_sums(self, groups: Sequence[Groups], products: Sequence[Clique]) -> IntArray:
        """Exact pooled parities, (products,)."""
        return np.asarray(np.sum([parity_sums(each, groups, products) for each in self._owners], axis=0))


class TrustedNoise:
    """`NoisyOracle` of a trusted curator, which adds the noise itself, once, to whole numbers."""

    def __init__(self, oracle: PooledOracle, noise: NoiseSource) -> None:
        """Take an oracle of exact counts, and the curator's noise."""
        self._oracle, self._noise = oracle, noise

    async def noisy(
        self, cliques: Sequence[Clique], sigmas: Sequence[float], groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        """Pooled counts with the curator's noise."""
        if len(cliques) != len(sigmas):
            raise ConfigError("every marginal needs its noise", "Name one sigma a marginal.")
        exact = await self._oracle.counts(cliques, groups)
        return [
            Measurement(clique, counts + self._noise.gaussian(sigma, counts.size), sigma)
            for clique, counts, sigma in zip(cliques, exact, sigmas, strict=True)
        ]

    async def parities(
        self, groups: Sequence[Groups], blocks: Sequence[Sequence[Clique]], sigmas: Sequence[float]
    ) -> Screen:
        """Pooled parities with the curator's noise."""
        exact = [self._oracle.parity_sums(groups, block) for block in blocks]
        sums = (e + self._noise.gaussian(sigma, e.size) for e, sigma in zip(exact, sigmas, strict=True))
        return Screen(tuple(groups), tuple(map(tuple, blocks)), tuple(sums), tuple(sigmas))


def pool(sums: Iterable[PooledSum]) -> PooledSum:
    """Add the sums of owners: the same bits in any order and for any partition of the rows."""
    answers = list(sums)
    steps, counts = [each.steps for each in answers], [each.count for each in answers]
    return PooledSum(np.sum(steps, axis=0), np.sum(counts, axis=0))
