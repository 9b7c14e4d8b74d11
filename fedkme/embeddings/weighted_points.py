"""A released data set as weighted points, and its geometry in the RKHS of k(x, y) = exp(-gamma ||x - y||^2).

The pair (z, w) represents the function sum_m w_m k(z_m, .), an estimate of the mean embedding of the private
rows (Balog 2018, section 3.2). Points and rows are in the units of gamma: model space, as `Schema.encode`
makes rows, or the table's own units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, Rows
from fedkme.embeddings.kernels import BLOCK_ROWS, kernel_mean_at, rbf
from fedkme.errors import DataError


@dataclass(frozen=True, eq=False, slots=True)
class WeightedPoints:
    """Points with weights of any sign.

    Attributes:
        points: z, (M, n) float64, M >= 1.
        weights: w, (M,) float64; they need not sum to 1.

    Raises:
        DataError: on construction, for shapes that do not fit or numbers that are not finite.
    """

    points: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.weights.shape != (len(self.points),) or not len(self.points):
            raise DataError(
                f"weighted points of shapes {self.points.shape} and {self.weights.shape} do not fit together",
                "Give (M, n) points and one weight for each, M at least 1.",
            )
        if not (np.isfinite(self.points).all() and np.isfinite(self.weights).all()):
            raise DataError("a weighted point is not finite", "Use finite points and weights.")

    def __len__(self) -> int:
        return len(self.points)

    @property
    def l1(self) -> float:
        """Sum of |w|; where it is bounded, f(z) with these weights is consistent for f(X) (theorem 11)."""
        return float(np.abs(self.weights).sum())

    def take(self, keep: NDArray[Any]) -> WeightedPoints:
        """The points at an array of indices, or where a mask is true."""
        return WeightedPoints(self.points[keep], self.weights[keep])


def uniform_points(points: Rows) -> WeightedPoints:
    """Every point with weight 1/M: the paper's baseline where z is public (appendix B.3)."""
    rows = np.asarray(points, np.float64)
    return WeightedPoints(rows, np.full(len(rows), 1.0 / max(len(rows), 1)))


def embedding_at(released: WeightedPoints, rows: Rows, gamma: float) -> FloatArray:
    """sum_m w_m k(z_m, x) at each row x, (k, n) -> (k,) float64; memory does not grow with k M."""
    values = np.zeros(len(rows))
    for start in range(0, len(rows), BLOCK_ROWS):
        at = slice(start, start + BLOCK_ROWS)
        for first in range(0, len(released), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            values[at] += rbf(rows[at], released.points[part], gamma) @ released.weights[part]
    return values


def inner(left: WeightedPoints, right: WeightedPoints, gamma: float) -> float:
    """Inner product of the two functions in the RKHS."""
    return float(left.weights @ embedding_at(right, left.points, gamma))


def distance(left: WeightedPoints, right: WeightedPoints, gamma: float) -> float:
    """RKHS distance of two sets of weighted points.

    Rounding limits its accuracy to about 1e-8 times the larger sum of |w|.
    """
    joined = WeightedPoints(
        np.concatenate([left.points, right.points]), np.concatenate([left.weights, -right.weights])
    )
    return math.sqrt(max(inner(joined, joined, gamma), 0.0))


def distance_to_rows(
    released: WeightedPoints, rows: Rows, gamma: float, self_kernel: float | None = None
) -> float:
    """RKHS distance to the empirical embedding of rows: Delta of Balog 2018, appendix B.1.

    It reads the rows, so it is for simulations, or for the caller's own rows.

    Args:
        released: the points.
        rows: (N, n), N >= 1.
        gamma: of the kernel.
        self_kernel: the mean of k over all pairs of rows; None: computed, from N^2 kernel values.
    """
    if self_kernel is None:
        self_kernel = float(kernel_mean_at(rows, rows, gamma).mean())
    cross = float(released.weights @ kernel_mean_at(released.points, rows, gamma))
    return math.sqrt(max(self_kernel - 2.0 * cross + inner(released, released, gamma), 0.0))
