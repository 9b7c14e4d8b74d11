"""One question for noisy pooled marginals, and the release of independent columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.oracles import NoisyOracle
from curator.releases.marginals.release import MarginalRelease, finished
from fedkme.errors import DataError
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique
from fedkme.releases.counts import Measurement

PAIR_CELLS = 1 << 22
"""Most noisy counts of one question."""
ITERATIONS = 1000
"""Iterations of the last fit."""


async def independent(
    oracle: NoisyOracle, sizes: Sequence[int], rows: int, epsilon: float, delta: float
) -> MarginalRelease:
    """Measure every column with an even share of the budget; rows are drawn column by column.

    Arguments and errors: see `rounds`.
    """
    check_domain(sizes, 1, PAIR_CELLS)
    budget = BudgetFilter(epsilon, delta)
    sigma = measurement_sigma(budget.total * (1.0 - 1e-12) / len(sizes))
    columns = [(column,) for column in range(len(sizes))]
    measured = await measure(oracle, budget, columns, [sigma] * len(columns), sizes)
    return finished(sizes, ITERATIONS, None, measured, rows, budget)


async def measure(
    oracle: NoisyOracle,
    budget: BudgetFilter,
    cliques: Sequence[Clique],
    sigmas: Sequence[float],
    sizes: Sequence[int],
) -> list[Measurement]:
    """Pay for one question, then ask it.

    Raises:
        BudgetError: the cost exceeds the budget; nothing is asked.
        DataError: an answer has another shape.
    """
    budget.measure(sigmas)
    answers = await oracle.noisy(cliques, sigmas)
    shapes = [(math.prod(sizes[c] for c in clique),) for clique in cliques]
    if [answer.values.shape for answer in answers] != shapes:
        raise DataError(
            "a marginal has another number of cells than asked for", "Compare the parties' schemas."
        )
    return answers
