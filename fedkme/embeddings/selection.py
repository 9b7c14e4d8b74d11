"""Selection of rows that stand for all of one's own, alike or with weights. Nothing in it is private.

With mu the mean embedding of N rows at each of them, MMD^2 of weighted rows to all rows is
w' K w - 2 w' mu + |mu|^2.

Rows alike: greedy choice takes the row that makes it least at each size (kernel herding, Chen, Welling and
Smola 2010, with rows for points); an exchange puts a better row in the place of one that was chosen (as the
refinement of kernel thinning, Dwivedi and Mackey 2021, does), until a sweep changes nothing.

Rows with weights may be others, since a weight lets a row stand for more than one: at each size the row
where what is not represented yet, mu - sum_j w_j k(x_j, .), is largest, and then the best weights of all rows
anew (fully corrective Frank-Wolfe on the simplex; Jaggi 2013). On MNIST, p = 200, it takes MMD^2 to .86 of
greedy choice's, weights on the rows alike to .92; where clusters are few and tight these are closer: the
better of the two is taken. Then its rows may give way to others, one by one, which takes it to .80.

Where that takes too long, the choice is among a sample of rows: mu is that of Q rows drawn uniformly, which
is off by (1 - |mu|^2) (1 / Q - 1 / N) in mean square, and a quarter of them may be chosen; weights are of
the rows alike, since a larger sample gains more in the time that others would take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.short_rows import FirstRows, ShortRows, shorten
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.errors import NotEnoughRowsError

SWEEPS = 5
"""Sweeps of exchanges at most: on MNIST, p = 200, five take MMD^2 to .95 of greedy choice's; ten, too."""
_DRAWN_FOR_ONE = 4
"""Drawn rows for each that may be chosen: on MNIST 2 to 8 give the same MMD^2 in the same time."""
_GAIN = 1e-9
"""Gain in the mean kernel from which on rows are exchanged: rounding is below it."""


@dataclass(frozen=True, eq=False, slots=True)
class Selected:
    """Rows that stand for all rows.

    Attributes:
        indices: of the rows, (p,), in the order of choosing.
        weights: theirs, (p,), >= 0, sum 1.
        mmd2: to all rows; as exact as the mean embedding is (short_rows); nan of a sample, which cannot tell.
    """

    indices: IntArray
    weights: FloatArray
    mmd2: float


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """Both forms of a selection: p rows alike, and p rows with weights."""

    alike: Selected
    weighted: Selected


def select_rows(
    rows: Rows, p: int, gamma: float, sweeps: int = SWEEPS, sample: int | None = None
) -> Selection:
    """Choose p different rows, alike, and p with weights.

    Time N^2 / 2 products of a few coordinates (short_rows), which is most of it where N is large; memory
    4 N (2 k + p) bytes. Of a sample of Q, Q^2 / 4 products of n coordinates, and 20 Q n bytes.

    Args:
        rows: (N, n).
        p: 1 to N.
        gamma: of the RBF kernel.
        sweeps: of exchanges, at most.
        sample: rows that are drawn to choose by and from, at most; None: all.

    Raises:
        NotEnoughRowsError: p is not among 1 to N, or to `sample`.
    """
    most = len(rows) if sample is None else min(sample, len(rows))
    if not 1 <= p <= most:
        cause = f"a selection of {p} rows was asked for and there are {most}"
        raise NotEnoughRowsError(cause, f"Ask for 1 to {most}.")
    if sample is not None:
        return _select_from_sample(rows, p, gamma, sweeps, most)
    short = shorten(rows, gamma)
    means = short.means()

    def selected(indices: IntArray, weights: FloatArray | None) -> Selected:
        gram, mean_at_rows = rbf(rows[indices], rows[indices], gamma), means[indices]
        weights = fit_simplex(gram, mean_at_rows).weights if weights is None else weights
        value = weights @ gram @ weights - 2.0 * weights @ mean_at_rows + means.mean()
        return Selected(indices, weights, max(float(value), 0.0))

    alike = choose(short, means, p, sweeps)
    weighted = min((selected(choice, None) for choice in (pursue(short, means, p), alike)), key=_mmd2)
    exchanged = selected(exchange(short, means, weighted.indices, sweeps), None)
    return Selection(selected(alike, np.full(p, 1.0 / p)), min(weighted, exchanged, key=_mmd2))


def _mmd2(selected: Selected) -> float:
    return selected.mmd2


def _select_from_sample(rows: Rows, p: int, gamma: float, sweeps: int, sample: int) -> Selection:
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    sampled = random.choice(len(rows), sample, replace=False)
    candidates, means = shorten(rows[sampled], gamma, whole=True).first(max(p, sample // _DRAWN_FOR_ONE))
    chosen = choose(candidates, means, p, sweeps)
    indices = sampled[chosen]
    weights = fit_simplex(rbf(rows[indices], rows[indices], gamma), means[chosen]).weights
    alike = np.full(p, 1.0 / p)
    return Selection(Selected(indices, alike, np.nan), Selected(indices, weights, np.nan))


def choose(short: ShortRows | FirstRows, means: FloatArray, p: int, sweeps: int) -> IntArray:
    """Choose p rows alike, greedily, then exchange them one by one; of equal rows the first.

    Args:
        short: N rows.
        means: mu at each, (N,).
        p: 1 to N.
        sweeps: of exchanges at most.
    """
    chosen, columns = np.empty(p, np.int64), np.empty((p, len(short)), np.float32)
    crowding, free = np.zeros(len(short)), np.ones(len(short), np.bool_)

    def best(size: int) -> int:
        return int(np.argmax(np.where(free, means - crowding / size, -np.inf)))

    def put(place: int, row: int) -> None:
        chosen[place], columns[place], free[row] = row, short.column(row), False

    for place in range(p):
        put(place, best(place + 1))
        crowding += columns[place]
    for _ in range(sweeps):
        exchanged = 0
        for place in range(p):
            row = int(chosen[place])
            free[row] = True
            crowding -= columns[place]
            other = best(p)
            if means[other] - means[row] - (crowding[other] - crowding[row]) / p > _GAIN:
                put(place, other)
                exchanged += 1
            free[chosen[place]] = False
            crowding += columns[place]
        if not exchanged:
            break
    return chosen


def pursue(short: ShortRows, means: FloatArray, p: int) -> IntArray:
    """Choose p rows for weights, each where what is represented so far falls shortest of mu.

    Args:
        short: N rows.
        means: mu at each, (N,).
        p: 1 to N.
    """
    chosen, columns = np.empty(p, np.int64), np.empty((p, len(short)), np.float32)
    residual, free, weights = means.copy(), np.ones(len(short), np.bool_), np.empty(0)
    for place in range(p):
        row = int(np.argmax(np.where(free, residual, -np.inf)))
        chosen[place], free[row], columns[place] = row, False, short.column(row)
        rows = chosen[: place + 1]
        support = np.append(np.flatnonzero(weights), place)  # the weights before are near
        weights = _fitted(columns[: place + 1, rows], means[rows], support)
        residual = means - weights.astype(np.float32) @ columns[: place + 1]
    return chosen


def exchange(short: ShortRows | FirstRows, means: FloatArray, chosen: IntArray, sweeps: int) -> IntArray:
    """Put better rows for weights in the place of chosen ones, from the least weight on.

    Each makes way for the row where what the others represent falls shortest of mu, if MMD^2 is less with it.

    Args:
        short: N rows.
        means: mu at each, (N,).
        chosen: p of them.
        sweeps: over the chosen rows, at most.
    """
    chosen, columns = chosen.copy(), np.array([short.column(row) for row in chosen])
    weights = _fitted(columns[:, chosen], means[chosen], np.arange(len(chosen)))
    for _ in range(sweeps):
        exchanged = 0
        for place in np.argsort(weights, kind="stable"):
            stay = np.flatnonzero(np.arange(len(chosen)) != place)
            stay_rows, others = chosen[stay], np.zeros(len(chosen))
            others[stay] = _fitted(
                columns[np.ix_(stay, stay_rows)], means[stay_rows], np.flatnonzero(weights[stay])
            )
            residual = means - others.astype(np.float32) @ columns
            residual[chosen] = -np.inf
            row = int(np.argmax(residual))
            tried, column = chosen.copy(), short.column(row)
            tried[place] = row
            gram = columns[:, tried]
            gram[place] = column[tried]
            fitted = _fitted(gram, means[tried], np.append(np.flatnonzero(others), place))
            before = _value(columns[:, chosen], means[chosen], weights)
            if _value(gram, means[tried], fitted) < before - _GAIN:
                chosen, weights, columns[place] = tried, fitted, column
                exchanged += 1
        if not exchanged:
            break
    return chosen


def _fitted(gram: NDArray[np.float32], target: FloatArray, support: IntArray) -> FloatArray:
    """Best weights >= 0 with a sum of at most 1, and first of a support: a last row, of 0, has the rest."""
    padded = np.pad(gram.astype(np.float64), (0, 1))
    support = np.append(support, len(target))
    weights: FloatArray = fit_simplex(padded, np.append(target, 0.0), support=support).weights[:-1]
    return weights


def _value(gram: NDArray[np.float32], target: FloatArray, weights: FloatArray) -> float:
    """MMD^2 without |mu|^2."""
    return float(weights @ gram @ weights - 2.0 * weights @ target)
