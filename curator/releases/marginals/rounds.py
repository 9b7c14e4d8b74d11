"""Marginals in rounds, chosen by noisy pooled counts alone (docs/decisions/021).

No step looks at an exact answer, so the noise can be added under secure aggregation and the curator need not
be trusted:

1. one question: all columns, the tables that the model always has (every column with the label), and all
   other pairs, roughly;
2. rounds: fit a model, estimate from the rough tables which pairs the model answers worst, and measure these
   pairs with an equal part of the rest of the budget; rough tables within one table of the junction tree are
   fitted too;
3. before the fourth round, one question for parities, in which dependences of three and more columns show
   that the model lacks; the last rounds ask tables of these, too (`dependences`).

**Privacy.** Relation: replace one row, N public; the unit is a row, or a group by a smaller epsilon. Every
table is a sum over rows of a one-hot code, which a replaced row moves by L2_STEP = sqrt 2
(fedkme.features.counts). Table i has Gaussian noise sigma_i in every cell and costs mu^2 = 2 / sigma_i^2 of
Gaussian DP. Costs add up, even where the tables of a round and their noise follow from earlier noisy answers
(the filter of `budget`), and end at the one Gaussian that (epsilon, delta) allows. Estimates, choices and
fits are functions of noisy tables: post-processing. The columns that the next question names follow from
noisy tables alone.

**Error of a model** about a pair, from its rough table y with noise sigma: ||y - e||_2^2 - cells sigma^2 has
no bias for ||M - e||_2^2, and a deviation of sqrt(2 cells) sigma^2 where the model is right, which is
subtracted too. Over k cells of about equal mass ||.||_1 is at most sqrt(k) ||.||_2; k = 1 / sum p^2. The
error of a table that is in the model is its noise.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.dependences import (
    AGAIN_SHARE,
    Again,
    Dependence,
    apart,
    plan_screen,
    standing_out,
    table_of,
)
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model, model_cells
from curator.releases.marginals.products import SeenProducts
from curator.releases.marginals.release import (
    ITERATIONS,
    PAIR_CELLS,
    MarginalRelease,
    NoisyOracle,
    finished,
    independent,
    measure,
)
from curator.releases.marginals.signs import Codes
from curator.releases.marginals.tilt import tilted
from curator.releases.method import Tell
from fedkme.features.binning import check_domain
from fedkme.features.counts import Clique, Groups, sizes_with
from fedkme.releases.counts import Measurement, Screen, pooled

COLUMNS_SHARE, KEPT_SHARE, PAIRS_SHARE = 0.1, 0.25, 0.2
"""Shares of the budget: all columns, the tables that the model always has, and rough tables of all other
pairs."""
WEAK, WEAK_PART = 0.02, 0.1
"""A pair is weak if the deviation of its estimated model error is above WEAK N^2, so that its rough table
tells nothing about that error. A weak pair costs WEAK_PART of another pair's cost; it serves answers alone
and is never chosen, unless products of scores tell of its error."""
WEAK_SCORED = 0.0025
"""WEAK of two numbers whose product of scores is known, which tells more than a rough table of few rows."""
ROUNDS = 5
"""Rounds that share the rest of the budget."""
TABLES = 0.5
"""Most tables of a round, for each column."""
CELLS = 1 << 16
"""Most cells of the model."""
SCREEN_ROUND, DEPENDENCE_CELLS = 3, 1 << 17
"""Round before which the screen is asked, when the model has most pairs; most cells of the model with the
tables of dependences in it."""
_ITERATIONS = 40  # iterations of the fit in a round


async def rounds(
    oracle: NoisyOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    fixed_pairs: Sequence[Clique] = (),
    report: Tell = lambda *_: None,
    cells: int = CELLS,
    screened: Codes | None = None,
    start: Model | None = None,
    seen: SeenProducts | None = None,
) -> MarginalRelease:
    """Measure columns and pairs by noisy pooled counts of N public rows, then pairs that the model lacks.

    Args:
        oracle: oracle of noisy counts.
        sizes: codes of every column.
        rows: N.
        epsilon: epsilon of the whole release.
        delta: delta of the whole release.
        fixed_pairs: pairs that the model always has.
        report: called with released values alone; an error that it raises ends the release.
        cells: most cells of the model.
        screened: columns to screen for dependences of three and more (`dependences`); None: no screen.
        start: model with zeros alone, by public rules; None: without any.
        seen: noisy products of scores of numbers; None: nothing is known of them.

    Raises:
        ConfigError: a parameter is out of range, or the domain is too large.
        DataError: an answer has another shape.
    """
    check_domain(sizes, min(2, len(sizes)), PAIR_CELLS)
    if len(sizes) < 2:
        return await independent(oracle, sizes, rows, epsilon, delta, start)
    budget = BudgetFilter(epsilon, delta)
    report("measuring", "all columns and pairs", 0.0)
    fitted, rough, weak = await _first(oracle, budget, sizes, rows, fixed_pairs, seen)
    groups: tuple[Groups, ...] = ()
    grouped, tilts = list[Measurement](), list[Measurement]()
    screen: Screen | None = None
    model = fit(sizes, fitted, rows, _ITERATIONS, start)
    for number in range(ROUNDS):
        if screened is not None and number == SCREEN_ROUND:
            hidden = [measurement.clique for measurement in weak]
            screen = await _screen(oracle, budget, screened, model, rows, report, hidden)
        have = [*(measurement.clique for measurement in (*fitted, *grouped)), *model.zeros]
        again = list[Again]()
        if screened is not None and screen is not None:
            report("measuring", "what the model lacks", budget.spent / budget.total)
            law = model if screened.label is None else tilted(model, screened.label, tilts, rows)
            lacking = apart(standing_out(screen, law, rows), screened.label, number == ROUNDS - 1)
            again = _ask_again(lacking, screened, model, have, groups, budget.total)
        groups = again[-1].groups if again else groups
        inside = [each.clique for each in again if each.fits]
        costs = [AGAIN_SHARE * budget.total / max(1, len(again))] * len(again)
        piece = (budget.left - math.fsum(costs)) / (ROUNDS - number) * (1.0 - 1e-12)  # sums are rounded
        candidates = _candidates(model, fitted, rough, rows, seen)
        chosen = _choose_pairs(candidates, piece, [*have, *inside], groups, sizes, cells)
        costs += [piece / len(chosen)] * len(chosen)
        line = f"round {number + 1} of {ROUNDS}: {len(costs)} table{'s' if len(costs) > 1 else ''}"
        report("measuring", line, budget.spent / budget.total)
        cliques, sigmas = [*(each.clique for each in again), *chosen], list(map(measurement_sigma, costs))
        answers = await measure(oracle, budget, cliques, sigmas, sizes, groups)
        tilts += [answer for answer, each in zip(answers, again, strict=False) if not each.fits]
        counts = [answer for answer in answers if answer not in tilts]
        grouped += [answer for answer in counts if answer.clique[-1] >= len(sizes)]
        fitted += [answer for answer in counts if answer.clique[-1] < len(sizes)]
        whole = sizes_with(groups, sizes)
        zeros = {each.clique: np.zeros([whole[c] for c in each.clique]) for each in (*fitted, *grouped)}
        tree = Model(sizes, zeros, groups, model.zeros)
        fitted += [measurement for measurement in rough if tree.holds(measurement.clique)]
        rough = [measurement for measurement in rough if not tree.holds(measurement.clique)]
        model = fit(sizes, [*fitted, *grouped], rows, _ITERATIONS, model, groups=groups)
    release = finished(sizes, ITERATIONS, model, fitted, rows, budget, [*rough, *weak])
    return replace(release, groups=groups, grouped=tuple(grouped), tilts=tuple(tilts), screen=screen)


async def _screen(
    oracle: NoisyOracle,
    budget: BudgetFilter,
    screened: Codes,
    model: Model,
    rows: int,
    report: Tell,
    hidden: Sequence[Clique],
) -> Screen | None:
    """Pay and ask for the screen, if it is worth its noise."""
    plan = plan_screen(screened, model, rows, budget.total, hidden)
    if plan is None:
        return None
    counts = [len(block) for block in plan.blocks]
    report("measuring", f"{sum(counts)} sets of columns, for dependences", budget.spent / budget.total)
    budget.measure_parities(plan.sigmas, counts)
    return await oracle.parities(plan.groups, plan.blocks, plan.sigmas)


def _ask_again(
    dependences: Sequence[Dependence],
    screened: Codes,
    model: Model,
    cliques: Sequence[Clique],
    groups: tuple[Groups, ...],
    total: float,
) -> list[Again]:
    """Choose tables of the dependences that stand out."""
    tables: list[Again] = []
    for dependence in dependences:
        sigma = measurement_sigma(AGAIN_SHARE * total / len(dependences))
        have = [*cliques, *(each.clique for each in tables if each.fits)]
        table = table_of(dependence, screened, model, sigma, have, groups, DEPENDENCE_CELLS)
        if table is not None:
            groups = table.groups
            tables.append(table)
    return tables


async def _first(
    oracle: NoisyOracle,
    budget: BudgetFilter,
    sizes: Sequence[int],
    rows: int,
    fixed_pairs: Sequence[Clique],
    seen: SeenProducts | None,
) -> tuple[list[Measurement], list[Measurement], list[Measurement]]:
    """Ask the first question: columns with fixed pairs; other pairs; and weak pairs."""
    columns = [(column,) for column in range(len(sizes))]
    pairs = [pair for pair in itertools.combinations(range(len(sizes)), 2) if pair not in fixed_pairs]
    cost = PAIRS_SHARE * budget.total / max(1, len(pairs))
    unit, scored = (measurement_sigma(cost) / rows) ** 2, () if seen is None else seen.means
    most = {pair: WEAK_SCORED if pair in scored else WEAK for pair in pairs}
    strong = [pair for pair in pairs if unit * math.sqrt(2 * sizes[pair[0]] * sizes[pair[1]]) <= most[pair]]
    weak = [pair for pair in pairs if pair not in set(strong)]
    costs = [COLUMNS_SHARE * budget.total / len(columns)] * len(columns)
    costs += [KEPT_SHARE * budget.total / max(1, len(fixed_pairs))] * len(fixed_pairs)
    costs += [cost] * len(strong) + [WEAK_PART * cost] * len(weak)
    sigmas = [measurement_sigma(table_cost) for table_cost in costs]
    answers = await measure(oracle, budget, [*columns, *fixed_pairs, *strong, *weak], sigmas, sizes)
    first, second = len(columns) + len(fixed_pairs), len(columns) + len(fixed_pairs) + len(strong)
    return answers[:first], answers[first:second], answers[second:]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Pair of columns that may be measured.

    Attributes:
        error: estimated L1 error of the model about the pair.
        cells: effective number of cells, of about equal mass.
        precision: precision of the estimate of each cell, 1 over a variance.
    """

    error: float
    cells: float
    precision: float

    def gain(self, sigma: float) -> float:
        """Error that a measurement with noise sigma removes."""
        return self.error - _noise(self.cells, self.precision + sigma**-2)


def _noise(cells: float, precision: float) -> float:
    """L1 error of a table whose only error is its noise."""
    return math.sqrt(2.0 / math.pi / precision) * cells


def _candidates(
    model: Model,
    fitted: Sequence[Measurement],
    rough: Iterable[Measurement],
    rows: int,
    seen: SeenProducts | None,
) -> Mapping[Clique, _Candidate]:
    """Candidates in the model, whose error is their noise, and candidates outside of the model.

    The error of a pair without a rough table is known by its product of scores.
    """
    candidates: dict[Clique, _Candidate] = {}
    for clique, (precision, _) in pooled(fitted).items():
        if len(clique) == 2:
            cells = 1.0 / float((model.held(clique) ** 2).sum())
            candidates[clique] = _Candidate(_noise(cells, precision), cells, precision)
    for measurement in rough:
        shares = model.probabilities(measurement.clique).ravel()
        cells = 1.0 / float((shares**2).sum())
        chance = (len(shares) + math.sqrt(2.0 * len(shares))) * measurement.sigma**2
        square = float(((measurement.values - rows * shares) ** 2).sum()) - chance
        candidates[measurement.clique] = _Candidate(
            math.sqrt(cells * max(square, 0.0)), cells, measurement.sigma**-2
        )
    if seen is None:
        return candidates
    for pair in seen.means:
        if pair not in candidates:
            shares = model.probabilities(pair)
            cells = 1.0 / float((shares**2).sum())
            candidates[pair] = _Candidate(rows * seen.error(pair, shares), cells, 0.0)
    return candidates


def _choose_pairs(
    candidates: Mapping[Clique, _Candidate],
    cost: float,
    cliques: Iterable[Clique],
    groups: Sequence[Groups],
    sizes: Sequence[int],
    cells: int,
) -> list[Clique]:
    """Choose pairs to measure at this cost: the number that gains most in all, within the model's size limit.

    Where no pair gains, the columns are measured again.
    """
    most = max(1, round(TABLES * len(sizes)))

    def gains(count: int) -> list[tuple[float, Clique]]:
        sigma = measurement_sigma(cost / count)
        return sorted((-candidate.gain(sigma), clique) for clique, candidate in candidates.items())

    count = min(range(1, most + 1), key=lambda count: sum(min(gain, 0.0) for gain, _ in gains(count)[:count]))
    have, chosen = set(cliques), list[Clique]()
    for gain, clique in gains(count):
        if len(chosen) == count or gain >= 0.0:
            break
        if clique in have or model_cells(sizes, have | {clique}, groups) <= cells:
            chosen.append(clique)
            have.add(clique)
    return chosen or [(column,) for column in range(len(sizes))]
