"""Undeclared disclosures planted in the product, each with the case in which replay must find it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import consumer.gate
import consumer.party
import consumer.summary.offers
import curator.cells.disclosures
import curator.cells.run
import curator.releases.joint
import curator.releases.marginals.adaptive
import curator.runs.release_run
import curator.summary.algorithm3
import curator.sums.disclosures
import curator.sums.owner_sums
import fedkme.secagg.owner
import fedkme.sums.disclosures
import owner.cells.responder
import owner.consent.gate
import owner.consent.policy
import owner.handler
import owner.sums.responder
from curator.owners.session import OwnerSession
from curator.releases.marginals.budget import BudgetFilter
from curator.summary.auctions.clock import Clock
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.market import Market
from fedkme.cells.histogram import GaussianNoise, HistogramNoise
from fedkme.errors import PolicyError
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.privacy.events import CURATOR, OWNERS
from fedkme.privacy.means import GaussianMean, MwemMean
from fedkme.privacy.mwem import Mwem
from fedkme.protocol import Closing
from fedkme.sealed import HashedRow
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.consent.policy import Policy
from owner.keyring import Sealer
from owner.summary.bidder import Bidder
from sim.replay.neighbours import Kind

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


@dataclass(frozen=True)
class Fault:
    """Planted disclosure.

    Attributes:
        case: protocol, and a part of the case's note.
        plant: puts it into the product.
        kinds: neighbours by which it shows.
    """

    case: tuple[str, str]
    plant: Plant
    kinds: tuple[Kind, ...] = ("corner",)


def _around(place: Any, name: str, change: Callable[..., Any]) -> Plant:
    """Put `change(before, *arguments)` in the place of a function."""

    def plant(patch: Patch) -> None:
        before = getattr(place, name)

        @functools.wraps(before)
        def changed(*arguments: Any, **named: Any) -> Any:
            return change(before, *arguments, **named)

        patch.setattr(place, name, changed)

    return plant


def _all(*plants: Plant) -> Plant:
    def plant(patch: Patch) -> None:
        for each in plants:
            each(patch)

    return plant


def _nothing(place: Any, name: str, instead: Any = None) -> Plant:
    return _around(place, name, lambda before, *arguments, **named: instead)


def _scaled(noise: Any, factor: float) -> Any:
    """A source whose scales are wrong by a factor."""

    class Scaled:
        site = getattr(noise, "site", None)

        def __getattr__(self, name: str) -> Any:
            drawn = getattr(noise, name)
            return drawn if name == "uniform" else lambda scale, size: drawn(factor * scale, size)

        def discrete_laplace(self, scale: float, size: int) -> Any:
            return noise.discrete_laplace(factor * scale, size)

    return Scaled()


def _drawn_once(before: Any, cells: Any, size: int, how: Any, noise: Any, *, kept: dict[int, Any]) -> Any:
    """Counts whose noise was drawn for the first of them."""
    exact = np.bincount(cells, minlength=size).astype(np.int64)
    if size not in kept:
        kept[size] = noise.discrete_laplace(how.scale, size)
    return exact + kept[size]


def _no_line_towards(observer: str, place: Any, name: str = "histogram_disclosures") -> Plant:
    """Leave lines towards an observer out of those that a function makes."""

    def without(before: Any, *said: Any) -> Any:
        return [line for line in before(*said) if line.observer != observer]

    return _around(place, name, without)


CONSUMER_SIDE: Mapping[str, Fault] = {
    "D_v's counts with half of the noise, at the call": Fault(
        ("cells", "any policy"),
        _around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(cells, size, HistogramNoise(how.scale / 2), noise),
        ),
    ),
    "Gaussian counts of D_v with half of the noise": Fault(
        ("cells", "D_v is asked about often"),
        _around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(
                cells, size, GaussianNoise(how.deviation / 2), noise
            ),
        ),
    ),
    "D_v's counts without noise": Fault(
        ("cells", "any policy"),
        _around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(cells, size, None, noise),
        ),
    ),
    "D_v's counts with noise that was drawn once": Fault(
        ("cells", "any policy"),
        _around(consumer.summary.offers, "noisy_counts", functools.partial(_drawn_once, kept={})),
    ),
    "D_v's counts with noise that is halved after it was drawn": Fault(
        ("cells", "any policy"),
        _around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: (
                np.bincount(cells, minlength=size) + noise.discrete_laplace(how.scale, size) // 2
            ),
        ),
    ),
    "D_v counted twice in its cell": Fault(
        ("cells", "any policy"),
        _around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(np.concatenate([cells, cells]), size, how, noise),
        ),
    ),
    "g~ with half of the noise": Fault(
        ("clock", "any policy"),
        _around(
            consumer.summary.offers,
            "release_target",
            lambda before, settings, h1, rows, noise, *more: before(
                settings, h1, rows, _scaled(noise, 0.5), *more
            ),
        ),
    ),
    "g~ with a tenth less noise": Fault(
        ("clock", "any policy"),
        _around(
            consumer.summary.offers,
            "release_target",
            lambda before, settings, h1, rows, noise, *more: before(
                settings, h1, rows, _scaled(noise, 0.9), *more
            ),
        ),
    ),
    "g~ by landmarks with a tenth less noise": Fault(
        ("clock", "g~ by landmarks"),
        _around(
            consumer.summary.offers,
            "release_target",
            lambda before, settings, h1, rows, noise, *more: before(
                settings, h1, rows, _scaled(noise, 0.9), *more
            ),
        ),
    ),
    "no line of g~ towards owners": Fault(
        ("clock", "any policy"),
        _around(
            consumer.gate.ConsumerGate,
            "_write",
            lambda before, self, *said: before(self, *(each for each in said if each != OWNERS)),
        ),
    ),
    "no line of g~ at all": Fault(
        ("clock", "any policy"), _nothing(consumer.gate.ConsumerGate, "pass_target")
    ),
    "no line of D_v's counts": Fault(
        ("cells", "any policy"), _nothing(consumer.gate.ConsumerGate, "pass_histogram")
    ),
    "no line of gamma": Fault(
        ("clock", "gamma of D_v"), _nothing(consumer.gate.ConsumerGate, "pass_gamma"), ("corner", "decider")
    ),
    "a size of D_v that is of its rows": Fault(
        ("clock", "any policy"),
        _around(
            consumer.party,
            "make_request",
            lambda before, request, schema, validation, gate: replace(
                before(request, schema, validation, gate),
                validation_rows=len(validation) + int(validation.values[:, 0].sum()),
            ),
        ),
    ),
    "an offer that is drawn again for a retry": Fault(
        ("clock", "any policy"),
        _around(
            consumer.party.ConsumerParty,
            "offer",
            lambda before, self, kept, plan: consumer.summary.offers.make_offer(
                plan,
                self.request,
                self.schema,
                self.validation,
                self.noise_for,
                consumer.gate.ConsumerGate("consumer"),
            ),
        ),
    ),
}
"""Faults of what a consumer sends."""


def _half_histogram(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    return before(cells, size, HistogramNoise(how.scale / 2), noise)


def _exact_cell(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    drawn = noise.discrete_laplace(how.scale, size)
    drawn[0] = 0
    return np.bincount(cells, minlength=size) + drawn


def _counted_again(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    return np.minimum(before(cells, size, how, noise), before(cells, size, how, noise))


def _fill_short(before: Any, self: Any, *order: Any) -> Any:
    """Boxes for some rows alone."""
    found = before(self, *order)
    held = int((self._table.values[:, 0] > 50.0).sum())
    return found[: max(1, min(len(found), held % 3 + 1))]


def _longer_boxes(before: Any, self: Any, rows: Any, *features: Any) -> Any:
    return [
        HashedRow(each.token, each.features, each.box + bytes(int(row.values[0] > 50.0)))
        for row, each in zip(rows, before(self, rows, *features), strict=True)
    ]


def _row_in_the_error(before: Any, self: Any, *arguments: Any) -> Any:
    raise PolicyError(f"row {self._table.values[1]} does not fit", "Look at the row.")


def _row_in_the_log(before: Any, self: Any, *arguments: Any) -> Any:
    logging.getLogger("owner.cells").info("counted %s", self._table.values[1])
    return before(self, *arguments)


def _again_with_fresh_noise(before: Any, self: Any, entry: Any) -> Any:
    before(self, entry)
    if entry.directive.question == "histogram":
        self._answer = None


def _recounted(before: Any, self: Any, directive: Any) -> Any:
    self._responder._counted = False
    from fedkme.directives import NoisyHistogram

    return NoisyHistogram(self._responder.histogram(directive.round))


def _survivors_told(patch: Patch) -> None:
    kept: list[int] = []

    def prune(before: Any, *arguments: Any) -> Any:
        found = before(*arguments)
        kept[:] = [int(found.sum())]
        return found

    def close(before: Any, self: Any, last_round: int) -> Any:
        return before(self, last_round + sum(kept))

    _around(curator.cells.run, "in_some_form", prune)(patch)
    _around(OwnerSession, "close", close)(patch)


def _budget_after(patch: Patch) -> None:
    """The budget is looked at when the bytes have left."""
    _nothing(Policy, "_check_cost")(patch)


def _token_of_its_place(before: Any, self: Any, *order: Any) -> Any:
    found = before(self, *order)
    shift = int(self._table.values[1][0])
    return [HashedRow(row.token + shift, row.features, row.box) for row in found]


CELLS: Mapping[str, Fault] = {
    "an owner's counts with half of the noise": Fault(
        ("cells", "any policy"), _around(owner.cells.responder, "noisy_counts", _half_histogram)
    ),
    "an owner's counts with one cell as it is": Fault(
        ("cells", "any policy"), _around(owner.cells.responder, "noisy_counts", _exact_cell)
    ),
    "owners' counts with noise that was drawn once": Fault(
        ("cells", "any policy"),
        _around(owner.cells.responder, "noisy_counts", functools.partial(_drawn_once, kept={})),
    ),
    "the smaller of two noisy counts": Fault(
        ("cells", "any policy"), _around(owner.cells.responder, "noisy_counts", _counted_again)
    ),
    "no line towards owners on either side": Fault(
        ("cells", "any policy"),
        _all(
            _no_line_towards(OWNERS, owner.consent.gate),
            _no_line_towards(OWNERS, curator.cells.disclosures),
        ),
    ),
    "no line towards owners at the owner": Fault(
        ("cells", "any policy"),
        _no_line_towards(OWNERS, owner.consent.gate),
    ),
    "no line of counts at the curator": Fault(
        ("cells", "any policy"), _nothing(curator.cells.disclosures.CellDisclosures, "receive_histogram")
    ),
    "no line towards the curator on either side": Fault(
        ("cells-sealed", "any policy"),
        _all(
            _no_line_towards(CURATOR, owner.consent.gate),
            _no_line_towards(CURATOR, curator.cells.disclosures),
        ),
    ),
    "the nonce of counts is always the same": Fault(
        ("cells", "any policy"),
        lambda patch: patch.setattr("fedkme.cells.disclosures.histogram_nonce", lambda counts: "histogram"),
    ),
    "boxes for some rows alone": Fault(
        ("cells-sealed", "any policy"), _around(HistogramResponder, "fill_order", _fill_short)
    ),
    "boxes of a length that depends on the row": Fault(
        ("cells-sealed", "most rows"),  # the row that is replaced is among them
        _around(Sealer, "seal", _longer_boxes),
        ("decider", "corner", "random"),
    ),
    "tokens that depend on rows": Fault(
        ("cells-sealed", "any policy"), _around(HistogramResponder, "fill_order", _token_of_its_place)
    ),
    "a row in the words of an error": Fault(
        ("cells-sealed", "any policy"), _around(HistogramResponder, "fill_order", _row_in_the_error)
    ),
    "a row in a line of the log": Fault(
        ("cells-sealed", "any policy"), _around(HistogramResponder, "histogram", _row_in_the_log)
    ),
    "an owner's own count at the end is of real rows": Fault(
        ("cells-sealed", "any policy"),
        _around(
            HistogramResponder,
            "close",
            lambda before, self: Closing(int((self._table.values[:, 0] > 50.0).sum())),
        ),
    ),
    "a number of rows that is of their content": Fault(
        ("cells", "any policy"),
        _around(
            HistogramResponder,
            "invite",
            lambda before, self, said: before(self, said) - int(self._table.values[1][0] > 50.0),
        ),
    ),
    "survivors of pruning told to owners": Fault(
        ("cells", "D_v is shared"), _survivors_told, ("corner", "random", "decider")
    ),
    "a histogram that is drawn again after a death": Fault(
        ("cells", "dies"),
        _all(
            _around(owner.handler.RunHandler, "restore", _again_with_fresh_noise),
            _around(CellHandler, "_recomputed", _recounted),
        ),
    ),
    "a budget that is looked at after the bytes left": Fault(("cells", "small budget"), _budget_after),
    "half of the noise in a sketch": Fault(
        ("cells", "cells of a sketch"),
        _around(
            curator.sums.owner_sums,
            "release_sketch",
            lambda before, *said: before(*said[:-1], _scaled(said[-1], 0.5)),
        ),
    ),
    "no line of the sketch towards owners": Fault(
        ("cells", "cells of a sketch"),
        _all(
            *(
                _no_line_towards(OWNERS, place, "release_disclosures")
                for place in (owner.consent.gate, curator.sums.disclosures)
            )
        ),
        ("corner", "last of a class"),
    ),
}
"""Faults of summaries by cells."""


def _weak_means(factor: float) -> Plant:
    def change(before: Any, self: Any, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        self._scale *= factor

    return _around(GaussianMean, "__init__", change)


def _without_noise(before: Any, self: Any) -> Any:
    if self._size == 0:
        return before(self)
    return self._steps * (FEATURE_UNIT / self._size)


def _same_noise(patch: Patch) -> None:
    kept: list[Any] = []

    def release(before: Any, self: Any) -> Any:
        if self._size == 0:
            return before(self)
        if not kept:
            kept.append(self._noise.gaussian(self._scale / FEATURE_UNIT, self._steps.size))
        return (self._steps + kept[0]) * (FEATURE_UNIT / self._size)

    _around(GaussianMean, "release", release)(patch)


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
    return before(self, broadcast, prices, spread) + int((self._table.values[:, 0] > 50.0).sum())


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

    _around(Bidder, "_send", send)(patch)


def _half_laplace(before: Any, self: Any, exact: bool, scale: float, iterations: int) -> Any:
    return before(self, exact, scale / 2.0, iterations)


def _fewer_iterations(patch: Patch) -> None:
    def cost_of(before: Any, self: Any, epsilon: Any, iterations: int) -> Any:
        return before(self, epsilon, 1)

    _around(MwemMean, "_cost_of", cost_of)(patch)


ALGORITHM3: Mapping[str, Fault] = {
    "broadcasts with half of the noise": Fault(
        ("clock", "any policy"),
        _weak_means(0.5),
    ),
    "broadcasts without noise": Fault(
        ("clock", "any policy"), _around(GaussianMean, "release", _without_noise)
    ),
    "broadcasts with the same noise each time": Fault(("clock", "any policy"), _same_noise),
    "no line of broadcasts at the curator": Fault(
        ("clock", "any policy"), _nothing(SummaryDisclosures, "_tell_means"), ("corner", "decider")
    ),
    "no line of broadcasts at owners": Fault(
        ("clock", "any policy"), _around(OwnerGate, "_hear", _without("mean")), ("corner", "decider")
    ),
    "no line of broadcasts on either side": Fault(
        ("clock", "any policy"),
        _all(_nothing(SummaryDisclosures, "_tell_means"), _around(OwnerGate, "_hear", _without("mean"))),
        ("corner", "decider"),
    ),
    "no line of the auction at the curator": Fault(
        ("winner-only", "any policy"), _nothing(SummaryDisclosures, "pass_questions"), ("decider", "winner")
    ),
    "no line of the auction at owners": Fault(
        ("winner-only", "any policy"),
        _around(OwnerGate, "_hear", _without("auction")),
        ("decider", "winner"),
    ),
    "no line of the auction on either side": Fault(
        ("privauction", "any policy"),
        _all(
            _nothing(SummaryDisclosures, "pass_questions"), _around(OwnerGate, "_hear", _without("auction"))
        ),
        ("decider", "winner"),
    ),
    "prices that follow from rows of the pool": Fault(
        ("clock", "any policy"),
        _around(Market, "reference_scores", _prices_of_the_pool),
        ("decider", "corner"),
    ),
    "a price list that follows from the pool": Fault(
        ("clock", "any policy"), _around(Market, "quote", _longer_list), ("decider", "corner", "winner")
    ),
    "rows counted in every clock, sent or not": Fault(
        ("clock", "each round"), _around(Bidder, "quote", _counted_for_good), ("decider", "winner", "corner")
    ),
    "a clock without patience": Fault(("clock", "any policy"), _around(Clock, "stop", _no_patience)),
    "fewer clocks where the pool is good": Fault(
        ("clock", "any policy"), _around(Clock, "hold", _no_clock_when_good), ("decider", "corner", "winner")
    ),
    "an owner that leaves for what its rows are": Fault(
        ("clock", "any policy"), _leaves_at_its_limit, ("corner", "decider", "last of a class", "winner")
    ),
    "h2 with half of the noise": Fault(("clock", "means by h2"), _around(Mwem, "_draw", _half_laplace)),
    "h2 with more iterations than declared": Fault(("clock", "means by h2"), _fewer_iterations),
}
"""Faults of summaries in rounds."""


def _planned_for_all(before: Any, *arguments: Any, **named: Any) -> Any:
    return before(*arguments, **(named | {"dropouts": 0, "colluders": 0}))


def _promised_for_all(before: Any, parameters: Any, diameter: float, releases: int = 1) -> Any:
    plan = before(parameters, diameter, releases)
    return replace(plan, honest=len(parameters.owners))


def _total_in_the_log(before: Any, self: Any, vector: Any, total: Any, release: Any) -> Any:
    logging.getLogger("curator.sums").info("the total begins with %s", total.steps[:3])
    return before(self, vector, total, release)


def _exact_masses(before: Any, pooled: Any, sigma: float, noise: Any) -> Any:
    return pooled.count.astype(np.float64)


def _greedy(before: Any, self: Any, scores: Any, weights: Any, cost: float, noise: Any) -> int:
    self._pay(cost)
    return int(np.argmax(scores))


def _first_key_again(patch: Patch) -> None:
    class Kept(fedkme.secagg.owner.OwnerAggregator):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            name = self.name.encode()
            self._entropy = lambda size: (name * size)[:size]

    patch.setattr(owner.sums.responder, "OwnerAggregator", Kept)


def _row_in_the_record(before: Any, self: Any) -> None:
    sums = self.record.owner_rows
    self._facts["total"] = _totals[-1] if _totals else len(sums)
    before(self)


_totals: list[int] = []


def _keep_total(before: Any, self: Any, vector: Any, total: Any, release: Any) -> Any:
    _totals.append(int(total.steps.sum()))
    return before(self, vector, total, release)


SUMS: Mapping[str, Fault] = {
    "a release with half of the noise, at the curator": Fault(
        ("balog1", "any policy"),
        _around(
            curator.releases.joint,
            "release_embedding",
            lambda before, pooled, features, layout, sigma, noise: before(
                pooled, features, layout, sigma / 2, noise
            ),
        ),
    ),
    "a release with a tenth less noise": Fault(
        ("merf", "any policy"),
        _around(
            curator.releases.joint,
            "release_embedding",
            lambda before, pooled, features, layout, sigma, noise: before(
                pooled, features, layout, 0.9 * sigma, noise
            ),
        ),
    ),
    "class counts without noise": Fault(
        ("merf", "any policy"),
        _around(curator.releases.joint, "release_counts", _exact_masses),
        ("corner", "last of a class"),
    ),
    "no line of a release on either side": Fault(
        ("balog1", "any policy"),
        _all(
            *(
                _nothing(place, "release_disclosures", [])
                for place in (owner.consent.gate, curator.sums.disclosures)
            )
        ),
    ),
    "no line of a release at the owner": Fault(
        ("balog1", "any policy"), _nothing(owner.consent.gate, "release_disclosures", [])
    ),
    "a total in a line of the log": Fault(
        ("balog1", "any policy"), _around(curator.sums.owner_sums.OwnerSums, "_with_noise", _total_in_the_log)
    ),
    "a total in record.json": Fault(
        ("balog1", "any policy"),
        _all(
            _around(curator.sums.owner_sums.OwnerSums, "_with_noise", _keep_total),
            _around(curator.runs.release_run.ReleaseRun, "write", _row_in_the_record),
        ),
    ),
    "AIM measures with half of its noise": Fault(
        ("marginals", "any policy"),
        _around(
            curator.releases.marginals.adaptive,
            "add_noise",
            lambda before, counts, sigma, noise: before(counts, sigma / 2, noise),
        ),
    ),
    "AIM chooses the worst marginal itself": Fault(
        ("marginals", "any policy"), _around(BudgetFilter, "select", _greedy)
    ),
    "columns measured with half of their noise": Fault(
        ("marginals", "budgets"),
        _around(
            curator.sums.owner_sums.OwnerSums,
            "marginals",
            lambda before, self, question, sigmas: before(self, question, [sigma / 2 for sigma in sigmas]),
        ),
    ),
    "noise of owners planned for all of them": Fault(
        ("balog1", "noise of owners"),
        _all(
            _around(curator.sums.owner_sums, "plan_noise", _planned_for_all),
            _around(owner.sums.responder, "plan_of", _promised_for_all),
            _around(owner.sums.responder.SumResponder, "_check_cost", lambda before, *said: None),
        ),
    ),
    "an owner that adds half of its share": Fault(
        ("balog1", "noise of owners"),
        _around(
            fedkme.secagg.owner,
            "draw_share",
            lambda before, noise, share, size: before(_scaled(noise, 0.5), share, size),
        ),
    ),
    "an owner that adds no noise": Fault(
        ("balog1", "noise of owners"),
        _around(
            fedkme.secagg.owner,
            "draw_share",
            lambda before, noise, share, size: np.zeros(size, dtype=np.int64),
        ),
    ),
    "keys of masks that are kept": Fault(("balog1", "noise of owners"), _first_key_again),
    "no line of a total at the curator": Fault(
        ("balog1", "noise of owners"),
        _nothing(curator.sums.disclosures.SumDisclosures, "take", []),
    ),
}
"""Faults of sums over rows."""

FAULTS: Mapping[str, Fault] = {**CONSUMER_SIDE, **CELLS, **ALGORITHM3, **SUMS}
