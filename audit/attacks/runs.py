"""Games of whole runs: an owner guesses from its messages which of two worlds another owner is in.

A game is defined once, by all owners' rows in both worlds, and played over any engine (`wire`). Scores come
from the observer's messages: over gRPC, from the messages that its handler decoded from its stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import Claim
from audit.attacks.wire import Engine, SilentObserver
from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import SummaryRecord
from curator.summary.algorithm3 import algorithm3
from curator.summary.auctions.base import Auction
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.task import SummaryTask
from fedkme.arrays import FloatArray
from fedkme.errors import OwnerLostError
from fedkme.features.fixed_point import ScoredFeatures, quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.means import Cost, MeanRelease
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import AuctionTerms, Bid, Broadcast, Invitation
from fedkme.sealed.rows import AnyRow
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder

OBSERVER = "observer"
SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0), count=2),))
NEAR, FAR = np.array([0.0, 0.0]), np.array([1.0, 1.0])
"""A place close to D_v, and a place far from it."""


@dataclass(slots=True)
class OwnerView:
    """An owner's view of a run after the invitation, which is public here.

    Attributes:
        broadcasts: broadcasts of rounds with bids or quotes.
        prices: stop prices of clocks.
        asked: rounds in which the owner was asked for the row that it bid.
    """

    broadcasts: list[Broadcast] = field(default_factory=list)
    prices: list[float] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)


class _Listener(Bidder):
    """The observer: an owner that records its messages."""

    def __init__(self, view: OwnerView, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._view = view

    def bid(self, broadcast: Broadcast) -> Bid | None:
        self._view.broadcasts.append(broadcast)
        return super().bid(broadcast)

    def quote(self, broadcast: Broadcast, prices: FloatArray, spread: float = 0.0) -> NDArray[np.int64]:
        self._view.broadcasts.append(broadcast)
        return super().quote(broadcast, prices, spread)

    def sell(self, round_number: int, price: float) -> Sequence[AnyRow]:
        self._view.prices.append(price)
        return super().sell(round_number, price)

    def reveal(self, round_number: int, token: int) -> AnyRow:
        self._view.asked.append(round_number)
        return super().reveal(round_number, token)


class Silent:
    """A broadcast that reads no row, so that only the auction depends on rows."""

    cost = Cost(ExactStatistic("zeros"), None)

    def __init__(self, dimension: int) -> None:
        self._zeros = np.zeros(dimension)
        self.size = 0

    def add(self, rows: FloatArray) -> None:
        """Count rows, (k, d)."""
        self.size += len(rows)

    def release(self) -> FloatArray:
        """Zeros, (d,)."""
        return self._zeros


@dataclass(frozen=True, slots=True)
class RunGame:
    """A game: two worlds, a run in each, and a score of the observer's messages.

    Attributes:
        claim: the claim to refute.
        statistic: the score in words.
        task: what every run computes.
        rows: rows by owner, (m, 2), in the second world or the first; one of the owners is `OBSERVER`.
        auction: makes the auction of a run.
        score: score of the observer's view; large scores speak for the second world.
        release: makes the broadcast of the summary's mean; default: a silent broadcast.
        protocol: named in the owners' invitations.
        gate: makes an owner's gate from its name, its number of rows, and the run's randomness.
    """

    claim: Claim
    statistic: str
    task: SummaryTask
    rows: Callable[[bool], Mapping[str, FloatArray]]
    auction: Callable[[NoiseSource], Auction]
    score: Callable[[OwnerView], float]
    release: Callable[[NoiseSource], MeanRelease] | None = None
    protocol: str = "algorithm3"
    gate: Callable[[str, int, NoiseSource], OwnerGate] = lambda name, rows, noise: OwnerGate(name)

    def over(self, engine: Engine, trials: int) -> Experiment:
        """The experiment on one engine."""

        def sample(second: bool, count: int, random: np.random.Generator) -> Scores:
            seed = int(random.integers(2**62))
            return np.array(asyncio.run(self._scores(engine, second, count, seed)), dtype=np.float64)

        return Experiment(self.claim, self.statistic, sample, trials, note=engine.note)

    async def _scores(self, engine: Engine, second: bool, count: int, seed: int) -> list[float]:
        noise = simulated(seed, "audit", "runs")
        async with engine.open(sorted(self.rows(second)), SCHEMA.encoded_width) as seat:
            scores = []
            for _ in range(count):
                view = OwnerView()
                record = SummaryRecord()
                await self.play(seat(self.owners(second, noise, view)), noise, record)
                if any(fault.code == OwnerLostError.code for fault in record.faults):
                    raise OwnerLostError(record.faults[0].line, "A game's connections must hold.")
                scores.append(self.score(view))
        return scores

    def owners(self, second: bool, noise: NoiseSource, view: OwnerView) -> list[Bidder]:
        """Make the owners of one run, sorted by name; the observer records its messages in `view`."""
        owners = []
        for name, rows in sorted(self.rows(second).items()):
            gate = self.gate(name, len(rows), noise)
            arguments = (name, Table(rows, None), SCHEMA, noise, gate)
            owners.append(_Listener(view, *arguments) if name == OBSERVER else Bidder(*arguments))
        return owners

    async def play(self, ports: Sequence[OwnerSession], noise: NoiseSource, record: SummaryRecord) -> None:
        """Play one run over fresh owners, with all of the curator's randomness from one source."""
        task = self.task
        roster = Roster(ports, 1, SilentObserver().owner_left, record.faults)
        dimension = task.h1.spec.dimension
        invitations = dict.fromkeys(roster.names, invitation_of(task, self.protocol))
        record.owner_rows = await roster.ask(0, lambda owner, a: owner.invite(a), invitations)
        h2 = Silent(dimension) if self.release is None else self.release(noise)
        gate = SummaryDisclosures(task.run)
        await algorithm3(task, roster, h2, self.auction(noise), record, SilentObserver(), gate)


def make_task(p: int) -> SummaryTask:
    """A run for p rows like `NEAR`, without a seed set; `NEAR` and `FAR` are the public rows."""
    h1 = RandomFourier(FourierSpec("paired", 16, 1.0, 2, 5))
    public = h1.fixed_point(np.stack([NEAR, FAR]))
    target = quantize_mean(h1.normalised(NEAR[np.newaxis])[0])
    return SummaryTask("audit", p, SCHEMA, h1, target, h1.fixed_point(np.empty((0, 2))), reference=public)


def invitation_of(task: SummaryTask, protocol: str = "algorithm3") -> Invitation:
    """Invitation with the terms of a game, which owners get before round 1."""
    terms = AuctionTerms(task.h1.spec, task.target, task.rows)
    return Invitation(task.run, task.schema.digest(), "consumer", protocol, (), terms)


def first_scores(task: SummaryTask, rows: FloatArray) -> FloatArray:
    """Marginal gains of rows, (m, 2), while the summary is empty, (m,)."""
    scored = ScoredFeatures(task.h1.spec.dimension, task.target, capacity=len(rows))
    scored.append(task.h1.fixed_point(task.schema.encode(rows)))
    return scored.bids(np.zeros(task.h1.spec.dimension, dtype=np.int32), 0)
