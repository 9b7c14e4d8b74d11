"""Sources of noise: seeded streams for simulations, the operating system for real data.

The two sources are two types, so that a deployment can refuse a seeded source by its type. A seed makes a run
repeatable, but a party that knows the seed can subtract the noise.
"""

import functools
import hashlib
import math
import os
from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.privacy.samplers import discrete_gaussian, discrete_laplace

_LATTICE_BITS = 24


class NoiseSource(Protocol):
    """Source that mechanisms draw from; a draw is a (size,) float64 array of independent values."""

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Uniform on [0, 1)."""

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Laplace with mean 0 and density exp(-|x| / scale) / (2 scale)."""

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        """Gaussian with mean 0 and standard deviation `scale`."""


LARGEST_LOGIT = 2.0**20
"""Size to which `choose` cuts scores: the rounding of scores up to this size is within CHOICE_SLACK."""
_LEAST_LOGIT = -700.0
"""Least score relative to the largest: e^-700 is a normal float, so that no outcome gets probability 0."""


def choose(scores: NDArray[np.float64], coin: float, noise: NoiseSource) -> int:
    """Index i with probability exactly proportional to the floating-point number exp(scores[i] - largest).

    This is the choice of the exponential mechanism. A coin of 53 bits decides where it is farther from all
    cumulative weights than their rounding. Otherwise (once in about 2^53 / n^2 choices) the weights are added
    exactly, and the coin gets more bits until it decides. So no probability has an additive error, and pure
    privacy holds: rounding a score changes its weight by a factor within CHOICE_SLACK.

    Args:
        scores: (n,); they differ little between neighbouring data sets. See `choice_weights`.
        coin: uniform on the multiples of 2^-53 in [0, 1).
        noise: source of further bits.
    """
    weights = choice_weights(scores)
    cumulative = weights.cumsum()
    total = float(cumulative[-1])
    blur = (len(weights) + 2) * 2.0**-53 * total
    first, last = cumulative.searchsorted([coin * total - blur, coin * total + blur], side="right")
    if first == last < len(weights):
        return int(first)
    return _choose_exactly(weights, coin, noise)


def choice_weights(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the outcomes in `choose`, (n,), each in [e^-700, 1].

    Scores are first cut to LARGEST_LOGIT in size; NaN becomes the least score. No score is refused, since
    observers would see a refusal. Cutting moves the scores of neighbouring data sets no further apart.
    """
    within = np.minimum(np.fmax(scores, -LARGEST_LOGIT), LARGEST_LOGIT)
    return np.asarray(np.exp(np.maximum(within - np.maximum.reduce(within), _LEAST_LOGIT)))


def _choose_exactly(weights: NDArray[np.float64], coin: float, noise: NoiseSource) -> int:
    exact = [Fraction(weight) for weight in weights.tolist()]
    bounds = list(accumulate(exact))
    low, width = Fraction(coin), Fraction(1, 2**53)
    while True:  # the uniform number is in [low, low + width)
        first = bisect_right(bounds, low * bounds[-1])
        last = bisect_left(bounds, (low + width) * bounds[-1])
        if first == last:
            return first
        low, width = low + width * Fraction(float(noise.uniform(1)[0])), width / 2**53


def whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Nearest whole numbers, halves up, exactly: `whole(x + k)` is `whole(x) + k` for a whole number k.

    So rounding the noise of a count equals rounding the noisy count, which is post-processing. `np.rint`
    takes halves to the even number and lacks this property.
    """
    below = np.floor(values)
    below += values - below >= 0.5  # rounding of the difference does not cross 1/2
    return below.astype(np.int64)


def words_of(noise: NoiseSource, size: int) -> NDArray[np.uint64]:
    """Uniform words of 64 bits, (size,): the upper halves of twice as many uniform numbers."""
    high, low = (noise.uniform(2 * size) * 2.0**32).astype(np.uint64).reshape(2, size)
    return np.asarray(high << np.uint64(32) | low)


class SimulatedNoise:
    """Noise from a seeded generator, for simulations and tests only: such noise protects nobody."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Uniform on [0, 1), (size,)."""
        return self._generator.random(size)

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Laplace of the given scale, (size,)."""
        return self._generator.laplace(0.0, scale, size)

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        """Gaussian of the given standard deviation, (size,)."""
        return self._generator.normal(0.0, scale, size)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Integers with P(k) ~ exp(-|k| / scale), (size,) int64: a difference of geometrics."""
        stop = -math.expm1(-1.0 / scale)
        return self._generator.geometric(stop, size) - self._generator.geometric(stop, size)


def simulated(seed: int, party: str, purpose: str) -> SimulatedNoise:
    """The stream of one party for one purpose in a simulated run.

    The stream depends on the seed and the two names alone. So another owner, another order of owners or other
    processes leave everybody else's noise as it is.

    Args:
        seed: seed of the run, >= 0.
        party: name of the owner, the curator or the consumer.
        purpose: use of the noise.
    """
    return SimulatedNoise(np.random.Generator(np.random.Philox(_sequence(seed, party, purpose))))


@functools.lru_cache(maxsize=1024)
def _sequence(seed: int, party: str, purpose: str) -> np.random.SeedSequence:
    # Each name has its own digest of fixed length, so ("ab", "c") and ("a", "bc") give different seeds.
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=16).digest() for name in (party, purpose))
    words = np.frombuffer(digests, dtype="<u4").tolist()
    return np.random.SeedSequence(seed, spawn_key=tuple(words))


class SecureNoise:
    """Noise for real data: bits of the operating system and exact samplers; it takes no seed.

    Laplace and Gaussian are the discrete laws of fedkme.privacy.samplers on the multiples of a step g, a
    power of two with g <= 1 and g <= 2**-23 scale. A mechanism that adds a draw to an *integer* gets an exact
    sum (up to 2**53 g), so the low bits of the output tell nothing about the data (Mironov 2012 reads the
    data out of the low bits of textbook samplers). Discrete Laplace on a lattice that contains the
    sensitivity costs exactly as much as Laplace. The discrete Gaussian's delta differs from the continuous
    Gaussian's delta by a relative error of the order of g / scale (Canonne, Kamath, Steinke 2020).
    """

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Uniform on the multiples of 2**-53 in [0, 1), (size,)."""
        draws: NDArray[np.float64] = (_words(size) >> np.uint64(11)).astype(np.float64) / np.float64(2.0**53)
        return draws

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Discrete Laplace of the given scale on the lattice of the class, (size,)."""
        step = _step(scale)
        return np.float64(step) * discrete_laplace(scale / step, size, _words)

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        """Discrete Gaussian of the given scale on the lattice of the class, (size,)."""
        step = _step(scale)
        return np.float64(step) * discrete_gaussian(scale / step, size, _words)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Integers with P(k) ~ exp(-|k| / scale), (size,) int64."""
        return discrete_laplace(scale, size, _words)


def _step(scale: float) -> float:
    return math.ldexp(1.0, min(0, math.ceil(math.log2(scale)) - _LATTICE_BITS))


def _words(size: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
