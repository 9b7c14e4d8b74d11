"""Group accounting: k epsilon for pure events, the Gaussian's own law, loss distributions for the rest."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curator.summary.settings import SummarySettings
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.plan import owner_noise
from fedkme.errors import ConfigError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import (
    BoundedRange,
    Clock,
    Composed,
    Event,
    Gaussian,
    HashedRows,
    MwemCall,
    PureDp,
    RawRows,
)
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma, row_epsilon
from fedkme.releases.settings import MarginalsSettings, MerfSettings

DELTA = 1e-5


def epsilon(events: list[Event], rows: int) -> float:
    return Sound().epsilon(for_group(events, rows), DELTA).epsilon


def test_a_group_of_one_row_changes_no_event() -> None:
    events: list[Event] = [Gaussian(2.0), Composed((PureDp(0.1), Clock(0.2)))]
    assert for_group(events, 1) == events


@pytest.mark.parametrize("rows", [2, 5, 40])
def test_pure_events_cost_a_group_of_g_rows_g_times_as_much(rows: int) -> None:
    assert Sound().epsilon(for_group([PureDp(0.01)], rows), 0.0).epsilon == pytest.approx(0.01 * rows)
    assert Sound().epsilon(for_group([Clock(0.01)], rows), 0.0).epsilon == pytest.approx(0.02 * rows)


@pytest.mark.parametrize("rows", [2, 5, 40])
def test_a_gaussian_stays_a_gaussian_for_a_group(rows: int) -> None:
    # by hand: the query moves by `rows` sensitivities
    assert epsilon([Gaussian(30.0)], rows) == pytest.approx(gaussian_epsilon(30.0 / rows, DELTA), rel=1e-6)
    generic = rows * gaussian_epsilon(30.0, DELTA / (rows * math.exp(rows)))
    assert epsilon([Gaussian(30.0)], rows) < generic


def test_a_histograms_group_epsilon_follows_from_its_noise() -> None:
    # All rows of a person go from one cell to another: two counts move by g each. Noise of scale b on a count
    # has loss (|x - g| - |x|) / b, a whole number of 1/b, so the law of both counts is a convolution.
    rows, scale = 5, 20.0
    x = np.arange(-2000, 2001)
    law = np.exp(-np.abs(x) / scale)
    one = np.bincount(np.abs(x - rows) - np.abs(x) + rows, law / law.sum(), minlength=2 * rows + 1)
    both = np.convolve(one, one)
    losses = (np.arange(len(both)) - 2 * rows) / scale
    event = for_group([histogram_noise(2.0 / scale).event], rows)
    for at in (0.0, 0.1, 0.3, 0.45):
        exact = float(both @ np.maximum(0.0, -np.expm1(at - losses)))
        assert exact > 0
        assert at <= Sound().epsilon(event, exact).epsilon + 1e-9
    assert Sound().epsilon(event, 0.0).epsilon == pytest.approx(losses[-1])


def test_choices_and_the_pieces_of_h2_scale_with_the_group() -> None:
    assert for_group([BoundedRange(0.125, 7)], 4) == [BoundedRange(0.5, 7)]
    selection, value = for_group([MwemCall(0.01, 4)], 3)
    assert isinstance(selection, BoundedRange)
    assert selection.epsilon == pytest.approx(3 * 0.04)
    assert value.to_json()["noise_multiplier"] == pytest.approx(1.0 / (3 * 0.02))


def test_events_without_a_group_bound_have_no_figure() -> None:
    for event in (RawRows(3), HashedRows(3)):
        figure = Sound().epsilon(for_group([event], 2), DELTA)
        assert math.isinf(figure.epsilon)
        assert figure.reason
    with pytest.raises(ConfigError):
        for_group([], 0)


@given(st.floats(1e-6, 20.0), st.sampled_from([1e-12, 1e-5, 1e-2, 0.1]), st.integers(1, 30_000))
@example(1.0, 1e-5, 20_000)
def test_noise_for_a_group_is_refused_or_holds(total: float, delta: float, rows: int) -> None:
    # A group that needs more noise than one row at epsilon 0 got that row's: epsilon 1 was 2 for 20,000 rows.
    settings = MarginalsSettings(epsilon=total, delta=delta, group=rows)
    with contextlib.suppress(ConfigError):
        assert gaussian_delta(gaussian_sigma(settings.of_row, delta) / rows, total) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("rows", [2, 5, 30])
@pytest.mark.parametrize(("total", "delta"), [(1.0, 1e-5), (0.3, 1e-6), (4.0, 1e-5)])
def test_noise_for_a_group_holds_for_the_group_exactly(rows: int, total: float, delta: float) -> None:
    one = row_epsilon(total, delta, rows)
    multiplier = MerfSettings(epsilon=total, delta=delta, group=rows)
    assert multiplier.of_row == MarginalsSettings(epsilon=total, delta=delta, group=rows).of_row == one
    assert gaussian_delta(gaussian_sigma(one, delta) / rows, total) == pytest.approx(delta, rel=1e-6)
    noise = owner_noise(total, delta).for_group(rows)
    assert Sound().epsilon(for_group([noise.event], rows), delta).epsilon <= total
    assert Sound().epsilon(for_group([noise.event], rows), delta).epsilon >= 0.97 * total


@pytest.mark.parametrize("protocol", ["algorithm3", "cells"])
def test_settings_of_a_summary_hold_epsilon_for_the_group(protocol: str) -> None:
    plain = SummarySettings.model_validate({"protocol": protocol})
    grouped = SummarySettings.model_validate({"protocol": protocol, "privacy": {"group": 5}})
    cost = Sound().epsilon(for_group(grouped.between_owners(100, 5), 5), DELTA).epsilon
    assert cost <= 1.0
    assert cost >= 0.85
    assert Sound().epsilon(for_group(plain.between_owners(100, 5), 5), DELTA).epsilon > 3.0
