"""A released data set as weighted points, and its geometry in the RKHS of k(x, y) = exp(-gamma ||x - y||^2).

The pair (z, w) represents the function sum_m w_m k(z_m, .), an estimate of the mean embedding of the private
rows (Balog 2018, section 3.2). Points and rows are in the units of gamma: model space, as `Schema.encode`
makes rows, or the table's own units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, Rows
from fedkme.embeddings.kernels import kernel_mean_at, kernel_sum_at, rbf
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.errors import DataError


@dataclass(frozen=True, eq=False, slots=True, repr=False)
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


def uniform_points(points: Rows) -> WeightedPoints:
    """Every point with weight 1/M: the paper's baseline where z is public (appendix B.3)."""
    rows = np.asarray(points, np.float64)
    return WeightedPoints(rows, np.full(len(rows), 1.0 / max(len(rows), 1)))


def inner(left: WeightedPoints, right: WeightedPoints, gamma: float) -> float:
    """Inner product of the two functions in the RKHS."""
    return float(left.weights @ kernel_sum_at(left.points, right.points, right.weights, gamma))


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
        gamma: gamma of the kernel.
        self_kernel: the mean of k over all pairs of rows; None: computed, from N^2 kernel values.
    """
    if self_kernel is None:
        self_kernel = float(kernel_mean_at(rows, rows, gamma).mean())
    cross = float(released.weights @ kernel_mean_at(released.points, rows, gamma))
    return math.sqrt(max(self_kernel - 2.0 * cross + inner(released, released, gamma), 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """Points with non-negative weights that sum to 1, for learners that take sample weights.

    Attributes:
        points: the released locations with their new weights.
        negative: sum of |w| over the released weights below 0.
        moved: RKHS distance between these points and the released points.
    """

    points: WeightedPoints
    negative: float
    moved: float


def distribution(points: WeightedPoints, gamma: float) -> Distribution:
    """The nearest distribution on the same locations, in the RKHS.

    Learners cannot use negative weights: most learners refuse them, and others may maximise a loss. Without
    negative weights the mass that they cancel would remain. So the weights are fitted again with w >= 0 and
    sum w = 1, closest to the released function. The embedding of the private rows is the embedding of a
    distribution, so the fit takes away noise rather than signal. Weights that are a distribution stay.
    """
    weights = points.weights
    negative = float(-weights[weights < 0].sum())
    if not negative and abs(float(weights.sum()) - 1.0) < 1e-9:
        return Distribution(points, 0.0, 0.0)
    gram = rbf(points.points, points.points, gamma)
    fitted = fit_simplex(gram, gram @ weights).weights
    nearest = WeightedPoints(points.points, fitted)
    return Distribution(nearest, negative, distance(nearest, points, gamma))


def resample(points: WeightedPoints, count: int, seed: int) -> NDArray[np.int64]:
    """Indices of `count` equally weighted draws, (count,): for learners without sample weights.

    Systematic: a point of weight w appears floor(count w) or ceil(count w) times, and count w on average.

    Raises:
        DataError: a negative weight, or a sum other than 1; take `distribution` first.
    """
    weights = points.weights
    if (weights < 0).any() or abs(float(weights.sum()) - 1.0) > 1e-6 or count < 1:
        cause = "these weights are no distribution to draw from"
        raise DataError(cause, "Draw from `distribution` of the points.")
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    ticks = (np.arange(count) + rng.random()) / count
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), ticks)
    return np.minimum(places, len(weights) - 1).astype(np.int64)
