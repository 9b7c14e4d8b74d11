"""Law of most entropy on public points under which functions have means that are known to some error.

Of all weights p on K points, minimise KL(p || even) + sum_t (E_p f_t - m_t)^2 / (2 e_t^2). Its dual is smooth
and convex: min over l of log mean exp(f l) - l . m + |e l|^2 / 2, and p is proportional to exp(f l) (Dudik,
Phillips and Schapire 2007). A function whose mean is hardly known (e_t large) hardly moves p.
"""

from __future__ import annotations

import numpy as np

from fedkme.arrays import FloatArray

_STEPS, _HALVINGS = 50, 30
_NEAR = 1e-9


def tilted(functions: FloatArray, means: FloatArray, errors: FloatArray) -> FloatArray:
    """Weights of points, (K,), that add up to 1.

    Args:
        functions: at the points, (K, T), each of about unit deviation.
        means: what is known of them, (T,).
        errors: deviations of that, (T,), > 0.
    """
    slope = np.zeros(functions.shape[1])
    height, weights = _dual(slope, functions, means, errors)
    for _ in range(_STEPS):
        at = weights @ functions
        gradient = at - means + errors**2 * slope
        bent = (functions * weights[:, None]).T @ functions - np.outer(at, at) + np.diag(errors**2)
        step = np.linalg.solve(bent, gradient)
        fall = float(gradient @ step)
        if fall < _NEAR:
            break
        for halving in range(_HALVINGS):
            tried = slope - step / 2**halving
            lower, found = _dual(tried, functions, means, errors)
            if lower <= height - fall / 2 ** (halving + 2):
                break
        slope, height, weights = tried, lower, found
    return weights


def _dual(
    slope: FloatArray, functions: FloatArray, means: FloatArray, errors: FloatArray
) -> tuple[float, FloatArray]:
    """Value of the dual, and the weights there."""
    scores = functions @ slope
    most = float(scores.max())
    weights = np.exp(scores - most)
    total = float(weights.sum())
    height = most + np.log(total / len(scores)) - slope @ means + 0.5 * np.square(errors * slope).sum()
    return float(height), weights / total
