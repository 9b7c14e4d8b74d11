"""Correlations from released products of scores.

Let u be the score of x and v that of y, functions of fine bins. Centred columns are vectors, and correlations
the cosines of their angles. Angles obey the triangle inequality: that of x and y differs from that of u and v
by at most the angle of x and u and that of y and v, wherever rows lie within bins and beyond the ends of the
scores. The square of the sine of the angle of x and u is the least mean square of x - a u - b over the
variance of x; it follows from counts of x alone, with a row at the end of its bin that is farther. As u rises
with x, the angle is at most a right one.

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
_DOUBT, _BOUND = 0.0025, 2.807
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
    one, two = (_Standardised(number) for number in pair.numbers)
    if not (one.is_told and two.is_told):
        return UNTOLD
    units = math.sqrt(one.variance * two.variance)
    ratio = (pair.product.estimate - one.mean * two.mean) / units
    value = min(max(ratio, -1.0), 1.0)
    squares = [(pair.product.deviation / units) ** 2]
    for own, other in ((one, two), (two, one)):
        by_mean = ratio * own.mean / own.variance - other.mean / units
        slope = np.array([by_mean, -ratio / (2.0 * own.variance)])
        squares.append(float(slope @ own.covariance @ slope))
    noise, apart = math.fsum(squares), one.angle + two.angle
    sampling = _sampling(value, one, two) / sampled if sampled else 0.0
    width = critical(0.0, LEVEL + 4.0 * _DOUBT) * math.sqrt(noise + sampling * together)
    low = math.cos(min(math.acos(max(value - width, -1.0)) + apart, math.pi))
    high = math.cos(max(math.acos(min(value + width, 1.0)) - apart, 0.0))
    unseen = max((high - low) / 2.0 - width, 0.0)
    return QuantityEstimate(
        value, low, high, math.sqrt(noise), math.sqrt(sampling), unseen, SUPPOSED, bounded=True
    )


class _Standardised:
    """Score of a number, with its mean and variance over the rows."""

    def __init__(self, number: ScoredNumber) -> None:
        self.number = number
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
    def angle(self) -> float:
        """Bound on the angle of the number and its score."""
        number, shares = self.number, self.number.shares
        value = number.values - shares @ number.values
        unit = (number.scores - shares @ number.scores) / math.sqrt(self.variance)
        slope = float(shares @ (unit * value)) / max(float(shares @ unit**2), 1e-12)
        rest = (np.abs(value - slope * unit) + number.within) ** 2
        near = np.maximum(np.abs(value) - number.within, 0.0) ** 2
        missed = float(shares @ rest) + _BOUND * number.deviation(rest)
        whole = float(shares @ near) - _BOUND * number.deviation(near)
        return math.asin(math.sqrt(min(missed / whole, 1.0))) if whole > 0.0 else math.pi / 2.0


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
