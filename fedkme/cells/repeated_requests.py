"""Noise on the counts of a D_v that will be asked about often: the law that costs least over all requests.

A request is (epsilon, delta)-DP by itself under either law of `fedkme.cells.histogram`. Discrete Laplace
noise has the smaller deviation (2.8 rows at epsilon 1 where the Gaussian has 5.3), and delta 0; over k
requests its randomised responses cost nearly k epsilon while they are few, Gaussians about sqrt(k): at
(1, 1e-5) 20 requests are 16.0 and 5.41. Both totals are exact (privacy-loss distributions; the Gaussian's own
law), so the smaller one is, and either way the ledger holds one event a draw.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from fedkme.cells.histogram import CountNoise, GaussianNoise, HistogramNoise, histogram_noise
from fedkme.features.counts import L2_STEP
from fedkme.privacy.events import repeated
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.presets import PrivacyTarget

OFTEN = 20
"""Requests by which the cost of asking often is shown to who means to ask once."""


@dataclass(frozen=True)
class CostsOfAsks:
    """Noise of one request, and what all of them cost.

    Attributes:
        noise: the law that costs least.
        laplace: epsilon of all requests with discrete Laplace noise, at the target's delta.
        gaussian: likewise with Gaussian noise.
    """

    noise: CountNoise
    laplace: float
    gaussian: float


def noise_of_asks(target: PrivacyTarget, asks: int) -> CountNoise:
    """The noise of each of so many requests, each within a target; one request has discrete Laplace noise."""
    return histogram_noise(target.of_row) if asks == 1 else costs_of_asks(target, asks).noise


def deviation_of_asks(target: PrivacyTarget, asks: int) -> float:
    """Find the deviation of the noise on each count, which a request says; 0 for discrete Laplace."""
    how = noise_of_asks(target, asks)
    return 0.0 if isinstance(how, HistogramNoise) else math.sqrt(how.variance)


@functools.lru_cache(maxsize=64)
def costs_of_asks(target: PrivacyTarget, asks: int) -> CostsOfAsks:
    """Costs of so many requests under either law.

    Args:
        target: (epsilon, delta) of each request, for the rows of a group together.
        asks: how many, each of which may depend on those before.
    """
    laplace = histogram_noise(target.of_row)
    gaussian = GaussianNoise(target.group * L2_STEP * gaussian_sigma(target.epsilon, target.delta))
    totals = [_total(noise, target, asks) for noise in (laplace, gaussian)]
    return CostsOfAsks(laplace if totals[0] <= totals[1] else gaussian, *totals)


def words_of_asks(target: PrivacyTarget, asks: int) -> str:
    """Cost of so many requests over one D_v, in a line; who means to ask once hears what asking often is."""
    many = asks if asks > 1 else OFTEN
    costs = costs_of_asks(target, many)
    least = f"{min(costs.laplace, costs.gaussian):.3g}"
    if asks > 1:
        return f"asks = {asks}: all of them cost D_v's counts epsilon {least} at delta {target.delta:g}"
    return (
        f"asks = 1: each request is paid for anew; {OFTEN} of them cost D_v's counts epsilon "
        f"{costs.laplace:.3g} at delta {target.delta:g}, and {least} with asks = {OFTEN}"
    )


def rule_epsilon(deviation: float) -> float:
    """Epsilon of a histogram whose discrete Laplace noise deviates about so much, for rules of sizes."""
    return 2.0 * math.sqrt(2.0) / deviation


def _total(noise: HistogramNoise | GaussianNoise, target: PrivacyTarget, asks: int) -> float:
    from fedkme.privacy.accountants import Sound  # not needed by who asks once

    return Sound().epsilon(for_group([repeated(noise.event, asks)], target.group), target.delta).epsilon
