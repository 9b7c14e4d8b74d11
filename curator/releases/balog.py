"""Balog 2018, Algorithms 1 and 2: from a noisy pooled embedding to weighted synthetic points.

Both algorithms start from a `ReleasedEmbedding`, which alone depends on private rows. All functions here are
post-processing and cost nothing; no function takes rows of an owner.

Algorithm 1 (a `points` map, see `subspace`): the released coordinates beta = alpha + noise give weights
w = W^T beta = L^-T beta of the public points. Algorithm 2 (a `fourier` map of norm 1): locations and
weights are optimised against the released mean, see `reduced_set`.

Noise is calibrated by fedkme.privacy.sums from the map's own diameter, exactly (Balle and Wang 2018), and
not by the paper's sqrt(2 ln(1.25/delta))/epsilon, which has no theorem at epsilon >= 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.embeddings.weight_fit import LIMIT, fit_weights
from fedkme.embeddings.weighted_points import WeightedPoints
from fedkme.errors import ConfigError
from fedkme.features.kernel_points import PointsMap, rbf
from fedkme.features.kernel_space import one_column
from fedkme.features.sums import ReleasedEmbedding

Weights = Literal["free", "l1", "simplex"]
"""Constraint on weights: none (line 8); sum |w| <= C (theorem 11); non-negative with sum 1."""


def algorithm1(
    released: ReleasedEmbedding,
    basis: PointsMap,
    weights: Weights = "free",
    bound: float = 1.0,
    points: FloatArray | None = None,
    prior: FloatArray | None = None,
    limit: int = LIMIT,
) -> WeightedPoints:
    """Algorithm 1, lines 8 and 9, or theorem 11: weighted points from noisy coordinates.

    Args:
        released: coordinates beta in the basis, one column.
        basis: the map of these coordinates.
        weights: constraint on the weights. A constraint also removes noise: constrained weights can reach
            the mean embeddings of distributions, but not most noise.
        bound: C >= 1 for `l1`.
        points: points that get the weights, (M, n) in the basis's units; None: the points of the basis, which
            `free` weights always use.
        prior: public sample of the rows' population, (m, n): coordinates are first shrunk towards the
            sample's mean, as far as noise exceeds the sampling error of m rows (`shrunk`).
        limit: most iterations for constrained weights.

    Raises:
        ConfigError: the embedding has several columns or is of another map, a bound below 1, or free
            weights with points of their own.
        DataError: the embedding is not finite.
    """
    beta = one_column(released, basis)
    if prior is not None:
        beta = shrunk(beta, released, basis, prior)
    own = basis.spec.matrix()
    free: FloatArray = basis.whitening.T @ beta
    if weights == "free":
        if points is not None:
            raise ConfigError("free weights belong to the points of the basis", "Leave the points out.")
        return WeightedPoints(own, free)
    if weights == "l1" and not bound >= 1.0:
        raise ConfigError(f"an L1 bound of {bound} excludes the data's own embedding", "Take at least 1.")
    chosen = own if points is None else points
    gamma = basis.spec.gamma
    # The target lies in the span of the own points, so these are exact inner products.
    target: FloatArray = rbf(chosen, own, gamma) @ free
    fit = fit_weights(rbf(chosen, chosen, gamma), target, weights, bound, limit=limit)
    return WeightedPoints(chosen, fit.weights)


def shrunk(beta: FloatArray, released: ReleasedEmbedding, basis: PointsMap, public: FloatArray) -> FloatArray:
    """Shrink released coordinates towards the mean of a public sample of the same population, (J,).

    In coordinate j the public sample's mean has the squared error var_j (1/m + 1/N), the release sigma^2.
    Each gets about the weight that minimises the mean squared error, where var_j is twice the public sample's
    variance or, if larger, the variance that the release shows. Shrinking helps where noise exceeds the
    sampling error, as with many z at small epsilon; elsewhere it costs up to about a fifth.

    Args:
        beta: released coordinates, (J,).
        released: the release, for sigma and N.
        basis: the map of the coordinates.
        public: rows drawn from the private rows' population, (m, n) in the basis's units, m >= 2.
    """
    at = rbf(public, basis.spec.matrix(), basis.spec.gamma) @ basis.whitening.T
    spread = at.var(axis=0, ddof=1) * (1.0 / len(public) + 1.0 / released.rows)
    centre = at.mean(axis=0)
    # Few public rows show too little spread: trust a coordinate that is well beyond the noise.
    spread = np.maximum(2.0 * spread, (beta - centre) ** 2 - 12.0 * released.sigma**2)
    trust = spread / np.maximum(spread + released.sigma**2, 1e-300)
    result: FloatArray = centre + trust * (beta - centre)
    return result
