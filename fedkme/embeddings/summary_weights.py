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

Nothing is released: the solver runs where D_v is, and nobody is told of its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import Candidates, candidates, greedy, pruned, swapped
from fedkme.embeddings.simplex_fit import Fit, fit_simplex

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = NDArray[np.floating[Any]]

RIDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""lambda in lambda |w|^2: more of it spreads weight, over which a model's fit averages its noise."""
SLACK = 0.1
"""MMD^2 that spreading may cost, in units of `Received.noise`."""
SPREAD_ROWS = 4096
"""Rows that a ridge spreads weight over at most: more of it gives each row some, and the time is cubic."""
_WORTH = 1e-3
"""MMD^2 that p exchanges of repeated rows together must gain, in the same units, lest they end."""


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
        nearest: the best weights over all of them, (r,).
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
        some = np.flatnonzero(self.nearest.weights)
        return self.mmd2(some, self.nearest.weights[some])

    @property
    def near(self) -> IntArray:
        """Rows of the best weights, then those that are closest to having some, at most SPREAD_ROWS."""
        weights = self.nearest.weights
        some = np.flatnonzero(weights)
        slope = self.seen.gram.applied(some, weights[some]) - self.seen.closeness
        order = np.argsort(np.where(weights > 0.0, -np.inf, slope), kind="stable")
        return np.sort(order[:SPREAD_ROWS])

    def mmd2(self, rows: IntArray, weights: FloatArray) -> float:
        """MMD^2 to D_v of some of the rows with weights that sum to 1."""
        gram = self.seen.gram.some(rows)
        value = (
            gram.applied(np.arange(len(rows)), weights) @ weights
            - 2.0 * self.seen.closeness[rows] @ weights
            + self.own
        )
        return max(float(value), 0.0)


def received(rows: Rows, validation: ReferenceRows) -> Received:
    """Kernel values of received rows (r, n), r >= 1, and D_v."""
    seen = candidates(rows, validation.rows, validation.gamma)
    # Of equal rows one is enough: all have its slope, so the gap is that of all rows.
    firsts = {row.tobytes(): place for place, row in reversed(list(enumerate(rows)))}
    distinct = np.array(sorted(firsts.values()), np.int64)
    fit = fit_simplex(seen.gram.some(distinct), seen.closeness[distinct])
    weights = np.zeros(len(rows))
    weights[distinct] = fit.weights
    return Received(seen, validation.own, len(validation.rows), Fit(weights, fit.gap))


def weigh(about: Received, p: int, kept: IntArray) -> WeightedRows:
    """Weights of at most p of the rows: the largest ridge whose MMD^2 is within the slack of the least.

    A ridge is fitted on the rows `Received.near`, which are all of up to 4,096.

    Args:
        about: the rows.
        p: rows with weight at most, >= 1.
        kept: the rows that pruning keeps, at most p; the result is not farther from D_v than these alike.
    """
    seen, near = about.seen, about.near
    alone = fit_simplex(seen.gram.some(kept), seen.closeness[kept])
    starts = [
        _shrunk(about, p, np.arange(len(seen.closeness)), about.nearest, 0.0),
        _weighted(about, kept, alone, 0.0),
    ]
    best = min(starts, key=lambda found: found.mmd2)
    alike = about.mmd2(kept, np.full(len(kept), 1.0 / len(kept)))
    limit = min(best.mmd2 + SLACK * about.noise, max(best.mmd2, alike))
    gram, weights = seen.gram.some(near), about.nearest.weights[near]
    for ridge in RIDGES[1:]:
        full = fit_simplex(gram, seen.closeness[near], ridge, np.flatnonzero(weights))
        found, weights = _shrunk(about, p, near, full, ridge), full.weights
        if found.mmd2 <= limit:
            best = found
    return best


def in_some_form(rows: Rows, validation: Rows, p: int, gamma: float) -> IntArray:
    """Rows that some form of a summary has: the p that pruning keeps first, then others that have weight.

    Where a curator holds D_v, these go to the consumer, who makes the forms of them, and no other row does.

    Args:
        rows: received, (r, n), r >= 1.
        validation: D_v, (m, n), m >= 1.
        p: rows of a summary.
        gamma: of the kernel.
    """
    about = received(rows, ReferenceRows(validation, gamma))
    kept = pruned(about.seen, p)
    weighted = np.union1d(weigh(about, p, kept).indices, np.flatnonzero(repeat(about, p)))
    return np.concatenate([kept, np.setdiff1d(weighted, kept)])


def _shrunk(about: Received, p: int, rows: IntArray, fit: Fit, ridge: float) -> WeightedRows:
    """Drop rows of least weight, half of those that are too many at a time, and fit the rest again."""
    found = _weighted(about, rows, fit, ridge)
    while len(found) > p:
        leaving = (len(found) - p + 1) // 2
        rows = found.indices[np.sort(np.argsort(found.weights, kind="stable")[leaving:])]
        gram, closeness = about.seen.gram.some(rows), about.seen.closeness[rows]
        found = _weighted(about, rows, fit_simplex(gram, closeness, ridge, np.arange(len(rows))), ridge)
    return found


def _weighted(about: Received, rows: IntArray, fit: Fit, ridge: float) -> WeightedRows:
    inside = np.flatnonzero(fit.weights)
    inside = inside[np.argsort(rows[inside])]
    indices, weights = rows[inside], fit.weights[inside]
    return WeightedRows(indices, weights, ridge, about.mmd2(indices, weights), fit.gap)


def repeat(about: Received, p: int) -> IntArray:
    """P rows, some more than once, that do with equal weights what weights do: how often each, (r,).

    p times the best weights over all rows, rounded down, then the exact greedy choice with replacement, then
    the best exchanges while one is worth its time.
    """
    first = np.repeat(
        np.arange(len(about.nearest.weights)), np.floor(p * about.nearest.weights).astype(np.int64)
    )
    chosen = greedy(about.seen, p, first, again=True)
    chosen = swapped(about.seen, chosen, again=True, worth=_WORTH * about.noise / p)
    return np.bincount(chosen, minlength=len(about.nearest.weights))
