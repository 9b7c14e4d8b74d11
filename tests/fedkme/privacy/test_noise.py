"""Noise sources: laws, streams by name, and the source for deployments."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedkme.privacy.events import CHOICE_SLACK
from fedkme.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise, choice_weights, choose, simulated

# False alarm of one Kolmogorov-Smirnov test: 1e-9. The simulated stream is fixed, the secure one is not.
FALSE_ALARM = 1e-9
DRAWS = 20_000
SOURCES = [
    pytest.param(lambda: simulated(3, "curator", "test"), id="simulated"),
    pytest.param(SecureNoise, id="secure"),
]


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 31623.0])
def test_laplace_and_gaussian_have_their_laws(make: Callable[[], NoiseSource], scale: float) -> None:
    # h2 adds Lap(1/e), releases add Gaussian noise: the law and the scale, told apart from 30 % more
    # (a wrong scale passes with probability below 1e-9 at these draws).
    noise = make()
    for draws, law in ((noise.laplace(scale, DRAWS), "laplace"), (noise.gaussian(scale, DRAWS), "norm")):
        assert stats.kstest(draws / scale, law).pvalue > FALSE_ALARM
        assert stats.kstest(draws / (1.3 * scale), law).pvalue < FALSE_ALARM


@pytest.mark.parametrize("make", SOURCES)
def test_uniform_has_its_law(make: Callable[[], NoiseSource]) -> None:
    draws = make().uniform(DRAWS)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("make", SOURCES)
def test_draws_are_float64_of_the_requested_size(make: Callable[[], NoiseSource]) -> None:
    noise = make()
    for size in (0, 1, 5):
        for draws in (noise.uniform(size), noise.laplace(2.0, size), noise.gaussian(2.0, size)):
            assert draws.shape == (size,)
            assert draws.dtype == np.float64


def test_a_stream_depends_on_the_seed_and_the_names_only() -> None:
    # DESIGN.md, decision 1: a SeedSequence child per party by name. The pinned number fails if the
    # derivation ever changes, or depends on the process (as Python's hash of a string does).
    first = simulated(7, "owner-1", "coins").uniform(4)
    assert np.array_equal(first, simulated(7, "owner-1", "coins").uniform(4))
    assert first[0] == 0.8387817636590195
    others = [
        (8, "owner-1", "coins"),
        (7, "owner-2", "coins"),
        (7, "owner-1", "noise"),
        (7, "owner-1c", "oins"),
    ]
    for seed, party, purpose in others:
        assert not np.intersect1d(first, simulated(seed, party, purpose).uniform(4)).size


def test_two_secure_sources_draw_different_numbers() -> None:
    # A collision of 53-bit numbers by chance: below 1e-13.
    assert not np.intersect1d(SecureNoise().uniform(16), SecureNoise().uniform(16)).size


def test_secure_noise_refuses_a_seed_and_is_another_type() -> None:
    # DESIGN.md, decision 5: deployments refuse a seed, and the two sources cannot be mixed up.
    make: Any = SecureNoise
    with pytest.raises(TypeError):
        make(7)
    assert not isinstance(SecureNoise(), SimulatedNoise)


@pytest.mark.parametrize("scale", [1e-3, 0.7, 1.0, 5000.0, 2.0**30])
def test_secure_noise_adds_exactly_to_a_whole_number(scale: float) -> None:
    # The docstring of SecureNoise: the sum with an integer has no rounding that could tell the integer.
    for noise in (SecureNoise().laplace(scale, 200), SecureNoise().gaussian(scale, 200)):
        assert np.array_equal((noise + 1701.0) - 1701.0, noise)
        steps = noise * 2.0**34  # the finest step of these scales: 2**(-9 - 24) or coarser
        assert np.array_equal(steps, np.round(steps))


class Bits(SimulatedNoise):
    """A source of given uniform numbers."""

    def __init__(self, *numbers: float) -> None:
        self._left = list(numbers)

    def uniform(self, size: int) -> NDArray[np.float64]:
        return np.array([self._left.pop(0) for _ in range(size)])


def test_a_choice_is_proportional_to_the_exponential_of_its_score() -> None:
    # The selection has no additive error, which no figure would count.
    scores = np.array([0.0, 1.0, -3.0, 0.5])
    shares = np.exp(scores) / np.exp(scores).sum()
    source = simulated(0, "a", "choices")
    drawn = [choose(scores, float(coin), source) for coin in source.uniform(20_000)]
    shares_drawn = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares_drawn - shares).max() < 5 * np.sqrt(0.25 / len(drawn))


def test_a_coin_at_the_edge_of_two_outcomes_gets_more_bits() -> None:
    # Two equal scores: the coin 1/2 - 2^-53, with all its further bits, is below the edge; 1/2 is above.
    equal = np.zeros(2)
    assert choose(equal, 0.5 - 2.0**-53, Bits()) == 0
    assert choose(equal, 0.5, Bits()) == 1
    # Three equal scores: the edge at 1/3 lies within the interval of one coin; the next bits decide.
    coin = np.floor(2.0**53 / 3.0) * 2.0**-53
    assert choose(np.zeros(3), float(coin), Bits(0.0)) == 0
    assert choose(np.zeros(3), float(coin), Bits(1.0 - 2.0**-53)) == 1


def test_no_outcome_is_impossible() -> None:
    # A score that is smaller by 10^5 still has a chance of e^-700, and the sum stays exact.
    scores = np.array([0.0, -1e5, 0.0])
    assert choose(scores, 0.5, Bits(*[0.0] * 30)) == 1
    assert choose(scores, 0.5, Bits(0.5)) == 2
    assert choose(scores, 0.5 - 2.0**-53, Bits(0.5)) == 0


EXTREME = [0.0, 5e-324, 1.0, 700.0, 2.0**20, 2.0**53 + 2.0, 1e154, 1e300, 1.8e308, math.nan]
"""Extreme scores that no caller should have; tests also use their negatives."""


@given(st.lists(st.sampled_from([*EXTREME, *(-value for value in EXTREME)]), min_size=1, max_size=5))
def test_any_scores_give_a_choice_without_an_error(scores: list[float]) -> None:
    # `choose` takes any scores, NaN and infinities included, and never raises an error.
    assert 0 <= choose(np.array(scores), 0.3, simulated(0, "a", "bits")) < len(scores)


@given(
    st.lists(
        st.tuples(st.fractions(-(2**60), 2**60) | st.fractions(-50, 50), st.sampled_from([-1, 1])),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from([Fraction(0), Fraction(2**20), Fraction(10**15), Fraction(-(2**45))]),
)
def test_a_choice_of_large_scores_stays_within_its_charged_range(
    rows: list[tuple[Fraction, int]], base: Fraction
) -> None:
    # Scores move by 1 at most, so the log ratios of two neighbours' chances lie in an interval of length 2,
    # and CHOICE_SLACK for rounding: of scores at 2^45 alone it would be 2^-8.
    scores, moved = ([float(base + a + side * b) for a, b in rows] for side in (0, 1))
    before, after = (choice_weights(np.array(value)) for value in (scores, moved))
    ratios = np.log(after) - np.log(before)
    assert ratios.max() - ratios.min() <= 2.0 + CHOICE_SLACK


def test_noise_is_rounded_only_by_whole() -> None:
    # Only `whole` gives the same result for a rounded noisy count and a count with rounded noise.
    rounds = re.compile(r"(rint|round|around|trunc|ceil)\((?=.*(gaussian|laplace)\()")
    roles = [Path(__file__).parents[3] / name for name in ("fedkme", "owner", "curator", "consumer")]
    sources = [path for role in roles for path in role.rglob("*.py")]
    assert len(sources) > 300
    assert not [path for path in sources if rounds.search(path.read_text(encoding="utf-8"))]
