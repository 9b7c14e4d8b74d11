"""Audit of the descending clock, and of uniform sampling, which reads no row to decide whom it asks.

Neighbouring: one row added to another owner. The observer is an owner: it is told every stop price.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from audit.attacks.auctions import RELATION
from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import outcome_finding
from audit.attacks.recount import recount
from audit.attacks.runs import (
    FAR,
    NEAR,
    OBSERVER,
    SCHEMA,
    OwnerView,
    RunGame,
    first_scores,
    invitation_of,
    make_task,
)
from audit.attacks.wire import GRPC, LOOPBACK, SilentObserver, looped
from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.clock import Clock, ClockSettings
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.run import run_summary
from curator.summary.settings import SummarySettings
from fedkme.arrays import FloatArray
from fedkme.party import noise_for
from fedkme.privacy.events import Clock as ClockEvent
from fedkme.privacy.noise import simulated
from fedkme.protocol import Broadcast
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder

Counts = NDArray[np.int64]

_EPSILON = 1.0
_NODES = 120


def stop_law(settings: ClockSettings, counts: Counts) -> FloatArray:
    """P(stop = k) by quadrature over xi, (k,); the last price takes the remaining probability."""
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


def clock() -> Subject:
    """All clocks of a run together, at epsilon = 1."""
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
            _counted_once,
            partial(_law_of_stops, settings, slope),
            partial(_law_of_stops, settings, np.array([3, 5, 6, threshold + 4, threshold + 9, 10_000])),
            lambda effort: recount(claim, [ClockEvent(_EPSILON, "add-remove")], [ClockEvent]),
            _stop_experiment(settings, cliff, claim),
            _stop_experiment(settings, slope, claim),
            clock_game(claim).over(LOOPBACK, 4_000),
            clock_game(claim).over(GRPC, 2_000),
        ),
    )


def _counted_once(effort: Effort) -> CheckResult:
    """After x is sent, an owner's counts equal the counts without x: the premise of paying once."""
    random = np.random.default_rng([effort.seed, 6])
    task, wrong = make_task(1), 0
    for trial in range(effort.trials(100)):
        rows = random.random((1 + trial % 5, 2))
        x = [rows[:1], random.random((1, 2)), NEAR[np.newaxis]][trial % 3]  # a repeated row too
        spread = float(random.choice([0.0, 0.1]))
        prices = np.sort(first_scores(task, np.concatenate([rows, x])))[::-1]
        stop = int(np.flatnonzero(prices <= first_scores(task, x)[0])[0])  # the first price that sends x
        counts = []
        for table in (rows, np.concatenate([rows, x])):
            owner = Bidder(
                "holder", Table(table, None), SCHEMA, simulated(0, "audit", "draw"), OwnerGate("holder")
            )
            owner.invite(invitation_of(task))
            for number in (1, 2):
                broadcast = Broadcast(number, 0, np.zeros(task.h1.spec.dimension, dtype=np.int32))
                after = owner.quote(broadcast, prices, spread)
                owner.sell(number, float(prices[stop]))
            counts.append(after)
        wrong += not np.array_equal(counts[0], counts[1])
    what = "owners that count a sent row"
    return CheckResult("sensitivity", what, wrong > 0, 0.0, float(wrong), power=None)


def _law_of_stops(settings: ClockSettings, counts: Counts, effort: Effort) -> CheckResult:
    """Stops of clocks over fixed counts against the law in the proof."""
    auction = Clock(settings, simulated(effort.seed, "audit", "stops"))
    stops = [auction.stop(counts) for _ in range(effort.trials(30_000))]
    observed = np.bincount(stops, minlength=len(counts)).astype(np.int64)
    return outcome_finding(observed, stop_law(settings, counts), effort.alpha, "stops of one clock")


def _stop_experiment(settings: ClockSettings, counts: Counts, claim: Claim) -> Experiment:
    """One stop, for a row worth every price; score: log likelihood ratio by the declared law."""
    worlds = (counts, counts + 1)
    first, there = (np.maximum(stop_law(settings, world), 1e-300) for world in worlds)
    ratio = np.log(there / first)

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        auction = Clock(settings, simulated(int(random.integers(2**62)), "curator", "auction"))
        return ratio[[auction.stop(worlds[second]) for _ in range(trials)]]

    shape = "one price" if len(counts) == 2 else f"{len(counts) - 1} prices"
    return Experiment(claim, f"likelihood ratio of one stop, {shape} near the threshold", sample, 100_000)


def clock_game(claim: Claim) -> RunGame:
    """Two clocks of a run; score: number of clocks that stopped early.

    One owner holds T - 1 rows near D_v, and one more, x, in the second world; the observer's are far away.
    """
    settings = ClockSettings(epsilon=claim.epsilon, block=1, highest=0.5, lowest=-1.5, step=2.0)
    task = make_task(2)
    middle = float(first_scores(task, np.stack([NEAR, FAR])).mean())  # between the two prices
    near = round(settings.threshold()) - 1

    def early(view: OwnerView) -> float:
        return float(sum(price > middle for price in view.prices))

    return RunGame(
        claim,
        "clocks of a two-round run that stopped early, from an owner's messages",
        task,
        lambda second: {"holder": np.tile(NEAR, (near + second, 1)), OBSERVER: np.tile(FAR, (3, 1))},
        lambda noise: Clock(settings, noise),
        early,
    )


def uniform() -> Subject:
    """Uniform sampling: rows are drawn without reading them, so no message depends on a row."""
    claim = Claim(0.0, 0.0, "replace one row of another owner; an owner looks")

    def blind(effort: Effort) -> CheckResult:
        random = np.random.default_rng([effort.seed, 5])
        differing = 0
        for trial in range(effort.trials(20)):
            rows = random.random((2, 9, 2))
            replaced = rows.copy()
            replaced[0, 0] = [NEAR, FAR][trial % 2]
            differing += _drawn(rows, effort.seed + trial) != _drawn(replaced, effort.seed + trial)
        what = "runs in which a replaced row changed the owners asked, or the rows drawn"
        return CheckResult("sensitivity", what, differing > 0, 0.0, float(differing), power=None)

    return Subject("uniform", "sound", claim, (blind,))


def _drawn(rows: FloatArray, seed: int) -> list[tuple[object, ...]]:
    """A run's accesses, and all drawn rows; without the values of the first owner's row 0."""
    bidders = [
        Bidder(name, Table(table, None), SCHEMA, noise_for(seed, name)("draw"), OwnerGate(name))
        for name, table in zip("ab", rows, strict=True)
    ]
    record = SummaryRecord()
    settings = SummarySettings(protocol="uniform")
    asyncio.run(
        run_summary(
            make_task(6),
            settings,
            looped(bidders, SCHEMA.encoded_width),
            noise_for(seed, "curator"),
            record,
            SilentObserver(),
            SummaryDisclosures("audit"),
        )
    )
    drawn = [(r.owner, r.token, r.values.tobytes()) for r in record.selected]
    first = rows[0, 0].tobytes()
    return [*record.accesses, *(k if k[2] != first else k[:2] for k in drawn)]
