"""Weights that bring sum_m w_m k(z_m, .) closest to a given element of the RKHS, under a constraint.

Over the L1 ball the answer is the regularised reduced set of Balog 2018, theorem 11 and equation 5; over the
simplex the answer is also a distribution. The mean embedding of any rows near the z is in both sets, so the
theorem's argument holds for both.
"""

from typing import Literal

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.embeddings.simplex_fit import Fit, fit_simplex

Constraint = Literal["l1", "simplex"]
"""sum |w| <= C, or w >= 0 with sum w = 1."""

GAP = 1e-10
"""Accuracy in squared RKHS distance at which the iteration stops: far below the noise of any release."""
LIMIT = 5000
"""Largest number of iterations."""


def fit_weights(
    gram: FloatArray,
    target: FloatArray,
    constraint: Constraint,
    bound: float = 1.0,
    start: FloatArray | None = None,
    limit: int = LIMIT,
) -> Fit:
    """Minimise w' G w - 2 c' w under a constraint, with a certificate.

    Args:
        gram: G, inner products of the k(z_m, .), (M, M).
        target: c, inner products of the k(z_m, .) with the target, (M,).
        constraint: the set of feasible w.
        bound: C of the L1 ball; the simplex uses neither this nor the next arguments.
        start: first weights; None: uniform.
        limit: largest number of iterations; the answer is feasible with a valid gap wherever they end.
    """
    return (
        fit_simplex(gram, target) if constraint == "simplex" else _fit_ball(gram, target, bound, start, limit)
    )


def _fit_ball(
    gram: FloatArray, target: FloatArray, bound: float, start: FloatArray | None, limit: int
) -> Fit:
    """Accelerated projected gradients over the L1 ball, restarted."""
    step = 1.0 / _largest_eigenvalue(gram)
    weights = np.full(len(target), bound / len(target)) if start is None else _project_to_ball(start, bound)
    leading, momentum = weights, 1.0
    gap = float("inf")
    best, best_gap = weights, gap
    for iteration in range(limit):
        if iteration % 25 == 0:
            gradient = gram @ weights - target
            # The linear part falls by at most this (Frank and Wolfe), hence the objective too.
            gap = 2.0 * float(gradient @ weights + bound * np.abs(gradient).max())
            if gap < best_gap:
                best, best_gap = weights, gap
            if gap <= GAP:
                break
        moved = _project_to_ball(leading - step * (gram @ leading - target), bound)
        if float((leading - moved) @ (moved - weights)) > 0.0:
            momentum = 1.0  # the momentum points uphill: O'Donoghue and Candes 2015
        later = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        leading = moved + (momentum - 1.0) / later * (moved - weights)
        weights, momentum = moved, later
    return Fit(best, max(best_gap, 0.0))


def project(weights: FloatArray, constraint: Constraint, bound: float = 1.0) -> FloatArray:
    """The nearest feasible weights in the Euclidean norm (Duchi and others 2008), (M,)."""
    return project_to_simplex(weights, 1.0) if constraint == "simplex" else _project_to_ball(weights, bound)


def _project_to_ball(weights: FloatArray, bound: float) -> FloatArray:
    if np.abs(weights).sum() <= bound:
        return weights
    inside: FloatArray = np.sign(weights) * project_to_simplex(np.abs(weights), bound)
    # Rounding must not leave the ball: the bound is a promise.
    total = float(np.abs(inside).sum())
    return inside * (bound / total * (1.0 - 1e-15)) if total > bound else inside


def project_to_simplex(weights: FloatArray, total: float) -> FloatArray:
    """Nearest weights that are >= 0 and add up to the total."""
    descending: FloatArray = np.sort(weights)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(weights) + 1)
    last = int(np.flatnonzero(descending > excess)[-1])
    projected: FloatArray = np.maximum(weights - excess[last], 0.0)
    return projected


def _largest_eigenvalue(gram: FloatArray) -> float:
    """Estimate of the largest eigenvalue from above, at most the largest absolute row sum (a bound)."""
    vector = np.ones(len(gram))
    for _ in range(20):
        vector = gram @ vector
        vector /= np.linalg.norm(vector)
    # Power iteration converges from below: a tenth more covers the difference on Gram matrices.
    return min(1.1 * float(vector @ gram @ vector), float(np.abs(gram).sum(axis=1).max())) or 1.0
