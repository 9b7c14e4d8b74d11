"""Budget of an adaptive release: a filter for Gaussian DP.

Relation: replace one row, N public. All costs are measured as mu of Gaussian DP (Dong, Roth, Su 2019): a
mechanism is mu-GDP if telling two neighbours apart is at least as hard as telling N(0, 1) from N(mu, 1).

- A marginal with noise sigma is a Gaussian of L2 sensitivity L2_STEP = sqrt(2), so mu^2 = 2 / sigma^2.
- M parities with noise sigma are a Gaussian of L2 sensitivity 2 sqrt(M) (`fedkme.features.counts`), so mu^2 =
  4 M / sigma^2.
- A choice of bounded range r is mu-GDP with mu = 2 Phi^-1(1 / (1 + e^(-r/2))), about 0.627 r and never more.
- Squares add, even if each mechanism *and its noise* is chosen after seeing the earlier answers, as long as
  their sum never exceeds the bound set at the start (Smith and Thakurta 2022: a filter for Gaussian DP costs
  nothing). AIM halves its noise depending on earlier answers: this theorem allows it.

The whole release is therefore one Gaussian of noise multiplier 1/mu: `event` says so and the sound accountant
charges it, exactly epsilon at delta. Releases on mbi are mostly accounted with zCDP, which allows a sum of
1/sigma^2 that is smaller by a sixth at (1, 1e-5) and by a fifth at (0.3, 1e-5).

**A choice of range r is 2 Phi^-1(1/(1 + e^(-r/2)))-GDP.** The trade-off curves of its neighbours lie above
those of two-point mechanisms with losses t and t - r, t in [0, r] (Dong, Durfee, Rogers 2020; see
accountants.pld). A two-point mechanism is a test with a true positive rate p and a false positive rate q of
equal odds ratio for all t: p/q = e^t and (1 - p)/(1 - q) = e^(t-r), so logit p - logit q = r. Its curve lies
above that of mu-GDP if and only if Phi^-1(p) - Phi^-1(q) <= mu at its one vertex. Let h(x) = Phi^-1(1/(1 +
e^-x)): odd, and concave for x > 0 (van Zwet 1964: the logistic law has the heavier tails), so h' is even and
falls with |x|, and h(x + r) - h(x) is largest at x = -r/2, where it is 2 h(r/2). QED; no smaller mu will do,
and 2 h(r/2) <= h'(0) r.

**Selection.** The score of marginal S against a public table e (the model's answer) is w_S (||M_S - e||_1 - a
constant), w_S >= 0. A replaced row moves ||M_S - e||_1 by at most ||M_S - M_S'||_1 <= L1_STEP = 2, in both
directions for different S, so choosing S with probability proportional to exp(c score) has range 2 c L1_STEP
max w = 4 c max w. (Add-remove, the relation of AIM's paper, has 1 in place of 2.) Tables e are in steps of
2^-20, so that the sum is exact. Its product with a rate is rounded, and capped where `choose` would cap it,
before the constant is subtracted: a cap moves neighbours no further apart, and both roundings stay within
CHOICE_SLACK.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import BudgetError
from fedkme.features.counts import L1_STEP, L2_STEP, PARITY_STEP
from fedkme.privacy.events import CHOICE_SLACK, BoundedRange, Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import LARGEST_LOGIT, NoiseSource, choose

_ROUNDING = 1e-9


def selection_cost(span: float) -> float:
    """Least mu^2 such that every choice of bounded range `span` is mu-GDP."""
    from scipy.special import expit, ndtri  # the import takes a fifth of a second, so not at the start

    return float(2.0 * ndtri(expit(span / 2.0))) ** 2


def selection_range(cost: float) -> float:
    """Bounded range of the choices that have this `selection_cost`."""
    from scipy.special import log_ndtr

    half = math.sqrt(cost) / 2.0
    return 2.0 * float(log_ndtr(half) - log_ndtr(-half))


def measurement_cost(sigma: float) -> float:
    """mu^2 of one marginal with noise sigma in every cell."""
    return (L2_STEP / sigma) ** 2


def measurement_sigma(cost: float) -> float:
    """Noise of the marginals that have this `measurement_cost`."""
    return L2_STEP / math.sqrt(cost)


def parity_cost(sigma: float, count: int) -> float:
    """mu^2 of parities with noise sigma on each."""
    return count * (PARITY_STEP / sigma) ** 2


def parity_sigma(cost: float, count: int) -> float:
    """Noise of the parities that have this `parity_cost`."""
    return PARITY_STEP * math.sqrt(count / cost)


def selection_logits(
    errors: NDArray[np.float64], constants: NDArray[np.float64], weights: NDArray[np.float64], span: float
) -> NDArray[np.float64]:
    """Logits of a choice of range `span`, rounding slack included; arguments are those of `select`."""
    rates = weights * (max(span - CHOICE_SLACK, 0.0) / (2.0 * L1_STEP * float(weights.max())))
    return np.asarray(np.minimum(rates * errors, LARGEST_LOGIT) - rates * constants)


class BudgetFilter:
    """Filter that refuses a payment beyond (epsilon, delta)."""

    def __init__(self, epsilon: float, delta: float) -> None:
        """Set the budget of the whole release; epsilon >= 0, delta in (0, 1).

        Raises:
            ConfigError: epsilon or delta is out of range.
        """
        self.multiplier = gaussian_sigma(epsilon, delta)
        self.total = self.multiplier**-2
        self.spent = 0.0
        self._events: list[Event] = []

    @property
    def left(self) -> float:
        """Part of mu^2 that is not spent."""
        return max(0.0, self.total - self.spent)

    def measure(self, sigmas: Sequence[float]) -> None:
        """Pay for noisy marginals, before they are asked for.

        Raises:
            BudgetError: the cost exceeds the budget; nothing is paid.
        """
        self._pay(math.fsum(measurement_cost(sigma) for sigma in sigmas))
        self._events += [Gaussian(sigma / L2_STEP) for sigma in sigmas]

    def measure_parities(self, sigmas: Sequence[float], counts: Sequence[int]) -> None:
        """Pay for noisy parities, before they are asked for; `counts` are the parities of every block.

        Raises:
            BudgetError: the cost exceeds the budget; nothing is paid.
        """
        self._pay(math.fsum(map(parity_cost, sigmas, counts)))
        self._events += [
            Gaussian(parity_cost(s, count) ** -0.5) for s, count in zip(sigmas, counts, strict=True)
        ]

    def select(
        self,
        errors: NDArray[np.float64],
        constants: NDArray[np.float64],
        weights: NDArray[np.float64],
        cost: float,
        noise: NoiseSource,
    ) -> int:
        """Pay for and make one choice by the exponential mechanism.

        Args:
            errors: ||M_S - e_S||_1 of every candidate.
            constants: constants that are subtracted from the errors, public.
            weights: w_S, positive.
            cost: cost of the choice, mu^2.
            noise: source of the one uniform number.

        Raises:
            BudgetError: the cost exceeds the budget; nothing is paid or chosen.
        """
        span = selection_range(cost)
        self._pay(cost)
        self._events.append(BoundedRange(span))
        logits = selection_logits(errors, constants, weights, span)
        return choose(logits, float(noise.uniform(1)[0]), noise)

    @property
    def event(self) -> Gaussian:
        """Event of the whole budget: the one Gaussian that dominates all measurements and choices."""
        return Gaussian(self.multiplier)

    @property
    def pieces(self) -> Composed:
        """Events so far, one by one, for reading."""
        return Composed(tuple(self._events))

    def _pay(self, cost: float) -> None:
        if self.spent + cost > self.total * (1.0 + _ROUNDING):
            cause = "a release of marginals would go over its epsilon"
            raise BudgetError(cause, "Plan fewer measurements, or more noise.")
        self.spent += cost
