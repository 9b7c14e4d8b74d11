"""Maximum mean discrepancy, the objective J(S) and the marginal gain that owners bid by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.weighted_points import WeightedPoints, distance_to_rows

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class ReferenceRows:
    """Rows that other rows are compared with, any number of times; their own mean kernel is computed once.

    Attributes:
        rows: (k, n) in model space, k >= 1.
        gamma: of the RBF kernel.
    """

    rows: FloatArray
    gamma: float

    @cached_property
    def own(self) -> float:
        """Mean of the kernel over all pairs of the rows.

        Raises:
            DataError: there are no rows.
        """
        return mean_kernel(self.rows, self.rows, self.gamma)

    def mmd2(self, x: FloatArray, weights: NDArray[np.float64] | None = None) -> float:
        """Squared MMD between other rows and these, the V-statistic (Sarpatwar 2019, eq. 1).

        Args:
            x: (m, n) in model space, m >= 1.
            weights: of the rows of x, (m,), sum 1; None: equal weights.

        Returns:
            A number in [0, 2]: 0 when both sets have the same distribution of rows.

        Raises:
            DataError: one of the sets is empty.
        """
        if weights is not None:
            points = WeightedPoints(np.asarray(x, np.float64), weights)
            return distance_to_rows(points, self.rows, self.gamma, self.own) ** 2
        value = mean_kernel(x, x, self.gamma) - 2.0 * mean_kernel(x, self.rows, self.gamma) + self.own
        # The value is a squared norm, so only rounding can make it negative.
        return max(value, 0.0)


def mmd2(x: FloatArray, y: FloatArray, gamma: float, weights: NDArray[np.float64] | None = None) -> float:
    """Squared MMD of two sets of rows, the first with or without weights; see `ReferenceRows.mmd2`."""
    return ReferenceRows(y, gamma).mmd2(x, weights)


def marginal_gain(target_scores: FloatArray, summary_scores: FloatArray, size: int) -> FloatArray:
    """Score each row by the gain of adding it to a summary of `size` rows; larger is better. This is the bid.

    Equal to J(S + x) - J(S) up to a positive factor and terms that do not depend on x
    (Sarpatwar 2019, eq. 12; the sign printed in Algorithm 3, step 6 is inverted: see docs/errata.md).

    Args:
        target_scores: g~ . h1(x) of each candidate row, (m,).
        summary_scores: g_l . h1(x), (m,).
        size: q, rows in the current summary with its seed set, >= 0.
    """
    gains: FloatArray = summary_scores * (size / (size + 1))
    np.subtract(target_scores, gains, out=gains)  # in place: allocating pages costs more than the arithmetic
    return gains


def feature_mmd2(target_mean: FloatArray, summary_mean: FloatArray) -> float:
    """Squared distance of two means of h1, (d,): the MMD^2 that a party can compute without any row.

    The sum is rounded once, so it is the same on every host.
    """
    return math.fsum(np.square(target_mean - summary_mean))
