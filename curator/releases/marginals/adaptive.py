"""AIM (McKenna, Mullins, Sheldon, Miklau 2022) over pooled counts, at a curator trusted with them.

Measure the columns, then in rounds: fit a model; choose marginals of the workload that it answers worst, by
the exponential mechanism on  w_S (||M_S - model's||_1 - sqrt(2/pi) sigma cells(S)) , where w_S counts the
columns that S shares with the workload; measure them with noise. A marginal of many cells has to be wrong by
more than the noise that measuring would add. When a round moved the model by less than its noise would, the
next spends four times as much per marginal.

Different from the paper: a round may choose and measure several marginals, and is fitted by `descent`,
the budget is Gaussian DP and not zCDP, the relation is replace-one (see `budget`), and the total is the
public N. Owners are asked once, for the whole workload.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import MODEL_CELLS, Model, model_cells
from curator.releases.marginals.oracles import CountOracle, add_noise
from curator.releases.marginals.release import MarginalRelease, finished
from fedkme.errors import ConfigError, DataError
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique, IntArray
from fedkme.privacy.noise import NoiseSource
from fedkme.releases.counts import Measurement

Told = Callable[[str, str, float], None]
"""Stage, a line, and how far the stage is, 0 to 1: of what is released alone."""
WORKLOAD_CELLS = 1 << 23
"""Counts that an owner sends, at most."""


@dataclass(frozen=True)
class AimSettings:
    """Settings of AIM; none of this touches the guarantee.

    Attributes:
        ways: the workload is all marginals of so many columns, and candidates are those of fewer too.
        oneway_share: of the budget, for the columns at the start.
        selection_share: of a round's budget, for choices.
        start: marginals a column that the budget would last for at the first round's noise.
        batch: marginals of a round; those of one round are chosen on the same errors and tend to overlap.
        cells: of the model when the budget is spent; before that in proportion to what is spent.
        iterations: of fitting in a round.
        last_iterations: of fitting at the end.
    """

    ways: int = 3
    oneway_share: float = 0.1
    selection_share: float = 0.1
    start: int = 16
    batch: int = 1
    cells: int = 1 << 17
    iterations: int = 300
    last_iterations: int = 1000

    def __post_init__(self) -> None:
        shares = (self.oneway_share, self.selection_share)
        counts = (self.ways, self.start, self.batch, self.cells, self.iterations, self.last_iterations)
        if not all(0 < share < 1 for share in shares) or min(counts) < 1 or self.cells > MODEL_CELLS:
            raise ConfigError("a setting of AIM is out of its range", "Correct the settings of the release.")


async def aim(
    oracle: CountOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    noise: NoiseSource,
    settings: AimSettings | None = None,
    told: Told = lambda *_: None,
) -> MarginalRelease:
    """Run AIM on exact pooled counts of N public rows.

    `told` hears of what is released alone; what it raises ends the release.

    Raises:
        ConfigError: parameters out of range, or a domain too large.
        DataError: counts that are not those of N rows.
    """
    settings = settings or AimSettings()
    check_domain(sizes, settings.ways, WORKLOAD_CELLS)
    budget = BudgetFilter(epsilon, delta)
    candidates = _candidates(len(sizes), settings.ways)
    exact = dict(zip(candidates, await oracle.counts(tuple(candidates)), strict=True))
    if any(int(counts.sum()) != rows for counts in exact.values()):
        raise DataError(
            f"an owner's counts are not those of all {rows} rows", "Ask owners for the same rows in all."
        )
    columns = [(column,) for column in range(len(sizes))]
    sigma = measurement_sigma(settings.oneway_share * budget.total / len(columns))
    measured: list[Measurement] = []

    def measure(cliques: Sequence[Clique], sigma: float) -> None:
        budget.measure([sigma] * len(cliques))
        measured.extend(Measurement(c, add_noise(exact[c], sigma, noise), sigma) for c in cliques)

    measure(columns, sigma)
    model = fit(sizes, measured, rows, settings.iterations)
    piece = budget.left / (
        settings.start * len(sizes)
    )  # of the budget, for choosing and measuring one marginal
    batch = min(settings.batch, len(candidates))
    last = len(sizes) < 2
    while not last:
        if budget.left < 2 * batch * piece:
            piece, last = budget.left / batch * (1.0 - 1e-12), True
        sigma = measurement_sigma((1.0 - settings.selection_share) * piece)
        limit = settings.cells * (budget.spent + batch * piece) / budget.total
        wrong = {c: _error(model, counts, c, rows) for c, counts in exact.items()}
        chosen: list[Clique] = []
        for _ in range(batch):
            taken = tuple({m.clique for m in measured} | set(chosen))
            pool = _affordable(candidates, taken, chosen, sizes, limit)
            weights = np.asarray([candidates[c] for c in pool])
            errors = np.asarray([wrong[c] for c in pool])
            cells = np.asarray([exact[c].size for c in pool])
            scores = weights * (errors - math.sqrt(2.0 / math.pi) * sigma * cells)
            chosen.append(pool[budget.select(scores, weights, settings.selection_share * piece, noise)])
        measure(chosen, sigma)
        before = model
        model = fit(sizes, measured, rows, settings.iterations, model)
        told("measuring", f"{len(measured)} marginals measured", budget.spent / budget.total)
        quiet = [
            _moved(before, model, c, rows) <= math.sqrt(2.0 / math.pi) * sigma * exact[c].size for c in chosen
        ]
        if 2 * sum(quiet) >= batch:
            piece *= 4.0
    return finished(sizes, settings.last_iterations, model, measured, rows, budget)


def _candidates(width: int, ways: int) -> dict[Clique, float]:
    """Marginals of up to `ways` columns and their weights, shared columns summed over the workload.

    A column is in C(width - 1, ways - 1) marginals of the workload, so w_S is that many times |S|; only
    proportions matter.
    """
    return {
        clique: float(size)
        for size in range(1, ways + 1)
        for clique in itertools.combinations(range(width), size)
    }


def _affordable(
    candidates: dict[Clique, float],
    taken: tuple[Clique, ...],
    chosen: list[Clique],
    sizes: Sequence[int],
    limit: float,
) -> list[Clique]:
    """Candidates that leave the model below the limit, or do not change it; one at least."""

    def fits(clique: Clique) -> bool:
        inside = any(set(clique) <= set(other) for other in taken)
        return inside or model_cells(sizes, (*taken, clique)) <= limit

    free = [clique for clique in candidates if clique not in chosen]
    return [clique for clique in free if fits(clique)] or free[:1]


def _error(model: Model, counts: IntArray, clique: Clique, rows: int) -> float:
    return float(np.abs(counts - rows * model.probabilities(clique).ravel()).sum())


def _moved(before: Model, after: Model, clique: Clique, rows: int) -> float:
    return rows * float(np.abs(after.probabilities(clique) - before.probabilities(clique)).sum())
