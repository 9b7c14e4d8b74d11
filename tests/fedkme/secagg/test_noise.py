"""Distributed noise: its accounting in discrete form, compared with exact convolutions.

Laws of small shares are computed, not sampled: sums over 60 deviations of products of float64 numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import norm

from fedkme.errors import ConfigError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_delta, gaussian_epsilon
from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.protocol import Security
from fedkme.secagg.noise import (
    LEAST_SHARE,
    NoisePlan,
    draw_share,
    lattice_excess,
    plan_noise,
    plan_of,
    sum_excess,
)
from tests.fedkme.secagg.runs import Run, parameters

Law = NDArray[np.float64]
HALF = 60
LATTICE = np.arange(-HALF, HALF + 1)


def discrete_gaussian(variance: float) -> Law:
    weights: Law = np.exp(-(LATTICE**2) / (2.0 * variance))
    law: Law = weights / weights.sum()
    return law


def law_of_sum(share: float, count: int) -> Law:
    """Law of the sum of `count` shares on LATTICE; computed directly, as a transform would lose the tails."""
    law = one = discrete_gaussian(share**2)
    for _ in range(count - 1):
        law = np.convolve(law, one)[HALF:-HALF]
    return law


def exact_delta(law: Law, shift: int, epsilon: float) -> float:
    """Smallest delta for a query of one coordinate that two neighbours move by `shift`."""
    moved = np.concatenate([np.zeros(shift), law])
    still = np.concatenate([law, np.zeros(shift)])
    return float(np.maximum(still - math.exp(epsilon) * moved, 0.0).sum())


@pytest.mark.parametrize("share", [0.4, 0.5, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_sum_of_shares_is_as_near_to_a_gaussian_as_lemma_1_says(share: float, count: int) -> None:
    # Where probabilities are well above rounding; the share of 0.4 shows that the bound has work to do.
    law, gaussian = law_of_sum(share, count), discrete_gaussian(count * share**2)
    seen = gaussian > 1e-12
    distance = np.abs(np.log(law[seen] / gaussian[seen])).max()
    assert distance <= sum_excess(share, count) + 1e-9
    if share == 0.4:
        assert distance > 0.01


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_lemma_1_is_no_weaker_than_the_paper(share: float, count: int) -> None:
    # Kairouz, Liu, Steinke 2021, theorem 11: 10 sum exp(-2 pi^2 s^2 k/(k+1)), for s >= 1/2.
    theirs = 10.0 * sum(math.exp(-2.0 * math.pi**2 * share**2 * k / (k + 1)) for k in range(1, count))
    assert sum_excess(share, count) <= theirs


@pytest.mark.parametrize(("variance", "smooth"), [(1.0, 0.25), (1.0, 0.1), (4.0, 0.5)])
def test_a_discrete_gaussian_is_a_rounded_continuous_one_as_lemma_2_says(
    variance: float, smooth: float
) -> None:
    # r(x) by quadrature: N(0, V - w), and then a draw of the lattice near it.
    grid = np.linspace(-14, 14, 28 * 400 + 1)
    lattice = np.arange(-30, 31)
    near = np.exp(-((lattice[:, None] - grid[None, :]) ** 2) / (2.0 * smooth))
    near /= near.sum(axis=0)
    law = near @ norm.pdf(grid, scale=math.sqrt(variance - smooth)) * (grid[1] - grid[0])
    exact = np.exp(-(lattice**2) / (2.0 * variance))
    exact /= exact.sum()
    seen = exact > 1e-9
    distance = np.abs(np.log(law[seen] / exact[seen])).max()
    assert distance <= lattice_excess(smooth) + 1e-7
    if smooth == 0.1:
        assert distance > 0.01


@pytest.mark.parametrize("share", [0.8, 1.0, 1.6])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_the_theorem_bounds_the_exact_delta_of_the_sum(share: float, count: int, shift: int) -> None:
    # One coordinate, one release: the exact curve of the sum's law against the theorem's.
    law = law_of_sum(share, count)
    plan = NoisePlan(share, count, 1, float(shift), smoothing=min(0.45 * count * share**2, 1.0))
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        if epsilon > 2.0 * plan.excess:
            stated = math.exp(plan.excess) * gaussian_delta(plan.multiplier, epsilon - 2.0 * plan.excess)
            assert exact_delta(law, shift, epsilon) <= stated + 1e-14


def test_the_epsilon_of_a_plan_counts_the_excess() -> None:
    # Shares so small that the excess shows: without it the epsilon would be too small for the exact law.
    plan = NoisePlan(0.6, 4, 1, 1.0, smoothing=0.6)
    law = law_of_sum(0.6, 4)
    assert plan.excess > 0.01
    for delta in (1e-2, 1e-4, 1e-6):
        epsilon = plan.epsilon(delta)
        assert epsilon >= gaussian_epsilon(plan.multiplier, delta) + 2.0 * plan.excess
        assert exact_delta(law, 1, epsilon) <= delta


@pytest.mark.parametrize("share", [2.0, 3.0])
def test_the_bound_is_near_the_exact_curve(share: float) -> None:
    # The bound is tight: with a deviation of a few steps the exact delta is within a factor of the bound.
    plan = NoisePlan(share, 3, 1, 2.0, smoothing=1.0)
    law = law_of_sum(share, 3)
    for epsilon in (0.5, 1.0):
        stated = math.exp(plan.excess) * gaussian_delta(plan.multiplier, epsilon - 2.0 * plan.excess)
        assert stated / 3.0 <= exact_delta(law, 2, epsilon) <= stated


def test_the_theorem_holds_for_two_coordinates_and_two_releases() -> None:
    # A shift of (1, 1), seen twice, is four coordinates of shift 1: the privacy loss by convolution.
    share, count = 1.0, 2
    law = law_of_sum(share, count)
    plan = NoisePlan(share, count, 2, math.sqrt(2.0), releases=2, smoothing=0.9)
    inner = law[:-1] > 1e-300
    still, moved = law[1:][inner], law[:-1][inner]
    losses = np.log(still / moved)
    cells = 1e-4
    places = np.ceil(losses / cells).astype(int)
    low = places.min()
    single = np.bincount(places - low, weights=still)
    double = fftconvolve(single, single)
    values = (np.arange(2 * len(double) - 1) + 4 * low) * cells
    four = np.maximum(fftconvolve(double, double), 0.0)
    for epsilon in (1.0, 2.0, 3.0):
        above = values > epsilon
        exact = float((four[above] * -np.expm1(epsilon - values[above])).sum())  # rounded up by 4e-4 at most
        sigma = plan.multiplier / math.sqrt(2.0)
        stated = math.exp(plan.excess) * gaussian_delta(sigma, epsilon - 2.0 * plan.excess)
        assert exact * (1.0 - 5e-4) - 1e-9 <= stated
        assert exact > 1e-6


def test_a_plan_reaches_its_epsilon_with_the_least_noise() -> None:
    plan = plan_noise(1.0, 1e-6, owners=10, dropouts=2, colluders=3, length=10**6, diameter=1e9, releases=4)
    assert plan.honest == 5
    assert plan.epsilon(1e-6) <= 1.0
    assert plan.epsilon(1e-6) == pytest.approx(1.0, abs=1e-9)
    # Five shares are one Gaussian of the analytic calibration, to ten digits.
    sigma = math.sqrt(5) * plan.share / plan.diameter / math.sqrt(4)
    assert gaussian_epsilon(sigma, 1e-6) == pytest.approx(1.0, abs=1e-9)
    assert plan.excess < 1e-120
    assert plan.event == Gaussian(plan.multiplier, 4)
    # The sound accountant gives the same epsilon for the event.
    assert Sound().epsilon([plan.event], 1e-6).epsilon == pytest.approx(1.0, abs=1e-3)


def test_fewer_survivors_and_more_colluders_need_larger_shares() -> None:
    def share(dropouts: int, colluders: int) -> float:
        given: dict[str, Any] = {"owners": 12, "length": 100, "diameter": 2.0**34}
        return plan_noise(1.0, 1e-6, dropouts=dropouts, colluders=colluders, **given).share

    assert share(2, 3) == pytest.approx(share(0, 0) * math.sqrt(12 / 7), rel=1e-9)
    assert share(2, 3) == share(5, 0) == share(0, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"delta": 0.0},
        {"diameter": 10.0},  # shares of fewer than 2^24 steps
        {"diameter": 2.0**60},
        {"diameter": math.inf},
        {"dropouts": 10},
    ],
)
def test_noise_without_any_privacy_is_refused(wrong: dict[str, float]) -> None:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "diameter": 2.0**30}
    given |= {"owners": 10, "dropouts": 1, "colluders": 1, "length": 10} | wrong
    with pytest.raises(ConfigError):
        plan_noise(given.pop("epsilon"), given.pop("delta"), **given)


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_shares_too_small_to_add_up_to_a_gaussian_are_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="too small for their sum"):
        NoisePlan(share, 3, 1, 1.0, smoothing=0.001)


def test_the_system_s_generator_draws_whole_steps_of_the_stated_law() -> None:
    # SecureNoise at the least share: integers, mean 0, deviation s; 4000 draws, each figure within 4.5 of its
    # own deviations (7e-6 each).
    drawn = draw_share(SecureNoise(), LEAST_SHARE, 4000)
    assert drawn.dtype == np.int64
    raw = SecureNoise().gaussian(LEAST_SHARE, 100)
    np.testing.assert_array_equal(raw, np.rint(raw))
    assert len(np.unique(drawn % 16)) == 16  # on every residue, not on a coarser lattice
    scaled = drawn / LEAST_SHARE
    assert abs(scaled.mean()) < 4.5 / math.sqrt(4000)
    assert abs(scaled.var() - 1.0) < 4.5 * math.sqrt(2.0 / 4000)
    with pytest.raises(ConfigError):
        draw_share(SecureNoise(), LEAST_SHARE / 2, 1)


def test_the_sum_of_an_aggregation_has_the_noise_of_all_its_survivors() -> None:
    # Whole protocol, one owner lost: the noise of the sum has variance 4 s^2, and each coordinate its own.
    plan = plan_noise(1.0, 1e-6, owners=5, dropouts=1, colluders=1, length=5000, diameter=2.0**26)
    agreed = parameters(
        owners=5,
        dropouts=1,
        colluders=1,
        threshold=4,
        length=5000,
        bits=64,
        noise=plan.share,
        bound=2**40,
        step=2.0**-20,
    )
    inputs = {name: np.full(5000, 13 * 2**18) for name in agreed.owners}
    run = Run(
        agreed, inputs, lost={"mask": ("o002",)}, noise=lambda name: simulated(5, name, "share of noise")
    )
    total = run.total()
    noise = (total.steps - 4 * inputs["o000"]) / (2.0 * plan.share)
    assert abs(noise.mean()) < 4.5 / math.sqrt(5000)
    assert abs(noise.var() - 1.0) < 4.5 * math.sqrt(2.0 / 5000)
    # An owner computes the same plan from the parameters alone.
    assert plan_of(agreed, plan.diameter) == plan
    assert plan.epsilon(1e-6) <= 1.0


def test_a_sum_wraps_with_less_than_the_stated_probability() -> None:
    # The tail that the parameters reserve for wrapping, against the normal law's tail.
    agreed = parameters(owners=10, dropouts=1, length=1000, bits=64, noise=2.0**30)
    deviation = math.sqrt(10) * agreed.noise
    exact = 2.0 * agreed.length * norm.sf(agreed.noise_tail / deviation)
    assert exact < 2.0**-40
    assert agreed.largest_total == 10 * agreed.bound + agreed.noise_tail
    with pytest.raises(ConfigError, match="they need 36"):
        parameters(owners=10, dropouts=1, length=1000, bits=35, noise=2.0**30)


@pytest.mark.parametrize("security", [Security(0, 0), Security(0, 1), Security(1, 1), Security(0, 2)])
def test_a_plan_covers_an_owner_that_knows_its_own_share(security: Security) -> None:
    # An owner that learns the total knows its own share, also where no owner sides with the curator.
    owners = 5
    losses_and_colluders = {"dropouts": security.dropouts, "colluders": security.shares_known}
    plan = plan_noise(1.0, 1e-6, owners=owners, length=3, diameter=1e9, **losses_and_colluders)
    unknown = owners - security.dropouts - max(1, security.colluders)
    assert gaussian_epsilon(math.sqrt(unknown) * plan.share / plan.diameter, 1e-6) <= 1.0 + 1e-9
    proposed = parameters(owners, security.dropouts, security.colluders, bits=64, noise=plan.share)
    assert plan_of(proposed, plan.diameter).epsilon(1e-6) <= 1.0 + 1e-9
    assert plan_of(proposed, plan.diameter).honest == unknown
