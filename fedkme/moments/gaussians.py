"""A Gaussian for each class from noisy moments, by empirical Bayes; every number used is released.

The law of the noise is known, so little is tuned: differences between classes beyond the noise are kept.

1. The pooled covariance within classes is a symmetric matrix plus Wigner noise. Eigenvalues above the edge
   2 s sqrt(k) are corrected to their values before the noise (spiked model); the others share the rest of the
   trace.
2. In its eigenbasis, with eigenvalues l, a class's mean differs from the common one by N(0, kappa l_i), its
   covariance from the pooled one by N(0, tau l_i l_j) in each entry. kappa and tau are estimated by moments,
   less the known noise, and determine how far each entry is shrunk.
3. Eigenvalues have the same floor for all classes. A floor that followed the noise of each class would make
   rare classes rounder than the others, and that would dominate a quadratic discriminant.
4. The spread of a class is one number, which has little noise, while step 2 hides it among k^2/2 noisy
   entries. So `spreads` are estimated separately.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.features.sums import ReleasedEmbedding
from fedkme.moments.features import T

FLOOR = 0.1
"""Least eigenvalue of a covariance over the noise edge of an average class; also the least eigenvalue of a
class's covariance relative to the pooled covariance."""
_LEAST = 1e-3
"""Least eigenvalue of the pooled covariance over its mean eigenvalue."""
_LEAST_SPREAD = 0.02
"""Least spread of a class over that of all rows; a spread is also at least twice its noise's deviation."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Share, mean and covariance of each class, in units of z.

    Attributes:
        shares: (C,) shares of the classes, above 0, sum 1.
        means: (C, k) means of the classes.
        covariances: (C, k, k) covariances of the classes, positive definite.
        pooled: (k, k) pooled covariance within classes, positive definite.
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
        shares: (C,) shares of the classes, above 0, sum 1.
        means: (C, k) means of the classes.
        within: (C, k, k) covariances within classes, not yet positive definite.
        mean_noise: (C,) variance of the noise in a coordinate of a mean.
        entry_noise: (C,) variance of the noise in an entry of `within` off the diagonal.
    """

    shares: FloatArray
    means: FloatArray
    within: FloatArray
    mean_noise: FloatArray
    entry_noise: FloatArray


def gaussians_of(released: ReleasedEmbedding) -> Gaussians:
    """Estimate the Gaussians of the classes from released second moments (fedkme.moments.features)."""
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
    """Spread of each class, shrunk towards that of all rows as far as noise explains the differences."""
    width, centre = noisy.means.shape[1], noisy.shares @ noisy.means
    spreads = np.trace(noisy.within, axis1=1, axis2=2) - noisy.mean_noise * width
    spreads += ((noisy.means - centre) ** 2).sum(axis=1)
    noise = 2.0 * width * noisy.entry_noise + 4.0 * noisy.mean_noise * (noisy.means**2).sum(axis=1)
    mean = max(float(noisy.shares @ spreads), math.sqrt(float(noisy.shares**2 @ noise)), 1e-12)
    noise, ratios = noise / mean**2, spreads / mean
    signal = max(float(noisy.shares @ ((ratios - 1.0) ** 2 - noise)), 0.0)
    ratios = 1.0 + (ratios - 1.0) * signal / (signal + noise + _TINY)
    least = np.clip(2.0 * np.sqrt(noise), _LEAST_SPREAD, 1.0)
    return np.asarray(mean * np.maximum(ratios, least))


def _noisy(released: ReleasedEmbedding) -> _Noisy:
    """Moments by class from the coordinates of phi."""
    mean, sigma = released.mean.T, released.sigma
    width = (math.isqrt(8 * mean.shape[1] + 1) - 3) // 2
    rows, columns = np.triu_indices(width)
    second = np.zeros((len(mean), width, width))
    second[:, rows, columns] = mean[:, width + 1 :] * np.where(rows == columns, 1.0, math.sqrt(0.5))
    second[:, columns, rows] = second[:, rows, columns]
    shares = np.maximum(mean[:, 0] / T, max(sigma / T, 1e-9))  # no share is below the deviation of its noise
    shares /= shares.sum()
    means = mean[:, 1 : width + 1] / math.sqrt(2.0 * T) / shares[:, None]
    mean_noise = sigma**2 / (2.0 * T) / shares**2
    within = second / shares[:, None, None] - means[:, :, None] * means[:, None, :]
    within += mean_noise[:, None, None] * np.eye(width)
    return _Noisy(shares, means, within, mean_noise, 0.5 * sigma**2 / shares**2)


def _despiked(noisy: FloatArray, deviation: float) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, (k,) above 0, corrected for noise, and eigenvectors of a noisy symmetric matrix."""
    values, vectors = np.linalg.eigh(noisy)
    edge = 2.0 * deviation * math.sqrt(len(values))
    spikes = values > edge
    corrected = np.where(spikes, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
    if not spikes.all():
        rest = (float(np.trace(noisy)) - float(corrected.sum())) / int((~spikes).sum())
        corrected[~spikes] = np.clip(rest, _LEAST * edge, max(edge / 2.0, _LEAST * edge))
    return np.maximum(corrected, max(float(corrected.max()), 1e-12) * 1e-6), vectors


def _shrunk_means(means: FloatArray, values: FloatArray, noisy: _Noisy) -> FloatArray:
    """Means of classes in the eigenbasis, each coordinate shrunk towards the common mean."""
    common = noisy.shares @ means
    away, noise = means - common, noisy.mean_noise[:, None]
    signal = _factor(away**2, values, noise) * values
    shrunk: FloatArray = common + away * signal / (signal + noise + _TINY)
    return shrunk


def _shrunk_covariances(
    within: FloatArray, values: FloatArray, noisy: _Noisy, means: FloatArray
) -> FloatArray:
    """Covariances of classes in the eigenbasis, each entry shrunk towards the pooled diagonal."""
    pooled, prior, squares = np.diag(values), np.outer(values, values), means**2
    noise = noisy.entry_noise[:, None, None] * (1.0 + np.eye(len(values)))
    noise = noise + noisy.mean_noise[:, None, None] * (squares[:, :, None] + squares[:, None, :])
    away = within - pooled
    signal = _factor(away**2, prior, noise) * prior
    shrunk: FloatArray = pooled + away * signal / (signal + noise + _TINY)
    return shrunk


def _factor(squares: FloatArray, prior: FloatArray, noise: FloatArray) -> float:
    """Estimate the factor for which squares are about factor * prior + noise, weighted by precision."""
    factor = 0.1
    for _ in range(20):
        weights = prior / (factor * prior + noise + _TINY) ** 2
        signal = float((weights * (squares - noise)).sum()) / float((weights * prior).sum())
        factor = max(signal, 1e-6)
    return factor


def _floored(covariances: FloatArray, values: FloatArray, floor: float) -> FloatArray:
    """Covariances in the eigenbasis with eigenvalues above the floors, (C, k, k)."""
    root = np.sqrt(values)
    whitened = _lifted(covariances / root[:, None] / root, FLOOR)
    return _lifted(whitened * root[:, None] * root, floor)


def _lifted(matrices: FloatArray, least: float) -> FloatArray:
    """Raise the eigenvalues of symmetric matrices to `least` or more."""
    values, vectors = np.linalg.eigh(matrices)
    lifted: FloatArray = (vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return lifted
