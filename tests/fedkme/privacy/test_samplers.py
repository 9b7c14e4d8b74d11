"""Exact samplers: their laws, and exact decisions where floating-point numbers cannot decide."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedkme.privacy import samplers
from fedkme.privacy.samplers import LARGEST_SCALE, LEAST_SCALE, Words, discrete_gaussian, discrete_laplace

FALSE_ALARM = 1e-9
"""Chance of a false alarm of a test of a law, if its bits were not seeded."""
SAMPLERS = [discrete_laplace, discrete_gaussian]
Sampler = Callable[[float, int, Words], NDArray[np.int64]]


def seeded(seed: int) -> Words:
    """Words of a seeded generator."""
    generator = np.random.default_rng(seed)
    return lambda size: generator.integers(0, 2**64, size, dtype=np.uint64)


def given(*words: int) -> Words:
    """A source of given words, one after another; the last word repeats."""

    def words_left() -> Iterator[int]:
        yield from words
        while True:
            yield words[-1]

    stream = words_left()
    return lambda size: np.array([next(stream) for _ in range(size)], dtype=np.uint64)


def law(sampler: Sampler, scale: float, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probabilities of the integers, from their definition."""
    every = np.arange(-2000, 2001)
    exponents = -np.abs(every) / scale if sampler is discrete_laplace else -(every**2) / (2 * scale**2)
    weights = np.exp(exponents)
    shares: NDArray[np.float64] = weights[numbers + 2000] / weights.sum()
    return shares


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 40.0])
def test_draws_have_the_stated_law(sampler: Sampler, scale: float) -> None:
    drawn = sampler(scale, 40_000, seeded(1))

    def surprise(of: float) -> float:
        numbers = np.arange(-int(6 * scale) - 2, int(6 * scale) + 3)
        expected = 40_000 * law(sampler, of, numbers)
        common = expected >= 20
        counts = np.array([np.count_nonzero(drawn == number) for number in numbers[common]])
        seen = np.append(counts, 40_000 - counts.sum())
        wanted = np.append(expected[common], 40_000 - expected[common].sum())
        return float(stats.chisquare(seen, np.maximum(wanted, 1e-9), sum_check=False).pvalue)

    assert surprise(scale) > FALSE_ALARM
    assert surprise(1.15 * scale) < FALSE_ALARM


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [2.0**23 + 1.5, 2.0**45])
def test_large_scales_look_continuous(sampler: Sampler, scale: float) -> None:
    drawn = sampler(scale, 4_000, seeded(2)) / scale
    name = "laplace" if sampler is discrete_laplace else "norm"
    assert stats.kstest(drawn, name).pvalue > FALSE_ALARM
    assert stats.kstest(drawn / 1.5, name).pvalue < FALSE_ALARM


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.4, 9.3, 2.0**24 - 0.25])
def test_floats_decide_as_exact_arithmetic_does(
    sampler: Sampler, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With an allowed error of 1 in each logarithm, decimal arithmetic decides nearly every draw.
    by_floats = sampler(scale, 400, seeded(3))
    monkeypatch.setattr(samplers, "_LOG_ERROR", 1.0)
    assert np.array_equal(sampler(scale, 400, seeded(3)), by_floats)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_law_agrees_with_opendp(sampler: Sampler) -> None:
    dp = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if sampler is discrete_laplace:
        theirs = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=5.5)([0] * 20_000)
    else:
        theirs = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=5.5)([0] * 20_000)
    ours = sampler(5.5, 20_000, seeded(4))
    edges = np.arange(-12, 13)
    table = [np.bincount(np.searchsorted(edges, drawn), minlength=26) for drawn in (ours, np.array(theirs))]
    assert stats.chi2_contingency(np.array(table)).pvalue > FALSE_ALARM


def test_an_interval_on_the_edge_of_two_outcomes_gets_more_bits() -> None:
    # Geometric of scale 1: U = e^-1 parts 0 from 1. The first 53 bits leave it open; the next word decides.
    with mpmath.workprec(400):
        edge = int(mpmath.floor(mpmath.e**-1 * 2**117))
    first, second = edge >> 64, edge & (2**64 - 1)
    assert samplers._geometric(1.0, 1, given(first << 11, second + 1)).tolist() == [0]
    assert samplers._geometric(1.0, 1, given(first << 11, second - 1)).tolist() == [1]


def test_extreme_bits_give_finite_draws() -> None:
    assert discrete_laplace(1.0, 1, given(2**64 - 1)).tolist() == [0]
    # U < 2^-117 and U of 53 ones: the geometric numbers are 81 or more, and 0
    first, second = discrete_laplace(1.0, 2, given(0, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0, 5)).tolist()
    assert first >= 36
    assert second == 0


def test_bounds_of_a_logarithm_contain_it() -> None:
    uniform = samplers.UniformReal(123_456_789, given(99))
    for _ in range(3):
        least, most = uniform.minus_log()
        with mpmath.workprec(2_000):
            bounds = [Fraction(uniform._prefix + step, 1 << uniform._bits) for step in (1, 0)]
            inner, outer = (-mpmath.log(mpmath.mpf(x.numerator) / x.denominator) for x in bounds)
            assert mpmath.mpf(least.numerator) / least.denominator <= inner
            assert mpmath.mpf(most.numerator) / most.denominator >= outer
        uniform.refine()
    assert most - least < Fraction(1, 10**40)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_have_the_requested_size_and_type(sampler: Sampler) -> None:
    for size in (0, 1, 7):
        drawn = sampler(2.5, size, seeded(5))
        assert drawn.shape == (size,)
        assert drawn.dtype == np.int64
    for scale in (LEAST_SCALE, LARGEST_SCALE):
        assert sampler(scale, 3, seeded(6)).shape == (3,)
    for scale in (0.0, -1.0, LEAST_SCALE / 2, 2 * LARGEST_SCALE, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="scale"):
            sampler(scale, 1, seeded(7))
