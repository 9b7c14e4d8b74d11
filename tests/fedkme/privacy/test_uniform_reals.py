"""Comparisons of uniform reals use all their bits, without floating-point error."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from curator.summary.auctions.clock import Clock, ClockSettings
from fedkme.privacy.noise import SimulatedNoise
from fedkme.privacy.samplers import UniformReal, is_below

FIRST = st.integers(1, 2**53 - 1)
WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2)


class Bits(SimulatedNoise):
    """A source of given uniform numbers in units of 2^-53, then of zeros."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def uniform(self, size: int) -> NDArray[np.float64]:
        return np.array([self.left.pop(0) * 2.0**-53 if self.left else 0.0 for _ in range(size)])


def number(first: int, words: list[int]) -> Fraction:
    """The number with these bits, followed by zeros."""
    return Fraction((first << 128) + (words[0] << 64) + words[1], 1 << 181)


def real(first: int, words: list[int], last: int = 0) -> UniformReal:
    """The number of `number`, drawn as needed; `last` is below all compared bits, so no two are equal."""
    words_left = [*words, last, *[0] * 8]
    return UniformReal(
        first, lambda size: np.array([words_left.pop(0) for _ in range(size)], dtype=np.uint64)
    )


def below(one: Fraction, other: Fraction, exponent: Fraction) -> bool:
    """Compare in 120 digits: numbers of 181 bits do not come nearer to an edge than that."""
    with localcontext() as context:
        context.prec = 120
        power = Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())
    return one < other * power


@given(FIRST, WORDS, FIRST, WORDS, st.fractions(-30, 30, max_denominator=2**60), st.integers(-2, 2))
def test_comparisons_of_uniform_reals_use_all_bits(
    one: int, ones: list[int], other: int, others: list[int], exponent: Fraction, off: int
) -> None:
    # Also next to the edge, where 53 bits do not decide: the first bits are the edge's bits, plus `off`.
    edge = number(other, others) * Fraction(Decimal(float(exponent)).exp())
    for first in (one, min(max(int(edge * 2**53) + off, 1), 2**53 - 1)):
        is_less = is_below(real(first, ones, 1), real(other, others), exponent)
        assert is_less == below(number(first, ones), number(other, others), exponent)


@pytest.mark.parametrize(("further", "stops"), [((0, 0, 2**52, 0), 0), ((2**52, 0, 0, 0), 2)])
def test_a_clock_draws_more_bits_where_its_coins_do_not_decide(further: tuple[int, ...], stops: int) -> None:
    # N = T at the first price: it stops there where U < V, whose first 53 bits are the same.
    settings = ClockSettings(epsilon=0.25, block=1)  # T = 20
    start = 3 * 2**50
    same = 2**53 - 1 - start
    bits = Bits(start, same, 2**53 - 1, 2**53 - 1, *further)
    assert Clock(settings, bits).stop(np.array([20, 20, 0])) == stops
    assert not bits.left
