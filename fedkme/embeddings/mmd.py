"""Maximum mean discrepancy."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.weighted_points import WeightedPoints, distance_to_rows

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class ReferenceRows:
    """Rows that other rows are compared with, any number of times; their own mean kernel is computed once.

    Attributes:
        rows: (k, n) in model space, k >= 1.
        gamma: gamma of the RBF kernel.
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
            weights: weights of the rows of x, (m,), sum 1; None: equal weights.

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
