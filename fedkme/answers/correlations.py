"""Correlations from released products of scores.

Let u be the score of x and v that of y, functions of fine bins. Centred columns are vectors, and correlations
the cosines of their angles. Angles obey the triangle inequality: that of x and y differs from that of u and v
by at most the angle of x and u and that of y and v, wherever rows lie within bins and beyond the ends of the
scores. The square of the sine of the angle of x and u is the least mean square of x - a u - b over the
variance of x; it follows from counts of x alone, with a row at the end of its bin that is farther, and with a
deviation of x that is less by the root mean square of half a bin. As u rises with x, the angle is at most a
right one.

**Gaps.** Rows without a number are in the bin of its stand-in value, and a correlation is of the rows that
have both numbers. Let u and v be standardised over all rows, with the values c and d where the number is not
there; A and B are the rows without the one and without the other, T both together, and P the share of the
others. Sums over T are shares of all rows. Then the correlation over the others is

    (E u v - S_uv - S_u S_v / P) / sqrt((1 - S_uu - S_u^2 / P) (1 - S_vv - S_v^2 / P)),

and S_u is c |A| with a sum of u over rows of B, of which nothing is known: at most the sum over as many rows
that are farthest. The others are bounded likewise. The bound of an angle subtracts the same rows. The
estimate supposes that gaps do not go with numbers: the shares of rows that have one and the other multiply,
and rows of B are like others.

The correlation of u and v has normal noise, to first order: that of the released product, and that of means
and squares of u and v. In a population, its sampling is bounded by fourth powers of the scores.

One thing is supposed: an angle is bounded as if there were no more rows than are counted where the counts by
fine bins show mere noise. A few rows at the ends of wide public bounds would change any correlation, and no
noisy count excludes them. Answers say so.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedkme.answers.evidence import ScoredNumber, ScoredPair
from fedkme.answers.intervals import LEVEL, critical
from fedkme.arrays import FloatArray

Target = Literal["rows", "population"]
SUPPOSED = "; supposes no rows in fine bins that show mere noise"
"""Note in the method of an answer by products of scores."""
_DOUBT, BOUND = 0.0025, 2.807
"""Chance that a bound of an angle is wrong, for each of its two means; deviations of their noise."""
_CLEAR = 4.0
"""Deviations of its noise that the variance of a score must exceed."""


@dataclass(frozen=True, slots=True)
class QuantityEstimate:
    """Estimate of a quantity with its interval, before both are cut to possible values; see `Answer`.

    Attributes:
        value: the estimate; low, high, noise, sampling and unseen are those of `Answer`.
        assumption: assumption about the rows, as words for `Answer.method`; empty: none.
        bounded: whether the interval may be longer than noise and sampling alone require.
    """

    value: float
    low: float
    high: float
    noise: float
    sampling: float
    unseen: float
    assumption: str = ""
    bounded: bool = False

    @property
    def length(self) -> float:
        """Length of the interval of a correlation, cut to [-1, 1]."""
        return min(self.high, 1.0) - max(self.low, -1.0)


UNTOLD = QuantityEstimate(
    0.0, -1.0, 1.0, 1.0, 0.0, 1.0, "; the variance of one of its columns may be 0", True
)
"""Estimate of a correlation where noise hides whether both columns vary: any correlation is possible."""


def scored_correlation(pair: ScoredPair, sampled: int, together: int) -> QuantityEstimate:
    """Estimate a correlation of two numbers by their scores; see the module.

    Args:
        pair: the scores, and their product.
        sampled: N, for the population that the rows are drawn from; 0: for the rows.
        together: most rows of one person.
    """
    lacking = [_most_gaps(number) for number in pair.numbers]
    one, two = (
        _Standardised(number, own, other)
        for number, own, other in zip(pair.numbers, lacking, reversed(lacking), strict=True)
    )
    both = 1.0 - one.gaps - two.gaps
    if not (one.is_told and two.is_told and both > 0.0):
        return UNTOLD
    units = math.sqrt(one.variance * two.variance)
    ratio = (pair.product.estimate - one.mean * two.mean) / units
    value = min(max(ratio, -1.0), 1.0)
    squares = [(pair.product.deviation / units) ** 2]
    for own, other in ((one, two), (two, one)):
        by_mean = ratio * own.mean / own.variance - other.mean / units
        slope = np.array([by_mean, -ratio / (2.0 * own.variance)])
        squares.append(float(slope @ own.covariance @ slope))
    noise, apart = math.fsum(squares), one.angle(both) + two.angle(both)
    sampling = _sampling(value, one, two) / (sampled * both) if sampled else 0.0
    doubts = 4 + sum(number.gaps is not None for number in pair.numbers)
    width = critical(0.0, LEVEL + doubts * _DOUBT) * math.sqrt(noise + sampling * together)
    # S_uv, and S_u S_v / P, in the names of the module
    off = abs(one.at_gap) * two.lost(1) + abs(two.at_gap) * one.lost(1)
    off += abs(one.at_gap * two.at_gap) * min(one.gaps, two.gaps) + one.shift * two.shift / both
    left = math.sqrt(max(one.left(both), 0.0) * max(two.left(both), 0.0))
    if not left > 0.0:
        return UNTOLD
    least, most = value - width - off, value + width + off
    low = _turned(min(least, least / left), apart)
    high = _turned(max(most, most / left), -apart)
    value = min(max(float(value) / math.sqrt(one.thinned * two.thinned), low), high)
    unseen = max((high - low) / 2.0 - width, 0.0)
    return QuantityEstimate(
        value, low, high, math.sqrt(noise), math.sqrt(sampling), unseen, SUPPOSED, bounded=True
    )


def _turned(cosine: float, angle: float) -> float:
    """Cosine of an angle from 0 to pi that is larger by another."""
    turned = math.acos(min(max(cosine, -1.0), 1.0)) + angle
    return math.cos(min(max(turned, 0.0), math.pi))


def _most_gaps(number: ScoredNumber) -> float:
    """Upper bound on the share of rows without a number."""
    if number.gaps is None:
        return 0.0
    return min(max(number.gaps.estimate + BOUND * number.gaps.deviation, 0.0), 1.0)


class _Standardised:
    """Score of a number, with its mean and variance over the rows.

    Attributes:
        gaps: most rows without the number, as a share; they have its stand-in value.
        others: most rows without the other number, of which nothing is known.
    """

    def __init__(self, number: ScoredNumber, gaps: float, others: float) -> None:
        self.number, self.gaps, self.others = number, gaps, others
        (self.mean, square), self.covariance = number.law([number.scores, number.scores**2])
        self.variance = float(square - self.mean**2)

    @property
    def is_told(self) -> bool:
        """Check that the variance is told from 0."""
        slope = np.array([-2.0 * self.mean, 1.0])
        return self.variance > _CLEAR * math.sqrt(float(slope @ self.covariance @ slope))

    @property
    def unit(self) -> FloatArray:
        """Standardised score of each bin that has rows, else 0."""
        unit = (self.number.scores - self.mean) / math.sqrt(self.variance)
        return np.where(self.number.shares > 0.0, unit, 0.0)

    @property
    def fourth(self) -> float:
        """Mean of the fourth power of the standardised score."""
        return float(self.number.shares @ self.unit**4)

    @property
    def at_gap(self) -> float:
        """Standardised score of the stand-in value; 0 where every row has the number."""
        if self.number.gaps is None:
            return 0.0
        return float(self.number.scores[self.number.stand_in] - self.mean) / math.sqrt(self.variance)

    def lost(self, power: int) -> float:
        """Most that rows without the other number add to the mean of a power of |standardised score|."""
        return _farthest(np.abs(self.unit) ** power, self.number.shares, self.others)

    @property
    def shift(self) -> float:
        """Bound on the sum of standardised scores over the rows that lack a number."""
        return abs(self.at_gap) * self.gaps + self.lost(1)

    def left(self, both: float) -> float:
        """Least variance that the other rows leave, times their share, over the whole variance."""
        return 1.0 - self.at_gap**2 * self.gaps - self.lost(2) - self.shift**2 / both

    @property
    def thinned(self) -> float:
        """Part of the variance that is left, as in `left`, if rows that lack it are like the others."""
        if self.number.gaps is None:
            return 1.0
        gaps = min(max(self.number.gaps.estimate, 0.0), self.gaps)
        return max(1.0 - gaps - gaps * self.at_gap**2, 1e-3)

    def angle(self, both: float) -> float:
        """Bound on the angle of the number and its score, over rows of this share that have both numbers."""
        number, shares = self.number, self.number.shares
        value = number.values - shares @ number.values
        unit = (number.scores - shares @ number.scores) / math.sqrt(self.variance)
        slope = float(shares @ (unit * value)) / max(float(shares @ unit**2), 1e-12)
        rest = (np.abs(value - slope * unit) + number.within) ** 2
        missed = float(shares @ rest) + BOUND * number.deviation(rest)
        whole = float(shares @ value**2) - BOUND * number.deviation(value**2)
        at_gap = 0.0 if number.gaps is None else abs(float(value[number.stand_in]))
        shift = at_gap * self.gaps + _farthest(np.abs(value), shares, self.others)
        whole -= at_gap**2 * self.gaps + _farthest(value**2, shares, self.others) + shift**2 / both
        root = math.sqrt(max(whole, 0.0)) - math.sqrt(float(shares @ number.within**2))
        return math.asin(min(math.sqrt(missed) / root, 1.0)) if root > 0.0 else math.pi / 2.0


def _farthest(values: FloatArray, shares: FloatArray, part: float) -> float:
    """Sum of values, at least 0, over the part of all rows that have the largest, times their shares."""
    order = np.argsort(-values)
    above = np.cumsum(shares[order])
    return float(values[order] @ (np.minimum(above, part) - np.minimum(above - shares[order], part)))


def _sampling(value: float, one: _Standardised, two: _Standardised) -> float:
    """Bound on N times the variance of sampling of a correlation r: the mean square of e of one row.

    e = u v - r (u^2 + v^2) / 2 for standardised u and v. By Cauchy and Schwarz its norm is at most that of
    u v and of the other part. For r > 0 it is (1 - r) u v - r (u - v)^2 / 2, too, where the mean of (u - v)^2
    is 2 (1 - r); for r < 0 take -v.
    """
    far, product = abs(value), (one.fourth * two.fourth) ** 0.25
    most = product + far * (math.sqrt(one.fourth) + math.sqrt(two.fourth)) / 2.0
    widest = float(np.abs(one.unit).max() + np.abs(two.unit).max())
    close = (1.0 - far) * product + far / 2.0 * widest * math.sqrt(2.0 * (1.0 - far))
    return float(min(most, close) ** 2)
