"""AIM (McKenna, Mullins, Sheldon, Miklau 2022) over pooled counts, at a curator trusted with exact counts.

AIM measures the columns first. Then each round fits a model, chooses the marginal of the workload that the
model answers worst, by the exponential mechanism on w_S (||M_S - model's||_1 - sqrt(2/pi) sigma cells(S)) ,
where w_S counts the columns that S shares with the workload, and measures this marginal with noise. A
marginal of many cells has to be wrong by more than the noise that measuring adds. When a round moves the
model by less than its noise would, the next round spends four times as much per marginal.

Differences to the paper: a round is fitted by `descent`, the budget is Gaussian DP and not zCDP, the relation
is replace-one (see `budget`), and the total is the public N. Owners are asked once, for the whole workload.
Half of what is left for the last marginal counts the pairs of columns that larger marginals alone have: noise
leaves rows in each empty cell of a marginal, and one of three columns has many.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model, model_cells
from curator.releases.marginals.release import ITERATIONS, CountOracle, MarginalRelease, add_noise, finished
from fedkme.arrays import IntArray
from fedkme.errors import DataError
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique
from fedkme.privacy.noise import NoiseSource
from fedkme.releases.counts import Measurement

ReportStage = Callable[[str, str, float], None]
"""Progress callback: stage, a line, and the finished part of the stage, 0 to 1; it sees released values
alone."""
WORKLOAD_CELLS = 1 << 23
"""Most counts that an owner sends."""


WAYS, START = 3, 16
"""Most columns of a marginal in the workload; number of marginals per column for which the budget would last
at the first round's noise."""
_ONEWAY_SHARE = 0.1  # share of the budget for the columns at the start
_SELECTION_SHARE = 0.1  # share of a round's budget for the choice
_PAIRS_SHARE = 0.5  # share of the last round's budget for pairs that are inside larger marginals
_CELLS = 1 << 17  # most cells of the model when the budget is spent; before that, in proportion to spending
_ITERATIONS = 50  # iterations of the fit in a round
_STEPS = 2.0**20


async def aim(
    oracle: CountOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    noise: NoiseSource,
    report: ReportStage = lambda *_: None,
    ways: int = WAYS,
    start: int = START,
    zeros: Model | None = None,
) -> MarginalRelease:
    """Run AIM on exact pooled counts of N public rows.

    `zeros` is a model with zeros alone, by public rules. `report` gets released values alone; an error that
    it raises ends the release. Where an owner was lost, counts are of fewer rows: choices go by these, and
    measurements stand for all.

    Raises:
        ConfigError: a parameter is out of range, or the domain is too large.
        DataError: the counts are not all of the same rows, or of more than N.
    """
    check_domain(sizes, ways, WORKLOAD_CELLS)
    budget = BudgetFilter(epsilon, delta)
    candidates = _candidates(len(sizes), ways)
    exact = dict(zip(candidates, await oracle.counts(tuple(candidates)), strict=True))
    totals = {int(counts.sum()) for counts in exact.values()}
    if len(totals) > 1 or not 0 < (counted := totals.pop()) <= rows:
        cause = f"an owner's counts are not those of all {rows} rows"
        raise DataError(cause, "Ask owners for the same rows in all.")
    columns = [(column,) for column in range(len(sizes))]
    sigma = measurement_sigma(_ONEWAY_SHARE * budget.total / len(columns))
    measured: list[Measurement] = []

    def measure(cliques: Sequence[Clique], sigma: float) -> None:
        budget.measure([sigma] * len(cliques))
        scale = rows / counted
        noisy = ((c, add_noise(exact[c], sigma, noise)) for c in cliques)
        measured.extend(Measurement(c, scale * counts, scale * sigma) for c, counts in noisy)

    measure(columns, sigma)
    model = fit(sizes, measured, rows, _ITERATIONS, zeros)
    piece = budget.left / (start * len(sizes))  # budget for the choice and measurement of one marginal
    last = len(sizes) < 2
    while not last:
        if budget.left < 2 * piece:
            if pairs := _pairs_inside(measured):
                measure(pairs, measurement_sigma(_PAIRS_SHARE * budget.left / len(pairs)))
            piece, last = budget.left * (1.0 - 1e-12), True
        sigma = measurement_sigma((1.0 - _SELECTION_SHARE) * piece)
        limit = _CELLS * (budget.spent + piece) / budget.total
        pool = _affordable(candidates, {m.clique for m in measured} | {*model.zeros}, sizes, limit)
        weights = np.asarray([candidates[c] for c in pool])
        errors = np.asarray([_error(model, exact[c], c, counted) for c in pool])
        noisy = math.sqrt(2.0 / math.pi) * sigma * np.asarray([exact[c].size for c in pool])
        chosen = pool[budget.select(errors, noisy, weights, _SELECTION_SHARE * piece, noise)]
        measure([chosen], sigma)
        before = model
        model = fit(sizes, measured, rows, _ITERATIONS, model)
        report("measuring", f"{len(measured)} marginals measured", budget.spent / budget.total)
        if _moved(before, model, chosen, counted) <= math.sqrt(2.0 / math.pi) * sigma * exact[chosen].size:
            piece *= 4.0
    return finished(sizes, ITERATIONS, model, measured, rows, budget)


def _pairs_inside(measured: Iterable[Measurement]) -> list[Clique]:
    """Pairs of columns that were measured in larger marginals alone."""
    cliques = {each.clique for each in measured}
    pairs = {pair for clique in cliques if len(clique) > 2 for pair in itertools.combinations(clique, 2)}
    return sorted(pairs - cliques)


def _candidates(width: int, ways: int) -> dict[Clique, float]:
    """Marginals of up to `ways` columns, each with its weight: shared columns summed over the workload.

    A column is in C(width - 1, ways - 1) marginals of the workload, so w_S is that many times |S|; only
    proportions matter.
    """
    return {
        clique: float(size)
        for size in range(1, ways + 1)
        for clique in itertools.combinations(range(width), size)
    }


def _affordable(
    candidates: Iterable[Clique], taken: set[Clique], sizes: Sequence[int], limit: float
) -> list[Clique]:
    """Candidates that keep the model's size below the limit, or do not change it; at least one."""

    def fits(clique: Clique) -> bool:
        inside = any(set(clique) <= set(other) for other in taken)
        return inside or model_cells(sizes, (*taken, clique)) <= limit

    free = list(candidates)
    return [clique for clique in free if fits(clique)] or free[:1]


def _error(model: Model, counts: IntArray, clique: Clique, rows: int) -> float:
    """Distance in L1 of counts from the model's in steps of 2^-20, an exact sum for less than 2^32 rows."""
    expected = np.rint(rows * model.probabilities(clique).ravel() * _STEPS) / _STEPS
    return float(np.abs(counts - expected).sum())


def _moved(before: Model, after: Model, clique: Clique, rows: int) -> float:
    return rows * float(np.abs(after.probabilities(clique) - before.probabilities(clique)).sum())
