"""Marginals in rounds, chosen by noisy pooled counts alone (docs/decisions/021, 041).

No exact answer is looked at, so the noise can be added under secure aggregation and the curator need not be
trusted:

1. one question: all columns, the tables that are always kept (every column with the label), and all other
   pairs, roughly;
2. rounds: fit a model, estimate from the rough tables which pairs it answers worst, measure these with an
   even part of what is left; rough tables that lie within one table of the junction tree are fitted too.

**Privacy.** Relation: replace one row, N public; the unit is a row, or a group by a smaller epsilon. Every
table is a sum over rows of a one-hot code, which a replaced row moves by L2_STEP = sqrt 2
(fedkme.features.counts). Table i has Gaussian noise sigma_i in every cell and costs mu^2 = 2 / sigma_i^2 of
Gaussian DP. Costs add up, also where the tables of a round and their noise follow from noisy answers before
(the filter of `budget`), and end at the one Gaussian that (epsilon, delta) allows. Estimates, choices and
fits are functions of noisy tables: post-processing. What a party does follows from these alone: which columns
the next question names.

**Error of a model** about a pair, from its rough table y with noise sigma: ||y - e||_2^2 - cells sigma^2 has
no bias for ||M - e||_2^2, and a deviation of sqrt(2 cells) sigma^2 where the model is right, which is taken
off too. Over k cells of about equal mass ||.||_1 is at most sqrt(k) ||.||_2; k = 1 / sum p^2. A table that is
in the model is wrong by its noise.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.releases.marginals.adaptive import ReportStage
from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model, model_cells
from curator.releases.marginals.oracles import NoisyOracle
from curator.releases.marginals.pooled import ITERATIONS, PAIR_CELLS, independent, measure
from curator.releases.marginals.release import MarginalRelease, finished
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique
from fedkme.releases.counts import Measurement

COLUMNS_SHARE, KEPT_SHARE, PAIRS_SHARE = 0.1, 0.25, 0.2
"""Shares of the budget: all columns, the tables that are always kept, all other pairs, by which to choose."""
WEAK, WEAK_PART = 0.02, 0.1
"""Pairs whose rough table would tell nothing of a model's error: those where the deviation of the estimate is
above this part of N^2. They have this part of what others cost, for answers alone, and are never chosen."""
ROUNDS = 5
"""Rounds that share what is left."""
TABLES = 0.5
"""Tables of a round, at most, for each column."""
CELLS = 1 << 16
"""Cells of the model, at most."""
_ITERATIONS = 150  # of fitting in a round


async def rounds(
    oracle: NoisyOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    kept: Sequence[Clique] = (),
    told: ReportStage = lambda *_: None,
    cells: int = CELLS,
) -> MarginalRelease:
    """Measure columns and pairs through noisy pooled counts of N public rows, then what the model lacks.

    Args:
        oracle: of noisy counts.
        sizes: codes of every column.
        rows: N.
        epsilon: of everything.
        delta: of that epsilon.
        kept: pairs that the model always has.
        told: hears of what is released alone; what it raises ends the release.
        cells: of the model, at most.

    Raises:
        ConfigError: parameters out of range, or a domain too large.
        DataError: an answer of another shape.
    """
    check_domain(sizes, min(2, len(sizes)), PAIR_CELLS)
    if len(sizes) < 2:
        return await independent(oracle, sizes, rows, epsilon, delta)
    budget = BudgetFilter(epsilon, delta)
    told("measuring", "all columns and pairs", 0.0)
    fitted, rough, weak = await _first(oracle, budget, sizes, rows, kept)
    model = fit(sizes, fitted, rows, _ITERATIONS)
    for number in range(ROUNDS):
        piece = budget.left / (ROUNDS - number) * (1.0 - 1e-12)  # sums are rounded
        chosen = _chosen(_candidates(model, fitted, rough, rows), piece, fitted, sizes, cells)
        done = budget.spent / budget.total
        tables = "1 table" if len(chosen) == 1 else f"{len(chosen)} tables"
        told("measuring", f"round {number + 1} of {ROUNDS}: {tables}", done)
        sigma = measurement_sigma(piece / len(chosen))
        fitted += await measure(oracle, budget, chosen, [sigma] * len(chosen), sizes)
        tree = Model(sizes, {each.clique: np.zeros([sizes[c] for c in each.clique]) for each in fitted})
        fitted += [each for each in rough if tree.holds(each.clique)]
        rough = [each for each in rough if not tree.holds(each.clique)]
        model = fit(sizes, fitted, rows, _ITERATIONS, model)
    return finished(sizes, ITERATIONS, model, fitted, rows, budget, [*rough, *weak])


async def _first(
    oracle: NoisyOracle, budget: BudgetFilter, sizes: Sequence[int], rows: int, kept: Sequence[Clique]
) -> tuple[list[Measurement], list[Measurement], list[Measurement]]:
    """All columns and kept tables; all other pairs, and those of them that are weak."""
    columns = [(column,) for column in range(len(sizes))]
    pairs = [pair for pair in itertools.combinations(range(len(sizes)), 2) if pair not in kept]
    cost = PAIRS_SHARE * budget.total / max(1, len(pairs))
    most = (WEAK * rows**2 / measurement_sigma(cost) ** 2) ** 2 / 2.0  # cells
    strong = [pair for pair in pairs if sizes[pair[0]] * sizes[pair[1]] <= most]
    weak = [pair for pair in pairs if pair not in set(strong)]
    costs = [COLUMNS_SHARE * budget.total / len(columns)] * len(columns)
    costs += [KEPT_SHARE * budget.total / max(1, len(kept))] * len(kept)
    costs += [cost] * len(strong) + [WEAK_PART * cost] * len(weak)
    sigmas = [measurement_sigma(each) for each in costs]
    answers = await measure(oracle, budget, [*columns, *kept, *strong, *weak], sigmas, sizes)
    first, second = len(columns) + len(kept), len(columns) + len(kept) + len(strong)
    return answers[:first], answers[first:second], answers[second:]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Pair of columns that may be measured.

    Attributes:
        error: of the model about it in L1, as far as it is known.
        cells: of about equal mass that it has.
        precision: of what is known of each cell, 1 over a variance.
    """

    error: float
    cells: float
    precision: float

    def gain(self, sigma: float) -> float:
        """Error that goes when it is measured with noise sigma."""
        return self.error - _noise(self.cells, self.precision + sigma**-2)


def _noise(cells: float, precision: float) -> float:
    """Error in L1 of a table that is known by its noise alone."""
    return math.sqrt(2.0 / math.pi / precision) * cells


def _candidates(
    model: Model, fitted: Iterable[Measurement], rough: Iterable[Measurement], rows: int
) -> Mapping[Clique, _Candidate]:
    """Pairs in the model, which are wrong by their noise, and pairs outside of it."""
    found: dict[Clique, _Candidate] = {}
    known: defaultdict[Clique, float] = defaultdict(float)
    for each in fitted:
        known[each.clique] += each.sigma**-2
    for clique, precision in known.items():
        if len(clique) == 2:
            cells = 1.0 / float((model.held(clique) ** 2).sum())
            found[clique] = _Candidate(_noise(cells, precision), cells, precision)
    for each in rough:
        shares = model.probabilities(each.clique).ravel()
        cells = 1.0 / float((shares**2).sum())
        chance = (len(shares) + math.sqrt(2.0 * len(shares))) * each.sigma**2
        square = float(((each.values - rows * shares) ** 2).sum()) - chance
        found[each.clique] = _Candidate(math.sqrt(cells * max(square, 0.0)), cells, each.sigma**-2)
    return found


def _chosen(
    candidates: Mapping[Clique, _Candidate],
    cost: float,
    fitted: Iterable[Measurement],
    sizes: Sequence[int],
    cells: int,
) -> list[Clique]:
    """Pairs to measure at this cost: as many as gain most in all, and the model stays below its limit.

    Columns where nothing gains.
    """
    most = max(1, round(TABLES * len(sizes)))

    def gains(count: int) -> list[tuple[float, Clique]]:
        sigma = measurement_sigma(cost / count)
        return sorted((-each.gain(sigma), clique) for clique, each in candidates.items())

    count = min(range(1, most + 1), key=lambda count: sum(min(gain, 0.0) for gain, _ in gains(count)[:count]))
    have, chosen = {each.clique for each in fitted}, list[Clique]()
    for gain, clique in gains(count):
        if len(chosen) == count or gain >= 0.0:
            break
        if clique in have or model_cells(sizes, have | {clique}) <= cells:
            chosen.append(clique)
            have.add(clique)
    return chosen or [(column,) for column in range(len(sizes))]
