"""Histograms over cells: sensitivity, the law of the noise, the exact privacy loss."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fedkme.cells.histogram import (
    SENSITIVITY,
    CountNoise,
    GaussianNoise,
    HistogramNoise,
    IntegerNoise,
    counts,
    histogram_noise,
    noise_of_event,
    noisy_counts,
)
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.events import Event, ExactStatistic, Gaussian, PureDp
from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.privacy.samplers import LARGEST_SCALE, LEAST_SCALE

FALSE_ALARM = 1e-9
SOURCES = [
    pytest.param(lambda: simulated(3, "owner", "cells"), id="simulated"),
    pytest.param(SecureNoise, id="secure"),
]


def test_a_replaced_row_moves_the_counts_by_two_at_most() -> None:
    # All data sets of 3 rows over 4 cells and all their neighbours.
    largest = 0
    for cells in itertools.product(range(4), repeat=3):
        for place, new in itertools.product(range(3), range(4)):
            other = [new if i == place else cell for i, cell in enumerate(cells)]
            difference = counts(np.array(cells), 4) - counts(np.array(other), 4)
            largest = max(largest, int(np.abs(difference).sum()))
            assert set(difference.tolist()) <= {-1, 0, 1}
    assert largest == SENSITIVITY


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("scale", [0.4, 2.0, 2.756])
def test_noise_is_discrete_laplace(make: Callable[[], IntegerNoise], scale: float) -> None:
    # Chi-squared against P(k) ~ exp(-|k|/b); a scale 10 % larger is told apart. Error rate 1e-9.
    size = 40_000
    draws = make().discrete_laplace(scale, size)
    assert draws.dtype == np.int64
    reach = int(4 * scale) + 1
    k = np.arange(-reach, reach + 1)
    seen = np.array([(draws == i).sum() for i in k] + [(np.abs(draws) > reach).sum()])

    def p_value(b: float) -> float:
        law = math.tanh(0.5 / b) * np.exp(-np.abs(k) / b)
        expected = size * np.append(law, 1.0 - law.sum())
        return float(stats.chisquare(seen, expected * size / expected.sum()).pvalue)

    assert p_value(scale) > FALSE_ALARM
    assert p_value(1.1 * scale) < FALSE_ALARM
    assert draws.var() == pytest.approx(HistogramNoise(scale).variance, rel=0.1)


def test_the_loss_is_a_pair_of_randomised_responses() -> None:
    # docs/decisions/007: the event PureDp(1/b, 2) is the loss itself. Summed over the integers.
    b = 2.0 / 0.7
    k = np.arange(-400, 401)
    here, there = (math.tanh(0.5 / b) * np.exp(-np.abs(k - shift) / b) for shift in (0, 1))
    loss = np.log(here / there)
    assert np.allclose(np.abs(loss), 1.0 / b)
    assert here[loss > 0].sum() == pytest.approx(1.0 / (1.0 + math.exp(-1.0 / b)), abs=1e-12)
    noise = histogram_noise(0.7)
    assert noise.event == PureDp(1.0 / b, 2)
    assert noise.epsilon == pytest.approx(0.7)


def test_variance_at_epsilon_one() -> None:
    assert histogram_noise(1.0).variance == pytest.approx(7.835, abs=1e-3)  # SOUND.md


def test_noisy_counts_are_counts_with_noise() -> None:
    cells = np.array([0, 2, 2, 5])
    assert noisy_counts(cells, 6, None, simulated(0, "o", "c")).tolist() == [1, 0, 2, 0, 0, 1]
    noisy = noisy_counts(cells, 6, histogram_noise(1.0), simulated(0, "o", "c"))
    noise = simulated(0, "o", "c").discrete_laplace(2.0, 6)
    assert np.array_equal(noisy, noise + np.array([1, 0, 2, 0, 0, 1]))


@pytest.mark.parametrize("scale", [LEAST_SCALE, LARGEST_SCALE])
def test_every_scale_that_is_accepted_can_be_drawn(scale: float) -> None:
    assert HistogramNoise(scale).draw(SecureNoise(), 3).shape == (3,)


def test_wrong_arguments_are_refused() -> None:
    for epsilon in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="not positive"):
            histogram_noise(epsilon)
    for scale in (math.inf, math.nan, 1e-13, 1e16):
        with pytest.raises(ConfigError, match="scale"):
            HistogramNoise(scale)
    with pytest.raises(DataError, match="no cell"):
        counts(np.array([0, 4]), 4)


@pytest.mark.parametrize("noise", [HistogramNoise(2.5), GaussianNoise(3.0)])
def test_the_event_of_a_histogram_gives_its_noise_back(noise: CountNoise) -> None:
    law = noise_of_event(noise.event)
    assert type(law) is type(noise)
    assert law is not None
    assert law.variance == pytest.approx(noise.variance)


@pytest.mark.parametrize("event", [PureDp(0.5), PureDp(1e9, 2), Gaussian(1e9), ExactStatistic("a histogram")])
def test_an_event_of_no_histogram_gives_no_noise(event: Event) -> None:
    assert noise_of_event(event) is None
