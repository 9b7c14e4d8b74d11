"""A Gaussian for each class out of noisy moments, by empirical Bayes; every number it uses is released.

The law of the noise is known, so little is tuned: what varies over classes more than the noise does is kept.

1. The pooled covariance within classes is a symmetric matrix plus Wigner noise: its eigenvalues above the
   edge 2 s sqrt(k) are put back to what they were before the noise (spiked model), the others share what is
   left of the trace.
2. In its eigenbasis, with eigenvalues l, a class's mean differs from the common one by N(0, kappa l_i), its
   covariance from the pooled one by N(0, tau l_i l_j) in each entry; kappa and tau are found by moments, less
   the known noise, and each entry is shrunk by them.
3. Eigenvalues have a floor that is the same for all classes: one that follows a class's own noise makes the
   rare class look round beside the others, and a quadratic discriminant sees nothing else.
4. How far a class is spread is one number, which noise hardly touches, while 2 hides it among k^2/2 entries
   of which each is noise: it is found apart, `spreads`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.features.sums import ReleasedEmbedding
from fedkme.moments.features import T

FLOOR = 0.1
"""Least eigenvalue of a covariance, over the edge of the noise of an average class; also of a class's
covariance over the pooled one."""
_LEAST = 1e-3
"""Least eigenvalue of the pooled covariance, over the mean one."""
_LEAST_SPREAD = 0.02
"""Least spread of a class over that of all rows; also twice the deviation of its noise."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Share, mean and covariance of each class, in units of z.

    Attributes:
        shares: (C,), above 0, sum 1.
        means: (C, k).
        covariances: (C, k, k), positive definite.
        pooled: (k, k), within classes, positive definite.
        spreads: (C,) mean squared distance of a class's rows from the mean of all rows, above 0.
    """

    shares: FloatArray
    means: FloatArray
    covariances: FloatArray
    pooled: FloatArray
    spreads: FloatArray

    @property
    def centre(self) -> FloatArray:
        """Mean of all rows, (k,)."""
        return np.asarray(self.shares @ self.means)


@dataclass(frozen=True, eq=False)
class _Noisy:
    """Moments by class with their noise.

    Attributes:
        shares: (C,) of the classes, above 0, sum 1.
        means: (C, k).
        within: (C, k, k) covariances within classes, not yet positive.
        mean_noise: (C,) variance of the noise in a coordinate of a mean.
        entry_noise: (C,) variance of the noise in an entry of `within` off the diagonal.
    """

    shares: FloatArray
    means: FloatArray
    within: FloatArray
    mean_noise: FloatArray
    entry_noise: FloatArray


def gaussians_of(released: ReleasedEmbedding) -> Gaussians:
    """Gaussians of the classes of a released second-moment embedding (fedkme.moments.features)."""
    noisy = _noisy(released)
    classes, width = noisy.means.shape
    deviation = released.sigma * math.sqrt(0.5)
    pooled = np.tensordot(noisy.shares, noisy.within, 1)
    values, vectors = _despiked(pooled, deviation * math.sqrt(classes))
    floor = FLOOR * 2.0 * deviation * math.sqrt(width) * classes
    values = np.maximum(values, max(floor, _LEAST * float(values.mean())))
    means = noisy.means @ vectors
    covariances = _shrunk_covariances(vectors.T @ noisy.within @ vectors, values, noisy, means)
    return Gaussians(
        noisy.shares,
        _shrunk_means(means, values, noisy) @ vectors.T,
        vectors @ _floored(covariances, values, floor) @ vectors.T,
        (vectors * values) @ vectors.T,
        _spreads(noisy),
    )


def _spreads(noisy: _Noisy) -> FloatArray:
    """Spread of each class, shrunk to that of all rows by what noise explains of how they differ."""
    width, centre = noisy.means.shape[1], noisy.shares @ noisy.means
    found = np.trace(noisy.within, axis1=1, axis2=2) - noisy.mean_noise * width
    found += ((noisy.means - centre) ** 2).sum(axis=1)
    known = 2.0 * width * noisy.entry_noise + 4.0 * noisy.mean_noise * (noisy.means**2).sum(axis=1)
    mean = max(float(noisy.shares @ found), math.sqrt(float(noisy.shares**2 @ known)), 1e-12)
    known, ratios = known / mean**2, found / mean
    signal = max(float(noisy.shares @ ((ratios - 1.0) ** 2 - known)), 0.0)
    ratios = 1.0 + (ratios - 1.0) * signal / (signal + known + _TINY)
    least = np.clip(2.0 * np.sqrt(known), _LEAST_SPREAD, 1.0)
    return np.asarray(mean * np.maximum(ratios, least))


def _noisy(released: ReleasedEmbedding) -> _Noisy:
    """Moments by class of the coordinates of phi."""
    mean, sigma = released.mean.T, released.sigma
    width = (math.isqrt(8 * mean.shape[1] + 1) - 3) // 2
    rows, columns = np.triu_indices(width)
    second = np.zeros((len(mean), width, width))
    second[:, rows, columns] = mean[:, width + 1 :] * np.where(rows == columns, 1.0, math.sqrt(0.5))
    second[:, columns, rows] = second[:, rows, columns]
    shares = np.maximum(mean[:, 0] / T, max(sigma / T, 1e-9))  # a share is not below that of its noise
    shares /= shares.sum()
    means = mean[:, 1 : width + 1] / math.sqrt(2.0 * T) / shares[:, None]
    mean_noise = sigma**2 / (2.0 * T) / shares**2
    within = second / shares[:, None, None] - means[:, :, None] * means[:, None, :]
    within += mean_noise[:, None, None] * np.eye(width)
    return _Noisy(shares, means, within, mean_noise, 0.5 * sigma**2 / shares**2)


def _despiked(noisy: FloatArray, deviation: float) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, (k,) above 0, and eigenvectors of a symmetric matrix without its noise."""
    values, vectors = np.linalg.eigh(noisy)
    edge = 2.0 * deviation * math.sqrt(len(values))
    spikes = values > edge
    found = np.where(spikes, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
    if not spikes.all():
        left = (float(np.trace(noisy)) - float(found.sum())) / int((~spikes).sum())
        found[~spikes] = np.clip(left, _LEAST * edge, max(edge / 2.0, _LEAST * edge))
    return np.maximum(found, max(float(found.max()), 1e-12) * 1e-6), vectors


def _shrunk_means(means: FloatArray, values: FloatArray, noisy: _Noisy) -> FloatArray:
    """Means of classes in the eigenbasis, each coordinate shrunk to the common mean."""
    common = noisy.shares @ means
    away, known = means - common, noisy.mean_noise[:, None]
    signal = _factor(away**2, values, known) * values
    shrunk: FloatArray = common + away * signal / (signal + known + _TINY)
    return shrunk


def _shrunk_covariances(
    within: FloatArray, values: FloatArray, noisy: _Noisy, means: FloatArray
) -> FloatArray:
    """Covariances of classes in the eigenbasis, each entry shrunk to the pooled diagonal."""
    pooled, prior, squares = np.diag(values), np.outer(values, values), means**2
    known = noisy.entry_noise[:, None, None] * (1.0 + np.eye(len(values)))
    known = known + noisy.mean_noise[:, None, None] * (squares[:, :, None] + squares[:, None, :])
    away = within - pooled
    signal = _factor(away**2, prior, known) * prior
    shrunk: FloatArray = pooled + away * signal / (signal + known + _TINY)
    return shrunk


def _factor(squares: FloatArray, prior: FloatArray, known: FloatArray) -> float:
    """Factor of the prior by moments: squares are about factor * prior + known; weighted by precision."""
    factor = 0.1
    for _ in range(20):
        weights = prior / (factor * prior + known + _TINY) ** 2
        found = float((weights * (squares - known)).sum()) / float((weights * prior).sum())
        factor = max(found, 1e-6)
    return factor


def _floored(covariances: FloatArray, values: FloatArray, floor: float) -> FloatArray:
    """Covariances in the eigenbasis with eigenvalues above the floors, (C, k, k)."""
    root = np.sqrt(values)
    whitened = _lifted(covariances / root[:, None] / root, FLOOR)
    return _lifted(whitened * root[:, None] * root, floor)


def _lifted(matrices: FloatArray, least: float) -> FloatArray:
    """Symmetric matrices with eigenvalues of `least` at least."""
    values, vectors = np.linalg.eigh(matrices)
    lifted: FloatArray = (vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return lifted
