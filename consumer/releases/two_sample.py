"""Two-sample test of a sample against a release, which accounts for the privacy noise.

Let psi be the map of the release, N the private rows, L the sample's. Where both have the same distribution,
of covariance S in feature space, the difference d of the released mean and the sample's is close to
N(0, S (1/N + 1/L) + sigma^2 I): sampling of both, and the noise that was added. With S = sum_i s_i u_i u_i',
estimated from the sample, the statistic is

    T = sum_i s_i (u_i . d)^2 / (s_i (1/N + 1/L) + sigma^2)      with law  sum_i s_i chi^2_1  under the null.

Without noise T is the squared MMD over 1/N + 1/L, with the law of Gretton and others 2012 (theorem 12). With
noise, directions in which the data hardly vary count for less, since they hold only noise: the plain MMD
would drown in the J sigma^2 that they add. The sample is the consumer's own: it is not protected here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.errors import DataError
from fedkme.features.kernel_space import one_column
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import ReleasedEmbedding

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
        raise DataError(
            f"a sample of shape {sample.shape} cannot be tested", "Give at least ten rows of model space."
        )
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
