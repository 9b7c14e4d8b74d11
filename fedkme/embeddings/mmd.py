"""Maximum mean discrepancy, the objective J(S) and the marginal gain that owners bid by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.weighted_points import WeightedPoints, distance_to_rows

FloatArray = NDArray[np.floating[Any]]


def mmd2(x: FloatArray, y: FloatArray, gamma: float, weights: NDArray[np.float64] | None = None) -> float:
    """Squared MMD of two sets of rows, the V-statistic (Sarpatwar 2019, eq. 1).

    Args:
        x: (m, n) in model space, m >= 1.
        y: (k, n), k >= 1.
        gamma: of the RBF kernel.
        weights: of the rows of x, (m,), sum 1; None: alike.

    Returns:
        A number in [0, 2]: 0 when both sets have the same distribution of rows.

    Raises:
        DataError: one of the sets is empty.
    """
    if weights is not None:
        return distance_to_rows(WeightedPoints(np.asarray(x, np.float64), weights), y, gamma) ** 2
    value = mean_kernel(x, x, gamma) - 2.0 * mean_kernel(x, y, gamma) + mean_kernel(y, y, gamma)
    # A squared norm, so only rounding can make it negative.
    return max(value, 0.0)


def objective(summary: FloatArray, validation: FloatArray, gamma: float) -> float:
    """J(S) = 2 mean k(D_v, S) - mean k(S, S) (Sarpatwar 2019, eq. 3); larger is better."""
    return 2.0 * mean_kernel(validation, summary, gamma) - mean_kernel(summary, summary, gamma)


def marginal_gain(target_scores: FloatArray, summary_scores: FloatArray, size: int) -> FloatArray:
    """The bid: score of adding each row to a summary of `size` rows; larger is better.

    Equal to J(S + x) - J(S) up to a positive factor and terms that do not depend on x
    (Sarpatwar 2019, eq. 12; the sign printed in Algorithm 3, step 6 is inverted: see docs/errata.md).

    Args:
        target_scores: g~ . h1(x) of each candidate row, (m,).
        summary_scores: g_l . h1(x), (m,).
        size: q, rows in the current summary with its seed set, >= 0.
    """
    return target_scores - (size / (size + 1)) * summary_scores


def feature_mmd2(target_mean: FloatArray, summary_mean: FloatArray) -> float:
    """Squared distance of two means of h1, (d,): the MMD^2 that a party sees without any row.

    Summed with one rounding, so that it is the same on every host.
    """
    return math.fsum(np.square(target_mean - summary_mean))
