"""Calibration: sketch and histogram together cost what the plan says, and no less noise would do."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from fedkme.cells.plan import bits_for, joint_delta, labels_help, owner_noise, share_for
from fedkme.errors import ConfigError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Composed, Gaussian


def numeric_delta(multiplier: float, scale: float, epsilon: float) -> float:
    """Hockey stick of the joint outputs by summation: a Gaussian shifted by 1, two counts shifted by 1."""
    x = np.linspace(-12 * multiplier, 12 * multiplier + 1.0, 8_001)
    width = x[1] - x[0]
    edges = np.append(x - width / 2, x[-1] + width / 2)
    p, q = (np.diff(ndtr((edges - shift) / multiplier)) for shift in (1.0, 0.0))
    k = np.arange(-60, 62)
    here, there = (math.tanh(0.5 / scale) * np.exp(-np.abs(k - shift) / scale) for shift in (0, 1))
    total = 0.0
    for one, two in zip(here, there, strict=True):
        for three, four in zip(there[::-1], here[::-1], strict=True):
            # the second count moves the other way; by symmetry its pair is the mirror image
            total += float(np.maximum(one * four * p - math.exp(epsilon) * two * three * q, 0.0).sum())
    return total


@pytest.mark.parametrize(
    ("multiplier", "scale", "epsilon"), [(1.0, 1.0, 1.0), (2.0, 3.0, 0.4), (1.5, 0.8, 2.9)]
)
def test_joint_delta_is_the_truth(multiplier: float, scale: float, epsilon: float) -> None:
    # Numeric truth by summing over all outputs; the grid of the Gaussian makes an error of its width squared.
    assert joint_delta(multiplier, scale, epsilon) == pytest.approx(
        numeric_delta(multiplier, scale, epsilon), rel=2e-3
    )


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_plan_is_tight_and_beats_basic_composition(share: float) -> None:
    plan = owner_noise(1.0, 1e-5, share)
    assert plan.multiplier is not None
    assert joint_delta(plan.multiplier, plan.histogram.scale, 1.0) <= 1e-5
    assert joint_delta(plan.multiplier, 0.999 * plan.histogram.scale, 1.0) > 1e-5
    assert 1.0 - share < plan.histogram.epsilon < 1.0


def test_the_accountant_reads_the_same_from_the_ledger() -> None:
    # Privacy loss distributions, rounded up, of the events that the plan writes: within the total that was
    # asked for, so that a budget of that total takes a run, and hardly below it.
    plan = owner_noise(1.0, 1e-5)
    event = plan.event
    assert isinstance(event, Composed)
    assert event.events == (Gaussian(plan.multiplier or 0.0), plan.histogram.event)
    figure = Sound().epsilon([event], 1e-5)
    assert 1.0 - 2e-5 <= figure.epsilon <= 1.0
    assert figure.method == "Gaussian and pure"
    by_pld = min(each.epsilon for each in Sound().figures([event], 1e-5) if each.method == "PLD")
    assert figure.epsilon <= by_pld <= 1.0


def test_a_public_code_book_leaves_everything_to_the_histogram() -> None:
    plan = owner_noise(1.0, 1e-5, 0.0)
    assert (plan.multiplier, plan.delta, plan.sketch_event, plan.sketch_deviation) == (None, 0.0, None, 0.0)
    assert Sound().epsilon([plan.event], 0.0).epsilon == pytest.approx(1.0)


def test_the_sketch_of_the_plan_is_the_one_of_the_notes() -> None:
    plan = owner_noise(1.0, 1e-5, 0.3)
    assert plan.multiplier == pytest.approx(11.238, abs=1e-3)  # SOUND.md, Accounting
    assert plan.sketch_deviation == pytest.approx(23.84, abs=0.01)


def test_bits_follow_public_numbers_only() -> None:
    assert bits_for(250, [2400] * 5, 1.0, 0.72) == 6
    assert bits_for(250, [240] * 50, 1.0, 0.72) == 5
    assert bits_for(20, [2400] * 5, 1.0, 0.72) == 3
    # USEFUL.md, step 2: three bits of ten classes where 104 cells have 2.4 rows of D_v, none of many classes.
    assert bits_for(250, [2400] * 5, 1.0, 0.72, 10) == 3
    assert bits_for(250, [240] * 50, 1.0, 0.72, 10) == 1
    assert bits_for(250, [100] * 5, 1.0, 0.72, 26) == 0
    assert bits_for(250, [2400] * 5, 0.5, 0.36, 10) == 2


def test_the_share_of_the_sketch_follows_public_numbers_only() -> None:
    # USEFUL.md, step 1, and what was measured since: lab/results/summaries.md.
    deviation = owner_noise(1.0, 1e-5).sketch_deviation
    assert [labels_help(rows, 10, deviation) for rows in (1999, 2010)] == [False, True]
    assert not labels_help(10_000, 1, deviation)
    assert share_for(6238, 26, deviation, own_class=False) == 0.7  # ISOLET
    assert share_for(12_000, 10, deviation, own_class=False) == 0.3  # MNIST
    assert share_for(700, 2, deviation, own_class=False) == 0.3
    assert share_for(None, 26, deviation, own_class=False) == 0.3  # owners have not said their sizes
    assert share_for(None, 26, deviation, own_class=True) == 0.15
    # "A labelled D_v with N < 2000 gets share .15 with signs: decide by N there too" (issue 13).
    assert [share_for(rows, 10, deviation, own_class=True) for rows in (1999, 2010)] == [0.3, 0.15]
    for share in (0.15, 0.3, 0.7):  # what a row costs is the same
        plan = owner_noise(1.0, 1e-5, share)
        assert Sound().epsilon([plan.event], 1e-5).epsilon == pytest.approx(1.0, abs=3e-5)


def test_wrong_arguments_are_refused() -> None:
    for epsilon, share in ((0.0, 0.3), (1.0, 1.0), (1.0, -0.1)):
        with pytest.raises(ConfigError, match="no plan"):
            owner_noise(epsilon, 1e-5, share)
