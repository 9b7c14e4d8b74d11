"""Selection of rows that stand for all of one's own, alike or with weights. Nothing in it is private.

With mu the mean embedding of N rows at each of them, MMD^2 of weighted rows to all rows is
w' K w - 2 w' mu + |mu|^2.

Rows alike: greedy choice takes the row that makes it least at each size (kernel herding, Chen, Welling and
Smola 2010, with rows for points); an exchange puts a better row in the place of one that was chosen (as the
refinement of kernel thinning, Dwivedi and Mackey 2021, does), until a sweep changes nothing.

Rows with weights may be others, since a weight lets a row stand for more than one: at each size the row
where what is not represented yet, mu - sum_j w_j k(x_j, .), is largest, and then the best weights of all rows
anew (fully corrective Frank-Wolfe on the simplex; Jaggi 2013). On MNIST, p = 200, it takes MMD^2 to .85 of
greedy choice's, weights on the rows alike to .91; where clusters are few and tight these are closer: the
better of the two is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.short_rows import ShortRows, shorten
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.errors import NotEnoughRowsError

SWEEPS = 5
"""Sweeps of exchanges at most: on MNIST, p = 200, five take MMD^2 to .95 of greedy choice's; ten, too."""
_GAIN = 1e-9
"""Gain in the mean kernel from which on rows are exchanged: rounding is below it."""


@dataclass(frozen=True, eq=False, slots=True)
class Selected:
    """Rows that stand for all rows.

    Attributes:
        indices: of the rows, (p,), in the order of choosing.
        weights: theirs, (p,), >= 0, sum 1.
        mmd2: to all rows; as exact as the mean embedding is (short_rows).
    """

    indices: IntArray
    weights: FloatArray
    mmd2: float


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """Both forms of a selection: p rows alike, and p rows with weights."""

    alike: Selected
    weighted: Selected


def select_rows(rows: Rows, p: int, gamma: float, sweeps: int = SWEEPS) -> Selection:
    """Choose p different rows, alike, and p with weights.

    Time N^2 / 2 products of a few coordinates (short_rows), which is most of it where N is large; memory
    4 N (2 k + p) bytes.

    Args:
        rows: (N, n).
        p: 1 to N.
        gamma: of the RBF kernel.
        sweeps: of exchanges, at most.

    Raises:
        NotEnoughRowsError: p is not among 1 to N.
    """
    if not 1 <= p <= len(rows):
        cause = f"a selection of {p} rows was asked for and there are {len(rows)}"
        raise NotEnoughRowsError(cause, f"Ask for 1 to {len(rows)}.")
    short = shorten(rows, gamma)
    means = short.means()

    def selected(indices: IntArray, weights: FloatArray | None) -> Selected:
        gram, there = rbf(rows[indices], rows[indices], gamma), means[indices]
        weights = fit_simplex(gram, there).weights if weights is None else weights
        value = weights @ gram @ weights - 2.0 * weights @ there + means.mean()
        return Selected(indices, weights, max(float(value), 0.0))

    alike = choose(short, means, p, sweeps)
    weighted = [selected(indices, None) for indices in (pursue(short, means, p), alike)]
    return Selection(selected(alike, np.full(p, 1.0 / p)), min(weighted, key=lambda found: found.mmd2))


def choose(short: ShortRows, means: FloatArray, p: int, sweeps: int) -> IntArray:
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
    short_of, free = means.copy(), np.ones(len(short), np.bool_)
    for place in range(p):
        row = int(np.argmax(np.where(free, short_of, -np.inf)))
        chosen[place], free[row], columns[place] = row, False, short.column(row)
        there = chosen[: place + 1]
        gram, target = (
            np.zeros((place + 2, place + 2)),
            np.zeros(place + 2),
        )  # the last is 0, for what is left
        gram[:-1, :-1], target[:-1] = columns[: place + 1, there], means[there]
        weights = fit_simplex(gram, target).weights[:-1]
        short_of = means - weights.astype(np.float32) @ columns[: place + 1]
    return chosen
