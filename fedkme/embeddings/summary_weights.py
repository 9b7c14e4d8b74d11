"""Weights of received rows that bring them closest to D_v, computed by the party that holds D_v.

With weights w on the simplex, MMD^2(w) = w'Kw - 2 c'w + v is |sum_i w_i phi(x_i) - mu_v|^2: K the kernel
matrix of the r rows, c_i the mean of k(x_i, y) over D_v, v the mean of k over D_v x D_v. Its minimum over
the simplex, `Received.least`, is therefore the squared distance of mu_v from the convex hull of the rows'
embeddings.

Monotone: let S be contained in T. Weights over S, with zeros for the other rows, are weights over T of the
same MMD^2; hence least(T) <= least(S). (Nothing like this holds for pruning and greedy choice.)

Never worse than uniform rows: let U be the a rho p received rows that were drawn uniformly. Whatever other
rows came, and whatever histograms said, U is contained in the received rows. Hence least <= least(U), for
every draw: this is the MMD^2 of as many uniform rows with weights, so it is also below that of any p of these
rows with equal weights.

Never worse than equal weights: a summary has at most p rows, by a heuristic. At the end it is compared with
the best weights of the p rows that pruning keeps, and equal weights are one choice of these.

Classes: the kernel is of columns and ignores labels. So rows that match D_v in the kernel may be of other
classes, and a model that is trained on them learns other class shares. Where D_v has labels, a class is
therefore one more block of coordinates (`beside_classes`). Two classes are so far apart in it that the kernel
falls by the factor `ALIKE`, k((x, y), (x', y')) = k(x, x') ALIKE^[y != y'], or `STRANGE` where D_v has no row
of one of the classes. The result is an RBF kernel of longer rows, so all statements above hold for it
(docs/decisions/008).

Nothing is released: the solver runs where D_v is, and no other party learns its result.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.grams import Gram
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import Candidates, candidates, greedy, pruned, swapped
from fedkme.embeddings.simplex_fit import Fit, fit_simplex

RIDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""lambda in lambda |w|^2: a larger lambda spreads weight, and a model's fit averages more noise."""
SLACK = 0.1
"""Largest cost of spreading weight, in MMD^2 and units of `Received.noise`."""
SPREAD_ROWS = 4096
"""Largest number of rows over which a ridge spreads weight: a large ridge gives every row weight, and the
time is cubic in the rows."""
_WORTH = 1e-3
"""Least gain of p exchanges of repeated rows together, in MMD^2 and units of `Received.noise`."""
ALIKE = 0.9
"""Kernel of two rows that differ by their class alone."""
STRANGE = 0.1
"""Kernel of two rows that differ by their class alone, where D_v has rows of only one of the two classes."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class WeightedRows:
    """Rows with weights, at most p of those received.

    Attributes:
        indices: indices of the rows with weight, (s,), s <= p, increasing.
        weights: weights of these rows, (s,), > 0, sum 1.
        ridge: lambda of the fit.
        mmd2: MMD^2 of the weighted rows to D_v.
        gap: gap of the last fit: its objective is at most this far above the least value on the fitted rows.
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
        """Kish's effective sample size, 1 / |w|^2: the weighted mean varies like a mean of so many rows."""
        return 1.0 / float(self.weights @ self.weights)


@dataclass(frozen=True, eq=False, slots=True)
class Received:
    """Received rows with their kernel values, and D_v's.

    Attributes:
        seen: the rows, and their mean kernel to D_v.
        own: v, the mean of k over all pairs of rows of D_v.
        validation_rows: m.
        nearest: the best weights over all received rows, one for each distinct row, (M,).
    """

    seen: Candidates
    own: float
    validation_rows: int
    nearest: Fit

    @property
    def noise(self) -> float:
        """(1 - v) / m, the mean MMD^2 between a distribution and m rows drawn from it."""
        return (1.0 - self.own) / self.validation_rows

    @property
    def least(self) -> float:
        """MMD^2 to D_v of the best weights over all rows, however many they need."""
        support = np.flatnonzero(self.nearest.weights)
        return self.mmd2(support, self.nearest.weights[support])

    @property
    def near(self) -> IntArray:
        """Distinct rows with weight in the best fit, then the rows nearest to weight; at most SPREAD_ROWS."""
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
    """Append class coordinates to encoded rows and to D_v; unless both have labels, both stay as they are.

    Args:
        rows: (r, n).
        validation: D_v, (m, n).
        labels: labels of the rows, (r,), or None.
        theirs: labels of D_v, (m,), or None.

    Returns:
        Rows and D_v, with C more columns.
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
    """Compute the kernel values of received rows (r, n), r >= 1, and D_v."""
    seen = candidates(rows, validation.rows, validation.gamma)
    nearest = fit_simplex(seen.gram, seen.closeness)
    return Received(seen, validation.own, len(validation.rows), nearest)


def weigh(about: Received, p: int, pruned_rows: IntArray) -> WeightedRows:
    """Weigh at most p of the rows: take the largest ridge whose MMD^2 is within the slack of the least.

    A ridge is fitted on the rows `Received.near`, which are all rows where there are at most 4,096 distinct
    ones. Since the objective with a ridge is strictly convex, n equal rows share their weight W equally, W /
    n each. So the fit is over distinct rows, with a cost of lambda W^2 / n for the n copies of a row.

    Args:
        about: the received rows.
        p: largest number of rows with weight, >= 1.
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
    near_rows, support = about.seen.gram.some(near), near
    for ridge in reversed(RIDGES[1:]):  # a smaller ridge has fewer rows with weight
        full = _fit(about, near, copies[near], ridge, np.searchsorted(near, support), near_rows)
        fit, support = _shrink(about, p, full), full.kinds
        if fit.mmd2(about) <= limit:
            return fit.rows(about)
    return best.rows(about)


def in_some_form(rows: Rows, validation: ReferenceRows, p: int) -> IntArray:
    """Rows in some form of a summary: first the p rows that pruning keeps, then others with weight.

    Where a curator holds D_v, these rows and no others go to the consumer, who makes the forms of the
    summary.

    Args:
        rows: received, (r, n), r >= 1.
        validation: D_v.
        p: number of rows of a summary.
    """
    about = received(rows, validation)
    pruned_rows = pruned(about.seen, p)
    weighted = np.union1d(weigh(about, p, pruned_rows).indices, np.flatnonzero(repeat(about, p)))
    return np.concatenate([pruned_rows, np.setdiff1d(weighted, pruned_rows)])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class _CopyWeights:
    """Distinct rows (s,) of a fit: copies of each row, and the weight > 0 of all its copies."""

    kinds: IntArray
    copies: IntArray
    weights: FloatArray
    ridge: float
    gap: float

    def mmd2(self, about: Received) -> float:
        return about.mmd2(self.kinds, self.weights)

    def rows(self, about: Received) -> WeightedRows:
        """Share each weight among the copies of its row."""
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
    """Weigh the distinct rows `kinds`; `support` holds places in `kinds`, `gram` is their Gram matrix."""
    gram = about.seen.gram.some(kinds) if gram is None else gram
    fit = fit_simplex(gram, about.seen.closeness[kinds], ridge / copies, support)
    inside = np.flatnonzero(fit.weights)
    return _CopyWeights(kinds[inside], copies[inside], fit.weights[inside], ridge, fit.gap)


def _shrink(about: Received, p: int, weights_of_copies: _CopyWeights) -> _CopyWeights:
    """Drop the rows of least worth, half of the excess at a time, and fit the rest again, until p are left.

    The last copy of a row is worth W^2. The k-th copy is worth W^2 / (k (k - 1)), by which it lowers W^2 / n.
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
    """Choose p rows with repetition that approximate the best weights; returns the copies of each row, (r,).

    The first rows are p times the best weights over all rows, rounded down. Then comes the exact greedy
    choice with replacement, and then the best exchanges while an exchange is worth its time.
    """
    weights = about.nearest.weights
    first = np.repeat(np.arange(len(weights)), np.floor(p * weights).astype(np.int64))
    chosen = greedy(about.seen, p, first, again=True)
    chosen = swapped(about.seen, chosen, again=True, worth=_WORTH * about.noise / p)
    return np.bincount(about.seen.places(chosen), minlength=len(about.seen.groups))
