"""Releases that need nothing but noisy pooled marginals: MST, and independent columns.

No exact answer is looked at, so the noise can be added under secure aggregation and the curator need not be
trusted. Choices are post-processing and cost nothing; what costs is that every pair is measured to choose.

**MST** (after McKenna, Miklau, Sheldon 2021, who choose with the exponential mechanism on exact answers):

1. measure all columns, and fit them;
2. measure all pairs, once, with a share of the budget;
3. estimate how wrong independence is about each pair: ||y - e||_2^2 - cells sigma^2 has no bias for ||M -
   e||_2^2, and over k cells of about equal mass ||.||_1 is at most sqrt(k) ||.||_2; take k = 1/sum p^2 for
   the product p of the columns;
4. keep the forest of largest total gain, that error less sqrt(2/pi) sigma k of the measurement to come; an
   edge that gains nothing is left out;
5. measure the forest's pairs with what is left, and fit both measurements of each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from curator.releases.marginals.adaptive import Told
from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.descent import quick_fit
from curator.releases.marginals.model import ITERATIONS, Model, check_size
from curator.releases.marginals.oracles import NoisyOracle
from curator.releases.marginals.release import MarginalRelease, finished
from fedkme.errors import ConfigError, DataError
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique
from fedkme.releases.counts import Measurement

PAIR_CELLS = 1 << 22
"""Noisy counts that a query carries, at most."""


@dataclass(frozen=True)
class MstSettings:
    """Shares of the budget for columns and for all pairs, to choose by; the rest goes to the chosen pairs."""

    oneway_share: float = 0.15
    pair_share: float = 0.35
    iterations: int = 1500

    def __post_init__(self) -> None:
        shares = (self.oneway_share, self.pair_share)
        if min(shares) <= 0 or sum(shares) >= 1 or self.iterations < 1:
            raise ConfigError("a share of the budget is out of its range", "Leave something for every step.")


async def mst(
    oracle: NoisyOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    settings: MstSettings | None = None,
    told: Told = lambda *_: None,
) -> MarginalRelease:
    """Measure columns and pairs through noisy pooled counts of N public rows, choose a forest, measure it.

    Raises:
        ConfigError: parameters out of range, or a domain too large.
        DataError: an answer of another shape.
    """
    settings = settings or MstSettings()
    check_domain(sizes, min(2, len(sizes)), PAIR_CELLS)
    budget = BudgetFilter(epsilon, delta)
    columns = [(column,) for column in range(len(sizes))]
    if len(sizes) < 2:
        return await independent(oracle, sizes, rows, epsilon, delta)
    measured = await _measure(oracle, budget, columns, settings.oneway_share * budget.total, sizes)
    model = quick_fit(sizes, measured, rows)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    rough = await _measure(oracle, budget, pairs, settings.pair_share * budget.total, sizes)
    sigma = measurement_sigma(budget.left / (len(sizes) - 1))
    gains = {pair.clique: _gain(model, pair, rows, sigma) for pair in rough}
    forest = _forest(gains)
    told("measuring", f"{len(forest)} pairs of {len(pairs)} are measured again", 0.5)
    others = [pair for pair in rough if pair.clique not in forest]
    if forest:
        check_size(sizes, [*columns, *forest])
        measured += [pair for pair in rough if pair.clique in forest]
        measured += await _measure(oracle, budget, forest, budget.left * (1.0 - 1e-12), sizes)
    else:
        measured += await _measure(oracle, budget, columns, budget.left * (1.0 - 1e-12), sizes)
    return finished(sizes, settings.iterations, None, measured, rows, budget, others)


async def independent(
    oracle: NoisyOracle, sizes: Sequence[int], rows: int, epsilon: float, delta: float
) -> MarginalRelease:
    """Measure every column with an even share of the budget; rows are drawn column by column.

    Arguments and errors: see `mst`.
    """
    check_domain(sizes, 1, PAIR_CELLS)
    budget = BudgetFilter(epsilon, delta)
    columns = [(column,) for column in range(len(sizes))]
    measured = await _measure(oracle, budget, columns, budget.total, sizes)
    return finished(sizes, ITERATIONS, None, measured, rows, budget)


async def _measure(
    oracle: NoisyOracle, budget: BudgetFilter, cliques: Sequence[Clique], cost: float, sizes: Sequence[int]
) -> list[Measurement]:
    """One query for all cliques at this cost, evenly."""
    sigmas = [measurement_sigma(cost / len(cliques))] * len(cliques)
    budget.measure(sigmas)
    answers = await oracle.noisy(cliques, sigmas)
    shapes = [(math.prod(sizes[c] for c in clique),) for clique in cliques]
    if [answer.values.shape for answer in answers] != shapes:
        raise DataError(
            "a marginal has another number of cells than asked for", "Compare the parties' schemas."
        )
    return answers


def _gain(model: Model, pair: Measurement, rows: int, sigma: float) -> float:
    """Estimated error of independence about a pair, less that of measuring it again with noise sigma."""
    shares = model.probabilities(pair.clique).ravel()
    cells = 1.0 / float((shares**2).sum())
    square = float(((pair.values - rows * shares) ** 2).sum()) - len(shares) * pair.sigma**2
    return math.sqrt(cells * max(square, 0.0)) - math.sqrt(2.0 / math.pi) * sigma * cells


def _forest(gains: dict[Clique, float]) -> list[Clique]:
    """Maximum spanning forest over positive gains (Kruskal)."""
    part: dict[int, int] = {}

    def root(column: int) -> int:
        while part.get(column, column) != column:
            column = part[column]
        return column

    forest = []
    for pair in sorted(gains, key=lambda pair: (-gains[pair], pair)):
        one, two = root(pair[0]), root(pair[1])
        if gains[pair] > 0 and one != two:
            part[one] = two
            forest.append(pair)
    return sorted(forest)
