"""The point of a convex hull that is nearest to an element of the RKHS, with a certificate of its accuracy.

Minimise w' G w - 2 c' w + w' R w over w >= 0, sum w = 1, R diagonal. Let g = (G + R) w - c, half of the
gradient. Then w is optimal if and only if no g_i is below the mean w' g (Karush, Kuhn and Tucker). Since the
objective is convex, its value at any feasible w is at most gap = 2 (w' g - min_i g_i) above the least
possible value (Frank and Wolfe 1956). The gap of each answer is computed from the answer, so it does not
depend on the method.

Pairwise steps find about the right support; each step takes two rows of G. Then an active set: on a support
the problem has a closed form with one Cholesky factor; rows whose weight would turn negative leave, and rows
that violate the conditions enter. The objective falls with every exchange, so no support occurs twice and the
method ends (Lawson and Hanson 1974, chapter 23, for the simplex). Equal or dependent rows make G singular: a
ridge of 1e-13 of the scale of G gives a factor, and moves the answer by less than the required gap.
"""

import contextlib
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.grams import Gram, WholeGram

GAP = 1e-11
"""Gap at which the active set stops, in units of the largest entry of G: MMD^2 of any use is above 1e-6."""
_FLOORS = (1e-13, 1e-11, 1e-9, 1e-6)
"""Ridges that give a singular G a factor, in units of its largest entry; rows far from 0 need large ones."""
_ROUGH = 1e-6
"""Gap at which pairwise steps stop."""
_PAIRS = 1
"""Largest number of pairwise steps for each row."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Fit:
    """Feasible weights, (M,); the objective is at most `gap` above the least possible one."""

    weights: FloatArray
    gap: float


def fit_simplex(
    gram: FloatArray | Gram,
    target: FloatArray,
    ridge: float | FloatArray = 0.0,
    support: IntArray | None = None,
) -> Fit:
    """Minimise w' G w - 2 c' w + sum of ridge_i w_i^2 on the simplex.

    Memory beyond G: a block of it by the support. Time: a few Cholesky factors of the support.

    Args:
        gram: G, inner products of the k(z_m, .), (M, M), positive semidefinite, M >= 1.
        target: c, inner products of the k(z_m, .) with the target, (M,).
        ridge: >= 0, one number for all rows or one for each row, (M,).
        support: first guess of the rows with weight, at least one row; None: pairwise steps find it.
    """
    whole = WholeGram(gram) if isinstance(gram, np.ndarray) else gram
    ridges = np.broadcast_to(np.asarray(ridge, np.float64), target.shape)
    problem = _Problem(whole, target, ridges, max(float(whole.diagonal().max()), 1e-300))
    return problem.active_set(np.flatnonzero(problem.pairwise_weights()) if support is None else support)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class _Problem:
    gram: Gram
    target: FloatArray
    ridge: FloatArray
    scale: float

    def pairwise_weights(self) -> FloatArray:
        """Weights of a small gap, by moving weight from the worst row of the support to the best row."""
        size = len(self.target)
        own = self.gram.diagonal() + self.ridge
        weights = np.zeros(size)
        weights[start := int(np.argmin(own - 2.0 * self.target))] = 1.0
        slope = self.gram.column(start) - self.target
        slope[start] += self.ridge[start]
        for _ in range(_PAIRS * size):
            entering = int(np.argmin(slope))
            leaving = int(np.argmax(np.where(weights > 0.0, slope, -np.inf)))
            fall = float(slope[leaving] - slope[entering])
            if fall <= _ROUGH * self.scale:
                break
            entering_column, leaving_column = self.gram.column(entering), self.gram.column(leaving)
            curvature = float(own[entering] + own[leaving] - 2.0 * entering_column[leaving])
            step = weights[leaving]
            if curvature > 0.0:
                step = min(step, fall / curvature)
            weights[entering] += step
            weights[leaving] -= step
            slope += step * (entering_column - leaving_column)
            slope[entering] += step * self.ridge[entering]
            slope[leaving] -= step * self.ridge[leaving]
        summed: FloatArray = weights / weights.sum()
        return summed

    def active_set(self, support: IntArray) -> Fit:
        """Weights with a gap of at most GAP, or the best gap that rounding allows."""
        weights = self.positive_minimiser(support)
        slope = self.slope(weights)
        best = Fit(weights, _gap(weights, slope))
        while best.gap > GAP * self.scale:
            moved = self.positive_minimiser(self.enlarged_support(weights, slope, max(8, len(weights) // 20)))
            ahead = self.slope(moved)
            if not _change(weights, slope, moved, ahead) < 0.0:
                moved = self.descend(weights, self.enlarged_support(weights, slope, 1))
                ahead = self.slope(moved)
                if not _change(weights, slope, moved, ahead) < 0.0:
                    break
            weights, slope = moved, ahead
            if (gap := _gap(weights, slope)) < best.gap:
                best = Fit(weights, gap)
        return best

    def enlarged_support(self, weights: FloatArray, slope: FloatArray, most: int) -> IntArray:
        """The support, and at most `most` of the rows that violate the conditions most."""
        violating = np.flatnonzero((weights == 0.0) & (slope < weights @ slope))
        worst = violating[np.argsort(slope[violating], kind="stable")[:most]]
        return np.union1d(np.flatnonzero(weights), worst)

    def positive_minimiser(self, support: IntArray) -> FloatArray:
        """The closed form on a support; rows leave until all weights are positive."""
        while ((minimiser := self.closed_form(support)) <= 0.0).any():
            support = support[minimiser > 0.0]
        return self.spread(support, minimiser)

    def descend(self, weights: FloatArray, support: IntArray) -> FloatArray:
        """Weights of a support by steps that never go uphill; each drops the row that reaches 0 first."""
        inside = weights[support]
        while ((minimiser := self.closed_form(support)) <= 0.0).any():
            blocked = minimiser <= 0.0
            reach = np.where(blocked, inside / np.where(blocked, inside - minimiser, 1.0), np.inf)
            inside = inside + reach.min() * (minimiser - inside)
            stays = reach > reach.min()
            support, inside = support[stays], np.maximum(inside[stays], 0.0)
        return self.spread(support, minimiser)

    def closed_form(self, support: IntArray) -> FloatArray:
        """The minimiser over weights of any sign on a support, with sum 1: its conditions are linear."""
        gram = self.gram.among(support, support) + self.scale  # a constant, since the sum is fixed
        gram[np.diag_indices(len(support))] += self.ridge[support]
        both = np.column_stack([self.target[support], np.ones(len(support))])
        solved = _solve(gram, self.scale, both)
        free, pull = solved[:, 0], solved[:, 1]
        minimiser: FloatArray = free + (1.0 - free.sum()) / pull.sum() * pull
        return minimiser

    def slope(self, weights: FloatArray) -> FloatArray:
        """Half of the gradient."""
        support = np.flatnonzero(weights)
        return self.gram.applied(support, weights[support]) + self.ridge * weights - self.target

    def spread(self, support: IntArray, inside: FloatArray) -> FloatArray:
        """Weights of all rows, given the weights of a support."""
        weights = np.zeros(len(self.target))
        weights[support] = inside / inside.sum()
        return weights


def _solve(gram: FloatArray, scale: float, right: FloatArray) -> FloatArray:
    """Solve for a Gram matrix, by its Cholesky factor with the smallest ridge that rounding allows.

    The ridge is added to `gram` itself.
    """
    from scipy.linalg import cho_factor, cho_solve  # takes a fifth of a second: not at a party's start

    diagonal = np.diagonal(gram).copy()
    for floor in _FLOORS:
        np.fill_diagonal(gram, diagonal + floor * scale)
        with contextlib.suppress(np.linalg.LinAlgError):
            solved: FloatArray = cho_solve(cho_factor(gram, lower=True, check_finite=False), right)
            return solved
    raise np.linalg.LinAlgError("this is no Gram matrix")


def _gap(weights: FloatArray, slope: FloatArray) -> float:
    return max(2.0 * float(weights @ slope - slope.min()), 0.0)


def _change(weights: FloatArray, slope: FloatArray, moved: FloatArray, ahead: FloatArray) -> float:
    """Change of the objective by a move, more exact than a difference of two rounded objectives."""
    return float((moved - weights) @ (slope + ahead - 2.0 * float(weights @ slope)))
