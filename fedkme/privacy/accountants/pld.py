"""Numerical composition with dp-accounting, by privacy loss distributions.

A release may depend on earlier releases: if (P_i, Q_i) dominates every mechanism that may stand at place i,
whatever came before, then the product of the pairs dominates the sequence (Zhu, Dong, Wang 2022, theorem 10).

**Bounded range.** The mechanisms of range r have no worst one: each has its losses in [t - r, t] for some t
in [0, r], and which t is worst depends on epsilon. For one t, E_Q[max(x - e^epsilon, 0)] is convex in
x = dP/dQ, x has mean 1 under Q and lies in [e^(t-r), e^t], so it is largest with x at the two ends:

    delta_t(epsilon) = (1 - e^(epsilon-t) - e^(t-r) + e^(epsilon-r)) / (1 - e^-r)    for epsilon in [t-r, t]

(Dong, Durfee, Rogers 2020). The supremum over t, at t = (epsilon + r)/2, is

    delta(epsilon) = (1 - e^((epsilon-r)/2))^2 / (1 - e^-r)                          for epsilon in [-r, r]

Let a function of e^epsilon be convex and falling, be 1 at e^epsilon = 0 and be at least 1 - e^epsilon. A
supremum of such functions is such a function, hence the curve of some pair. This pair dominates *every*
mechanism of range r in both directions. Its product is therefore valid even if t is chosen afresh at every
step from all earlier releases, unlike the formula of Dong et al. for one t fixed in advance. The pair is not
optimal: its variance is r^2/3, and no single mechanism of range r has more than r^2/4.

Curves are discretised by connecting dots, which only raises them. Rounding of floating point is not counted,
so deltas below `SMALLEST_DELTA` are not read from a loss distribution.

dp-accounting takes 1.7 s to import, so it is imported on first use. Its neighbouring relation stays at the
default everywhere: its replace-one would double sensitivities, and ours are diameters already.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.privacy.events import BoundedRange, Event, Gaussian, Laplace, PureDp

Counts = tuple[tuple[Event, int], ...]
"""Single releases, each with count 1, and the number of times it happened: no composed event, h2 or clock."""

SMALLEST_DELTA = 1e-11
_RESOLUTION = 0.01  # of the grid, in root mean square losses of a release: 2.5e-5 of the variance at most
_MOST_POINTS = 2.0**21
_MOST_DIFFERENT = 512  # a distribution each, in 10 ms: a peer's plan may name thousands of calls of h2
_MOST_RELEASES = 100_000  # beyond, the library's Fourier transforms take gigabytes
_LEAST_LOSS = 1e-8  # root mean square loss of a release; the error of rounding is smaller
_LARGEST_LOSS = 500.0  # of a release; above it e^loss nears the end of floats, and nothing is private


def numerical_epsilon(counts: Counts, delta: float) -> float:
    """Epsilon at delta by the product of dominating pairs; inf where it cannot be computed."""
    if delta < SMALLEST_DELTA or not _is_computable(counts):
        return math.inf
    return float(_loss_distribution(counts).get_epsilon_for_delta(delta))


def bounded_range_delta(epsilon: NDArray[np.float64], span: float) -> NDArray[np.float64]:
    """Supremum of delta at epsilon over all mechanisms of range `span`; any shape."""
    inside = np.expm1((np.minimum(epsilon, span) - span) / 2.0) ** 2 / -np.expm1(-span)
    return np.where(epsilon < -span, -np.expm1(epsilon), inside)


def pure_delta(epsilon: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """Delta at epsilon of randomised response, the worst mechanism that is (bound, 0)-DP; any shape."""
    inside = -np.expm1(np.minimum(epsilon, bound) - bound) / (1.0 + np.exp(-bound))
    return np.where(epsilon < -bound, -np.expm1(epsilon), inside)


@lru_cache(maxsize=64)
def _loss_distribution(counts: Counts) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    step = _grid_step(counts)
    whole = library.identity(value_discretization_interval=step)
    for event, count in counts:
        match event:
            case Gaussian(noise):  # exactly one Gaussian of lower noise
                sigma = noise / math.sqrt(count)
                part = library.from_gaussian_mechanism(sigma, value_discretization_interval=step)
            case Laplace(noise):
                single = library.from_laplace_mechanism(noise, value_discretization_interval=step)
                part = single.self_compose(count)
            case BoundedRange(span):
                part = _connect_dots(bounded_range_delta, span, step).self_compose(count)
            case PureDp(bound):
                part = _connect_dots(pure_delta, bound, step).self_compose(count)
            case _:
                raise TypeError(f"no loss distribution is known for '{event.kind}'")
        whole = whole.compose(part)
    return whole


def _connect_dots(
    curve: Callable[[NDArray[np.float64], float], NDArray[np.float64]], largest: float, step: float
) -> Any:
    """A symmetric distribution of losses within `largest`, from its delta as a function of epsilon."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    end = math.ceil(largest / step)
    deltas = curve(np.arange(-end, end + 1, dtype=np.float64) * step, largest)
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -end, end, deltas)
    )


def _variance(event: Event) -> float:
    """Rough variance of the privacy loss of one release."""
    match event:
        case Gaussian(noise) | Laplace(noise):
            return noise**-2
        case BoundedRange(span):
            return span**2 / 3.0
        case PureDp(bound):
            return bound**2
        case _:
            return math.inf


def _is_computable(counts: Counts) -> bool:
    few = len(counts) <= _MOST_DIFFERENT and _releases(counts) <= _MOST_RELEASES
    small = few and _total_variance(counts) / 2.0 <= _LARGEST_LOSS
    # else the library loses digits that matter
    return small and all(_LEAST_LOSS <= math.sqrt(_variance(event)) <= _LARGEST_LOSS for event, _ in counts)


def _total_variance(counts: Counts) -> float:
    return sum(count * _variance(event) for event, count in counts)


def _releases(counts: Counts) -> int:
    return sum(1 if isinstance(event, Gaussian) else count for event, count in counts)


def _grid_step(counts: Counts) -> float:
    """Step of the grid of losses: fine against the loss of a single release, and without too many points.

    Rounding a loss to the grid adds at most step^2/4 to the variance of each release.
    """
    total = _total_variance(counts)
    finest = _RESOLUTION * math.sqrt(total / max(_releases(counts), 100))
    return max(finest, (total + 30.0 * math.sqrt(total)) / _MOST_POINTS)
