"""Dependences of three and more columns, found by noisy parities alone.

Pairs show nothing of a label that is the XOR of some columns. A screen does:

1. each column is put into two groups of about equal mass by the model's noisy column (numbers in order,
   categories in the order of their part in each class), and a label of K classes into the K' - 1 pairs of
   groups of a Hadamard code of K' >= K classes, so that any two classes differ in K' / 2 of them;
2. one question asks for the parities of all sets of 2, 3, .. columns with the label (of 3 and 4 columns
   where there is no label), one block for each size, with an equal part of SCREEN_SHARE for each; sets of
   more columns follow, with the noise in which all but a full dependence hides, where it costs little;
3. a set S of m_S parities t_f with noise sigma stands out where sum_f (t_f - N E_model f)^2 / v is larger
   than a chi-square of m_S degrees is with a chance of ERROR over the sizes and the sets of a size; v =
   sigma^2 + N + N^2 / n counts the noise, the rows' own draw and the n rows of the model that give E;
4. what stands out is asked again, as a table. Over all codes, where its noise is small beside the dependence
   and the model has room, it becomes a clique of the model. Else it is over groups of about equal mass, as
   many as the noise allows, and tilts the label (`tilt`); without a label it is a clique of the groups.
   Where nothing stands out nothing is asked, and pairs have the budget.

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

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curator.releases.marginals.budget import parity_cost, parity_sigma
from curator.releases.marginals.model import Model, model_cells
from curator.releases.marginals.tilt import TiltedModel
from fedkme.arrays import FloatArray, IntArray
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
ERROR = 0.01
"""Chance that anything stands out where nothing is."""
MOST_FOUND = 4
"""Most dependences that a round asks about."""
NOISE_PART, COARSEST_PART = 0.5, 1.0
"""Most L1 noise of a table that is asked again, as a part of the dependence, and of one that cannot be
coarser: fits take out of it what noise explains (`descent.without_noise`, `tilt`)."""
_RESOLUTIONS = (16, 12, 8, 6, 5, 4, 3, 2)  # groups of a column in a table that is asked again
_LEAST_DRAWN, _MOST_DRAWN, _DRAWN_PART = 1 << 12, 1 << 19, 0.05


@dataclass(frozen=True)
class Codes:
    """Columns of codes as the screen sees them.

    Attributes:
        sizes: codes of every column.
        label: place of the label, the last column; None without one.
        orders: the codes of each numeric column, in the order of their numbers.
    """

    sizes: Sequence[int]
    label: int | None = None
    orders: Mapping[int, Sequence[int]] = field(default_factory=dict)


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


def plan_screen(codes: Codes, model: Model, rows: int, total: float) -> ScreenPlan | None:
    """Choose the sets to screen: all sets of each size whose dependences would show at this N.

    Args:
        codes: the columns.
        model: model so far, by whose columns groups are cut.
        rows: N.
        total: mu^2 of the whole release.

    Returns:
        The question; None where no size is worth its noise.
    """
    groups = tuple(_signs(codes, model))
    features = [place for place, each in enumerate(groups) if each.column != codes.label]
    labels = [place for place, each in enumerate(groups) if each.column == codes.label]
    if codes.label is not None and not labels:
        return None
    unlabelled = codes.label is None
    endings: list[Clique] = [()] if unlabelled else [(label,) for label in labels]
    counts = [math.comb(len(features), size) * len(endings) for size in range(len(features) + 1)]
    least = 3 if unlabelled else 2
    for largest in range(min(MOST_COLUMNS - unlabelled, len(features)), least - 1, -1):
        sizes = range(least, largest + 1)
        sigmas = [parity_sigma(SCREEN_SHARE * total / len(sizes), counts[size]) for size in sizes]
        if DEVIATIONS * max(sigmas) <= VISIBLE * rows and sum(counts[least : largest + 1]) <= MOST_PARITIES:
            sigmas += _larger(counts, largest, rows, total, MOST_PARITIES - sum(counts[least : largest + 1]))
            blocks = tuple(
                tuple(
                    (*chosen, *ending)
                    for chosen in itertools.combinations(features, size)
                    for ending in endings
                )
                for size in range(least, least + len(sigmas))
            )
            return ScreenPlan(groups, blocks, tuple(sigmas))
    return None


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
    least = min(screen.sigmas) ** 2 + rows
    drawn = int(np.clip(rows**2 / (_DRAWN_PART * least), _LEAST_DRAWN, _MOST_DRAWN))
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
    sets: dict[Clique, list[int]] = {}
    for place, product in enumerate(products):
        sets.setdefault(tuple(dict.fromkeys(screen.groups[sign].column for sign in product)), []).append(
            place
        )
    alike = Counter(map(len, sets))
    dependences = []
    for columns, places in sets.items():
        squares, variance = np.square(sums[places] - expected[places]), variances[places]
        chance = float(gammaincc(len(places) / 2.0, (squares / variance).sum() / 2.0))
        if chance * alike[len(columns)] * len(alike) < ERROR:
            size, noise = math.sqrt(max(0.0, float((squares - variance).sum()))), math.sqrt(variance.mean())
            dependences.append(Dependence(size, noise, columns))
    return sorted(dependences, key=lambda each: (-each.surely, each.columns))


def apart(dependences: Iterable[Dependence], label: int | None) -> list[Dependence]:
    """The surest dependences that share no column but the label.

    Others may be echoes of these: the next round, whose model has these, tells.
    """
    chosen: list[Dependence] = []
    for each in dependences:
        taken = {column for other in chosen for column in other.columns} - {label}
        if len(chosen) < MOST_FOUND and taken.isdisjoint(each.columns):
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
    # the dependence is in what a label's classes differ by, and so is that part of the noise alone
    beside = 1.0 if codes.label is None else 1.0 - 1.0 / codes.sizes[codes.label]
    for most in sorted({*_RESOLUTIONS, *(codes.sizes[c] for c in dependence.columns)}, reverse=True):
        clique, more = [], list(groups)
        for column in dependence.columns:
            if codes.sizes[column] <= most or column == codes.label:
                clique.append(column)
                continue
            own = Groups(column, _of_equal_mass(codes, model, column, most))
            if own not in more:
                more.append(own)
            clique.append(len(codes.sizes) + more.index(own))
        whole, ordered = sizes_with(more, codes.sizes), tuple(sorted(clique))
        noise = math.sqrt(2.0 * beside / math.pi) * sigma * math.prod(whole[column] for column in ordered)
        part = COARSEST_PART if most == _RESOLUTIONS[-1] else NOISE_PART
        if noise <= part * dependence.rows:
            clique_of_codes = codes.label is None or ordered[-1] < len(codes.sizes)
            fits = clique_of_codes and model_cells(codes.sizes, [*cliques, ordered], more) <= limit
            if fits or codes.label is not None:
                return Again(ordered, tuple(more), fits)
    return None


def _signs(codes: Codes, model: Model) -> Iterator[Groups]:
    """Two groups of every column, and the pairs of groups of the label's code."""
    for column, size in enumerate(codes.sizes):
        if column == codes.label:
            bits = max(1, (size - 1).bit_length())
            masks = range(1, 1 << bits) if size > 1 else ()
            yield from (
                Groups(column, tuple((c & mask).bit_count() & 1 for c in range(size))) for mask in masks
            )
        elif size > 1:
            yield Groups(column, _halves(codes, model, column))


def _halves(codes: Codes, model: Model, column: int) -> tuple[int, ...]:
    """Groups 0 and 1 of the codes of a column, cut where the mass is nearest to even."""
    order, mass = _ordered(codes, model, column)
    cut = 1 + int(np.argmin(np.abs(np.cumsum(mass)[:-1] - 0.5)))
    groups = np.zeros(len(order), dtype=np.int64)
    groups[order[cut:]] = 1
    return tuple(groups.tolist())


def _of_equal_mass(codes: Codes, model: Model, column: int, count: int) -> tuple[int, ...]:
    """Groups of the codes of a column, of about equal mass, at most so many."""
    order, mass = _ordered(codes, model, column)
    middle = np.clip((np.cumsum(mass) - mass / 2.0) * count, 0.0, count - 1)
    groups = np.zeros(len(order), dtype=np.int64)
    groups[order] = np.unique(middle.astype(np.int64), return_inverse=True)[1].reshape(-1)
    return tuple(groups.tolist())


def _ordered(codes: Codes, model: Model, column: int) -> tuple[IntArray, FloatArray]:
    """Codes of a column in order, and the model's mass of each."""
    shares = model.probabilities((column,))
    if column in codes.orders:
        order = np.asarray(codes.orders[column], dtype=np.int64)
    elif codes.label is None:
        order = np.argsort(-shares, kind="stable")
    else:
        order = np.argsort(_first_axis(model.probabilities((column, codes.label))), kind="stable")
    return order, shares[order]


def _first_axis(joint: FloatArray) -> FloatArray:
    """Scores of codes on the first axis of their table with the label, by correspondence analysis.

    For two classes they have the order of P(y | code).
    """
    codes, classes = joint.sum(axis=1), joint.sum(axis=0)
    expected = np.maximum(np.outer(codes, classes), 1e-300)
    left = np.linalg.svd((joint - expected) / np.sqrt(expected), full_matrices=False)[0][:, 0]
    return np.asarray(left / np.sqrt(np.maximum(codes, 1e-300)))
