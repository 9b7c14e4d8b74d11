"""Noise on the counts of a D_v in repeated requests: the law with the least cost over all requests.

Under either law of `fedkme.cells.histogram`, each request by itself is (epsilon, delta)-DP. Discrete Laplace
noise has the smaller deviation (2.8 rows at epsilon 1, where Gaussian noise has 5.3), and delta 0. But k
requests with discrete Laplace noise cost nearly k epsilon while k is small, and with Gaussian noise about
sqrt(k) epsilon: at (1, 1e-5), 20 requests cost 16.0 and 5.41. Both totals are exact (by privacy-loss
distributions; by the Gaussian's own law), so their minimum is exact, too. With either law the ledger has one
event for each draw.
"""

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
"""Number of requests for which a consumer with `asks = 1` is shown the cost, too."""


@dataclass(frozen=True)
class CostsOfAsks:
    """Noise of each of several requests, and the cost of all requests.

    Attributes:
        noise: noise of the law that costs least.
        laplace: epsilon of all requests with discrete Laplace noise, at the target's delta.
        gaussian: epsilon of all requests with Gaussian noise, at the target's delta.
    """

    noise: CountNoise
    laplace: float
    gaussian: float


def noise_of_asks(target: PrivacyTarget, asks: int) -> CountNoise:
    """Noise of each of `asks` requests, each within the target; one request has discrete Laplace noise."""
    return histogram_noise(target.of_row) if asks == 1 else costs_of_asks(target, asks).noise


def deviation_of_asks(target: PrivacyTarget, asks: int) -> float:
    """Deviation of the noise on each count, as a request states it; 0 for discrete Laplace noise."""
    noise = noise_of_asks(target, asks)
    return 0.0 if isinstance(noise, HistogramNoise) else math.sqrt(noise.variance)


@functools.lru_cache(maxsize=64)
def costs_of_asks(target: PrivacyTarget, asks: int) -> CostsOfAsks:
    """Costs of several requests under either law.

    Args:
        target: (epsilon, delta) of each request, for the rows of a group together.
        asks: number of requests, each of which may depend on the answers to earlier ones.
    """
    laplace = histogram_noise(target.of_row)
    gaussian = GaussianNoise(target.group * L2_STEP * gaussian_sigma(target.epsilon, target.delta))
    totals = [_total(noise, target, asks) for noise in (laplace, gaussian)]
    return CostsOfAsks(laplace if totals[0] <= totals[1] else gaussian, *totals)


def rule_epsilon(deviation: float) -> float:
    """Epsilon of a histogram whose discrete Laplace noise has about this deviation, for rules of sizes."""
    return 2.0 * math.sqrt(2.0) / deviation


def _total(noise: HistogramNoise | GaussianNoise, target: PrivacyTarget, asks: int) -> float:
    from fedkme.privacy.accountants import Sound  # a single request does not need this import

    return Sound().epsilon(for_group([repeated(noise.event, asks)], target.group), target.delta).epsilon
