"""The exact RBF kernel k(x, y) = exp(-gamma ||x - y||^2), its means over rows, and rules for gamma."""

import numpy as np

from fedkme.arrays import FloatArray, Rows
from fedkme.errors import ConfigError, DataError

BLOCK_ROWS = 1024
"""Side of a tile in rows: means need at most 1024 x 1024 kernel values (8 MiB) at a time."""
FARTHEST = 200.0
"""Most gamma r^2 of a kernel: e^-200 is nothing beside rounding, and its square times a weight is no denormal
number, for which some processors take a hundred times as long (`fedkme.arrays`)."""
CLOSER = 2.0
"""Factor by which squared distances of a table's rows are smaller than those of random rows of the domain.
Within D_v the median factor over 31 layouts of lab/forecast/measured.csv is 2.1."""


def rbf(x: Rows, y: Rows, gamma: float) -> FloatArray:
    """Kernel matrix of two sets of rows.

    Args:
        x: (m, n), any floating type; the arithmetic is float64.
        y: (k, n).
        gamma: in units of 1 / squared distance.

    Returns:
        (m, k) float64, in [0, 1].
    """
    left, right = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return rbf_between(left, right, squared_norms(left), squared_norms(right), gamma)


def squared_norms(rows: FloatArray) -> FloatArray:
    """Squared Euclidean norms of rows, (m, n) -> (m,)."""
    norms: FloatArray = (rows * rows).sum(axis=1)
    return norms


def rbf_between(
    left: FloatArray, right: FloatArray, left_norms: FloatArray, right_norms: FloatArray, gamma: float
) -> FloatArray:
    """Kernel matrix as `rbf`, given the squared norms of the rows."""
    matrix: FloatArray = left_norms[:, None] + right_norms - 2.0 * (left @ right.T)
    # Rounding can leave a distance of zero slightly below it.
    np.clip(matrix, 0.0, FARTHEST / gamma, out=matrix)
    matrix *= -gamma
    np.exp(matrix, out=matrix)
    return matrix


def kernel_mean_at(x: Rows, points: Rows, gamma: float) -> FloatArray:
    """Mean kernel between each row and a set of points: their empirical mean embedding at x.

    Args:
        x: (m, n).
        points: (k, n), k >= 1.
        gamma: gamma of the kernel.

    Returns:
        (1/k) sum_j k(x_i, points_j), (m,) float64; memory does not grow with m k.

    Raises:
        DataError: there are no points.
    """
    count = _count(points)
    sums = np.zeros(len(x))
    for start in range(0, len(x), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        for first in range(0, len(points), BLOCK_ROWS):
            sums[rows] += rbf(x[rows], points[first : first + BLOCK_ROWS], gamma).sum(axis=1)
    return sums / count


def kernel_sum_at(x: Rows, points: Rows, weights: FloatArray, gamma: float) -> FloatArray:
    """sum_j weights_j k(x_i, points_j) at each row of x, (m,) float64; memory does not grow with m k."""
    sums = np.zeros(len(x))
    for start in range(0, len(x), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        for first in range(0, len(points), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            sums[rows] += rbf(x[rows], points[part], gamma) @ weights[part]
    return sums


def mean_kernel(x: Rows, y: Rows, gamma: float) -> float:
    """Mean of k over all pairs of a row of x (m, n) and a row of y (k, n), in bounded memory.

    Raises:
        DataError: one of the sets is empty.
    """
    return float(kernel_mean_at(x, y, gamma).sum() / _count(x))


def _count(rows: Rows) -> int:
    if not len(rows):
        raise DataError("the mean of a kernel over no rows is undefined", "Give at least one row.")
    return len(rows)


def domain_gamma(distance: float) -> float:
    """Find gamma from public bounds and categories alone (docs/decisions/008).

    Args:
        distance: mean squared distance of two rows drawn uniformly from the domain.

    Raises:
        ConfigError: the distance is 0: all rows of the domain are equal.
    """
    if not distance:
        raise ConfigError("all rows of this schema are equal, which gives the kernel no width", "Name gamma.")
    return CLOSER / distance


def median_gamma(x: Rows, limit: int = 1000) -> float:
    """The median heuristic: 1 / median squared distance over pairs of different rows.

    Args:
        x: (m, n).
        limit: largest number of rows to use; of more rows, evenly spaced ones are taken. The result is
            deterministic.

    Raises:
        DataError: fewer than two rows, or at least half of the pairs are equal.
    """
    from scipy.spatial.distance import pdist  # takes a quarter of a second: not at an owner's start

    rows = x if len(x) <= limit else x[np.linspace(0, len(x) - 1, limit).round().astype(np.intp)]
    # By differences, not by the expansion in `rbf`: equal rows must be at distance exactly 0.
    squared = pdist(np.asarray(rows, np.float64), "sqeuclidean")
    median = float(np.median(squared)) if len(squared) else 0.0
    if not (np.isfinite(median) and median > 0.0):
        raise DataError(
            f"the median heuristic finds no scale in {len(x)} rows: at least half of their pairs are equal",
            "Give gamma as a number.",
        )
    return 1.0 / median
