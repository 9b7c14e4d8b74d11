"""Estimates that a consumer computes from a release (Balog 2018, section 3.3); errors include the noise.

Everything here is post-processing and may be repeated at will. A release has weighted points, the noisy
embedding that they were computed from, and its public map; the embedding's noise is N(0, sigma^2) in every
coordinate, so the error of anything linear in the embedding is known exactly.

**Two-sample test** of a sample against a release; it accounts for the privacy noise.

Let psi be the map of the release, N the private rows, L the sample's. Where both have the same distribution,
of covariance S in feature space, the difference d of the released mean and the sample's is close to
N(0, S (1/N + 1/L) + sigma^2 I): sampling of both, and the noise that was added. With S = sum_i s_i u_i u_i',
estimated from the sample, the statistic is

    T = sum_i s_i (u_i . d)^2 / (s_i (1/N + 1/L) + sigma^2)      with law  sum_i s_i chi^2_1  under the null.

Without noise T is the squared MMD over 1/N + 1/L, with the law of Gretton and others 2012 (theorem 12). With
noise, directions in which the data hardly vary count for less, since they hold only noise: the plain MMD
would drown in the J sigma^2 that they add. The sample is the consumer's own: it is not protected here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.embeddings.weighted_points import WeightedPoints, distance_to_rows
from fedkme.errors import DataError
from fedkme.features.kernel_space import kernel_units, one_column, to_model
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import ReleasedEmbedding

RIDGES = np.logspace(-12, 0, 25)
"""Penalties tried, over the largest eigenvalue."""


@dataclass(frozen=True, eq=False, slots=True)
class Release:
    """A release at the consumer.

    Attributes:
        points: weighted points, in the units of the map's kernel.
        embedding: embedding that the points were computed from.
        features: map of the embedding.
    """

    points: WeightedPoints
    embedding: ReleasedEmbedding
    features: EmbeddingMap


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of E[h(X)] and the parts of its error.

    With c the coefficients of a function c . phi close to h:

        sum w h(z) - E h(X) = (sum w h(z) - c . released) + c . noise + (mean of rows - E)(c . phi)
                              + E (c . phi - h)(X)

    Attributes:
        value: sum_m w_m h(z_m) (equation 4).
        linear: c . released, the estimate without the points; better if the points are few.
        noise: standard deviation of c . noise, from the released sigma.
        sampling: standard deviation from N rows being a sample.
        gap: |value - linear|, known exactly: the effect of the points' optimisation on h.
        rough: root mean square of h - c . phi at points that c was not fitted to (each left out in turn): the
            part of h that the kernel does not see. h need not be in the RKHS; an indicator is not. This is a
            bound rather than a deviation: the missed parts of rows cancel in part.
    """

    value: float
    linear: float
    noise: float
    sampling: float
    gap: float
    rough: float

    @property
    def error(self) -> float:
        """Root of the sum of squares of the four parts; at least about a standard error of `value`."""
        return math.hypot(self.noise, self.sampling, self.gap, self.rough)


def expectation(release: Release, h: Callable[[FloatArray], FloatArray]) -> Estimate:
    """Estimate E[h(X)], with its error.

    c is a ridge regression of h on the features at the points, with the penalty that makes noise, gap and
    roughness least together. Memory and time as for an (M, M) and an (M, J) matrix.

    Args:
        release: the release.
        h: takes points in the kernel's units, (M, n), to (M,) numbers.

    Raises:
        DataError: h is not finite or of another shape at the points.
    """
    points, weights = release.points.points, release.points.weights
    values = np.asarray(h(points), np.float64)
    if values.shape != weights.shape or not np.isfinite(values).all():
        cause = "the function does not return one finite number for each point"
        raise DataError(cause, "Give a function of (M, n) points that returns (M,) numbers.")
    beta = one_column(release.embedding, release.features)
    sigma = release.embedding.sigma
    at = release.features.of_model(to_model(points, release.features))
    eigenvalues, vectors = np.linalg.eigh(at @ at.T)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    turned = vectors.T @ values
    answers = vectors.T @ (at @ beta)
    value = float(weights @ values)
    shares = np.abs(weights) / max(release.points.l1, 1e-300)
    best: Estimate | None = None
    sampling = math.sqrt(
        max(float(shares @ values**2 - (shares @ values) ** 2), 0.0) / release.embedding.rows
    )
    for ridge in RIDGES * max(float(eigenvalues[-1]), 1e-300):
        dual = turned / (eigenvalues + ridge)
        linear = float(dual @ answers)
        noise = sigma * math.sqrt(float(eigenvalues @ dual**2))
        # Residuals with each point left out in turn: c can fit any function at the points themselves.
        missed = (vectors @ dual) / (vectors**2 @ (1.0 / (eigenvalues + ridge)))
        rough = math.sqrt(float(shares @ missed**2))
        estimate = Estimate(value, linear, noise, sampling, abs(value - linear), rough)
        if best is None or estimate.error < best.error:
            best = estimate
    assert best is not None
    return best


def probability(release: Release, inside: Callable[[FloatArray], NDArray[np.bool_]]) -> Estimate:
    """Estimate P(X in S), the `expectation` of the indicator of S, without clipping to [0, 1].

    Args:
        release: the release.
        inside: takes points in the kernel's units, (M, n), to (M,) truth values.
    """
    return expectation(release, lambda points: np.asarray(inside(points), np.float64))


def mmd(release: Release, sample: FloatArray) -> float:
    """RKHS distance of the points to a sample's embedding, sample (L, n) in the kernel's units, L >= 1.

    Noise only increases the distance: a distance that is not small need not mean different distributions.
    `consumer.releases.estimators` tests whether they differ.
    """
    return distance_to_rows(release.points, sample, kernel_units(release.features)[2])


def pushforward(points: WeightedPoints, f: Callable[[FloatArray], FloatArray]) -> WeightedPoints:
    """The embedding of f(X): the points f(z_m) with the same weights (section 3.3, 1).

    Consistent for continuous f where sum |w| stays bounded: weights of the kind `l1`, `simplex` or `uniform`
    (theorem 11, corollary 15). Free weights of Algorithm 1 have no such guarantee; see `WeightedPoints.l1`.

    Args:
        points: the released points.
        f: takes (M, n) to (M, n') numbers.

    Raises:
        DataError: f is not finite, or returns another number of rows.
    """
    return WeightedPoints(np.asarray(f(points.points), np.float64), points.weights)


_NEGLIGIBLE = 1e-10
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class TwoSampleTest:
    """Outcome of one test.

    Attributes:
        statistic: T.
        p_value: probability of a T at least as large under the null, simulated; never below 1/(draws + 1).
        mmd2: estimate of the squared MMD in feature space, corrected for noise and sampling; may be negative.
        mmd2_deviation: standard deviation of that estimate under the null.
    """

    statistic: float
    p_value: float
    mmd2: float
    mmd2_deviation: float


def two_sample_test(
    embedding: ReleasedEmbedding,
    features: EmbeddingMap,
    sample: FloatArray,
    draws: int = 10_000,
    seed: int = 0,
) -> TwoSampleTest:
    """Test that the sample's rows have the distribution of the private ones.

    Args:
        embedding: released mean, one column.
        features: map of the embedding.
        sample: rows in model space, (L, n), L >= 10.
        draws: draws from the null law.
        seed: seed of the draws; equal seeds give equal results.

    Raises:
        ConfigError: the embedding has several columns or another map.
        DataError: the sample has fewer than ten rows, or rows that do not fit.
    """
    released = one_column(embedding, features)
    if sample.ndim != 2 or sample.shape[1] != features.schema.encoded_width or len(sample) < 10:
        cause = f"a sample of shape {sample.shape} cannot be tested"
        raise DataError(cause, "Give at least ten rows of model space.")
    at: FloatArray = features.of_model(np.asarray(sample, np.float64))
    L = len(at)
    shift = released - at.mean(axis=0)
    at = at - at.mean(axis=0)
    variances, along = _directions(at, shift)
    both = 1.0 / embedding.rows + 1.0 / L
    variance = embedding.sigma**2
    statistic = float((variances * along**2 / (variances * both + variance)).sum())
    null = _null(variances, draws, seed)
    p_value = (1.0 + float((null >= statistic).sum())) / (draws + 1.0)
    total = float((at**2).sum()) / (L - 1)
    mmd2 = float(shift @ shift) - total * both - len(released) * variance
    # Variances of sum_j v_j chi^2_1 with v the eigenvalues of S both + sigma^2 I.
    spread = float((variances**2).sum()) * both**2 + 2.0 * total * both * variance
    deviation = math.sqrt(2.0 * (spread + len(released) * variance**2))
    return TwoSampleTest(statistic, p_value, mmd2, deviation)


def _directions(centred: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of the covariance, and the coordinate of `shift` along each eigenvector."""
    L, J = centred.shape
    if J <= L:
        variances, vectors = np.linalg.eigh(centred.T @ centred / (L - 1))
        along = vectors.T @ shift
    else:
        variances, dual = np.linalg.eigh(centred @ centred.T / (L - 1))
        along = dual.T @ (centred @ shift) / np.sqrt(np.maximum(variances * (L - 1), 1e-300))
    positive = variances > _NEGLIGIBLE * max(float(variances[-1]), 1e-300)
    return variances[positive], along[positive]


def _null(variances: FloatArray, draws: int, seed: int) -> FloatArray:
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    totals = np.empty(draws)
    step = max(1, _BLOCK // max(len(variances), 1))
    for start in range(0, draws, step):
        block = rng.standard_normal((min(step, draws - start), len(variances)))
        totals[start : start + step] = np.square(block) @ variances
    return totals
