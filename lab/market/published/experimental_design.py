"""DAVED: rows chosen by experimental design for D_v (Lu and others, NeurIPS 2024, arXiv 2403.13893).

A linear model of features x, fitted on rows with weights w, predicts D_v with variance in proportion to
L(w) = mean over y in D_v of y' M(w)^-1 y, M(w) = sum_j w_j x_j x_j' (V-optimality, their equation 4). No
label is looked at. From even weights, each step of Frank and Wolfe moves weight to the row of the largest
-dL/dw_j = mean (y' M^-1 x_j)^2, as far as a line search says, with M^-1 kept by Sherman and Morrison's
formula (equations 5 to 8); then rows are drawn without replacement in proportion to w. The M that is begun
with is mixed with a multiple of the identity, .2 to .6 of it by their advice.
"""

from __future__ import annotations

import numpy as np

from fedkme.arrays import FloatArray, IntArray

MIX = 0.4
"""Share of the identity in M."""
STEPS = 2
"""Steps for each row of the budget; they advise 2 to 5."""
_LINE = np.linspace(0.0, 0.5, 501)[1:]
"""Step lengths that the line search tries."""


def design_weights(features: FloatArray, queries: FloatArray, steps: int) -> FloatArray:
    """Weights w of the V-optimal design after so many steps, (N,), adding up to 1.

    Args:
        features: features of all rows, (N, d).
        queries: queries of D_v, (m, d).
        steps: number of steps of the Frank-Wolfe algorithm.
    """
    count, d = features.shape
    second = features.T @ features / count
    information = (1.0 - MIX) * second + MIX * np.trace(second) / d * np.eye(d)
    inverse = np.linalg.inv(information)
    target = queries.T @ queries / len(queries)
    weights = np.full(count, 1.0 / count)
    for _ in range(steps):
        pull = inverse @ target @ inverse
        best = int(np.einsum("ij,ij->i", features @ pull, features).argmax())
        row = features[best]
        leaning = inverse @ row
        reach, gain = float(row @ leaning), float(row @ pull @ row)
        step = _line_search(float(np.sum(inverse * target)), reach, gain)
        if not step:
            break
        ratio = step / (1.0 - step)
        inverse = (inverse - ratio / (1.0 + ratio * reach) * np.outer(leaning, leaning)) / (1.0 - step)
        weights *= 1.0 - step
        weights[best] += step
    return weights


def _line_search(loss: float, reach: float, gain: float) -> float:
    """Step length with the least L of (1 - step) M + step x x'; 0 where none is below L(M).

    Args:
        loss: L before the step.
        reach: x' M^-1 x.
        gain: x' M^-1 A M^-1 x, A the second moments of D_v.
    """
    ratio = _LINE / (1.0 - _LINE)
    after = (loss - ratio * gain / (1.0 + ratio * reach)) / (1.0 - _LINE)
    best = int(after.argmin())
    return float(_LINE[best]) if after[best] < loss else 0.0


def design_rows(weights: FloatArray, p: int, rng: np.random.Generator) -> IntArray:
    """Draw p different rows in proportion to the weights, (p,)."""
    picked: IntArray = rng.choice(len(weights), p, replace=False, p=weights / weights.sum())
    return picked
