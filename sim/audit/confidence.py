"""Lower bounds of epsilon from how often two worlds can be told apart.

Two worlds are sampled, a score is computed from each output. On the first half of both samples an event
"score >= t" or "score < t", and a direction, are chosen; on the second half one-sided Clopper-Pearson bounds
of the two probabilities, each at alpha/2, give

    epsilon >= log((P[event there] - delta) / P[event here])

with probability 1 - alpha, whatever the mechanism is. For a mechanism that is Gaussian the same two
probabilities bound mu = Phi^-1(there) - Phi^-1(here), and gaussian_epsilon(1/mu, delta) is a tighter bound
(Dong, Roth, Su 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedkme.privacy.gaussian import gaussian_epsilon

Scores = NDArray[np.float64]

_CANDIDATES = 200  # thresholds that are tried on the first half
_MISS = 0.05  # of each of two counts: together the power is 0.9


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Lower and upper bound of a probability; each fails with probability at most alpha."""
    low = float(stats.beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs, and in which world it is expected.

    Attributes:
        threshold: of the score.
        above: scores >= threshold, else those below.
        swapped: the event is the likelier one in the first world.
    """

    threshold: float
    above: bool
    swapped: bool

    def hits(self, first: Scores, second: Scores) -> tuple[int, int]:
        """How often it happened where it is expected, and in the other world."""
        there, here = (first, second) if self.swapped else (second, first)
        counts = [int((scores >= self.threshold).sum()) for scores in (there, here)]
        return (
            (counts[0], counts[1])
            if self.above
            else (len(there) - counts[0], len(here) - counts[1])
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of epsilon, and what it rests on."""

    epsilon: float
    gdp_epsilon: float
    there: int
    here: int
    trials: int


def split_bound(first: Scores, second: Scores, delta: float, alpha: float) -> Bound:
    """Choose the event on one half, bound epsilon on the other.

    Args:
        first: scores in the world D, (n,).
        second: scores in its neighbour, (n,).
        delta: of the claim.
        alpha: chance that the bound is too large.
    """
    half = len(first) // 2
    chosen = max(
        _events(np.concatenate([first[:half], second[:half]])),
        key=lambda event: _epsilon(*event.hits(first[:half], second[:half]), half, delta, alpha),
    )
    there, here = chosen.hits(first[half:], second[half:])
    trials = len(first) - half
    gaussian = max(
        _events(np.concatenate([first[:half], second[:half]])),
        key=lambda event: _mu(*event.hits(first[:half], second[:half]), half, alpha),
    )
    mu = _mu(*gaussian.hits(first[half:], second[half:]), trials, alpha)
    gdp = gaussian_epsilon(1.0 / mu, delta) if mu > 0 and delta > 0 else 0.0
    return Bound(max(0.0, _epsilon(there, here, trials, delta, alpha)), gdp, there, here, trials)


def smallest_factor(epsilon: float, delta: float, rate: float, trials: int, alpha: float) -> float:
    """The least f such that a true epsilon of f times the claimed one would be found with probability 0.9.

    For an event of probability `rate` in the likelier world and (rate - delta) e^(-f epsilon) in the other.
    """
    there = int(stats.binom.ppf(_MISS, trials, rate))

    def found(factor: float) -> bool:
        other = max(rate - delta, 0.0) * math.exp(-factor * epsilon)
        here = int(stats.binom.ppf(1.0 - _MISS, trials, other))
        return _epsilon(there, here, trials, delta, alpha) > epsilon

    return _least(found)


def smallest_gdp_factor(epsilon: float, delta: float, trials: int, alpha: float) -> float:
    """Likewise for the Gaussian bound, for the factor by which the noise is too small."""
    mu = 2.0 / _sigma_of(epsilon, delta)

    def found(factor: float) -> bool:
        rate = float(stats.norm.cdf(0.25 * mu * factor))  # the threshold in the middle
        there = int(stats.binom.ppf(_MISS, trials, rate))
        here = int(stats.binom.ppf(1.0 - _MISS, trials, 1.0 - rate))
        bound = _mu(there, here, trials, alpha)
        return bound > 0 and gaussian_epsilon(1.0 / bound, delta) > epsilon

    return _least(found)


def _sigma_of(epsilon: float, delta: float) -> float:
    low, high = 1e-3, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gaussian_epsilon(middle, delta) <= epsilon else (middle, high)
    return 2.0 * high


def _least(found: object) -> float:
    raise NotImplementedError


def _events(scores: Scores) -> Iterator[Event]:
    values = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, _CANDIDATES), method="nearest"))
    for threshold in values:
        for above in (True, False):
            for swapped in (True, False):
                yield Event(float(threshold), above, swapped)


def _epsilon(there: int, here: int, trials: int, delta: float, alpha: float) -> float:
    low = clopper_pearson(there, trials, alpha / 2.0)[0] - delta
    high = clopper_pearson(here, trials, alpha / 2.0)[1]
    return math.log(low / high) if low > 0 else -math.inf


def _mu(there: int, here: int, trials: int, alpha: float) -> float:
    low = clopper_pearson(there, trials, alpha / 2.0)[0]
    high = clopper_pearson(here, trials, alpha / 2.0)[1]
    return float(stats.norm.ppf(low) - stats.norm.ppf(high)) if 0 < low and high < 1 else -math.inf
