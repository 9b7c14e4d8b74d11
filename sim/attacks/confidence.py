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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]

_CANDIDATES = 200  # thresholds that are tried on the first half
_MISS = 0.05  # of each of two counts: together the power is 0.9
_LARGEST_FACTOR = 1e3


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound of epsilon, and the event that it rests on.

    Attributes:
        epsilon: holds with probability 1 - alpha; >= 0.
        rate: how often the event happened where it is likelier.
        trials: of each world, in the half that counts.
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
    """Choose the event on one half, bound epsilon on the other.

    Args:
        first: scores in the world D, (n,).
        second: scores in its neighbour, (n,).
        delta: of the claim.
        alpha: chance that the bound is too large.
        gaussian: the mechanism adds Gaussian noise to a score that is linear in it.
    """
    half = len(first) // 2
    chosen = np.concatenate([first[:half], second[:half]])
    thresholds = np.unique(np.quantile(chosen, np.linspace(0.0, 1.0, _CANDIDATES), method="nearest"))
    bound = _mu if gaussian else _epsilon
    there, here = _events(first[:half], second[:half], thresholds)
    best = int(np.argmax(bound(there, here, half, delta, alpha)))
    trials = len(first) - half
    there, here = (counts[best : best + 1] for counts in _events(first[half:], second[half:], thresholds))
    found = float(bound(there, here, trials, delta, alpha)[0])
    if gaussian and found > 0:
        found = gaussian_epsilon(1.0 / found, delta)
    return LowerBound(max(0.0, found), int(there[0]) / trials, trials)


def fixed_bound(
    first: Scores, second: Scores, threshold: float, delta: float, alpha: float, gaussian: bool = False
) -> LowerBound:
    """Bound epsilon by the event "score >= threshold", which was fixed before anything was sampled.

    Arguments as of `split_bound`; all scores count.
    """
    bound, trials = (_mu if gaussian else _epsilon), len(first)
    there, here = (np.array([np.count_nonzero(scores >= threshold)]) for scores in (second, first))
    found = float(bound(there, here, trials, delta, alpha)[0])
    if gaussian and found > 0:
        found = gaussian_epsilon(1.0 / found, delta)
    return LowerBound(max(0.0, found), int(there[0]) / trials, trials)


def smallest_factor(epsilon: float, delta: float, bound: LowerBound, alpha: float) -> float:
    """The least f such that a true epsilon of f times the claimed one would be found with probability 0.9.

    For an event as likely as the one found, of probability (rate - delta) e^(-f epsilon) in the other world.
    """
    there = _low_count(bound.rate, bound.trials)

    def found(factor: float) -> bool:
        rate = max(bound.rate - delta, 0.0) * math.exp(-factor * epsilon)
        here = _high_count(rate, bound.trials)
        return bool(_epsilon(there, here, bound.trials, delta, alpha)[0] > epsilon)

    return _least(found)


def smallest_gaussian_factor(epsilon: float, delta: float, trials: int, alpha: float) -> float:
    """Least factor by which a Gaussian's noise is too small and would be found so, likewise."""
    mu = 1.0 / gaussian_sigma(epsilon, delta)

    def found(factor: float) -> bool:
        rate = float(stats.norm.cdf(0.5 * mu * factor))  # at the threshold in the middle
        there, here = _low_count(rate, trials), _high_count(1.0 - rate, trials)
        return bool(_mu(there, here, trials, delta, alpha)[0] > mu)

    return _least(found)


def _events(first: Scores, second: Scores, thresholds: Scores) -> tuple[Counts, Counts]:
    """Count how often each event happened where it is expected, and in the other world, (4k,) each.

    Events are "score >= t" and "score < t", each expected in the second world and in the first.
    """
    size = len(first)
    above = [size - np.searchsorted(np.sort(scores), thresholds, side="left") for scores in (first, second)]
    below = [size - counts for counts in above]
    there = np.concatenate([above[1], below[1], above[0], below[0]])
    here = np.concatenate([above[0], below[0], above[1], below[1]])
    return there, here


def _epsilon(there: Counts, here: Counts, trials: int, delta: float, alpha: float) -> Scores:
    low = clopper_pearson(there, trials, alpha / 2.0)[0] - delta
    high = clopper_pearson(here, trials, alpha / 2.0)[1]
    return np.log(np.maximum(low, 1e-300)) - np.log(high)


def _mu(there: Counts, here: Counts, trials: int, delta: float, alpha: float) -> Scores:
    low = clopper_pearson(there, trials, alpha / 2.0)[0]
    high = clopper_pearson(here, trials, alpha / 2.0)[1]
    return np.asarray(stats.norm.ppf(np.maximum(low, 1e-300)) - stats.norm.ppf(np.minimum(high, 1 - 1e-16)))


def _low_count(rate: float, trials: int) -> Counts:
    return np.array([stats.binom.ppf(_MISS, trials, rate)], dtype=np.int64)


def _high_count(rate: float, trials: int) -> Counts:
    return np.array([stats.binom.ppf(1.0 - _MISS, trials, rate)], dtype=np.int64)


def _least(found: Callable[[float], bool]) -> float:
    """Bisect for the least factor that is found; inf beyond 1000."""
    low, high = 1.0, _LARGEST_FACTOR
    if not found(high):
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return high
