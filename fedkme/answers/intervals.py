"""Intervals of figures that were released with noise of a known law, and whose bias has bounds.

A figure that was computed from a release is not a bound, because of the noise in the figure. Therefore a
figure is a `ReleasedFigure`, which has no arithmetic and no order. `most` and `least` turn the figure into a
`DoubtfulBound`, which carries the chance that the bound is wrong. `Between.ends` widens the interval so that
it holds with 95 % although each of its bounds may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist
from weakref import WeakKeyDictionary

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.releases.fine import FineShares

LEVEL = 0.95
DOUBT = 0.0005
"""Chance that a bound from a released figure is wrong."""
SURE = 1.0 - 3.0 * DOUBT
"""Level of an interval on which another interval rests: it may include two doubtful bounds, too."""
_STRIDE = 8
"""Stride of the search for the first place at which a noisy condition holds."""
UNSURE = 0.5
"""Deviations of the noise of all fine shares by which their sum is raised: an empty cell may have rows."""
_STEPS, _DEVIATIONS, _MOST_SLACKS = 50, 2.0, 64
"""Steps of the search for the best bound by fine bins; deviations of noise in it; bounds that are kept."""
NOTHING = 1e-9
"""Relative size of rounding error."""
FAR = NormalDist().inv_cdf(1.0 - DOUBT)


@dataclass(frozen=True, slots=True)
class DoubtfulBound:
    """A bound on a true value, which fails with a known chance.

    Attributes:
        value: the bound.
        doubt: chance that the true value lies beyond the bound.
    """

    value: float
    doubt: float = 0.0


@dataclass(frozen=True, slots=True)
class ReleasedFigure:
    """A figure that is linear in the released numbers: the true value of the rows plus normal noise.

    Attributes:
        estimate: the figure, an unbiased estimate of the true value.
        deviation: standard deviation of the noise; 0: the figure is public.
    """

    estimate: float
    deviation: float = 0.0

    def most(self) -> DoubtfulBound:
        """Upper bound on the true value."""
        return DoubtfulBound(self.estimate + FAR * self.deviation, DOUBT if self.deviation else 0.0)

    def least(self) -> DoubtfulBound:
        """Lower bound on the true value."""
        return DoubtfulBound(self.estimate - FAR * self.deviation, DOUBT if self.deviation else 0.0)

    def unless_rounding(self, reach: float) -> ReleasedFigure:
        """Figure without its noise where the noise is rounding error of values up to `reach`."""
        return ReleasedFigure(self.estimate) if self.deviation <= NOTHING * reach else self


@dataclass(frozen=True, slots=True)
class Between:
    """A value between two others, of which a release has figures (Imbens and Manski 2004).

    Attributes:
        middle: the value if rows lie in their cells as is assumed.
        least: the smallest value that the rows allow.
        most: the largest value that the rows allow.
        gap: `most` less `least`.
        inner: a value between bounds that are not those of the middle; None: the middle.
        hidden: whether the release hides where in their cells rows lie; else bounds differ by choice.
    """

    middle: ReleasedFigure
    least: ReleasedFigure
    most: ReleasedFigure
    gap: ReleasedFigure
    inner: ReleasedFigure | None = None
    hidden: bool = field(default=True, kw_only=True)

    @property
    def centre(self) -> ReleasedFigure:
        """Value between the bounds."""
        return self.inner or self.middle

    @property
    def unseen(self) -> float:
        """Larger distance of `least` and `most` from the middle, by the figures; 0: nothing is hidden."""
        if not self.hidden:
            return 0.0
        middle = self.middle.estimate
        return max(self.most.estimate - middle, middle - self.least.estimate, 0.0)

    def ends(self, sampling: DoubtfulBound, level: float = LEVEL) -> tuple[float, float]:
        """Interval of the value among the rows, or in the population that they are drawn from.

        Let L and U be the least and the most value, L^ and U^ their figures, s the larger deviation. The
        interval [L^ - c s, U^ + c s] holds a value between L and U with a chance that is least at L and at U;
        there it is P(Z > -c) - P(Z > c + (U - L)/s). So c follows from a lower bound on U - L. That bound and
        `sampling` may be wrong; their doubts are added to the level. Where the middle lies outside of the
        figures of L and U, it takes their place.

        Args:
            sampling: bound on the variance of sampling; 0 for the rows themselves.
            level: chance with which the interval holds.
        """
        below, above = (math.sqrt(each.deviation**2 + sampling.value) for each in (self.least, self.most))
        wide, middle = max(below, above), self.centre.estimate
        gap = self.gap.least()
        ratio = max(gap.value, 0.0) / (2.0 * wide) if wide else 0.0
        factor = critical(ratio, level + sampling.doubt + gap.doubt) - ratio
        low, high = min(self.least.estimate, middle), max(self.most.estimate, middle)
        return low - factor * below, high + factor * above


def with_best_ends(whole: Between, fine: FineShares, least: FloatArray, most: FloatArray) -> Between:
    """Take the best bounds of a function of a fine cell, given the least and the most value in each cell.

    Where nothing is hidden, a share keeps its bounds: the best ones are no shorter (lab/tried/releases.md).
    """
    if not whole.hidden and np.isin(least, (least.min(), least.max())).all():
        return whole
    if fine not in _BOUNDS:
        _BOUNDS[fine] = _CellBounds(fine)
    low, high = -_BOUNDS[fine].above(-least), _BOUNDS[fine].above(most)
    means, covariance = fine.law([low, high, high - low, (low + high) / 2.0])
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist()
    figures = [ReleasedFigure(*each) for each in zip(means.tolist(), deviations, strict=True)]
    return replace(whole, least=figures[0], most=figures[1], gap=figures[2], inner=figures[3])


class _CellBounds:
    """Upper bounds of functions of the fine cells of one number.

    No share is below 0, so any function above another has a mean at least as large, and may have less noise
    where hardly a row is. Of all functions above, the best has the least mean plus two deviations of noise.
    The mean is by the denoised shares, each raised by UNSURE of the noise of all over their number: no cell
    is certainly empty. Projected gradients find the best: for these shares p, their covariance V and slack s,
    the gradient of s p + 2 sqrt((h + s) V (h + s)) is p + 2 V (h + s) / sqrt((h + s) V (h + s)).
    V is D, the noise of the counts, which is above V and divides each step, and a part of low rank: what fine
    cells share are sums over coarse cells and the told score, the rows of B, so V = D + D B' A B D.
    """

    def __init__(self, fine: FineShares) -> None:
        basis = (fine.within == np.unique(fine.within)[:, None]).astype(np.float64)
        basis = basis if fine.told is None else np.vstack([basis, fine.told.scores])
        self._counts = np.ones(len(fine.fine)) if fine.parts is None else fine.parts.astype(np.float64)
        self._variance = max(fine.sigma**2, 1e-300)  # of one count; D and V are divided by it
        self._basis = basis * self._counts
        own, whole = self._basis @ basis.T, fine.law([*basis])[1] / self._variance
        inverse = np.linalg.pinv(own, hermitian=True)
        self._shared = inverse @ (whole - own) @ inverse @ self._basis
        self._shares = fine.denoised + UNSURE * fine.sigma / math.sqrt(len(fine.fine))
        self._slacks = dict[bytes, FloatArray]()

    def above(self, values: FloatArray) -> FloatArray:
        """Best function that is nowhere below another; found once for all that differ by constants."""
        start, reach = float(values.min()), float(np.ptp(values))
        if not reach > 0.0:
            return values
        unit = (values - start) / reach
        key = np.round(unit, 9).tobytes()
        if key not in self._slacks:
            if len(self._slacks) >= _MOST_SLACKS:
                self._slacks.clear()
            self._slacks[key] = self._slack(unit)
        return np.asarray(values + reach * self._slacks[key])

    def _slack(self, unit: FloatArray) -> FloatArray:
        slack, scale = np.zeros_like(unit), 1.0 / (_DEVIATIONS * math.sqrt(self._variance))
        for _ in range(_STEPS):
            above = unit + slack
            towards = self._counts * above + (self._shared @ above) @ self._basis
            deviation = math.sqrt(max(float(above @ towards), 0.0))
            step = scale * deviation * self._shares + towards
            slack = np.maximum(slack - step / self._counts, 0.0)
        return slack


_BOUNDS: WeakKeyDictionary[FineShares, _CellBounds] = WeakKeyDictionary()


def critical(ratio: float, level: float = LEVEL) -> float:
    """Quantile of |N(ratio, 1)|; ratio >= 0 is bias over deviation (Armstrong and Kolesar 2018, section 2).

    `estimate -+ critical(b / s) s` covers with 95 % or more where the bias is at most b. 1.96 at 0.
    """
    return _solved(round(min(ratio, 8.0), 6), round(level, 9)) + max(ratio - 8.0, 0.0)


@lru_cache(maxsize=4096)
def _solved(ratio: float, level: float) -> float:
    low, high = ratio, 8.0 + ratio
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, ratio) < level else (low, middle)
    return high


def _within(c: float, ratio: float) -> float:
    """Chance that |N(ratio, 1)| <= c."""
    root = math.sqrt(2.0)
    return 0.5 * (math.erf((c - ratio) / root) + math.erf((c + ratio) / root))


def possible(value: float, low: float, high: float, limits: tuple[float, float]) -> tuple[float, ...]:
    """Cut an estimate and its interval to possible values; neither end comes nearer to the estimate.

    A cut alone would make a point of the interval of an estimate far outside the limits. Therefore, where the
    estimate moves to a limit, the end on the other side moves with the estimate (Mandelkern and Schultz
    2000). The result includes the whole cut interval, so it covers no less; it keeps its length on that side.
    """
    least, most = limits
    estimate = min(max(value, least), most)
    move = estimate - value
    ends = (min(low, low + move), max(high, high + move))
    return estimate, *(min(max(end, least), most) for end in ends)


def first_by_halves(last: int, holds: Callable[[int], bool]) -> int:
    """First place from 0 to `last` at which a condition holds that holds at every later place, too."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def first_by_strides(last: int, holds: Callable[[int], bool]) -> int:
    """First place from 0 to `last` at which a condition holds, at strides; `last + 1` where it never holds.

    Noise makes the condition hold and fail by turns, where `first_by_halves` may return any such place.
    """
    for stride in range(0, last + 1, _STRIDE):
        if holds(stride):
            return next(place for place in range(max(stride - _STRIDE + 1, 0), stride + 1) if holds(place))
    return next((place for place in range(last - last % _STRIDE, last + 1) if holds(place)), last + 1)
