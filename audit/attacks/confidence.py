"""Lower bounds of epsilon from scores of two neighbouring worlds.

Both worlds are sampled, and each output gets a score. The first half of both samples chooses an event
"score >= t" or "score < t", and the world in which the event is expected. On the second half, one-sided
Clopper-Pearson bounds of the event's two probabilities, each at alpha/2, give

    epsilon >= log((P[event in the expected world] - delta) / P[event in the other world])

with probability 1 - alpha, for any mechanism. For a Gaussian mechanism the same two probabilities bound
mu = Phi^-1(P[expected]) - Phi^-1(P[other]), and gaussian_epsilon(1/mu, delta) is a tighter bound (Dong, Roth,
Su 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]

_CANDIDATES = 200  # thresholds to try on the first half
_MISS = 0.05  # probability of missing each of two counts: together the power is 0.9
_LARGEST_FACTOR = 1e3


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound of epsilon, and the event behind it.

    Attributes:
        epsilon: holds with probability 1 - alpha; >= 0.
        rate: frequency of the event in the world in which it is expected.
        trials: number of trials in each world, in the second half.
    """

    epsilon: float
    rate: float
    trials: int


def clopper_pearson(hits: Counts, trials: int, alpha: float) -> tuple[Scores, Scores]:
    """Lower and upper bounds of probabilities, (k,) each; each fails with probability at most alpha."""
    low = np.where(hits > 0, stats.beta.ppf(alpha, np.maximum(hits, 1), trials - hits + 1), 0.0)
    high = np.where(hits < trials, stats.beta.isf(alpha, hits + 1, np.maximum(trials - hits, 1)), 1.0)
    return low, high


def split_bound(
    first: Scores, second: Scores, delta: float, alpha: float, gaussian: bool = False
) -> LowerBound:
    """Choose the event on the first half of the scores, bound epsilon on the second half.

    Args:
        first: scores in the world D, (n,).
        second: scores in the neighbour of D, (n,).
        delta: delta of the claim.
        alpha: chance that the bound is too large.
        gaussian: the mechanism adds Gaussian noise to a score that is linear in it.
    """
    half = len(first) // 2
    chosen = np.concatenate([first[:half], second[:half]])
    thresholds = np.unique(np.quantile(chosen, np.linspace(0.0, 1.0, _CANDIDATES), method="nearest"))
    bound = _mu if gaussian else _epsilon
    expected, other = _events(first[:half], second[:half], thresholds)
    best = int(np.argmax(bound(expected, other, half, delta, alpha)))
    expected, other = (counts[best : best + 1] for counts in _events(first[half:], second[half:], thresholds))
    return _of_event(expected, other, len(first) - half, delta, alpha, gaussian)


def fixed_bound(
    first: Scores, second: Scores, threshold: float, delta: float, alpha: float, gaussian: bool = False
) -> LowerBound:
    """Bound epsilon by the event "score >= threshold", which is fixed before any sample is drawn.

    Takes the arguments of `split_bound`; all scores count.
    """
    expected, other = (np.array([np.count_nonzero(scores >= threshold)]) for scores in (second, first))
    return _of_event(expected, other, len(first), delta, alpha, gaussian)


def _of_event(
    expected: Counts, other: Counts, trials: int, delta: float, alpha: float, gaussian: bool
) -> LowerBound:
    """Bound epsilon by one event, counted in the world in which it is expected and in the other, (1,)."""
    epsilon = float((_mu if gaussian else _epsilon)(expected, other, trials, delta, alpha)[0])
    if gaussian and epsilon > 0:
        epsilon = gaussian_epsilon(1.0 / epsilon, delta)
    return LowerBound(max(0.0, epsilon), int(expected[0]) / trials, trials)


def smallest_factor(epsilon: float, delta: float, bound: LowerBound, alpha: float) -> float:
    """Least f such that a true epsilon of f times the claim would be found with probability 0.9.

    Assumes an event as likely as the bound's, with probability (rate - delta) e^(-f epsilon) in the other
    world.
    """
    expected = _low_count(bound.rate, bound.trials)

    def detected(factor: float) -> bool:
        rate = max(bound.rate - delta, 0.0) * math.exp(-factor * epsilon)
        other = _high_count(rate, bound.trials)
        return bool(_epsilon(expected, other, bound.trials, delta, alpha)[0] > epsilon)

    return _least(detected)


def smallest_gaussian_factor(epsilon: float, delta: float, trials: int, alpha: float) -> float:
    """Least factor by which a Gaussian's noise is too small such that this is found with probability 0.9."""
    mu = 1.0 / gaussian_sigma(epsilon, delta)

    def detected(factor: float) -> bool:
        rate = float(stats.norm.cdf(0.5 * mu * factor))  # at the threshold in the middle
        expected, other = _low_count(rate, trials), _high_count(1.0 - rate, trials)
        return bool(_mu(expected, other, trials, delta, alpha)[0] > mu)

    return _least(detected)


def _events(first: Scores, second: Scores, thresholds: Scores) -> tuple[Counts, Counts]:
    """Count each event in the world in which it is expected, and in the other world, (4k,) each.

    Events are "score >= t" and "score < t", each expected in the second world and in the first.
    """
    size = len(first)
    above = [size - np.searchsorted(np.sort(scores), thresholds, side="left") for scores in (first, second)]
    below = [size - counts for counts in above]
    expected = np.concatenate([above[1], below[1], above[0], below[0]])
    other = np.concatenate([above[0], below[0], above[1], below[1]])
    return expected, other


def _epsilon(expected: Counts, other: Counts, trials: int, delta: float, alpha: float) -> Scores:
    low = clopper_pearson(expected, trials, alpha / 2.0)[0] - delta
    high = clopper_pearson(other, trials, alpha / 2.0)[1]
    return np.log(np.maximum(low, 1e-300)) - np.log(high)


def _mu(expected: Counts, other: Counts, trials: int, delta: float, alpha: float) -> Scores:
    low = clopper_pearson(expected, trials, alpha / 2.0)[0]
    high = clopper_pearson(other, trials, alpha / 2.0)[1]
    return np.asarray(stats.norm.ppf(np.maximum(low, 1e-300)) - stats.norm.ppf(np.minimum(high, 1 - 1e-16)))


def _low_count(rate: float, trials: int) -> Counts:
    return np.array([stats.binom.ppf(_MISS, trials, rate)], dtype=np.int64)


def _high_count(rate: float, trials: int) -> Counts:
    return np.array([stats.binom.ppf(1.0 - _MISS, trials, rate)], dtype=np.int64)


def _least(detected: Callable[[float], bool]) -> float:
    """Bisect for the least factor that is detected; inf beyond 1000."""
    low, high = 1.0, _LARGEST_FACTOR
    if not detected(high):
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if detected(middle) else (middle, high)
    return high
