"""Weights of most entropy on public points under which functions have given means, up to known errors.

Of all weights p on K points, minimise KL(p || even) + sum_t (E_p f_t - m_t)^2 / (2 e_t^2). Its dual is smooth
and convex: min over l of log mean exp(f l) - l . m + |e l|^2 / 2, and p is proportional to exp(f l) (Dudik,
Phillips and Schapire 2007). A function whose mean has a large error e_t hardly changes p.
"""

import numpy as np

from fedkme.arrays import FloatArray

_STEPS, _HALVINGS = 50, 30
_NEAR = 1e-9


def max_entropy_weights(functions: FloatArray, means: FloatArray, errors: FloatArray) -> FloatArray:
    """Weights of the points, (K,), that add up to 1.

    Args:
        functions: values of T functions at the points, (K, T), each with a deviation of about 1.
        means: estimated means of the functions, (T,).
        errors: standard deviations of these estimates, (T,), > 0.
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
            lower, weights_there = _dual(tried, functions, means, errors)
            if lower <= height - fall / 2 ** (halving + 2):
                break
        slope, height, weights = tried, lower, weights_there
    return weights


def _dual(
    slope: FloatArray, functions: FloatArray, means: FloatArray, errors: FloatArray
) -> tuple[float, FloatArray]:
    """Value of the dual at a slope, and the weights that belong to it."""
    scores = functions @ slope
    most = float(scores.max())
    weights = np.exp(scores - most)
    total = float(weights.sum())
    height = most + np.log(total / len(scores)) - slope @ means + 0.5 * np.square(errors * slope).sum()
    return float(height), weights / total
