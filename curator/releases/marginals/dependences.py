"""Dependences of three and more columns, found by noisy parities alone.

Pairs show nothing of a label that is the XOR of some columns. A screen does:

1. each column is put into two groups of about equal mass by the model's noisy column (`signs`), and a label
   of K classes into the K' - 1 pairs of groups of a Hadamard code of K' >= K classes, so that any two classes
   differ in K' / 2 of them;
2. one question asks for the parities of all sets of 2, 3, .. columns with the label (of 3 and 4 columns
   where there is no label), one block for each size, with an equal part of SCREEN_SHARE for each; sets of
   more columns follow, with the noise in which all but a full dependence hides, where it costs little;
3. what hides within halves shows in products of finer signs, nearly a basis of the functions of 4 groups of a
   number or 8 of a category. Blocks of two numbers, of any two columns, and of three columns (numbers by
   halves) with the label and without, each with its share, or none where its noise would hide a dependence.
   Pairs whose rough tables tell nothing are screened, too: of two numbers a product of scores tells no more
   than what rises or falls, and where one class has most rows their parity shows beside the label's;
4. a set S of m_S parities t_f with noise sigma stands out where sum_f (t_f - N E_model f)^2 / v is larger
   than a chi-square of m_S degrees is with a chance of ERROR over the sizes, the sets of a size and the
   blocks of S, which are added one after another; v = sigma^2 + N + N^2 / n counts the noise, the rows' own
   draw and the n rows of the model that give E;
5. what stands out is asked again, as a table. Over all codes, where its noise is small beside the dependence
   and the model has room, it becomes a clique of the model. Else it is over groups of about equal mass, as
   many as the noise allows, or as `of_low_rank` can tell from noise, and tilts the label (`tilt`); without a
   label it is a clique of the groups. Where nothing stands out nothing is asked, and pairs have the budget.

sqrt(R_S) = sqrt(sum_f (t_f - N E f)^2 - m_S v) over 2 N estimates the total variation between rows and model
over the groups of S that parities of all its columns see. After the last fit it says what the model misses.
That nothing stands out proves nothing: a dependence may hide within groups.

**Privacy.** Relation: replace one row, N public. M_i parities with noise sigma_i cost mu^2 = 4 M_i /
sigma_i^2 whatever groups and products the curator names, tables 2 / sigma^2 (fedkme.features.counts has the
proofs, `budget` adds costs up). An owner computes both from the question itself, which holds no more than
MOST_PARITIES products of MOST_FACTORS signs of its schema's codes (fedkme.sums.values). Sizes, groups and
what is asked again follow from public numbers and noisy sums: post-processing. Draws of the model have a
fixed seed, so that a curator that starts again asks the same.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from curator.releases.marginals.budget import parity_cost, parity_sigma
from curator.releases.marginals.model import Model, model_cells
from curator.releases.marginals.signs import (
    NAME_GROUPS,
    NUMBER_GROUPS,
    Codes,
    finer_signs,
    halves_of,
    label_signs,
    of_equal_mass,
)
from curator.releases.marginals.tilt import TiltedModel
from fedkme.arrays import IntArray
from fedkme.features.counts import Clique, Groups, parity_sums, sizes_with
from fedkme.releases.counts import Screen
from fedkme.sums.values import MOST_PARITIES

SCREEN_SHARE, AGAIN_SHARE = 0.02, 0.03
"""Shares of the budget: the screen, and the tables that a round asks because of it."""
MOST_COLUMNS, LARGE_COLUMNS = 5, 7
"""Most columns of a set beside the label, and where the noise is cheap."""
VISIBLE, DEVIATIONS = 0.8, 5.0
"""Sets of a size are screened if a dependence of VISIBLE N is above DEVIATIONS of the noise."""
LARGE_SHARE, LARGE_DEVIATIONS, LEAST_SHARE = 0.01, 5.8, 0.002
"""Most budget of sets of more than MOST_COLUMNS, the deviations of their noise that are VISIBLE N, and the
budget that a size may have anyway, for less noise."""
NUMBERS_SHARE, PAIRS_SHARE, TRIPLES_SHARE = 0.0075, 0.01, 0.015
"""Most budget of finer signs: of two numbers, of any two columns, and of three columns, each with the label;
and the last again for three columns without it."""
HIDDEN_SHARE = 0.015
"""Most budget of pairs whose rough tables tell nothing."""
FINER_DEVIATIONS, MOST_DEVIATIONS = 5.0, 20.0
"""Deviations of the noise of finer signs that VISIBLE N is at least, and at most, as more tell no more."""
ERROR = 0.01
"""Chance that anything stands out where nothing is."""
MOST_FOUND = 4
"""Most dependences that a round asks about."""
NOISE_PART, COARSEST_PART = 0.5, 1.0
"""Most L1 noise of a table that is asked again, as a part of the dependence, and of one that cannot be
coarser: fits take out of it what noise explains (`descent.without_noise`, `tilt`)."""
CLEAR = 1.15
"""Least size of a dependence that `descent.of_low_rank` finds in its table: for the largest singular value of
the table's noise."""
_RESOLUTIONS = (16, 12, 8, 6, 5, 4, 3, 2)  # groups of a column in a table that is asked again
_LEAST_DRAWN, _MOST_DRAWN, _DRAWN_PART = 1 << 12, 1 << 19, 0.05


@dataclass(frozen=True)
class ScreenPlan:
    """Question of a screen.

    Attributes:
        groups: columns of two groups, in the order of the columns.
        blocks: products of signs, places of groups: a block for each size of sets.
        sigmas: noise of each block.
    """

    groups: tuple[Groups, ...]
    blocks: tuple[tuple[Clique, ...], ...]
    sigmas: tuple[float, ...]


@dataclass(frozen=True)
class Dependence:
    """Dependence that stands out.

    Attributes:
        rows: estimated L1 distance of rows and model over the columns, in rows; half as many rows are off.
        noise: deviation of the estimate.
        columns: the columns, ascending.
    """

    rows: float
    noise: float
    columns: Clique

    @property
    def surely(self) -> float:
        """Distance that is there almost surely."""
        return self.rows - 2.0 * self.noise


@dataclass(frozen=True)
class Again:
    """Table of a dependence, to be asked for.

    Attributes:
        clique: its columns, of codes and of groups.
        groups: all columns of groups, those of the table last.
        fits: whether the table becomes a clique of the model; else it tilts the label.
    """

    clique: Clique
    groups: tuple[Groups, ...]
    fits: bool


def plan_screen(
    codes: Codes, model: Model, rows: int, total: float, hidden: Sequence[Clique] = ()
) -> ScreenPlan | None:
    """Choose the sets to screen: all sets of each size whose dependences would show at this N.

    Args:
        codes: the columns.
        model: model so far, by whose columns groups are cut.
        rows: N.
        total: mu^2 of the whole release.
        hidden: pairs whose rough tables tell nothing.

    Returns:
        The question; None where no size is worth its noise.
    """
    labels = list(label_signs(codes))
    columns = [c for c, size in enumerate(codes.sizes) if c != codes.label and size > 1]
    if codes.label is not None and not labels:
        return None
    unlabelled = codes.label is None
    groups = [*(Groups(c, halves_of(codes, model, c)) for c in columns), *labels]
    features = list(range(len(columns)))
    endings: list[Clique] = [(place,) for place in range(len(columns), len(groups))] or [()]
    counts = [math.comb(len(features), size) * len(endings) for size in range(len(features) + 1)]
    least = 3 if unlabelled else 2
    for largest in range(min(MOST_COLUMNS - unlabelled, len(features)), least - 1, -1):
        sizes = range(least, largest + 1)
        sigmas = [parity_sigma(SCREEN_SHARE * total / len(sizes), counts[size]) for size in sizes]
        if DEVIATIONS * max(sigmas) <= VISIBLE * rows and sum(counts[least : largest + 1]) <= MOST_PARITIES:
            sigmas += _larger(counts, largest, rows, total, MOST_PARITIES - sum(counts[least : largest + 1]))
            halves = [
                _products([[place] for place in features], size, endings)
                for size in range(least, least + len(sigmas))
            ]
            plan = ScreenPlan(tuple(groups), tuple(map(tuple, halves)), tuple(sigmas))
            return _with_finer(plan, codes, model, rows, total, hidden)
    return None


def _products(ladders: Sequence[Sequence[int]], size: int, endings: Sequence[Clique]) -> list[Clique]:
    """Products of one sign each of so many columns, and of an ending."""
    return [
        tuple(sorted((*product, *ending)))
        for chosen in itertools.combinations(ladders, size)
        for product in itertools.product(*chosen)
        for ending in endings
    ]


def _with_finer(
    plan: ScreenPlan, codes: Codes, model: Model, rows: int, total: float, hidden: Sequence[Clique]
) -> ScreenPlan:
    """Add products of further signs to a plan, a block each, where a dependence would show."""
    groups, ladders, endings = list(plan.groups), dict[int, list[int]](), list[Clique]()
    for place, each in enumerate(plan.groups):
        if each.column == codes.label:
            endings.append((place,))
            continue
        ladders[each.column] = [place]
        for more in finer_signs(codes, model, each):
            ladders[each.column].append(len(groups))
            groups.append(more)
    numbers = [ladder for column, ladder in ladders.items() if column in codes.orders]
    kinds: list[tuple[float, int, list[list[list[int]]], list[Clique]]] = []
    names = [
        [ladder[: 1 if column in codes.orders else most] for column, ladder in ladders.items()]
        for most in (NAME_GROUPS, NUMBER_GROUPS - 1)
    ]
    if endings:
        kinds = [(NUMBERS_SHARE, 2, [numbers], endings), (PAIRS_SHARE, 2, [[*ladders.values()]], endings)]
        kinds.append((TRIPLES_SHARE, 3, names, endings))
    else:
        kinds = [(NUMBERS_SHARE + PAIRS_SHARE, 3, [numbers], [()])]
    kinds.append((TRIPLES_SHARE, 3, names, [()]))
    apart = {pair for pair in hidden if codes.label not in pair}
    fewer = [[ladder[:most] for ladder in ladders.values()] for most in (NAME_GROUPS, 2, 1)]
    kinds.append((HIDDEN_SHARE, 2, fewer, [()]))
    blocks, sigmas = [*plan.blocks], [*plan.sigmas]
    taken = {product for block in blocks for product in block}
    for share, size, finest, ends in kinds:
        for signs in finest:
            block = [product for product in _products(signs, size, ends) if product not in taken]
            if size == 2 and ends == [()]:
                block = [pair for pair in block if tuple(sorted(groups[s].column for s in pair)) in apart]
            least = VISIBLE * rows / MOST_DEVIATIONS
            sigma = max(least, parity_sigma(share * total, len(block))) if block else math.inf
            if len(taken) + len(block) <= MOST_PARITIES and FINER_DEVIATIONS * sigma <= VISIBLE * rows:
                taken.update(block)
                blocks.append(tuple(block))
                sigmas.append(sigma)
                break
    return ScreenPlan(tuple(groups), tuple(blocks), tuple(sigmas))


def _larger(counts: Sequence[int], largest: int, rows: int, total: float, parities: int) -> list[float]:
    """Noise of each size above `largest` whose sets, with those before, cost little and are not too many."""
    hiding, sigmas = VISIBLE * rows / LARGE_DEVIATIONS, list[float]()
    some, large = SCREEN_SHARE * total, LARGE_SHARE * total
    for size in range(largest + 1, min(LARGE_COLUMNS + 1, len(counts))):
        sigma = min(hiding, parity_sigma(LEAST_SHARE * total, counts[size]))
        cost, parities = parity_cost(sigma, counts[size]), parities - counts[size]
        if size <= MOST_COLUMNS:
            some -= cost
        else:
            large -= cost
        if min(some, large, parities) < 0:
            break
        sigmas.append(sigma)
    return sigmas


def standing_out(screen: Screen, model: Model | TiltedModel, rows: int) -> list[Dependence]:
    """Dependences that the model lacks, the surest first."""
    noise = float(np.median(screen.sigmas)) ** 2 + rows
    drawn = int(np.clip(rows**2 / (_DRAWN_PART * noise), _LEAST_DRAWN, _MOST_DRAWN))
    sample = model.sample(drawn, np.random.default_rng(np.random.SeedSequence([rows, drawn, 6])))
    return missing_from(screen, sample, rows)


def missing_from(screen: Screen, sample: IntArray, rows: int) -> list[Dependence]:
    """Dependences that rows of a model lack, the surest first.

    Args:
        screen: the parities of the owners' rows, with noise.
        sample: codes of the model's rows, (n, columns).
        rows: N, the owners' rows.
    """
    from scipy.special import gammaincc  # the import takes time, so not at the start

    products = [product for block in screen.blocks for product in block]
    expected = parity_sums(sample, screen.groups, products) * (rows / len(sample))
    sums = np.concatenate(screen.sums)
    lengths = [len(block) for block in screen.blocks]
    variances = np.repeat(np.square(screen.sigmas), lengths) + rows + rows**2 / len(sample)
    sets: dict[Clique, list[list[int]]] = {}
    starts = np.cumsum([0, *lengths])
    for start, end in itertools.pairwise(starts):
        of_block: dict[Clique, list[int]] = {}
        for place in range(start, end):
            named = {screen.groups[sign].column for sign in products[place]}
            of_block.setdefault(tuple(sorted(named)), []).append(place)
        for clique, places in of_block.items():
            sets.setdefault(clique, []).append(places)
    alike = Counter(map(len, sets))
    dependences = []
    for columns, blocks in sets.items():
        chance, places = 1.0, list[int]()
        for more in blocks:
            places = [*places, *more]
            squares, variance = np.square(sums[places] - expected[places]), variances[places]
            chance = min(chance, float(gammaincc(len(places) / 2.0, (squares / variance).sum() / 2.0)))
        if chance * len(blocks) * alike[len(columns)] * len(alike) < ERROR:
            size, noise = math.sqrt(max(0.0, float((squares - variance).sum()))), math.sqrt(variance.mean())
            dependences.append(Dependence(size, noise, columns))
    return sorted(dependences, key=lambda each: (-each.surely, each.columns))


def apart(dependences: Iterable[Dependence], label: int | None, last: bool) -> list[Dependence]:
    """Choose the surest dependences of which no two share a column but the label.

    A dependence that shares a column with a surer one may be its echo: the next round, whose model has the
    surer one, tells. One with the label is an echo of its other columns where these stand out without it. No
    round follows the last one, so there it is left out only where all of its columns are among those of a
    surer one.

    Args:
        dependences: dependences that the model lacks, the surest first.
        label: column of the label; None: none.
        last: no round follows.
    """
    chosen: list[Dependence] = []
    alone = {each.columns for each in dependences}
    dependences = [
        each for each in dependences if each.columns[:-1] not in alone or each.columns[-1] != label
    ]
    for each in dependences:
        columns = {*each.columns} - {label}
        shared = [columns & {*other.columns} for other in chosen]
        echo = any(len(both) == len(columns) for both in shared) if last else any(shared)
        if len(chosen) < MOST_FOUND and not echo:
            chosen.append(each)
    return chosen


def table_of(
    dependence: Dependence,
    codes: Codes,
    model: Model,
    sigma: float,
    cliques: Sequence[Clique],
    groups: Sequence[Groups],
    limit: int,
) -> Again | None:
    """The finest table of a dependence whose noise is small beside it.

    Args:
        dependence: the dependence.
        codes: the columns.
        model: model so far.
        sigma: noise of each cell.
        cliques: cliques of the model.
        groups: columns of groups of the model.
        limit: most cells of the model.

    Returns:
        The table; None where even two groups have too much noise, or nothing can hold the table.
    """
    labelled = codes.label in dependence.columns
    # the dependence is in what a label's classes differ by, and so is that part of the noise alone
    beside = 1.0 - 1.0 / codes.sizes[codes.label] if labelled and codes.label is not None else 1.0
    for most in sorted({*_RESOLUTIONS, *(codes.sizes[c] for c in dependence.columns)}, reverse=True):
        clique, more = [], list(groups)
        for column in dependence.columns:
            if codes.sizes[column] <= most or column == codes.label:
                clique.append(column)
                continue
            own = Groups(column, of_equal_mass(codes, model, column, most))
            if own not in more:
                more.append(own)
            clique.append(len(codes.sizes) + more.index(own))
        whole, ordered = sizes_with(more, codes.sizes), tuple(sorted(clique))
        shape = [whole[column] for column in ordered]
        noise = math.sqrt(2.0 * beside / math.pi) * sigma * math.prod(shape)
        part = COARSEST_PART if most == _RESOLUTIONS[-1] else NOISE_PART
        if noise <= part * dependence.rows:
            clique_of_codes = not labelled or ordered[-1] < len(codes.sizes)
            fits = clique_of_codes and model_cells(codes.sizes, [*cliques, ordered], more) <= limit
            if fits or labelled:
                return Again(ordered, tuple(more), fits)
        elif labelled and max(whole[c] for c in ordered if c != codes.label) > 2:
            of_noise = sigma * math.sqrt(math.prod(shape)) * _largest_of_noise(shape)
            if dependence.rows > CLEAR * of_noise:
                return Again(ordered, tuple(more), False)
    return None


def _largest_of_noise(shape: Sequence[int]) -> float:
    """Largest singular value of noise of deviation 1 in the interaction of all axes (`of_low_rank`)."""
    free = [size - 1 for size in shape]
    return max(math.sqrt(size) + math.sqrt(math.prod(free) / size) for size in free if size)
