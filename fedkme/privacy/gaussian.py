"""The Gaussian mechanism, calibrated exactly (Balle and Wang 2018, theorem 8).

For a query of L2 sensitivity 1 and noise of standard deviation s in every coordinate,

    delta(epsilon) = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s)

and no smaller delta holds. k such releases, each chosen after seeing earlier releases, are together
exactly as private as one release with s / sqrt(k) (Dong, Roth, Su 2019). The classical
s = sqrt(2 log(1.25 / delta)) / epsilon is larger than needed and has no theorem for epsilon >= 1.

The neighbouring relation is that under which the caller bounds the sensitivity.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from fedkme.errors import ConfigError

Responses = Sequence[tuple[float, float]]
"""Chances of the losses of randomised responses, as (chance, loss)."""
_CLOSE = 1e-4
"""Difference of the logarithms of delta's two terms above which rounding does not matter: 2^-40 of it."""
MARGIN = 1e-9
"""Relative margin: far above the rounding of `responses_delta`, far below anything that matters."""
_cached = lru_cache(maxsize=256)
"""Cache of bisections, a millisecond each: a run, or an audit of thousands, needs few different results."""


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Smallest delta at which noise `sigma` per unit of L2 sensitivity is (epsilon, delta)-DP.

    Args:
        sigma: standard deviation over sensitivity, > 0.
        epsilon: any real number.
    """
    from scipy.special import log_ndtr  # takes half a second: not at a party's start

    # In logarithms: e^epsilon overflows and both terms underflow well inside the useful range.
    first = float(log_ndtr(0.5 / sigma - epsilon * sigma))
    second = epsilon + float(log_ndtr(-0.5 / sigma - epsilon * sigma))
    if first - second > _CLOSE:
        return math.exp(first) * -math.expm1(second - first)
    if epsilon < 0.0:
        return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(sigma, -epsilon)
    return _small_delta(sigma, epsilon)


def _small_delta(sigma: float, epsilon: float) -> float:
    """Tight upper bound of `gaussian_delta` for epsilon >= 0 where its terms are equal but for rounding.

    With h = 1/(2 sigma) and m = -epsilon sigma, Phi(m + h) - Phi(m - h) is at most the integral of
    phi(m) e^(|m t|) over |t| <= h, and Phi(m - h) at least Phi(m) - h phi(m), as phi rises below 0. So delta
    is at most 2 phi(m) sinh(|m| h)/|m| - (e^epsilon - 1)(Phi(m) - h phi(m)). The function adds a bound on the
    rounding of this number.
    """
    from scipy.special import log_ndtr

    half, middle = 0.5 / sigma, epsilon * sigma
    if middle > 38.6:
        return 0.0  # delta is below e^-745, the least positive float
    density = math.exp(-0.5 * middle * middle) / math.sqrt(2.0 * math.pi)
    width = 2.0 * math.sinh(middle * half) / middle if middle * half > 1e-9 else 2.0 * half * (1.0 + 1e-15)
    below = max(math.exp(float(log_ndtr(-middle))) - half * density, 0.0)
    rounding = 2.0**-50 * (1.0 + middle * middle) * width * density
    return max(width * density - math.expm1(epsilon) * below, 0.0) + rounding


@_cached
def gaussian_sigma(epsilon: float, delta: float, releases: int = 1) -> float:
    """Least noise, per unit of L2 sensitivity, that makes all releases together (epsilon, delta)-DP.

    Args:
        epsilon: >= 0.
        delta: in (0, 1).
        releases: how many times noise is added, >= 1; each release may depend on earlier releases.

    Returns:
        Standard deviation of the noise of every release over the sensitivity of one release.

    Raises:
        ConfigError: a parameter is out of its range.
    """
    _check_delta(delta)
    if not (epsilon >= 0 and releases >= 1):
        cause = f"no Gaussian noise exists for epsilon {epsilon} and {releases} releases"
        raise ConfigError(cause, "Take epsilon >= 0 and at least one release.")
    # At 1 / (sqrt(2 pi) delta) the bound already holds for epsilon = 0.
    high = 1.0 / (math.sqrt(2.0 * math.pi) * delta)
    single = _bisect_least(lambda sigma: gaussian_delta(sigma, epsilon) <= delta, 0.0, high)
    return math.sqrt(releases) * single


@_cached
def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Smallest epsilon at which noise `sigma` per unit of L2 sensitivity is (epsilon, delta)-DP.

    Args:
        sigma: standard deviation over sensitivity, > 0; for k releases pass sigma / sqrt(k).
        delta: in (0, 1).

    Raises:
        ConfigError: a parameter is out of its range.
    """
    _check_delta(delta)
    if not sigma > 0:
        raise ConfigError(f"sigma {sigma} is no scale of noise", "Take sigma > 0.")
    if gaussian_delta(sigma, 0.0) <= delta:
        return 0.0
    # Chernoff's bound on the privacy loss, a Gaussian of mean 1/(2 s^2) and deviation 1/s.
    high = 0.5 / sigma**2 + math.sqrt(2.0 * math.log(1.0 / delta)) / sigma
    return _bisect_least(lambda epsilon: gaussian_delta(sigma, epsilon) <= delta, 0.0, high)


def row_epsilon(epsilon: float, delta: float, rows: int) -> float:
    """Epsilon for one row at which a Gaussian mechanism is (epsilon, delta)-DP for `rows` rows at once.

    Any mechanisms that are together mu-GDP, adaptive or not, are then (epsilon, delta)-DP for the group
    (Dong, Roth, Su 2019, theorem 2.14).

    Raises:
        ConfigError: the group needs more noise than one row needs at epsilon 0.
    """
    if rows == 1:
        return epsilon
    if not (row := gaussian_epsilon(rows * gaussian_sigma(epsilon, delta), delta)) > 0.0:
        raise ConfigError(
            f"epsilon {epsilon:g} at delta {delta:g} for {rows} rows together is below what noise for one "
            "row ever gives",
            "Take a larger epsilon, or a smaller delta.",
        )
    return row


def responses_delta(sigma: float, responses: Responses, epsilon: float) -> float:
    """Smallest delta at epsilon of Gaussian noise together with randomised responses, in any order.

    delta(epsilon) = sum over losses l of P(l) delta_G(epsilon - l). *Proof.* It is E[(1 - e^(epsilon - L))_+]
    of the loss L = L_G + l of the product of the dominating pairs, and products of dominating pairs dominate
    adaptive composition (Zhu, Dong, Wang 2022, theorem 10); condition on l. The pairs are symmetric, so the
    other direction is the same. There is no grid and no cut tail; MARGIN covers rounding.

    Args:
        sigma: sigma of the Gaussian, see `gaussian_delta`.
        responses: chance of each loss l of all responses together.
        epsilon: any real number.
    """
    terms = math.fsum(chance * gaussian_delta(sigma, epsilon - loss) for chance, loss in responses)
    return min(1.0, terms * (1.0 + MARGIN))


def responses_epsilon(sigma: float, responses: Responses, delta: float) -> float:
    """Smallest epsilon >= 0 at delta of Gaussian noise with randomised responses; see `responses_delta`."""
    high = gaussian_epsilon(sigma, delta / (1.0 + MARGIN)) + max(loss for _, loss in responses)
    return _bisect_least(lambda epsilon: responses_delta(sigma, responses, epsilon) <= delta, 0.0, high)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ConfigError(f"delta {delta} is not a probability of failure", "Take 0 < delta < 1.")


def _bisect_least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect to the least number at which a monotone condition holds; the condition holds at the result."""
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:  # neighbouring floats
            return high
        if holds(middle):
            high = middle
        else:
            low = middle
