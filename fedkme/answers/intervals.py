"""Intervals of figures that were released with noise of a known law, and whose bias has bounds.

A figure that was computed of a release is no bound: it is off by its noise, whatever it is a figure of. So it
is a `ReleasedFigure`, which has no arithmetic and no order; `most` and `least` make a `DoubtfulBound` of it,
which says how likely it is wrong; and `ends` makes the interval hold with 95 % after all such chances are
taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

LEVEL = 0.95
DOUBT = 0.0005
"""Chance that a bound which is made of a released figure is wrong."""
SURE = 1.0 - 3.0 * DOUBT
"""Level of an interval that another one rests on, which may have two doubts of its own."""
_FAR = NormalDist().inv_cdf(1.0 - DOUBT)


@dataclass(frozen=True, slots=True)
class DoubtfulBound:
    """A number that a value does not pass, but for a chance.

    Attributes:
        value: the number.
        doubt: chance that the value passes it.
    """

    value: float
    doubt: float = 0.0


@dataclass(frozen=True, slots=True)
class ReleasedFigure:
    """A figure that is linear in what was released: what the rows have, and normal noise.

    Attributes:
        estimate: without bias.
        deviation: of its noise; 0: the figure is public.
    """

    estimate: float
    deviation: float = 0.0

    def most(self) -> DoubtfulBound:
        """Upper bound on what the rows have."""
        return DoubtfulBound(self.estimate + _FAR * self.deviation, DOUBT if self.deviation else 0.0)

    def least(self) -> DoubtfulBound:
        """Lower bound on what the rows have."""
        return DoubtfulBound(self.estimate - _FAR * self.deviation, DOUBT if self.deviation else 0.0)


@dataclass(frozen=True, slots=True)
class Between:
    """A value that lies between two others of which a release has figures (Imbens and Manski 2004).

    Attributes:
        middle: a value between, where rows lie in their cells as is supposed.
        least: the value below.
        most: the value above.
        gap: from the one to the other.
    """

    middle: ReleasedFigure
    least: ReleasedFigure
    most: ReleasedFigure
    gap: ReleasedFigure

    @property
    def unseen(self) -> float:
        """Farther of both from the middle, by their figures."""
        middle = self.middle.estimate
        return max(self.most.estimate - middle, middle - self.least.estimate, 0.0)

    def ends(self, more: DoubtfulBound, level: float = LEVEL) -> tuple[float, float]:
        """Interval of the value, or of that of a population.

        With L and U the values below and above, L^ and U^ their figures and s the larger deviation, a value
        between is in [L^ - c s, U^ + c s] with a chance that is least at L and at U, where it is P(Z > -c) -
        P(Z > c + (U - L)/s). The level is taken for the least gap that U - L may have, which is a bound with
        a doubt of its own; so is `more`. Where the figures are in the wrong order, the middle stands in.

        Args:
            more: variance of sampling.
            level: chance that the interval holds.
        """
        below, above = (math.sqrt(each.deviation**2 + more.value) for each in (self.least, self.most))
        wide, middle = max(below, above), self.middle.estimate
        gap = self.gap.least()
        ratio = max(gap.value, 0.0) / (2.0 * wide) if wide else 0.0
        factor = critical(ratio, level + more.doubt + gap.doubt) - ratio
        low, high = min(self.least.estimate, middle), max(self.most.estimate, middle)
        return low - factor * below, high + factor * above


def critical(ratio: float, level: float = LEVEL) -> float:
    """Point of |N(t, 1)| at a level, t >= 0 being bias over deviation (Armstrong and Kolesar 2018, 2).

    `estimate -+ critical(b / s) s` covers with 95 % at least where the bias is at most b. 1.96 at 0.
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
    """Cut an estimate and its interval to what can be, so that neither end comes nearer to the estimate.

    Cut alone, the interval of an estimate far outside would be a point. Where the estimate is moved to a
    limit, the end on the other side moves with it (Mandelkern and Schultz 2000): all that the cut interval
    has is kept, so it covers no less, and is as long on that side as it was.
    """
    least, most = limits
    held = min(max(value, least), most)
    move = held - value
    ends = (min(low, low + move), max(high, high + move))
    return held, *(min(max(each, least), most) for each in ends)
