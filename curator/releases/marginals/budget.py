"""Budget of an adaptive release: a filter for Gaussian DP.

Relation: replace one row, N public. All costs are measured as mu of Gaussian DP (Dong, Roth, Su 2019): a
mechanism is mu-GDP if telling two neighbours apart is at least as hard as telling N(0, 1) from N(mu, 1).

- A marginal with noise sigma is a Gaussian of L2 sensitivity L2_STEP = sqrt(2), so mu^2 = 2 / sigma^2.
- M parities with noise sigma are a Gaussian of L2 sensitivity 2 sqrt(M) (`fedkme.features.counts`), so mu^2 =
  4 M / sigma^2.
- Squares add, even if each mechanism *and its noise* is chosen after seeing the earlier answers, as long as
  their sum never exceeds the bound set at the start (Smith and Thakurta 2022: a filter for Gaussian DP costs
  nothing). Rounds choose their noise depending on earlier answers: this theorem allows it.

The whole release is therefore one Gaussian of noise multiplier 1/mu: `event` says so and the sound accountant
charges it, exactly epsilon at delta. Releases on mbi are mostly accounted with zCDP, which allows a sum of
1/sigma^2 that is smaller by a sixth at (1, 1e-5) and by a fifth at (0.3, 1e-5).
"""

import math
from collections.abc import Sequence

from fedkme.errors import BudgetError
from fedkme.features.counts import L2_STEP, PARITY_STEP
from fedkme.privacy.events import Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma

_ROUNDING = 1e-9


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

    @property
    def event(self) -> Gaussian:
        """Event of the whole budget: the one Gaussian that dominates all measurements."""
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
