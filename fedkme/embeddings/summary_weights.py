"""Weights of received rows that bring them closest to D_v, at whoever holds D_v.

With weights w on the simplex, MMD^2(w) = w'Kw - 2 c'w + v is |sum_i w_i phi(x_i) - mu_v|^2: K the kernel
matrix of the r rows, c_i the mean of k(x_i, y) over D_v, v the mean of k over D_v x D_v. Its minimum over
the simplex, `Received.least`, is therefore the squared distance of mu_v from the convex hull of the rows'
embeddings.

Monotone: let S be contained in T. Weights over S, with zeros for the rest, are weights over T of the same
MMD^2; hence least(T) <= least(S). (Of pruning and of greedy choice nothing like it holds.)

Never worse than uniform: let a rho p of the rows received be drawn uniformly, U. Whatever else came, and
whatever histograms said, U is contained in the rows received; hence least <= least(U), for every draw: the
MMD^2 of as many uniform rows with weights, and so of any p of these with equal weights, too.

Never worse than equal weights: a summary keeps at most p rows, by a heuristic; what it is compared with at
the end are the best weights of the p rows that pruning keeps, of which equal weights are one choice.

Classes: the kernel is of columns and knows no label: rows that match D_v by it may be of other classes, and a
model that is trained on them learns other shares. So where D_v has labels a class is one more block of
coordinates (`beside_classes`), in which rows of two classes are so far apart that the kernel falls to `ALIKE`
of what it is, k((x, y), (x', y')) = k(x, x') ALIKE^[y != y'], and to `STRANGE` of it where one of them is a
class that no row of D_v has. It is an RBF kernel of longer rows: all of the above holds in it
(docs/decisions/008).

Nothing is released: the solver runs where D_v is, and nobody is told of its result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.grams import Gram
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import Candidates, candidates, greedy, pruned, swapped
from fedkme.embeddings.simplex_fit import Fit, fit_simplex

RIDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""lambda in lambda |w|^2: more of it spreads weight, over which a model's fit averages its noise."""
SLACK = 0.1
"""MMD^2 that spreading may cost, in units of `Received.noise`."""
SPREAD_ROWS = 4096
"""Rows that a ridge spreads weight over at most: more of it gives each row some, and the time is cubic."""
_WORTH = 1e-3
"""MMD^2 that p exchanges of repeated rows together must gain, in the same units, lest they end."""
ALIKE = 0.9
"""Kernel of two rows that differ by their class alone."""
STRANGE = 0.1
"""Kernel of two such rows, where D_v has rows of one of the classes and none of the other."""


@dataclass(frozen=True, eq=False, slots=True)
class WeightedRows:
    """Rows with weights, at most p of those received.

    Attributes:
        indices: of the rows with weight, (s,), s <= p, increasing.
        weights: theirs, (s,), > 0, sum 1.
        ridge: lambda of the fit.
        mmd2: of the weighted rows to D_v.
        gap: of the fit on the rows that it was left with: its objective is at most so much above the least.
    """

    indices: IntArray
    weights: FloatArray
    ridge: float
    mmd2: float
    gap: float

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def effective(self) -> float:
        """Kish's effective sample size, 1 / |w|^2: a mean over these rows varies like one of so many rows."""
        return 1.0 / float(self.weights @ self.weights)


@dataclass(frozen=True, eq=False, slots=True)
class Received:
    """Received rows as the kernel sees them, beside D_v.

    Attributes:
        seen: the rows, and their mean kernel to D_v.
        own: v, the mean of k over all pairs of rows of D_v.
        validation_rows: m.
        nearest: the best weights over all of them, of each distinct row, (M,).
    """

    seen: Candidates
    own: float
    validation_rows: int
    nearest: Fit

    @property
    def noise(self) -> float:
        """(1 - v) / m, by how much MMD^2 a law differs from m rows of its own."""
        return (1.0 - self.own) / self.validation_rows

    @property
    def least(self) -> float:
        """MMD^2 to D_v of the best weights over all rows, however many they need."""
        support = np.flatnonzero(self.nearest.weights)
        return self.mmd2(support, self.nearest.weights[support])

    @property
    def near(self) -> IntArray:
        """Distinct rows of the best weights, then those closest to having some, at most SPREAD_ROWS."""
        weights = self.nearest.weights
        support = np.flatnonzero(weights)
        slope = self.seen.gram.applied(support, weights[support]) - self.seen.closeness
        order = np.argsort(np.where(weights > 0.0, -np.inf, slope), kind="stable")
        return np.sort(order[:SPREAD_ROWS])

    def mmd2(self, rows: IntArray, weights: FloatArray) -> float:
        """MMD^2 to D_v of some of the distinct rows with weights that sum to 1."""
        gram = self.seen.gram.some(rows)
        value = (
            gram.applied(np.arange(len(rows)), weights) @ weights
            - 2.0 * self.seen.closeness[rows] @ weights
            + self.own
        )
        return max(float(value), 0.0)


def beside_classes(
    rows: Rows, validation: ReferenceRows, labels: IntArray | None, theirs: IntArray | None
) -> tuple[Rows, ReferenceRows]:
    """Put classes beside encoded rows and those of D_v; without labels on both sides they stay as they are.

    Args:
        rows: (r, n).
        validation: D_v, (m, n).
        labels: of the rows, (r,), or None.
        theirs: of D_v, (m,), or None.

    Returns:
        Both, with C more columns.
    """
    if labels is None or theirs is None:
        return rows, validation
    count = 1 + int(max(labels.max(initial=0), theirs.max(initial=0)))
    near = -0.5 * math.log(ALIKE) / validation.gamma
    squared = np.where(
        np.bincount(theirs, minlength=count) > 0, near, -math.log(STRANGE) / validation.gamma - near
    )
    places = np.diag(np.sqrt(squared)).astype(rows.dtype)
    longer = np.concatenate([validation.rows, places[theirs]], axis=1)
    return np.concatenate([rows, places[labels]], axis=1), ReferenceRows(longer, validation.gamma)


def received(rows: Rows, validation: ReferenceRows) -> Received:
    """Kernel values of received rows (r, n), r >= 1, and D_v."""
    seen = candidates(rows, validation.rows, validation.gamma)
    nearest = fit_simplex(seen.gram, seen.closeness)
    return Received(seen, validation.own, len(validation.rows), nearest)


def weigh(about: Received, p: int, pruned_rows: IntArray) -> WeightedRows:
    """Weights of at most p of the rows: the largest ridge whose MMD^2 is within the slack of the least.

    A ridge is fitted on the rows `Received.near`, which are all of up to 4,096 distinct ones. Under it equal
    rows share their weight alike, W / n each, since the objective is strictly convex: so it is fitted to
    distinct rows, of which lambda W^2 / n is what n copies of one cost.

    Args:
        about: the rows.
        p: rows with weight at most, >= 1.
        pruned_rows: places of the rows that pruning keeps, at most p; the result is not farther from D_v
            than these rows with equal weights.
    """
    near, copies = about.near, about.seen.copies
    support_rows = np.flatnonzero(about.nearest.weights)
    fewest = _CopyWeights(
        support_rows, np.ones_like(support_rows), about.nearest.weights[support_rows], 0.0, about.nearest.gap
    )
    kinds, times = np.unique(about.seen.groups[pruned_rows], return_counts=True)
    starts = [_shrink(about, p, fewest), _fit(about, kinds, times, 0.0)]
    best, reached = min(
        ((weights_of_copies, weights_of_copies.mmd2(about)) for weights_of_copies in starts),
        key=lambda pair: pair[1],
    )
    limit = min(reached + SLACK * about.noise, max(reached, about.mmd2(kinds, times / len(pruned_rows))))
    near_rows, support = about.seen.gram.some(near), support_rows
    for ridge in RIDGES[1:]:
        full = _fit(about, near, copies[near], ridge, np.searchsorted(near, support), near_rows)
        fit, support = _shrink(about, p, full), full.kinds
        if fit.mmd2(about) <= limit:
            best = fit
    return best.rows(about)


def in_some_form(rows: Rows, validation: ReferenceRows, p: int) -> IntArray:
    """Rows that some form of a summary has: the p that pruning keeps first, then others that have weight.

    Where a curator holds D_v, these go to the consumer, who makes the forms of them, and no other row does.

    Args:
        rows: received, (r, n), r >= 1.
        validation: D_v.
        p: rows of a summary.
    """
    about = received(rows, validation)
    pruned_rows = pruned(about.seen, p)
    weighted = np.union1d(weigh(about, p, pruned_rows).indices, np.flatnonzero(repeat(about, p)))
    return np.concatenate([pruned_rows, np.setdiff1d(weighted, pruned_rows)])


@dataclass(frozen=True, eq=False, slots=True)
class _CopyWeights:
    """Distinct rows (s,) with how many copies of each, the weight of these together, > 0, and their fit."""

    kinds: IntArray
    copies: IntArray
    weights: FloatArray
    ridge: float
    gap: float

    def mmd2(self, about: Received) -> float:
        return about.mmd2(self.kinds, self.weights)

    def rows(self, about: Received) -> WeightedRows:
        """Share weights among copies."""
        indices = about.seen.places(np.repeat(self.kinds, self.copies))
        order, share = np.argsort(indices), np.repeat(self.weights / self.copies, self.copies)
        return WeightedRows(indices[order], share[order], self.ridge, self.mmd2(about), self.gap)


def _fit(
    about: Received,
    kinds: IntArray,
    copies: IntArray,
    ridge: float,
    support: IntArray | None = None,
    gram: Gram | None = None,
) -> _CopyWeights:
    """Weigh some distinct rows; `support` are places among them, `gram` is theirs."""
    gram = about.seen.gram.some(kinds) if gram is None else gram
    fit = fit_simplex(gram, about.seen.closeness[kinds], ridge / copies, support)
    inside = np.flatnonzero(fit.weights)
    return _CopyWeights(kinds[inside], copies[inside], fit.weights[inside], ridge, fit.gap)


def _shrink(about: Received, p: int, weights_of_copies: _CopyWeights) -> _CopyWeights:
    """Drop rows that are worth least, half of those that are too many at a time, and fit the rest again.

    The last copy of a row is worth W^2; the k-th of others W^2 / (k (k - 1)), by which it lowers W^2 / n.
    """
    while (rows := int(weights_of_copies.copies.sum())) > p:
        which = np.repeat(np.arange(len(weights_of_copies.kinds)), weights_of_copies.copies)
        others = np.arange(rows) - (np.cumsum(weights_of_copies.copies) - weights_of_copies.copies)[which]
        worth = weights_of_copies.weights[which] ** 2 / np.maximum(others * (others + 1), 1)
        stays = np.argsort(worth, kind="stable")[(rows - p + 1) // 2 :]
        kinds, copies = np.unique(weights_of_copies.kinds[which[stays]], return_counts=True)
        weights_of_copies = _fit(about, kinds, copies, weights_of_copies.ridge, np.arange(len(kinds)))
    return weights_of_copies


def repeat(about: Received, p: int) -> IntArray:
    """P rows, some more than once, that do with equal weights what weights do: how often each, (r,).

    p times the best weights over all rows, rounded down, then the exact greedy choice with replacement, then
    the best exchanges while one is worth its time.
    """
    weights = about.nearest.weights
    first = np.repeat(np.arange(len(weights)), np.floor(p * weights).astype(np.int64))
    chosen = greedy(about.seen, p, first, again=True)
    chosen = swapped(about.seen, chosen, again=True, worth=_WORTH * about.noise / p)
    return np.bincount(about.seen.places(chosen), minlength=len(about.seen.groups))
