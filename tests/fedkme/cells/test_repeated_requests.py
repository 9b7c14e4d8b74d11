"""Noise for repeated requests: Gaussian where it costs less (20 requests: epsilon 5.4, not 16.0)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.arrays import FloatArray
from fedkme.cells.histogram import GaussianNoise, HistogramNoise, histogram_noise, noisy_counts
from fedkme.cells.repeated_requests import costs_of_asks, noise_of_asks, rule_epsilon
from fedkme.errors import ConfigError
from fedkme.features.counts import L2_STEP
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.noise import SecureNoise, simulated, whole
from fedkme.privacy.presets import PrivacyTarget

TARGET = PrivacyTarget()


def test_twenty_requests_cost_5_4_in_place_of_16() -> None:
    costs = costs_of_asks(TARGET, 20)
    assert costs.laplace == pytest.approx(16.0, abs=0.01)
    assert costs.gaussian == pytest.approx(5.41, abs=0.01)
    assert isinstance(costs.noise, GaussianNoise)
    assert math.sqrt(costs.noise.variance) == pytest.approx(5.28, abs=0.01)
    assert math.sqrt(histogram_noise(1.0).variance) == pytest.approx(2.80, abs=0.01)


@pytest.mark.parametrize("target", [TARGET, PrivacyTarget(epsilon=0.3, delta=1e-7), PrivacyTarget(group=3)])
def test_the_cheapest_law_is_chosen_and_each_request_meets_the_target(target: PrivacyTarget) -> None:
    assert noise_of_asks(target, 1) == histogram_noise(target.of_row)
    for asks in (1, 2, 7, 40):
        costs, noise = costs_of_asks(target, asks), noise_of_asks(target, asks)
        assert isinstance(noise, HistogramNoise if costs.laplace <= costs.gaussian else GaussianNoise)
        for events, most in (
            ([noise.event], target.epsilon),
            ([noise.event] * asks, min(costs.laplace, costs.gaussian)),
        ):
            spent = Sound().epsilon(for_group(events, target.group), target.delta).epsilon
            assert spent <= most * (1 + 1e-9)


@pytest.mark.parametrize("make", [SecureNoise, lambda: simulated(0, "consumer", "histogram")])
def test_counts_are_whole_and_have_the_stated_variance(make: type[SecureNoise]) -> None:
    law, size = GaussianNoise(1.7), 40_000
    drawn = noisy_counts(np.zeros(0, dtype=np.int64), size, law, make())
    assert drawn.dtype == np.int64
    # 40,000 draws: a standard error of the variance is 0.7 %. 6.5 standard errors have a chance of 1e-10, and
    # secure noise has no seed.
    assert drawn.var() == pytest.approx(law.variance, rel=0.046)
    assert abs(drawn.mean()) < 6.5 * math.sqrt(law.variance / size)
    assert law.event.noise_multiplier == 1.7 / math.sqrt(2)
    assert law.sensitivity == L2_STEP == math.sqrt(2)


def test_a_deviation_that_is_not_positive_is_refused() -> None:
    for deviation in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError):
            GaussianNoise(deviation)


def test_the_rule_epsilon_follows_from_the_deviation() -> None:
    for epsilon in (0.1, 1.0):
        deviation = math.sqrt(histogram_noise(epsilon).variance)
        assert rule_epsilon(deviation) == pytest.approx(epsilon, rel=0.02)


class Ties(SecureNoise):
    """Noise on all quarters from -2 to 2, ties included."""

    def gaussian(self, scale: float, size: int) -> FloatArray:
        return np.arange(-8, 9) / 4.0


def test_rounding_the_noise_equals_rounding_the_sum_at_ties() -> None:
    # With ties to the even number, the release would not be a function of count plus noise.
    noise = Ties().gaussian(1.0, 17)
    drawn = GaussianNoise(1.0).draw(Ties(), len(noise))
    released: dict[float, int] = {}
    for count in range(4):
        for exact, noisy in zip((count + noise).tolist(), (count + drawn).tolist(), strict=True):
            assert released.setdefault(exact, noisy) == noisy


@given(st.floats(-(2.0**52), 2.0**52), st.integers(-5, 5))
def test_rounding_commutes_with_whole_numbers(value: float, shift: int) -> None:
    nearest = int(whole(np.array([value]))[0])
    assert Fraction(-1, 2) < nearest - Fraction(value) <= Fraction(1, 2)
    if Fraction(value + shift) == Fraction(value) + shift:
        assert int(whole(np.array([value + shift]))[0]) == nearest + shift
