"""Exact arithmetic for bids: features and means as integers.

A bid decides an auction. So its value must be the same in one process, in fifty, on another host with another
BLAS, after a restart, and whether it was updated or computed afresh. Floating-point sums do not have this
property; sums of integers do. Features are stored as int16 in units of 2^-14 of a normalised coordinate
u = h1(x) sqrt(d/2), means as int32 in units of 2^-20. Their inner products stay below 2^53, where float64 is
exact in any order of summation, so BLAS may compute them.

Features are rounded towards zero, which never makes ||h1(x)|| larger. So norm bounds, and with them
sensitivities, hold for the computed features and not only for the exact features. Rounding changes a kernel
value by at most 2^-12, two orders below the error of the random features themselves.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.errors import ProtocolError

Features = NDArray[np.int16]
"""(m, d): h1 of m rows in fixed point."""
MeanVector = NDArray[np.int32]
"""(d,): a broadcast mean of h1 in fixed point."""

FEATURE_UNIT = 2.0**-14
MEAN_UNIT = 2.0**-20
MEAN_LIMIT = 2**26 - 1
"""Largest |coordinate| of a mean (64 in normalised units, beyond any useful noise): with it and
d <= MAX_DIMENSION every inner product is below 2^14 * 2^26 * 2^13 = 2^53."""
MAX_DIMENSION = 2**13

_BLOCK_CELLS = 2**17
"""Features converted to float64 at a time, and twice as many to float32: 1 MiB, which stays in the cache of
a core."""
_BLOCK_ROWS = 2**14
"""Rows converted to float32 at a time where few coordinates changed: their scores stay in the cache, too."""
_HALF_ULP = 2.0**-24
"""Relative error of one rounding to float32."""
_FEW_ROWS = 4096
"""Number of rows below which exact scores of all rows cost less than finding the rows that may win."""
_MANY = 8
"""Part of the rows: where more rows than this part may win, float32 is too coarse; all are scored exactly."""


def quantize_features(normalised: FloatArray) -> Features:
    """Normalised features in [-1, 1] to fixed point, rounded towards zero; same shape."""
    return np.trunc(normalised / FEATURE_UNIT).astype(np.int16)


def normalised_features(features: Features) -> FloatArray:
    """Fixed point back to normalised features, exactly; same shape."""
    return np.multiply(features, FEATURE_UNIT, dtype=np.float64)


def quantize_mean(normalised: FloatArray) -> MeanVector:
    """Convert a mean in normalised units to its broadcast form, (d,); post-processing of the release."""
    return np.clip(np.rint(normalised / MEAN_UNIT), -MEAN_LIMIT, MEAN_LIMIT).astype(np.int32)


def normalised_mean(mean: MeanVector) -> FloatArray:
    """Convert a broadcast mean back to normalised units, exactly; (d,)."""
    return np.multiply(mean, MEAN_UNIT, dtype=np.float64)


def check_dimension(mean: MeanVector, dimension: int) -> None:
    """Refuse a mean of another dimension than the run's.

    Raises:
        ProtocolError: the dimensions differ.
    """
    if len(mean) != dimension:
        cause = f"a mean has {len(mean)} coordinates and the run {dimension}"
        raise ProtocolError(cause, "Check the peer's software.")


class ScoredFeatures:
    """Rows in fixed point with up-to-date inner products to g~ and g_l.

    A call of `bids` takes one pass over the features; where g_l changed in few coordinates, it reads these
    alone. Both ways give the same integers.

    A call of `best` costs less: float32 finds the rows that may have the best bid (`NearScores`), and only
    these rows are scored exactly, with the same integers.

    Memory: 2 d bytes a row, 16 bytes a row for scores, and another 12 bytes a row after the first `best`.
    """

    def __init__(self, dimension: int, target: MeanVector, capacity: int = 64) -> None:
        self._features = np.empty((dimension, capacity), dtype=np.int16)  # one row of memory a coordinate
        self._target = target.astype(np.float64)
        self._mean = np.zeros(dimension, dtype=np.float64)
        self._target_scores = np.empty(capacity, dtype=np.float64)
        self._mean_scores = np.empty(capacity, dtype=np.float64)
        self._near_target = np.empty(0, dtype=np.float32)
        self._near_mean = NearScores(dimension)
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
        """Retire a spent row: its bid is minus infinity from now on."""
        self._target_scores[row] = -np.inf
        self._near_target[row : row + 1] = -np.inf

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
        return self._gains(slice(self._count), self._mean_scores[: self._count], size)

    def best(self, mean: MeanVector, size: int) -> tuple[int, float]:
        """Row of the largest bid (of equal bids the first), and the bid; as from `bids`, bit for bit."""
        rows = np.arange(0)
        if self._count >= _FEW_ROWS:
            rows = self._rows_that_may_win(mean.astype(np.float64), size)
        if not 0 < _MANY * len(rows) < self._count:
            gains = self.bids(mean, size)
            row = int(gains.argmax())
            return row, gains.item(row)
        gains = self._gains(rows, mean.astype(np.float64) @ self._features[:, rows].astype(np.float64), size)
        place = int(gains.argmax())
        return int(rows[place]), gains.item(place)

    def _gains(self, rows: slice | NDArray[np.intp], mean_scores: FloatArray, size: int) -> FloatArray:
        gains = np.asarray(marginal_gain(self._target_scores[rows], mean_scores, size), dtype=np.float64)
        gains *= self._unit
        return gains

    def _rows_that_may_win(self, mean: FloatArray, size: int) -> NDArray[np.intp]:
        """Rows, in order, that include every row with the largest bid.

        Let T and S be the largest scores that target and mean can give. The error of a gain in float32 is at
        most the error of the mean's scores, plus the roundings of the target's score (u T), of the factor and
        its product (2 u S), and of the difference (u (T + S)); float64 adds a part 2^-29 of that. So the row
        with the largest bid is at most twice this error below the largest gain in float32. The rounding of
        the threshold counts, too.
        """
        if len(self._near_target) < self._count:
            self._near_target = self._target_scores[: self._count].astype(np.float32)
        self._near_mean.follow(self._features[:, : self._count], mean)
        gains = self._near_mean.scores * np.float32(-size / (size + 1))
        gains += self._near_target
        off = self._near_mean.off
        off += 5 * _HALF_ULP * (_largest_product(self._target) + _largest_product(mean) + off)
        return np.flatnonzero(gains >= np.float32(float(gains.max()) - 2 * off))

    def tolerance(self, size: int) -> float:
        """Largest change of a bid where every coordinate of a row is off by one unit of fixed point.

        Two hosts may round a cosine to neighbouring units; bids that differ by more are a mismatch.
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
        steps = step[changed]  # up to twice as large as a mean, in under half as many coordinates: below 2^53
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


def _largest_product(vector: FloatArray) -> float:
    """Largest |inner product| of a row in fixed point and a vector."""
    return 2.0**14 * float(np.abs(vector).sum())


class NearScores:
    """Inner products in float32 of rows in fixed point and one vector, each with an error of at most `off`.

    An inner product of c coordinates has an error of at most g_(c+1) times the sum of |products|, in any
    order of summation (Higham 2002, section 3.1; one more rounding for the vector itself), with g_n = n u /
    (1 - n u) and u = 2^-24. The sum is at most 2^14 times the vector's 1-norm. Where few coordinates changed,
    the product of the change is added to the scores; `off` then grows by the error of this product and by one
    rounding of the result. Once `off` would exceed four times the error of a fresh product, scores are
    computed afresh.
    """

    def __init__(self, dimension: int) -> None:
        self.scores = np.empty(0, dtype=np.float32)
        self.off = 0.0
        self._vector = np.zeros(dimension, dtype=np.float64)

    def follow(self, features: Features, vector: FloatArray) -> None:
        """Update the scores to another vector and to appended rows, features (d, m)."""
        valid, step = len(self.scores), vector - self._vector
        changed, fresh = step.nonzero()[0], _product_error(vector)
        off = self.off
        if len(changed):
            off += _product_error(step[changed]) + _HALF_ULP * (_largest_product(vector) + off)
        if 2 * len(changed) >= len(vector) or off > 4 * fresh:
            valid, off = 0, fresh
        if features.shape[1] > len(self.scores):
            self.scores = np.append(self.scores, np.zeros(features.shape[1] - len(self.scores), np.float32))
            off = max(off, fresh)
        self._vector, self.off = vector, off
        if valid and len(changed):
            self._add(features[:, :valid], changed, step[changed], 0)
        self.scores[valid:] = 0.0
        self._add(features, slice(None), vector, valid)

    def _add(
        self, features: Features, coordinates: slice | NDArray[np.intp], vector: FloatArray, start: int
    ) -> None:
        short, stride = vector.astype(np.float32), min(2 * _BLOCK_CELLS // len(vector) + 1, _BLOCK_ROWS)
        for block in range(start, features.shape[1], stride):
            rows = slice(block, min(block + stride, features.shape[1]))
            self.scores[rows] += short @ features[coordinates, rows].astype(np.float32)


def _product_error(vector: FloatArray) -> float:
    """Largest error of an inner product with a vector in float32."""
    roundings = (len(vector) + 1) * _HALF_ULP
    return roundings / (1 - roundings) * _largest_product(vector)


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


def marginal_gain(target_scores: FloatArray, summary_scores: FloatArray, size: int) -> FloatArray:
    """Score each row by the gain of adding it to a summary of `size` rows; larger is better. This is the bid.

    Equal to J(S + x) - J(S) up to a positive factor and terms that do not depend on x
    (Sarpatwar 2019, eq. 12; the sign printed in Algorithm 3, step 6 is inverted: see docs/errata.md).

    Args:
        target_scores: g~ . h1(x) of each candidate row, (m,).
        summary_scores: g_l . h1(x), (m,).
        size: q, rows in the current summary with its seed set, >= 0.
    """
    gains: FloatArray = summary_scores * (size / (size + 1))
    np.subtract(target_scores, gains, out=gains)  # in place: allocating pages costs more than the arithmetic
    return gains


def feature_mmd2(target_mean: NDArray[np.floating[Any]], summary_mean: NDArray[np.floating[Any]]) -> float:
    """Squared distance of two means of h1, (d,): the MMD^2 that a party can compute without any row.

    The sum is rounded once, so it is the same on every host.
    """
    return math.fsum(np.square(target_mean - summary_mean))
