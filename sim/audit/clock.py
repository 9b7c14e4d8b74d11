"""The audit of the descending clock, and of uniform sampling, which asks without looking.

Neighbouring: one row added to another owner. The observer is an owner: it is told every stop price.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from curator.conduct import conduct
from curator.gate import Gate as CuratorGate
from curator.summary.algorithm3 import algorithm3
from curator.summary.auctions.clock import Clock, ClockSettings
from curator.summary.record import SummaryRecord
from curator.summary.roster import Roster
from curator.summary.settings import SummarySettings
from curator.summary.task import SummaryTask
from fedkme.data import Table
from fedkme.features.fixed_point import ScoredFeatures, quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.party import noise_for
from fedkme.privacy.events import Clock as ClockEvent
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.means import Cost
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Assignment, Broadcast, Row
from fedkme.schema import Numeric, Schema
from owner.bidder import Bidder
from owner.gate import Gate
from sim.audit.auctions import RELATION
from sim.audit.black_box import Experiment
from sim.audit.confidence import Scores
from sim.audit.finding import Claim, Effort, Finding, Subject
from sim.audit.law import outcome_finding
from sim.audit.recount import recount
from sim.baselines import Nobody
from sim.inprocess import DirectPort

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_EPSILON = 1.0
_NODES = 120


MakeClock = Callable[[ClockSettings, NoiseSource], Clock]
MakeBidder = Callable[..., Bidder]


def stop_law(settings: ClockSettings, counts: Counts) -> Floats:
    """P(stop = k) by quadrature over xi, (k,); the last price takes what is left."""
    epsilon, threshold = settings.epsilon, settings.threshold()
    kinks = sorted({float(c) - threshold for c in counts if c > threshold and c - threshold < 60.0 / epsilon})
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    law = np.zeros(len(counts))
    for low, high in pairwise([0.0, *kinks, 60.0 / epsilon]):
        xi = 0.5 * (high + low) + 0.5 * (high - low) * nodes
        chance = np.exp(-epsilon * np.maximum(0.0, threshold + xi[:, np.newaxis] - counts))
        chance[:, -1] = 1.0
        survive = np.cumprod(np.concatenate([np.ones((_NODES, 1)), 1.0 - chance[:, :-1]], axis=1), axis=1)
        density = 0.5 * (high - low) * weights * epsilon * np.exp(-epsilon * xi)
        law += density @ (chance * survive)
    return law


def clock(make: MakeClock = Clock, bidder: MakeBidder = Bidder) -> Subject:
    """All clocks of a run together, at epsilon = 1.

    Args:
        make: the auction.
        bidder: the owner whose row it is about.
    """
    settings = ClockSettings(epsilon=_EPSILON, block=4)
    threshold = round(settings.threshold())
    claim = Claim(_EPSILON, 0.0, RELATION)
    cliff = np.array([threshold - 1, 10_000])
    slope = np.array([threshold - 3, threshold - 1, threshold - 1, threshold, threshold + 1, 10_000])
    return Subject(
        "clock",
        "sound",
        claim,
        (
            partial(_counted_once, bidder),
            partial(_law_of_stops, make, settings, slope),
            partial(_law_of_stops, make, settings, np.array([3, 5, 6, threshold + 4, threshold + 9, 10_000])),
            lambda effort: recount(claim, [ClockEvent(_EPSILON, "add-remove")]),
            _stop_experiment(make, settings, cliff, claim),
            _stop_experiment(make, settings, slope, claim),
            run_experiment(make, bidder, claim),
        ),
    )


def _counted_once(make: MakeBidder, effort: Effort) -> Finding:
    """Once x is sent, an owner's counts are those of the world without x: the premise of paying once."""
    random = np.random.default_rng([effort.seed, 6])
    task, wrong = _task(1), 0
    for trial in range(effort.trials(100)):
        rows = random.random((1 + trial % 5, 2))
        x = [rows[:1], random.random((1, 2)), _NEAR[np.newaxis]][trial % 3]  # a repeated row too
        prices = np.sort(_scores(task, np.concatenate([rows, x])))[::-1]
        stop = int(np.flatnonzero(prices <= _scores(task, x)[0])[0])  # the least that sends x
        counts = []
        for table in (rows, np.concatenate([rows, x])):
            owner = make("holder", Table(table, None), _SCHEMA, simulated(0, "audit", "draw"), Gate("holder"))
            owner.prepare(Assignment(task.run, task.h1.spec, task.schema.digest(), task.target))
            for number in (1, 2):
                said = Broadcast(number, 0, np.zeros(task.h1.spec.dimension, dtype=np.int32))
                after = owner.quote(said, prices)
                owner.sell(number, float(prices[stop]))
            counts.append(after)
        wrong += not np.array_equal(counts[0], counts[1])
    what = "owners that count a row which was sent"
    return Finding("sensitivity", what, wrong > 0, 0.0, float(wrong), power=None)


def _law_of_stops(make: MakeClock, settings: ClockSettings, counts: Counts, effort: Effort) -> Finding:
    """Stops of clocks over fixed counts against the law that the proof is about."""
    auction = make(settings, simulated(effort.seed, "audit", "stops"))
    stops = [auction.stop(counts) for _ in range(effort.trials(30_000))]
    observed = np.bincount(stops, minlength=len(counts)).astype(np.int64)
    return outcome_finding(observed, stop_law(settings, counts), effort.alpha, "stops of one clock")


def _stop_experiment(make: MakeClock, settings: ClockSettings, counts: Counts, claim: Claim) -> Experiment:
    """One stop, for a row that is worth every price; score: log likelihood ratio by the declared law."""
    worlds = (counts, counts + 1)
    here, there = (np.maximum(stop_law(settings, world), 1e-300) for world in worlds)
    ratio = np.log(there / here)

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        auction = make(settings, simulated(int(random.integers(2**62)), "curator", "auction"))
        return ratio[[auction.stop(worlds[second]) for _ in range(trials)]]

    shape = "one price" if len(counts) == 2 else f"{len(counts) - 1} prices"
    return Experiment(claim, f"likelihood ratio of one stop, {shape} near the threshold", sample, 100_000)


_SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0), count=2),))
_NEAR, _FAR = np.array([0.0, 0.0]), np.array([1.0, 1.0])


class _Silent:
    """A broadcast that reads no row, so that the clocks are all there is to see."""

    def __init__(self, dimension: int) -> None:
        self._zeros = np.zeros(dimension)
        self.size = 0

    @property
    def cost(self) -> Cost:
        return Cost(ExactStatistic("zeros"), None)

    def add(self, rows: Floats) -> None:
        self.size += len(rows)

    def release(self) -> Floats:
        return self._zeros


class _Listener(DirectPort):
    """The observer: an owner that remembers the prices it is told."""

    def __init__(self, bidder: Bidder) -> None:
        super().__init__(bidder)
        self.prices: list[float] = []

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[Row]:
        self.prices.append(price)
        return await super().sell(round_number, price, due)


def run_experiment(make: MakeClock, bidder: MakeBidder, claim: Claim) -> Experiment:
    """Two clocks of a run through the ports of the in-process engine; score: how many stopped early.

    One owner holds T - 1 rows near D_v, and x = one more in the second world; the observer's is far away.
    """
    settings = ClockSettings(epsilon=claim.epsilon, block=1, highest=0.5, lowest=-1.5, step=2.0)
    task = _task(2)
    middle = _middle(task)
    near = round(settings.threshold()) - 1

    async def early(second: bool, noise: NoiseSource) -> float:
        rows = np.tile(_NEAR, (near + second, 1))
        holder = DirectPort(bidder("holder", Table(rows, None), _SCHEMA, noise, Gate("holder")))
        observer = _Listener(
            Bidder("observer", Table(np.tile(_FAR, (3, 1)), None), _SCHEMA, noise, Gate("observer"))
        )
        record = SummaryRecord()
        roster = Roster([holder, observer], 1, Nobody().owner_left, record.faults)
        said = Assignment(task.run, task.h1.spec, task.schema.digest(), task.target)
        await roster.ask(0, lambda owner, a: owner.prepare(a), dict.fromkeys(roster.names, said))
        silent = _Silent(task.h1.spec.dimension)
        await algorithm3(task, roster, silent, make(settings, noise), record, Nobody(), CuratorGate(task.run))
        return float(sum(price > middle for price in observer.prices))

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        async def play() -> list[float]:
            noise = simulated(int(random.integers(2**62)), "curator", "auction")
            return [await early(second, noise) for _ in range(trials)]

        return np.array(asyncio.run(play()))

    what = "clocks of a two-round run that stopped early, as an owner is told"
    note = "whole rounds through sim.inprocess ports; real processes are too slow per trial"
    return Experiment(claim, what, sample, 4_000, note=note)


def _task(p: int) -> SummaryTask:
    h1 = RandomFourier(FourierSpec("paired", 16, 1.0, 2, 5))
    public = np.stack([_NEAR, _FAR])
    target = quantize_mean(h1.normalised(_NEAR[np.newaxis])[0])
    none = h1.fixed_point(np.empty((0, 2)))
    return SummaryTask("audit", p, _SCHEMA, h1, target, none, reference=h1.fixed_point(public))


def _middle(task: SummaryTask) -> float:
    """The mean score of the two public rows: the early price lies above, the last one below it."""
    return float(_scores(task, np.stack([_NEAR, _FAR])).mean())


def _scores(task: SummaryTask, rows: Floats) -> Floats:
    """Marginal gains of rows when the summary is empty, (m,)."""
    scored = ScoredFeatures(task.h1.spec.dimension, task.target, capacity=len(rows))
    scored.append(task.h1.fixed_point(task.schema.encode(rows)))
    return scored.bids(np.zeros(task.h1.spec.dimension, dtype=np.int32), 0)


def uniform() -> Subject:
    """Uniform sampling: rows are drawn without looking, so nobody sees anything that depends on a row."""
    claim = Claim(0.0, 0.0, "replace one row of another owner; an owner looks")

    def blind(effort: Effort) -> Finding:
        random = np.random.default_rng([effort.seed, 5])
        differing = 0
        for trial in range(effort.trials(20)):
            rows = random.random((2, 9, 2))
            replaced = rows.copy()
            replaced[0, 0] = [_NEAR, _FAR][trial % 2]
            differing += _drawn(rows, effort.seed + trial) != _drawn(replaced, effort.seed + trial)
        what = "runs in which a replaced row changed who was asked, or which rows were drawn"
        return Finding("sensitivity", what, differing > 0, 0.0, float(differing), power=None)

    return Subject("uniform", "sound", claim, (blind,))


def _drawn(rows: Floats, seed: int) -> list[tuple[object, ...]]:
    """A run's accesses, and every drawn row but the first owner's row 0."""
    ports = [
        DirectPort(Bidder(name, Table(table, None), _SCHEMA, noise_for(seed, name)("draw"), Gate(name)))
        for name, table in zip("ab", rows, strict=True)
    ]
    record = SummaryRecord()
    settings = SummarySettings(protocol="uniform")
    asyncio.run(
        conduct(_task(6), settings, ports, noise_for(seed, "curator"), record, Nobody(), CuratorGate("audit"))
    )
    kept = [(r.owner, r.token, r.values.tobytes()) for r in record.selected]
    first = rows[0, 0].tobytes()
    return [*record.accesses, *(k if k[2] != first else k[:2] for k in kept)]
