"""Correlations from released products of scores.

Let u be the score of x and v that of y, functions of fine bins. Centred columns are vectors, and correlations
the cosines of their angles. Angles obey the triangle inequality: that of x and y differs from that of u and v
by at most the angle of x and u and that of y and v, wherever rows lie within bins and beyond the ends of the
scores. For any a > 0 the sine of the angle of x and u is at most the root mean square of x - a u - b over a
times the deviation of u: a vector of length A turns by asin(E / A) at most where its end moves by E. That
mean square follows from counts of x alone, with a row at the end of its bin that is farther. As u rises with
x, the angle is at most a right one.

**Parts.** Few rows beyond the ends of u make a wide angle, but u and v are bounded: let x = a (u + e) and
y = c (v + f) with standardised u and v. Then |E v e| is at most sup |v| E |e|, which falls faster than the
root mean square. Beyond its ends u + e varies more than u. So the deviation of u + e is at least 1 less the
root mean square of the e between the ends. Of both intervals the shorter one is taken.

**Gaps.** A correlation is of the rows that have both numbers, a share P. Rows without a number are in the bin
of its stand-in value, whose score is c for x and d for y. Let n_i be the share of rows with x in cell i that
lack y, and m_j that of rows with y in cell j that lack x; T lack both. Tables of each number with the gaps of
the other tell all three. Sums over the rows with both, as shares of all rows, are

    sum of u v = E u v - c sum_j m_j v_j - d sum_i n_i u_i - c d T,
    sum of f(u) = E f(u) - f(c) (share without x) - sum_i n_i f_i,

where f_i is the mean over the rows of n_i. Nobody knows which rows of a cell lack y: the estimate takes the
mean of all rows with x in the cell, and a bound takes as many of these as are farthest to one side. The bound
is concave in n_i, so the noise of n moves it by no more than its slope at the told n does. In a cell that has
fewer rows than n_i has noise, any part of them may lack y. Scores are centred at their means over the rows
with both, where errors of these means are of second order. The least variance of a score is told by squares
that are cut: wide scores of few rows have most of the noise.

The correlation of u and v has normal noise, to first order: that of the released product, and that of means
and squares of u and v. A table of a number may share noise with its fine counts, so their deviations are
added. In a population, its sampling is bounded by fourth powers of the scores.

One thing is supposed: bounds of rows within cells and of angles are as if there were no more rows than are
counted where the counts by fine bins show mere noise. A few rows at the ends of wide public bounds would
change any correlation, and no noisy count excludes them. Answers say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedkme.answers.evidence import ScoredNumber, ScoredPair
from fedkme.answers.intervals import DOUBT, FAR, LEVEL, ReleasedFigure, critical
from fedkme.arrays import FloatArray

Target = Literal["rows", "population"]
SUPPOSED = "; supposes no rows in fine bins that show mere noise"
"""Note in the method of an answer by products of scores."""
_MEANS, _DOUBT, BOUND = 10, 0.0025, 2.807
"""Means that bound residuals; chance that one is wrong; deviations of its noise."""
_BOUNDS_OF_GAPS = 10
"""Most bounds by tables of gaps, each wrong with the chance DOUBT."""
_CLEAR = 4.0
"""Deviations of its noise from which the variance of a score has an error of first order."""
_CUTS = (2.0, 4.0, 9.0, 20.0, math.inf)
"""Squares of standardised scores at which a lower bound on their mean may cut them."""
_STEEPER = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0)
"""Slopes of a number by its score, in that of least squares: far rows, and their noise, want a larger one."""


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
    neither, gaps = pair.neither, [number.gaps for number in pair.numbers]
    both = 1.0 - gaps[0].estimate - gaps[1].estimate + neither.estimate
    if not both > BOUND * (gaps[0].deviation + gaps[1].deviation + neither.deviation):
        return UNTOLD
    one, two = (_Standardised(number, neither, both) for number in pair.numbers)
    if not (one.is_told and two.is_told):
        return UNTOLD
    units = math.sqrt(one.variance * two.variance)
    product = pair.product.estimate - one.mean * two.everywhere - two.mean * one.everywhere
    lacking = two.at_gap * one.lacking(one.unit) + one.at_gap * two.lacking(two.unit)
    constant = one.mean * two.mean / units - neither.estimate * one.at_gap * two.at_gap
    value = (product / units - lacking + constant) / both
    noise = pair.product.deviation / units
    noise = math.hypot(noise, one.noise_of_correlation(value, two), two.noise_of_correlation(value, one))
    by_neither = sum(
        b.at_gap * a.at_neither(a.unit) - value / 2.0 * a.at_neither(a.unit**2)
        for a, b in ((one, two), (two, one))
    )
    noise += abs(by_neither - one.at_gap * two.at_gap) * neither.deviation
    noise += sum(abs(value) / 2.0 * each.at_gap**2 * each.number.gaps.deviation for each in (one, two))
    noise, sampling = noise / both, _sampling(value, one, two) / (sampled * both) if sampled else 0.0
    doubts = _MEANS * _DOUBT + _BOUNDS_OF_GAPS * DOUBT * any(share.deviation for share in gaps)
    width = critical(0.0, LEVEL + doubts) * math.sqrt(noise**2 + sampling * together)
    off = abs(two.at_gap) * one.shift + abs(one.at_gap) * two.shift + one.shift * two.shift
    least, most = (
        math.sqrt(max(a, 0.0) * max(b, 0.0)) for a, b in zip(one.variances, two.variances, strict=True)
    )
    if not least > 0.0:
        return UNTOLD
    ends = value - width - off, value + width + off
    ends = min(ends[0] / least, ends[0] / most), max(ends[1] / least, ends[1] / most)
    low, high = min(
        (_by_angles(ends, one, two), _by_parts(ends, one, two)), key=lambda found: found[1] - found[0]
    )
    value = min(max(value, low), high)
    unseen = max((high - low) / 2.0 - width, 0.0)
    value, noise, unseen = float(value), float(noise), float(unseen)
    return QuantityEstimate(value, low, high, noise, math.sqrt(sampling), unseen, SUPPOSED, bounded=True)


def _by_angles(ends: tuple[float, float], one: _Standardised, two: _Standardised) -> tuple[float, float]:
    """Interval of the numbers' correlation from that of their scores, by angles."""
    apart = one.angle + two.angle
    return _turned(ends[0], apart), _turned(ends[1], -apart)


def _turned(cosine: float, angle: float) -> float:
    """Cosine of an angle from 0 to pi that is larger by another."""
    turned = math.acos(min(max(cosine, -1.0), 1.0)) + angle
    return math.cos(min(max(turned, 0.0), math.pi))


def _by_parts(ends: tuple[float, float], one: _Standardised, two: _Standardised) -> tuple[float, float]:
    """Interval of the numbers' correlation from that of their scores, by parts of the residuals."""
    e, f = one.residual, two.residual
    if not (e.near < 1.0 and f.near < 1.0):
        return -1.0, 1.0
    off = f.beside(one.widest) + e.beside(two.widest) + e.norm * f.norm
    least, most = (1.0 - e.near) * (1.0 - f.near), e.longest(one.widest) * f.longest(two.widest)
    low, high = ends[0] - off, ends[1] + off
    return max(min(low / least, low / most), -1.0), min(max(high / least, high / most), 1.0)


@dataclass(frozen=True, slots=True)
class _Residual:
    """Residual of a number over a multiple of its score, in the score's deviations; see the module.

    Attributes:
        near: bound on the root mean square where the score rises with the number.
        far: bound on the root mean square beyond the ends of the score.
        size: bound on the mean absolute value there.
    """

    near: float
    far: float
    size: float

    @property
    def norm(self) -> float:
        """Bound on the root mean square."""
        return self.near + self.far

    def beside(self, widest: float) -> float:
        """Bound on the covariance with a score of deviation 1 that is at most `widest` from its mean."""
        return self.near + min(self.far, widest * self.size)

    def longest(self, widest: float) -> float:
        """Bound on the deviation of the number, in that of its score."""
        return math.sqrt(1.0 + 2.0 * self.beside(widest) + self.norm**2)


class _Standardised:
    """Score of a number, with its mean and variance over the rows that have both numbers."""

    def __init__(self, number: ScoredNumber, neither: ReleasedFigure, both: float) -> None:
        self.number, self.neither, self.both = number, neither, both
        mass = np.bincount(number.cells, number.shares, len(number.lacking))
        with_it = max(float(mass.sum()), 1e-12)
        self.part = min(max((float(number.lacking.sum()) - neither.estimate) / with_it, 0.0), 1.0)
        self.few = mass < np.sqrt(np.diag(number.noise))
        self.lacks = np.where(self.few, self.part * mass, number.lacking - neither.estimate * self._at_cell)
        (self.everywhere,), _ = number.law([number.scores])
        self.mean = self.over(number.scores) / both
        self.variance = self.over((number.scores - self.mean) ** 2) / both
        self.unit = (number.scores - self.mean) / math.sqrt(max(self.variance, 1e-12))
        self.at_gap = float(self.unit[number.stand_in])

    @property
    def _at_cell(self) -> FloatArray:
        cells = self.number.cells
        return np.asarray(np.arange(len(self.number.lacking)) == cells[self.number.stand_in], float)

    def by_cell(self, values: FloatArray) -> FloatArray:
        """Mean of a function over the rows of each cell that have the number."""
        mass, count = self.number.shares + 1e-12, len(self.number.lacking)
        summed = np.bincount(self.number.cells, mass * values, count)
        return np.asarray(summed / np.maximum(np.bincount(self.number.cells, mass, count), 1e-12))

    def lacking(self, values: FloatArray) -> float:
        """Sum of a function over the rows that lack the other number alone, as the estimate has it."""
        return float(self.lacks @ self.by_cell(values))

    def at_neither(self, values: FloatArray) -> float:
        """Mean of a function in the cell of the stand-in value."""
        return float(np.where(self.few, 0.0, self._at_cell) @ self.by_cell(values))

    def over(self, values: FloatArray) -> float:
        """Sum of a function over the rows with both numbers, as a share of all rows."""
        (mean,), _ = self.number.law([values])
        return float(mean - values[self.number.stand_in] * self.number.gaps.estimate - self.lacking(values))

    def _noise(self, values: FloatArray, lacking: FloatArray) -> float:
        """Deviation of the noise in E f plus a sum over cells of rows that lack the other number."""
        _, ((fine,),) = self.number.law([values])
        return math.sqrt(float(fine)) + self._cells_noise(lacking)

    def _cells_noise(self, values: FloatArray) -> float:
        """Deviation of the noise in a sum over cells of rows that lack the other number."""
        values = np.where(self.few, 0.0, values)
        return math.sqrt(float(values @ self.number.noise @ values))

    def _noise_over(self, values: FloatArray) -> float:
        """Deviation of the noise in `over`."""
        noise = self._noise(values, -self.by_cell(values))
        noise += abs(float(values[self.number.stand_in])) * self.number.gaps.deviation
        return noise + abs(self.at_neither(values)) * self.neither.deviation

    @cached_property
    def square_noise(self) -> float:
        """Deviation of the noise in the standardised variance, as a share of all rows."""
        return self._noise_over(self.unit**2)

    @property
    def is_told(self) -> bool:
        """Check that the score can be standardised; whether its variance is told from 0 is in `variances`."""
        return self.variance > 1e-9

    def noise_of_correlation(self, value: float, other: _Standardised) -> float:
        """Deviation of the noise that this number's counts have in the sum of products."""
        mean, square = other.mean / math.sqrt(other.variance), value / 2.0 * self.unit**2
        lacking = self.by_cell(square - other.at_gap * self.unit)
        return self._noise(-mean * self.unit - square, lacking)

    def beyond(self, values: FloatArray) -> float:
        """Bound on what rows that lack the other number add to the sum of a function, over `lacking`."""
        number, cells, count = self.number, self.number.cells, len(self.lacks)
        if not number.lacking.any():
            return 0.0
        order = np.lexsort((-values, cells))
        of, mass, f = cells[order], self.number.shares[order], values[order]
        whole = np.bincount(of, mass, count)
        before = np.cumsum(mass) - mass - (np.cumsum(whole) - whole)[of]
        lacks, means = np.where(self.few, 0.0, np.clip(self.lacks, 0.0, whole)), self.by_cell(values)
        slopes = np.full(count, math.inf)
        next_row = (mass > 0.0) & (before <= lacks[of])
        np.minimum.at(slopes, of[next_row], f[next_row])
        slopes = np.where(np.isfinite(slopes), slopes, means) - means
        most = float(np.clip(lacks[of] - before, 0.0, mass) @ f) - float(lacks @ means)
        most += float(np.where(self.few, 0.0, slopes) @ (self.lacks - lacks))
        away, part = values - means[cells], lacks / np.maximum(whole, 1e-12)
        few = self.few[cells]
        most += float(
            np.where(few, number.shares, 0.0) @ np.maximum((1.0 - self.part) * values, -self.part * values)
        )
        of_counts = number.deviation(
            np.where(few, 0.0, np.maximum(away - slopes[cells], 0.0) - part[cells] * away)
        )
        return max(most + FAR * (of_counts + self._cells_noise(slopes)), 0.0)

    @cached_property
    def shift(self) -> float:
        """Bound on the mean standardised score, by rows that lack the other number."""
        return max(self.beyond(self.unit), self.beyond(-self.unit)) / self.both

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Least and most standardised variance, whose noise is counted apart where it is of first order."""
        square = self.unit**2
        most = 1.0 + self.beyond(-square) / self.both
        if self.both > _CLEAR * self.square_noise:
            return 1.0 - self.beyond(square) / self.both - self.shift**2, most
        return self.least, most + BOUND * self.square_noise / self.both

    @cached_property
    def least(self) -> float:
        """Least standardised variance, if that of the estimate is 1."""

        def lower(most: float) -> tuple[FloatArray, float]:
            values = np.minimum(self.unit**2, most)
            return values, self.beyond(values) + BOUND * self._noise_over(values)

        def expected(most: float) -> float:
            values, off = lower(most)
            return float(self.number.shares @ values) - float(self.lacks @ self.by_cell(values)) - off

        values, off = lower(max(_CUTS, key=expected))
        return (self.over(values) - off) / self.both - self.shift**2

    @property
    def fourth(self) -> float:
        """Mean of the fourth power of the standardised score, at most."""
        return float(self.number.shares @ self.unit**4) / self.both

    @property
    def angle(self) -> float:
        """Bound on the angle of the number and its score."""
        number, shares = self.number, self.number.shares / max(float(self.number.shares.sum()), 1e-12)
        value, score = number.values - shares @ number.values, self.unit - shares @ self.unit
        slope = float(shares @ value**2) / max(float(shares @ (value * score)), 1e-12)

        def rest(steeper: float) -> FloatArray:
            """Square of the longest residual of each bin over that of the slope."""
            return np.asarray(
                (np.abs(value / (steeper * slope) - score) + number.within / (steeper * slope)) ** 2
            )

        def expected(steeper: float) -> float:
            squares = rest(steeper)
            return float(number.shares @ squares) + BOUND * number.deviation(squares)

        missed = self._at_most(rest(min(_STEEPER, key=expected)))
        whole = self.least * self.both
        return math.asin(min(math.sqrt(missed / whole), 1.0)) if whole > 0.0 else math.pi / 2.0

    @cached_property
    def widest(self) -> float:
        """Bound on the distance of the score from its mean, in its deviations."""
        return (float(np.abs(self.unit).max()) + self.shift) / math.sqrt(max(self.least, 1e-12))

    @cached_property
    def residual(self) -> _Residual:
        """Bounds on the residual of the number over its score."""
        number, unit = self.number, self.unit
        low, high = number.scores <= -1.0, number.scores >= 1.0
        rises = ~(low | high | (np.arange(len(unit)) == number.stand_in))
        if self.least <= 0.0 or len(np.unique(unit[rises])) < 2:
            return _Residual(math.inf, math.inf, math.inf)
        slope, start = np.polyfit(unit[rises], number.values[rises], 1)
        if not slope > 0.0:
            return _Residual(math.inf, math.inf, math.inf)
        away = (number.values - start) / slope - unit
        outside = (low & (away < 0.0)) | (high & (away > 0.0))
        beyond = np.where(outside, np.abs(away), 0.0)
        near = number.within / slope + np.where(outside, 0.0, np.abs(away))
        whole = self.least * self.both
        close, far = (math.sqrt(self._at_most(each**2) / whole) for each in (near, beyond))
        return _Residual(close, far, self._at_most(beyond) / (math.sqrt(self.least) * self.both))

    def _at_most(self, values: FloatArray) -> float:
        """Bound on the sum of a function that is nowhere below 0, over the rows that have both numbers."""
        by_cell = self.by_cell(values)
        lacking = float(self.lacks @ by_cell) - self.beyond(-values) - FAR * self._cells_noise(by_cell)
        missed = float(self.number.shares @ values) + BOUND * self.number.deviation(values)
        return max(missed - max(lacking, 0.0), 0.0)


def _sampling(value: float, one: _Standardised, two: _Standardised) -> float:
    """Bound on N times the variance of sampling of a correlation r: the mean square of e of one row.

    e = u v - r (u^2 + v^2) / 2 for standardised u and v. By Cauchy and Schwarz its norm is at most that of
    u v and of the other part. For r > 0 it is (1 - r) u v - r (u - v)^2 / 2, too, where the mean of (u - v)^2
    is 2 (1 - r); for r < 0 take -v.
    """
    far, product = min(abs(value), 1.0), (one.fourth * two.fourth) ** 0.25
    most = product + far * (math.sqrt(one.fourth) + math.sqrt(two.fourth)) / 2.0
    widest = sum(float(np.abs(each.unit[each.number.shares > 0.0]).max()) for each in (one, two))
    close = (1.0 - far) * product + far / 2.0 * widest * math.sqrt(2.0 * (1.0 - far))
    return float(min(most, close) ** 2)
