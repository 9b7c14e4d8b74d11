"""ProtoDash: prototypes of D_v with weights, picked greedily (Gurumoorthy and others, ICDM 2019).

Maximises l(w) = w' mu - w' K w / 2 over w >= 0 with at most p entries, mu the mean kernel of each row with
D_v: half of -MMD^2, up to a constant. Each step adds the row of the largest gradient mu_j - (K w)_j and fits
the weights of all rows picked anew (their algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedkme.arrays import FloatArray, IntArray

_RIDGE = 1e-9
"""Makes equal rows independent; a gradient of less is rounding."""


def protodash(
    closeness: FloatArray, columns: Callable[[IntArray], FloatArray], p: int
) -> tuple[IntArray, FloatArray]:
    """Pick p rows and their weights, (p,) and (p,) >= 0, not normalised; fewer where no row helps any more.

    Args:
        closeness: mu, (N,).
        columns: kernel between all rows and the rows at some places, (r,) -> (N, r).
        p: rows.
    """
    picked = np.empty(0, dtype=np.int64)
    kernel = np.empty((len(closeness), 0))
    weights = np.empty(0)
    free = np.ones(len(closeness), dtype=np.bool_)
    for _ in range(p):
        gradient = np.where(free, closeness - kernel @ weights, -np.inf)
        best = int(gradient.argmax())
        if gradient[best] <= 2.0 * _RIDGE:
            break
        picked, free[best] = np.append(picked, best), False
        kernel = np.concatenate([kernel, columns(picked[-1:])], axis=1)
        weights = nonnegative_fit(kernel[picked], closeness[picked])
    return picked, weights


def nonnegative_fit(gram: FloatArray, target: FloatArray) -> FloatArray:
    """Weights w >= 0 with the most w' c - w' G w / 2, by non-negative least squares on a root of G."""
    from scipy.optimize import nnls

    root = np.linalg.cholesky(gram + _RIDGE * np.eye(len(gram)))
    weights, _ = nnls(root.T, np.linalg.solve(root, target))
    return np.asarray(weights, dtype=np.float64)
