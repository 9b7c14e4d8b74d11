"""Exact arithmetic for bids: features and means as integers.

A bid decides who wins, so it must come out the same in one process, in fifty, on another host with
another BLAS, after a restart, and whether it was updated or computed afresh. Floating-point sums do not
promise that; sums of integers do. Features are stored as int16 in units of 2^-14 of a normalised
coordinate u = h1(x) sqrt(d/2), means as int32 in units of 2^-20. Their inner products stay below 2^53,
where float64 is exact in any order of summation, so BLAS may do the work.

Features are rounded towards zero: ||h1(x)|| never grows by it, so norm bounds, and with them the
sensitivities, hold for what is computed and not only for what was meant. Rounding changes a kernel value by
at most 2^-12, two orders below the error of the random features themselves.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.embeddings.mmd import feature_mmd2, marginal_gain
from fedkme.errors import ProtocolError

Features = NDArray[np.int16]
"""(m, d): h1 of m rows in fixed point."""
MeanVector = NDArray[np.int32]
"""(d,): a mean of h1 in fixed point, as it is broadcast."""

FEATURE_UNIT = 2.0**-14
MEAN_UNIT = 2.0**-20
MEAN_LIMIT = 2**26 - 1
"""Largest |coordinate| of a mean (64 in normalised units, beyond any useful noise): with it and
d <= MAX_DIMENSION every inner product is below 2^14 * 2^26 * 2^13 = 2^53."""
MAX_DIMENSION = 2**13

_BLOCK_CELLS = 2**17
"""Features converted to float64 at a time: 1 MiB, which stays in the cache of a core."""


def quantize_features(normalised: FloatArray) -> Features:
    """Normalised features in [-1, 1] to fixed point, rounded towards zero; same shape."""
    return np.trunc(normalised / FEATURE_UNIT).astype(np.int16)


def normalised_features(features: Features) -> FloatArray:
    """Fixed point back to normalised features, exactly; same shape."""
    return np.multiply(features, FEATURE_UNIT, dtype=np.float64)


def quantize_mean(normalised: FloatArray) -> MeanVector:
    """A mean in normalised units to what is broadcast, (d,); post-processing of the release."""
    return np.clip(np.rint(normalised / MEAN_UNIT), -MEAN_LIMIT, MEAN_LIMIT).astype(np.int32)


def normalised_mean(mean: MeanVector) -> FloatArray:
    """Bring a broadcast mean back to normalised units, exactly; (d,)."""
    return np.multiply(mean, MEAN_UNIT, dtype=np.float64)


def check_dimension(mean: MeanVector, dimension: int) -> None:
    """Refuse a mean of another dimension than a run's.

    Raises:
        ProtocolError: it has one.
    """
    if len(mean) != dimension:
        raise ProtocolError(
            f"a mean has {len(mean)} coordinates and the run {dimension}", "Check the peer's software."
        )


class ScoredFeatures:
    """Rows in fixed point with their inner products to g~ and g_l kept up to date.

    A bid costs one pass over the features, and only the changed coordinates of it where g_l changed in
    few. Both ways give the same integers.

    Memory: 2 d bytes a row, and 24 bytes a row for scores.
    """

    def __init__(self, dimension: int, target: MeanVector, capacity: int = 64) -> None:
        self._features = np.empty((dimension, capacity), dtype=np.int16)  # one row of memory a coordinate
        self._target = target.astype(np.float64)
        self._mean = np.zeros(dimension, dtype=np.float64)
        self._target_scores = np.empty(capacity, dtype=np.float64)
        self._mean_scores = np.empty(capacity, dtype=np.float64)
        self._unit = 2.0 / dimension * FEATURE_UNIT * MEAN_UNIT
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, features: Features) -> None:
        """Add rows, (k, d)."""
        start, stop = self._count, self._count + len(features)
        if stop > self._features.shape[1]:
            self._grow(max(stop, 2 * self._features.shape[1]))
        self._features[:, start:stop] = features.T
        self._count = stop
        self._score(self._target, self._target_scores, start, stop)
        self._score(self._mean, self._mean_scores, start, stop)

    def retire(self, row: int) -> None:
        """A row is spent: its bid is minus infinity from now on."""
        self._target_scores[row] = -np.inf

    def features(self, row: int) -> Features:
        """h1 of one row, (d,)."""
        return self._features[:, row].copy()

    def bids(self, mean: MeanVector, size: int) -> FloatArray:
        """Marginal gain of every row (Algorithm 3, step 6).

        Args:
            mean: g_l, (d,).
            size: q, rows in the summary with its seed set, >= 0.

        Returns:
            (m,) float64 in units of the kernel; equal on every machine, bit for bit.
        """
        self._follow(mean.astype(np.float64))
        scores = self._target_scores[: self._count], self._mean_scores[: self._count]
        gains = np.asarray(marginal_gain(*scores, size), dtype=np.float64)
        gains *= self._unit
        return gains

    def tolerance(self, size: int) -> float:
        """Largest change of a bid when every coordinate of a row is off by one unit of fixed point.

        Two hosts may round a cosine to neighbouring units; a bid outside this distance is a mismatch.
        """
        total = np.abs(self._target).sum() + size / (size + 1) * np.abs(self._mean).sum()
        return float(total * self._unit)

    def _follow(self, mean: FloatArray) -> None:
        step = mean - self._mean
        changed = step.nonzero()[0]
        self._mean = mean
        if 2 * len(changed) >= len(mean):
            self._score(mean, self._mean_scores, 0, self._count)
            return
        steps = step[changed]  # up to twice as large as a mean, but fewer than half as many: still below 2^53
        stride = _BLOCK_CELLS // (len(changed) + 1) + 1
        for block in range(0, self._count, stride):
            rows = slice(block, min(block + stride, self._count))
            self._mean_scores[rows] += steps @ self._features[changed, rows].astype(np.float64)

    def _score(self, vector: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        step = max(1, _BLOCK_CELLS // len(vector))
        for block in range(start, stop, step):
            rows = slice(block, min(block + step, stop))
            scores[rows] = vector @ self._features[:, rows].astype(np.float64)

    def _grow(self, capacity: int) -> None:
        for name in ("_features", "_target_scores", "_mean_scores"):
            old = getattr(self, name)
            new = np.empty((*old.shape[:-1], capacity), dtype=old.dtype)
            new[..., : self._count] = old[..., : self._count]
            setattr(self, name, new)


class FeatureMean:
    """The exact mean of h1 over a growing set of rows, as an integer sum."""

    def __init__(self, dimension: int) -> None:
        self._sum = np.zeros(dimension, dtype=np.int64)
        self.count = 0

    def add(self, features: Features) -> None:
        """Add rows, (k, d)."""
        self._sum += features.sum(axis=0, dtype=np.int64)
        self.count += len(features)

    def normalised(self) -> FloatArray:
        """The mean in normalised units, (d,); zeros when there are no rows."""
        return np.multiply(self._sum, FEATURE_UNIT / max(self.count, 1), dtype=np.float64)

    def distance2(self, target: MeanVector) -> float:
        """Squared distance in feature space to a broadcast mean, in units of MMD^2."""
        unit = math.sqrt(2.0 / len(target))
        return feature_mmd2(unit * normalised_mean(target), unit * self.normalised())


def kernel_error_bound(dimension: int, pairs: int, failure: float) -> float:
    """Error of h1(x) . h1(y) against k(x, y) that `pairs` fixed pairs exceed with probability <= `failure`.

    Hoeffding over the d independent terms 2 cos cos in [-2, 2] of the offset form (Rahimi & Recht 2008;
    the paper's Lemma 4 prints exp(-d e^2 / 4), which drops a factor 2 in the exponent and both sides: see
    docs/errata.md), plus the rounding to fixed point. The paired form has d/2 independent terms in [-1, 1]
    and obeys the same bound with room to spare.
    """
    return math.sqrt(8.0 * math.log(2.0 * pairs / failure) / dimension) + 2.0**-12
