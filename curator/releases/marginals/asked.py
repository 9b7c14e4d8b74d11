"""Questions of the mechanisms of marginals to an oracle of sums, in parts of limited size."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from curator.releases.marginals.products import ProductsPlan
from curator.releases.method import NoisyTable, SumOracle
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, Clique, Groups, marginal_cells, sizes_with
from fedkme.releases.counts import Measurement, Products, Screen
from fedkme.sums.values import Marginals, Parities, ScoreProducts

CELLS_AT_ONCE = 2**20
"""Most counts of one question: a workload of three columns has more and is asked in parts."""


@dataclass(eq=False)
class Counts:
    """Oracle of pooled counts for mechanisms, which run in their own thread."""

    oracle: SumOracle
    binning: Binning
    loop: asyncio.AbstractEventLoop
    _over: bool = field(default=False, init=False)
    _asking: asyncio.Task[list[NoisyTable]] | None = field(default=None, init=False)

    def cancel(self) -> None:
        """Cancel the question on its way, and every later one: nobody waits for the mechanism any more."""
        self._over = True
        if self._asking is not None:
            self._asking.cancel()

    async def noisy(
        self, cliques: Sequence[Clique], sigmas: Sequence[float], groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        """Pooled counts with independent noise; one query to the owners."""
        measurements: list[Measurement] = []
        sizes, binning = sizes_with(groups, self.binning.sizes), self.binning
        for start, end in _parts(cliques, lambda clique: marginal_cells(clique, sizes)):
            question = Marginals(
                binning.bins, tuple(cliques[start:end]), tuple(groups), binning.merged, binning.own
            )
            answer = await self._on_loop(self.oracle.marginals(question, list(sigmas[start:end])))
            measurements += [
                Measurement(clique, table, deviation)
                for clique, (table, deviation) in zip(question.cliques, answer, strict=True)
            ]
        return measurements

    async def parities(
        self, groups: Sequence[Groups], blocks: Sequence[Sequence[Clique]], sigmas: Sequence[float]
    ) -> Screen:
        """Pooled parities with independent noise; one query to the owners."""
        binning, asked = self.binning, tuple(map(tuple, blocks))
        question = Parities(binning.bins, tuple(groups), asked, binning.merged, binning.own)
        answer = await self._on_loop(self.oracle.parities(question, sigmas))
        sums, deviations = zip(*answer, strict=True)
        return Screen(question.groups, question.blocks, tuple(sums), tuple(deviations))

    async def products(self, plan: ProductsPlan) -> Products:
        """Pooled products of scores with independent noise; one query to the owners."""
        values = plan.values
        if values:  # 1 for every row
            values = (*values, replace(values[0], of=(SCORE_STEPS,) * len(values[0].of)))
        kinds = [each for each in (plan.ranks, values) if each]
        starts = [0, len(plan.ranks)]
        blocks = tuple(tuple(range(at, at + len(each))) for at, each in zip(starts, kinds, strict=False))
        question = ScoreProducts(self.binning.bins, (*plan.ranks, *values), blocks, self.binning.own)
        sigmas = [plan.sigma * SCORE_STEPS**2] * len(blocks)
        sums, deviations = zip(*await self._on_loop(self.oracle.products(question, sigmas)), strict=True)
        ranks, values = (*sums, np.zeros(0))[:2]
        unit = float(SCORE_STEPS**2)
        return Products(plan.ranks, plan.values, ranks / unit, values / unit, max(deviations) / unit)

    async def _on_loop(self, asked: Coroutine[Any, Any, list[NoisyTable]]) -> list[NoisyTable]:
        """Await an answer of the oracle, which lives on another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._answer(asked), self.loop))

    async def _answer(self, asked: Coroutine[Any, Any, list[NoisyTable]]) -> list[NoisyTable]:
        self._asking = asyncio.create_task(asked)
        if self._over:
            self._asking.cancel()
        return await self._asking


def _parts(cliques: Sequence[Clique], cells: Callable[[Clique], int]) -> list[tuple[int, int]]:
    """Split cliques into questions of at most `CELLS_AT_ONCE` counts; return start and end of each."""
    parts, start, size = [], 0, 0
    for place, clique in enumerate(cliques):
        more = cells(clique)
        if size and size + more > CELLS_AT_ONCE:
            parts.append((start, place))
            start, size = place, 0
        size += more
    return [*parts, (start, len(cliques))]
