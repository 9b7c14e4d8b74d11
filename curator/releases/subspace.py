"""Public points z for Balog's Algorithm 1 and an orthonormal basis of the span of the k(z_m, .).

No function here reads private rows. Each basis function costs noise of the same size, so functions that add
less than `tolerance` to the span are left out.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.domain import Units
from fedkme.features.kernel_points import PointsSpec, rbf
from fedkme.privacy.gaussian import gaussian_sigma

TOLERANCE = 1e-5
"""Squared distance to the span below which the paper's code leaves a point out."""
# Chosen on the data of figures 1 and 2, where distances change by at most a third between 10 and 300.
_NOISE_RATIO = 30.0
_STABLE, _COARSE = 1e-8, 1e-2


def matched_tolerance(epsilon: float, delta: float, rows: int) -> float:
    """Choose a tolerance that matches the noise, from public numbers alone.

    A basis function costs sigma^2 in squared distance. A function that brings the span nearer to a point by
    less than t gains less than t, and over all rows a small part of t. So t is a multiple of sigma^2: the
    basis is coarse where noise is large, and fine where noise is small.

    Args:
        epsilon: epsilon of the release.
        delta: delta of the release.
        rows: N.
    """
    sigma = math.sqrt(2.0) * gaussian_sigma(epsilon, delta) / rows
    return min(max(_NOISE_RATIO * sigma**2, _STABLE), _COARSE)


def gaussian_points(
    count: int, width: int, scale: float, seed: int, centre: float | FloatArray = 0.0
) -> FloatArray:
    """Draw Z ~ N(centre, scale^2 I) by a public seed, (count, width) (appendix B.2: centre 0, scale 500).

    The paper prints the covariance as sigma_q I; its code draws with standard deviation sigma_q.
    """
    if count < 1 or not scale > 0:
        cause = f"{count} points at scale {scale} cannot be drawn"
        raise ConfigError(cause, "Take a count >= 1 and a scale > 0.")
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    return centre + scale * generator.standard_normal((count, width))


def subspace(
    points: FloatArray, gamma: float, tolerance: float = TOLERANCE, units: Units = "model"
) -> PointsSpec:
    """Make the feature map of Algorithm 1, lines 3 and 4: coordinates in an orthonormal basis of the span.

    The spec holds the pivots, the points farthest from the span of those before; every other point is at a
    squared distance of at most `tolerance` from their span, duplicates at 0.

    Args:
        points: z, (M, n) in `units`, M >= 1, repeats allowed. Memory is M^2, time M times the squared rank.
        gamma: bandwidth of the kernel, in 1 / squared units.
        tolerance: > 0, below 1.
        units: units of points and gamma.

    Raises:
        ConfigError: the tolerance is out of its range.
        DataError: a point is not finite, or there are no points.
    """
    if not 1e-10 <= tolerance < 1:
        cause = f"a tolerance of {tolerance} leaves no stable basis"
        raise ConfigError(cause, "Take one in [1e-10, 1), such as 1e-5.")
    order, _ = pivoted(points, gamma, tolerance)
    return PointsSpec.of(points[order], gamma, units)


def pivoted(points: FloatArray, gamma: float, tolerance: float) -> tuple[NDArray[np.int64], FloatArray]:
    """Factor the kernel matrix with pivots: return their places in `points`, (J,), and L, (J, J).

    The kernel matrix of the pivots is L L^T. L_jj^2 is the squared distance of pivot j to the span of the
    earlier pivots, above `tolerance`. A coarser tolerance gives the beginning of both results.
    """
    from scipy.linalg.lapack import dpstrf

    gram: FloatArray = rbf(_finite(points), points, gamma)
    factor, pivots, rank, _ = dpstrf(gram, tol=tolerance, lower=1, overwrite_a=1)
    return pivots[:rank] - 1, np.tril(factor[:rank, :rank])


def _finite(points: FloatArray) -> FloatArray:
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise DataError("the public points are not an (M, n) matrix of finite numbers", "Correct them.")
    return points
