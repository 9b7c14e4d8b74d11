"""Exact samplers of the discrete Laplace and the discrete Gaussian law, and exact coins, from uniform bits.

Both laws come from comparisons of a uniform real number U with exp(-x):

* G = floor(-s ln U) is geometric, P(G >= k) = P(U <= exp(-k / s)) = exp(-k / s), and the difference of two
  has P(k) ~ exp(-|k| / s): the discrete Laplace law of scale s.
* Accept a draw Y of the discrete Laplace law of scale t with probability
  exp(-(|Y| - sigma^2 / t)^2 / (2 sigma^2)). Accepted draws have
  P(y) ~ exp(-|y| / t - (|y| - sigma^2 / t)^2 / (2 sigma^2)) ~ exp(-y^2 / (2 sigma^2)): the discrete Gaussian
  law (Canonne, Kamath, Steinke 2020, algorithm 3, with t = floor(sigma) + 1).

U is never rounded. The first 53 bits of U give an interval that contains U. Where the comparison has the same
result on the whole interval, floating-point arithmetic with a bound of its error decides. Elsewhere (at a
scale of 2^24 once in about 10^6 draws) U gets more bits and decimal arithmetic decides, as precisely as
needed. So the laws are exact, whatever a processor's logarithm does in its last bits. As with every sampler
by rejection, the time of a draw depends a little on its value: the sampler does not protect from somebody who
can time single draws on the host that holds the rows.
"""

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray

Words = Callable[[int], NDArray[np.uint64]]
"""Function that draws so many independent uniform words of 64 bits."""

LEAST_SCALE, LARGEST_SCALE = 2.0**-40, 2.0**50
"""Range of scales: draws fit an int64 (but for a chance below e^-8000), and no square overflows."""

_BITS = 53
_LOG_ERROR = 2.0**-48
"""Bound of the relative error of a logarithm and the few operations after it; numpy's are within 2^-50."""
_DIGITS = 40
"""Significant digits of the first decimal arithmetic; each further 64 bits of U take 20 more."""


def discrete_laplace(scale: float, size: int, words: Words) -> IntArray:
    """Draws of P(k) ~ exp(-|k| / scale) on the integers.

    Args:
        scale: in [LEAST_SCALE, LARGEST_SCALE].
        size: how many draws.
        words: source of uniform bits.

    Returns:
        (size,) int64.

    Raises:
        ValueError: if the scale is outside its range.
    """
    _check(scale)
    return _laplace(scale, size, words)


def discrete_gaussian(sigma: float, size: int, words: Words) -> IntArray:
    """Draws of P(k) ~ exp(-k^2 / (2 sigma^2)) on the integers.

    Args:
        sigma: parameter in [LEAST_SCALE, LARGEST_SCALE]; about the standard deviation, where it is above 1.
        size: how many draws.
        words: source of uniform bits.

    Returns:
        (size,) int64.

    Raises:
        ValueError: if sigma is outside its range.
    """
    _check(sigma)
    draws = np.zeros(0, dtype=np.int64)
    while (lacking := size - len(draws)) > 0:
        candidates = _laplace(math.floor(sigma) + 1.0, lacking + lacking // 2 + 8, words)
        draws = np.concatenate([draws, candidates[_accepted(candidates, sigma, words)]])
    return draws[:size]


def _check(scale: float) -> None:
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise ValueError(f"a scale of {scale:g} is not in [2^-40, 2^50]")


def _laplace(scale: float, size: int, words: Words) -> IntArray:
    geometric = _geometric(scale, 2 * size, words)
    return geometric[:size] - geometric[size:]


def _geometric(scale: float, size: int, words: Words) -> IntArray:
    """Draws of floor(-scale ln U), (size,) int64."""
    first = words(size) >> np.uint64(64 - _BITS)
    least, most = _minus_log(first)
    low, high = np.floor(scale * least), np.floor(scale * most)
    draws = np.where(low == high, low, 0.0).astype(np.int64)
    for place in np.flatnonzero(low != high).tolist():
        draws[place] = _geometric_exactly(Fraction(scale), int(first[place]), words)
    return draws


def _geometric_exactly(scale: Fraction, first: int, words: Words) -> int:
    uniform = UniformReal(first, words)
    while True:
        least, most = (math.floor(scale * bound) for bound in uniform.minus_log())
        if least == most:
            return least
        uniform.refine()


def _accepted(candidates: IntArray, sigma: float, words: Words) -> NDArray[np.bool_]:
    """Accept y where U < exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)): (n,) bool."""
    first = words(len(candidates)) >> np.uint64(64 - _BITS)
    least, most = _minus_log(first)
    center = sigma * sigma / (math.floor(sigma) + 1.0)
    sizes = np.abs(candidates).astype(np.float64)
    distance = (sizes - center) / sigma
    exponent = distance * distance / 2
    # |y| and the center have a relative rounding of 2^-52; their difference over sigma is squared
    error = 2.0**-48 * (1.0 + exponent + np.abs(distance) * (sizes + center) / sigma)
    accepted = least > exponent + error
    for place in np.flatnonzero(~accepted & (most >= exponent - error)).tolist():
        accepted[place] = _accepted_exactly(
            abs(int(candidates[place])), Fraction(sigma), int(first[place]), words
        )
    return accepted


def _accepted_exactly(size: int, sigma: Fraction, first: int, words: Words) -> bool:
    square = sigma * sigma
    exponent = (size - square / (math.floor(sigma) + 1)) ** 2 / (2 * square)
    uniform = UniformReal(first, words)
    while True:
        least, most = uniform.minus_log()
        if least > exponent or most <= exponent:
            return least > exponent
        uniform.refine()


def _minus_log(first: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
    """Bounds of -ln U for U in [first, first + 1) / 2^53, rounding counted: two (n,) arrays."""
    low = first.astype(np.float64) * 2.0**-_BITS
    high = (first + np.uint64(1)).astype(np.float64) * 2.0**-_BITS
    with np.errstate(divide="ignore"):
        least, most = -np.log(high), -np.log(low)
    return np.maximum(least, 0.0) * (1.0 - _LOG_ERROR), most * (1.0 + _LOG_ERROR)


class UniformReal:
    """A uniform real number in (0, 1), drawn bit by bit as far as comparisons need."""

    def __init__(self, first: int, words: Words) -> None:
        """Begin with the first 53 bits; `words` gives further bits."""
        self._prefix, self._bits, self._words = first, _BITS, words

    def refine(self) -> None:
        """Draw 64 more bits."""
        self._prefix = (self._prefix << 64) | int(self._words(1)[0])
        self._bits += 64

    def minus_log(self) -> tuple[Fraction, Fraction]:
        """Bounds of -ln U by the bits drawn so far; the bounds include the error of the logarithm."""
        if self._prefix == 0:
            self.refine()
            return self.minus_log()
        whole = 1 << self._bits
        return self._bound(Fraction(self._prefix + 1, whole), -1), self._bound(
            Fraction(self._prefix, whole), 1
        )

    def _bound(self, number: Fraction, side: int) -> Fraction:
        """Bound of -ln(number), below for side -1 and above for 1; number in (0, 1]."""
        digits = _DIGITS + 20 * (self._bits - _BITS) // 64
        with decimal.localcontext(decimal.Context(prec=digits)):
            # The quotient has a relative rounding of 10^(1 - digits), which moves its logarithm by as much.
            # The logarithm is rounded correctly, and it is below 2^20.
            value = -(Decimal(number.numerator) / Decimal(number.denominator)).ln()
        return max(Fraction(value) + side * Fraction(1, 10 ** (digits - 8)), Fraction(0))


def is_below(one: UniformReal, other: UniformReal, exponent: Fraction) -> bool:
    """Check whether U < V e^q for uniform U and V, exactly: further bits of both are drawn as needed.

    So the probability of the event is E min(1, V e^q) to the last bit. A comparison of floating-point numbers
    would have an additive error of 2^-53, with which pure privacy does not hold.

    Args:
        one: U.
        other: V; its drawn bits stay, for the next comparison.
        exponent: q.
    """
    while True:
        (least, most), (low, high) = one.minus_log(), other.minus_log()
        if least + exponent > high or most + exponent <= low:
            return least + exponent > high
        one.refine()
        other.refine()
