"""Mechanisms with a fault planted in them. Every one must be caught by some layer of the audit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.releases import joint as joint_release
from curator.releases.marginals.adaptive import aim
from curator.releases.marginals.release import MarginalRelease
from curator.summary.auctions.clock import Clock
from curator.summary.auctions.privauction import PrivAuction, PrivAuctionSettings
from fedkme.cells import sketch
from fedkme.cells.asks import costs_of_asks
from fedkme.cells.histogram import CountNoise, GaussianNoise, IntegerNoise, noisy_counts
from fedkme.directives import FillOrder
from fedkme.errors import BudgetError
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import CURATOR, Laplace, MwemCall
from fedkme.privacy.landmarks import Landmarks
from fedkme.privacy.means import GaussianMean, MwemMean
from fedkme.privacy.mwem import quantize
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.privacy.presets import PrivacyTarget
from fedkme.protocol import Bid, Broadcast
from fedkme.sealed import AnyRow
from fedkme.secagg.noise import NoisePlan, plan_noise
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings
from owner.summary.bidder import Bidder
from sim.attacks import auctions, cells, cells_run, clock, h2, joint, means, public
from sim.attacks.consumers import asks, landmarks
from sim.attacks.curators import payouts, pooled
from sim.attacks.finding import Claim, Subject
from sim.attacks.owners import books, coalitions, limits, timing
from sim.attacks.scripted import TalliedNoise

Floats = NDArray[np.float64]


class ScaledNoise:
    """A source whose Laplace and Gaussian scales are wrong by a factor."""

    def __init__(self, source: NoiseSource, factor: float) -> None:
        self._source = source
        self._factor = factor

    def uniform(self, size: int) -> Floats:
        return self._source.uniform(size)

    def laplace(self, scale: float, size: int) -> Floats:
        return self._source.laplace(self._factor * scale, size)

    def gaussian(self, scale: float, size: int) -> Floats:
        return self._source.gaussian(self._factor * scale, size)


class ReplayedNoise(ScaledNoise):
    """A source that gives the same vector again."""

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source, 1.0)
        self._drawn: dict[tuple[float, int], Floats] = {}

    def gaussian(self, scale: float, size: int) -> Floats:
        if (scale, size) not in self._drawn:
            self._drawn[scale, size] = super().gaussian(scale, size)
        return self._drawn[scale, size]


class HalfLaplace(MwemMean):
    def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
        super().__init__(dimension, ScaledNoise(noise, 0.5), **settings)


class RereadSeedBudget(MwemMean):
    """The first release that reads rows takes the seed set's budget, seed set or not."""

    def release(self) -> Floats:
        return super().release() if self.size else np.zeros(self._index_sum.size)


class UndeclaredIterations(MwemMean):
    """Declares one iteration of a call for the ledger."""

    @property
    def cost(self) -> Any:
        honest = super().cost
        event = honest.event
        assert isinstance(event, MwemCall)
        return type(honest)(MwemCall(event.epsilon, 1), honest.sensitivity)


def round_up(values: Floats, grid_step: float, noise: NoiseSource) -> NDArray[np.int64]:
    """A quantizer that never rounds down."""
    return quantize(np.minimum(values + 0.5 * grid_step, 1.0), grid_step, noise)


def gaussian_with(wrap: Callable[[NoiseSource], NoiseSource]) -> type[GaussianMean]:
    class Faulty(GaussianMean):
        def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
            super().__init__(dimension, wrap(noise), **settings)

    return Faulty


class BatchMean(GaussianMean):
    """The mean of the batches' means, with noise for a mean over all rows."""

    def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
        super().__init__(dimension, noise, **settings)
        self._means: list[Floats] = []

    def add(self, rows: Floats) -> None:
        super().add(rows)
        if len(rows):
            self._means.append(rows.mean(axis=0))

    def release(self) -> Floats:
        honest = super().release()
        if not self._means:
            return honest
        return np.asarray(honest - self._steps * FEATURE_UNIT / self.size + np.mean(self._means, axis=0))


class NormOne(RandomFourier):
    """The printed form, as if its norm were 1."""

    def __init__(self, spec: FourierSpec) -> None:
        super().__init__(spec)
        self.norm_bound = 1.0


class AwayFromZero(RandomFourier):
    """Rounds features away from zero, which makes norms longer."""

    def fixed_point(self, rows: NDArray[np.floating]) -> NDArray[np.int16]:
        exact = self.normalised(rows) / FEATURE_UNIT
        return np.copysign(np.ceil(np.abs(exact)), exact).astype(np.int16)


class PrivateOneHot:
    """One-hot over the categories that an owner happens to hold."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._held = np.unique(rows[:, 0])

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        hot = math.sqrt(0.5) * (values[:, :1] == self._held)
        return np.concatenate([hot, values[:, 1:] / 100.0], axis=1).astype(np.float32)


class IntegerCategories:
    """A category as its index: some are further apart than others."""

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([values[:, 0] / 3.0, values[:, 1] / 100.0], axis=1).astype(np.float32)


class FaultyClock(Clock):
    """A clock with its arithmetic open to faults; with none it is the real one."""

    xi_share = 1.0
    coin_share = 1.0

    def stop(self, counts: NDArray[np.int64]) -> int:
        epsilon = self._settings.epsilon
        patience = -self.xi_share * math.log1p(-self._noise.uniform(1)[0]) / epsilon
        shortfall = np.maximum(0.0, self._settings.threshold() + patience - counts)
        chance = np.exp(-self.coin_share * epsilon * shortfall)
        stopped = np.flatnonzero(self._noise.uniform(len(counts)) < chance)
        return int(stopped[0]) if len(stopped) else len(counts) - 1


class FixedThreshold(FaultyClock):
    xi_share = 0.0


class ImpatientClock(FaultyClock):
    xi_share = 0.2


class HalfCoin(FaultyClock):
    coin_share = 0.5


class WrongSign(FaultyClock):
    coin_share = -1.0


class LeavesAtLimit(OwnerGate):
    """Offers all rows, and refuses the answer that would go over a limit."""

    def offered(self, table: Table) -> Table:
        return table

    def tie_breaks(self, rows: int) -> Floats:
        return np.zeros(rows)

    def pass_rows(self, run: str, round_number: int, tokens: Sequence[int], *rest: Any, **more: Any) -> None:
        if self.rows_sent + len(tokens) > limits.HELD:
            raise BudgetError("more rows are asked for than may leave", "Ask for fewer.")
        super().pass_rows(run, round_number, tokens, *rest, **more)


class AnswersEarly(HistogramResponder):
    """Herds where it has a row of the cells ordered, and else answers at once."""

    def fill_order(self, round_number: int, order: FillOrder) -> Sequence[AnyRow]:
        _, _, counting = self._begun()
        count = order.count
        if order.shares[self._cells(counting)].any():
            return super().fill_order(round_number, order)
        sealer = self._ready()
        assert sealer is not None, "rows go sealed here"
        self._gate.pass_rows("audit", round_number, range(count), sealed_for="consumer")
        return sealer.fill(range(count), self._schema.width)


class StaleEpoch(Bidder):
    """Answers with the counts of the last clock, rows that were sent since included."""

    _last: NDArray[np.int64] | None = None

    def quote(self, broadcast: Broadcast, prices: Floats, spread: float = 0.0) -> NDArray[np.int64]:
        fresh = super().quote(broadcast, prices, spread)
        last, self._last = self._last, fresh
        return fresh if last is None else last


def off_by_one_tau(noise: NoiseSource) -> PrivAuction:
    rate, patience = PrivAuctionSettings().parameters(8)
    return PrivAuction(rate, patience + 1, noise)


class SkipsLast:
    """Asks everyone but the last in rank."""

    def open_round(self, bids: Mapping[str, Bid]) -> None:
        pass

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        return sorted(bids, key=lambda name: -bids[name].value)[:-1]


def half_counted() -> Subject:
    """A claim that counts one release for each of T iterations, the value, and forgets the selection."""
    epsilon = Sound().epsilon([Laplace(1.0 / (2.0 * 0.01), 100)], 1e-5).epsilon
    return h2.h2(run_claim=Claim(epsilon, 1e-5, "replace one row"))


class ScaledIntegers:
    """A source whose discrete Laplace scale is wrong by a factor."""

    def __init__(self, source: Any, factor: float) -> None:
        self._source = source
        self._factor = factor

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._source.discrete_laplace(self._factor * scale, size)
        return found


class FirstIsExact:
    """A source that leaves the first count without noise."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._source.discrete_laplace(scale, size)
        found[0] = 0
        return found


def responder_with(wrap: Callable[[Any], Any]) -> type[HistogramResponder]:
    class Faulty(HistogramResponder):
        def __init__(self, name: str, table: Any, schema: Any, noise: Any, gate: Any) -> None:
            super().__init__(name, table, schema, wrap(noise), gate)

    return Faulty


class CountsAgain(HistogramResponder):
    """A histogram as often as it is asked for."""

    def histogram(self, round_number: int) -> NDArray[np.int64]:
        self._counted = False
        return super().histogram(round_number)


def in_two_cells(
    found: NDArray[np.int64], size: int, how: CountNoise | None, noise: IntegerNoise
) -> NDArray[np.int64]:
    """Each row counts in its cell and in the next."""
    return noisy_counts(np.concatenate([found, (found + 1) % size]), size, how, noise)


def often_deviation() -> float:
    noise = costs_of_asks(PrivacyTarget(), asks.ASKS).noise
    assert isinstance(noise, GaussianNoise)
    return noise.deviation


def counted_twice(
    found: NDArray[np.int64], size: int, how: CountNoise | None, noise: IntegerNoise
) -> NDArray[np.int64]:
    """A histogram that is drawn twice, of which the second leaves."""
    noisy_counts(found, size, how, noise)
    return noisy_counts(found, size, how, noise)


def doubled_steps(*arguments: Any) -> NDArray[np.int64]:
    """Off-diagonals as if 41/29 were 2 sqrt 2."""
    steps = sketch.coordinates(*arguments)
    steps[2] *= 2
    return steps


def in_both_coalitions(table: Table, owner: str) -> NDArray[np.int64]:
    """Counts in the own coalition's block, and in the other's."""
    vector = coalitions.honest(table, owner)
    return vector + np.roll(vector, len(vector) // 2)


class WeakerCounts(TalliedNoise):
    """Noise on counts, which is small beside a sketch's, with 5 % too little deviation."""

    def gaussian(self, scale: float, size: int) -> Floats:
        return super().gaussian(scale if scale > 1e4 else 0.95 * scale, size)


def sketched_with(factor: float) -> Subject:
    def release(*arguments: Any) -> sketch.Sketch:
        *said, noise = arguments
        total, rows, dimension, classes, multiplier = said
        return sketch.release(total, rows, dimension, classes, multiplier, ScaledNoise(noise, factor))

    return cells.sketched(cells.SketchParts(release=release))


def sketched_cheaply() -> Subject:
    """Less noise in the sketch than the joint plan has for it."""

    def release(*arguments: Any) -> sketch.Sketch:
        total, rows, dimension, classes, multiplier, noise = arguments
        return sketch.release(total, rows, dimension, classes, 0.8 * multiplier, noise)

    return cells.joint(parts=cells.SketchParts(release=release))


def release_with(factor: float) -> pooled.Release:
    """A joint release whose noise is wrong by a factor."""

    def release(*args: Any) -> joint_release.JointRelease:
        maps, totals, layout, rows, plan, noise, counts = args
        noise = ScaledNoise(noise, factor)
        return joint_release.release(maps, totals, layout, rows, plan, noise, counts)

    return release


async def hasty_aim(*args: Any) -> MarginalRelease:
    """AIM that measures with half of its noise."""
    oracle, sizes, rows, epsilon, delta, noise, settings = args
    return await aim(oracle, sizes, rows, epsilon, delta, ScaledNoise(noise, 0.5), settings)


def planned_for_all(*args: Any, **given: Any) -> NoisePlan:
    """Noise of n parties and not of n - D - T."""
    return plan_noise(*args, **(given | {"dropouts": 0, "colluders": 0}))


class OfOneLandmark(Landmarks):
    """Counts what a row moves as the distance of one kernel function from its half."""

    @property
    def sensitivity(self) -> float:
        return super().sensitivity / math.sqrt(2.0)


def unbudgeted(party: OwnerParty, make: type[RunManager]) -> RunManager:
    """An owner that does not look at its budget before its bytes leave."""
    return replace(party, policy=PolicySettings()).open(make=make)


FAULTS: Mapping[str, tuple[str, Callable[[], Subject]]] = {
    "a budget that is looked at when the bytes have left": ("recount", lambda: books.budgets(unbudgeted)),
    "lines towards the curator left out by an owner": (
        "recount",
        lambda: books.ledgers(lambda party, line: party != books.HOLDER or line.observer != CURATOR),
    ),
    "lines about an owner left out by the curator": (
        "recount",
        lambda: books.ledgers(lambda party, line: party != CURATOR or line.protected != books.HOLDER),
    ),
    "Laplace scale half of what is claimed": ("sensitivity", lambda: h2.h2(make=HalfLaplace)),
    "T releases counted instead of 2 T": ("recount", half_counted),
    "seed budget spent on private rows": ("recount", lambda: h2.h2(make=RereadSeedBudget)),
    "fewer iterations declared than made": ("recount", lambda: h2.h2(make=UndeclaredIterations)),
    "quantizer that rounds up": ("law", lambda: h2.h2(quantizer=round_up)),
    "Gaussian sigma for 1/q instead of 2/q": (
        "sensitivity",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, 0.5))),
    ),
    "Gaussian sigma for one of two releases": (
        "recount",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, math.sqrt(0.5)))),
    ),
    "Gaussian sigma 1 % too small": (
        "law",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, 0.99))),
    ),
    "landmarks with the norm for the diameter": (
        "sensitivity",
        lambda: landmarks.by_landmarks(OfOneLandmark),
    ),
    "the same noise at every release": ("law", lambda: means.gaussian(make=gaussian_with(ReplayedNoise))),
    "mean of batch means": ("sensitivity", lambda: means.gaussian(make=BatchMean)),
    "norm of the offset form taken for 1": ("sensitivity", lambda: public.h1("offset", NormOne)),
    "features rounded away from zero": ("sensitivity", lambda: public.h1("paired", AwayFromZero)),
    "one-hot learnt from private rows": ("sensitivity", lambda: public.schema_encoding(PrivateOneHot)),
    "categories as integers": (
        "sensitivity",
        lambda: public.schema_encoding(lambda rows: IntegerCategories()),
    ),
    "seeded noise where secure noise is due": (
        "law",
        lambda: public.secure_noise(lambda: simulated(1, "curator", "broadcast")),
    ),
    "noise with a scale 1 % off": (
        "law",
        lambda: public.simulated_noise(lambda seed: ScaledNoise(simulated(seed, "a", "b"), 1.01)),
    ),
    "a release with half of its noise": ("sensitivity", lambda: pooled.pooled_sums(release_with(0.5))),
    "AIM that measures with half of its noise": ("recount", lambda: pooled.adaptive_marginals(hasty_aim)),
    "noise planned for all owners": ("law", lambda: pooled.distributed_noise(planned_for_all)),
    "DP-SGD with less noise than it declares": ("recount", lambda: pooled.dp_sgd(0.9)),
    "wins paid at twice the epsilon": ("recount", lambda: payouts.wins(2.0)),
    "gains paid at twice the epsilon": ("recount", lambda: payouts.winning_gains(2.0)),
    "clock without xi": ("black box", lambda: clock.clock(make=FixedThreshold)),
    "clock with too small a xi": ("black box", lambda: clock.clock(make=ImpatientClock)),
    "clock whose coin has half the rate": ("law", lambda: clock.clock(make=HalfCoin)),
    "clock whose coin has the wrong sign": ("law", lambda: clock.clock(make=WrongSign)),
    "broadcasts with a tenth of the noise, beside a clock": (
        "black box",
        lambda: joint.clock_and_broadcasts(mean=gaussian_with(lambda noise: ScaledNoise(noise, 0.1))),
    ),
    "clock without xi, beside broadcasts": (
        "black box",
        lambda: joint.clock_and_broadcasts(make=FixedThreshold),
    ),
    "rows counted again after they were sent": ("sensitivity", lambda: clock.clock(bidder=StaleEpoch)),
    "an owner that leaves where a sale goes over its limit": (
        "black box",
        lambda: limits.limited_clock(lambda name, policy: LeavesAtLimit(name, policy=policy)),
    ),
    "an owner that answers at once where it has no row of the cells": (
        "black box",
        lambda: timing.answer_times(AnswersEarly),
    ),
    "tau fires one round late": ("law", lambda: auctions.privauction_rule(off_by_one_tau)),
    "counts with half of the noise": (
        "sensitivity",
        lambda: cells.owner_histogram(responder_with(lambda noise: ScaledIntegers(noise, 0.5))),
    ),
    "counts with 10 % too little noise": (
        "law",
        lambda: cells.owner_histogram(responder_with(lambda noise: ScaledIntegers(noise, 0.9))),
    ),
    "no noise in one cell": ("sensitivity", lambda: cells.owner_histogram(responder_with(FirstIsExact))),
    "a second histogram": ("recount", lambda: cells.owner_histogram(CountsAgain)),
    "counts of D_v of which a row is in two": (
        "sensitivity",
        lambda: cells.validation_histogram(in_two_cells),
    ),
    "Gaussian counts of D_v of which a row is in two cells": (
        "sensitivity",
        lambda: asks.often(in_two_cells),
    ),
    "Gaussian counts of D_v with 5 % too little noise": (
        "law",
        lambda: asks.often(noise=GaussianNoise(0.95 * often_deviation())),
    ),
    "Gaussian counts of D_v of which two were drawn": (
        "recount",
        lambda: asks.often(counted_twice),
    ),
    "sketch of another sensitivity": (
        "sensitivity",
        lambda: cells.sketched(cells.SketchParts(coordinates=doubled_steps)),
    ),
    "sketch with 4 % too little noise": ("law", lambda: sketched_with(0.96)),
    "sketch that takes more than its share": ("recount", sketched_cheaply),
    "counts with a tenth of the noise, beside a sketch": (
        "black box",
        lambda: cells.joint(responder_with(lambda noise: ScaledIntegers(noise, 0.1))),
    ),
    "counts with a tenth of the noise, seen in orders": (
        "black box",
        lambda: cells_run.orders(responder_with(lambda noise: ScaledIntegers(noise, 0.1))),
    ),
    "counts in two coalitions": ("sensitivity", lambda: coalitions.counted(in_both_coalitions)),
    "counts of coalitions with 5 % too little noise, beside a sketch": (
        "recount",
        lambda: coalitions.counted(spend=partial(coalitions.events_of_a_run, tally=WeakerCounts)),
    ),
    "the last bidder is not asked": ("sensitivity", lambda: auctions.ask_everyone(lambda noise: SkipsLast())),
}
"""The layer that must catch it, at least, and the audit of the faulty mechanism."""
