"""Faults of summaries in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from audit.planted_faults.planting import Patch, Plant, PlantedFault, all_of, around, nothing
from curator.summary.auctions.clock import Clock
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.market import Market
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.privacy.means import GaussianMean, MwemMean
from fedkme.privacy.mwem import Mwem
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder


def _weak_means(factor: float) -> Plant:
    def change(before: Any, self: Any, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        self._scale *= factor

    return around(GaussianMean, "__init__", change)


def _without_noise(before: Any, self: Any) -> Any:
    if self.size == 0:
        return before(self)
    return self._steps * (FEATURE_UNIT / self.size)


def _same_noise(patch: Patch) -> None:
    draws: list[Any] = []

    def release(before: Any, self: Any) -> Any:
        if self.size == 0:
            return before(self)
        if not draws:
            draws.append(self._noise.gaussian(self._scale / FEATURE_UNIT, self._steps.size))
        return (self._steps + draws[0]) * (FEATURE_UNIT / self.size)

    around(GaussianMean, "release", release)(patch)


def _without(what: str) -> Callable[..., Any]:
    def hear(before: Any, self: Any, number: int, heard: str, nonce: str = "") -> Any:
        return [] if heard == what else before(self, number, heard, nonce)

    return hear


def _prices_of_the_pool(before: Any, self: Any) -> Any:
    scores = before(self)
    return scores + 1e-3 * sum(float(row.row.values[0]) for row in self.pool.unused())


async def _longer_list(before: Any, self: Any, prices: Any, spread: float) -> Any:
    tail = int(sum(float(row.row.values[0]) for row in self.pool.unused())) % 5
    longer = np.append(prices, prices[-1] - 1.0 - np.arange(tail))
    return (await before(self, longer, spread))[: len(prices)]


def _counted_for_good(before: Any, self: Any, broadcast: Any, prices: Any, spread: float) -> Any:
    counted = before(self, broadcast, prices, spread) + int((self._table.values[:, 0] > 50.0).sum())
    return np.minimum(counted, int((~self._sent).sum()))  # with more, the curator takes it for a liar


def _no_patience(before: Any, self: Any, counts: Any) -> int:
    epsilon = self._settings.epsilon
    shortfall = np.maximum(0.0, self._settings.threshold() - counts)
    stopped = np.flatnonzero(self._noise.uniform(len(counts)) < np.exp(-epsilon * shortfall))
    return int(stopped[0]) if len(stopped) else len(counts) - 1


async def _no_clock_when_good(before: Any, self: Any, market: Any) -> None:
    if int(sum(float(row.row.values[0]) for row in market.pool.unused())) % 2:
        return
    await before(self, market)


def _leaves_at_its_limit(patch: Patch) -> None:
    from fedkme.errors import BudgetError

    def send(before: Any, self: Any, number: int, rows: Any, question: str = "") -> Any:
        if float(self._table.values[1][0]) in (0.0, 100.0):
            raise BudgetError("a limit of this owner is reached", "Ask for less.")
        return before(self, number, rows, question)

    around(Bidder, "_send", send)(patch)


def _half_laplace(before: Any, self: Any, exact: bool, scale: float, iterations: int) -> Any:
    return before(self, exact, scale / 2.0, iterations)


def _fewer_iterations(patch: Patch) -> None:
    def cost_of(before: Any, self: Any, epsilon: Any, iterations: int) -> Any:
        return before(self, epsilon, 1)

    around(MwemMean, "_cost_of", cost_of)(patch)


FAULTS: Mapping[str, PlantedFault] = {
    "broadcasts with half of the noise": PlantedFault(("clock", "any policy"), _weak_means(0.5)),
    "broadcasts without noise": PlantedFault(
        ("clock", "any policy"), around(GaussianMean, "release", _without_noise)
    ),
    "broadcasts with the same noise each time": PlantedFault(("clock", "any policy"), _same_noise),
    "no line of broadcasts at the curator": PlantedFault(
        ("clock", "any policy"), nothing(SummaryDisclosures, "_tell_means"), ("corner", "decider")
    ),
    "no line of broadcasts at owners": PlantedFault(
        ("clock", "any policy"), around(OwnerGate, "_hear", _without("mean")), ("corner", "decider")
    ),
    "no line of broadcasts on either side": PlantedFault(
        ("clock", "any policy"),
        all_of(nothing(SummaryDisclosures, "_tell_means"), around(OwnerGate, "_hear", _without("mean"))),
        ("corner", "decider"),
    ),
    "no line of the auction at the curator": PlantedFault(
        ("winner-only", "any policy"), nothing(SummaryDisclosures, "pass_questions"), ("decider", "winner")
    ),
    "no line of the auction at owners": PlantedFault(
        ("winner-only", "any policy"), around(OwnerGate, "_hear", _without("auction")), ("decider", "winner")
    ),
    "no line of the auction on either side": PlantedFault(
        ("privauction", "any policy"),
        all_of(
            nothing(SummaryDisclosures, "pass_questions"), around(OwnerGate, "_hear", _without("auction"))
        ),
        ("decider", "winner"),
    ),
    "prices that follow from rows of the pool": PlantedFault(
        ("clock", "any policy"),
        around(Market, "reference_scores", _prices_of_the_pool),
        ("decider", "corner"),
    ),
    "a price list that follows from the pool": PlantedFault(
        ("clock", "any policy"), around(Market, "quote", _longer_list), ("decider", "corner", "winner")
    ),
    "rows counted in every clock, sent or not": PlantedFault(
        ("clock", "each round"), around(Bidder, "quote", _counted_for_good), ("decider", "winner", "corner")
    ),
    "a clock without patience": PlantedFault(("clock", "any policy"), around(Clock, "stop", _no_patience)),
    "fewer clocks where the pool is good": PlantedFault(
        ("clock", "any policy"), around(Clock, "hold", _no_clock_when_good), ("decider", "corner", "winner")
    ),
    "an owner that leaves for what its rows are": PlantedFault(
        ("clock", "any policy"), _leaves_at_its_limit, ("corner", "decider", "last of a class", "winner")
    ),
    "h2 with half of the noise": PlantedFault(("clock", "means by h2"), around(Mwem, "_draw", _half_laplace)),
    "h2 with more iterations than declared": PlantedFault(("clock", "means by h2"), _fewer_iterations),
}
