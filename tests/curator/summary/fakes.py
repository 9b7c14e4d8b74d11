"""Small markets, owners that fail or lie, and noise that is written down: what these tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import curator.summary.disclosures
from audit.attacks.wire import SilentObserver, loopback_to
from curator.owners.session import OwnerSession
from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.base import AnyAuction, AskEveryoneSettings
from curator.summary.run import run_summary
from curator.summary.settings import SummarySettings
from curator.summary.task import SummaryTask
from fedkme.arrays import FloatArray
from fedkme.errors import OwnerLostError
from fedkme.features.fixed_point import quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.party import NoiseFor, noise_for
from fedkme.privacy.noise import SimulatedNoise
from fedkme.privacy.settings import AnyMean, ExactSettings
from fedkme.protocol import AuctionTerms, Bid, Broadcast, Closing, Invitation
from fedkme.sealed.rows import AnyRow
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Row, Table
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder
from sim.engines.inprocess import InProcessMarket, open_market

WIDTH = 3
SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 1.0), count=WIDTH),), label=Label(name="y", classes=("no", "yes"))
)


def table(count: int, seed: int) -> Table:
    """Random rows that fit SCHEMA; no two are equal."""
    random = np.random.default_rng(seed)
    return Table(random.random((count, WIDTH)), random.integers(0, 2, count))


def bidder(name: str, rows: Table, seed: int = 0) -> Bidder:
    """An owner."""
    return Bidder(name, rows, SCHEMA, noise_for(seed, name)("draw"), OwnerGate(name))


def owners(*sizes: int, seed: int = 0) -> dict[str, Table]:
    """Tables of owners a, b, c, ... of so many rows each."""
    names = "abcdefghij"[: len(sizes)]
    return {
        name: table(size, 100 * seed + i) for i, (name, size) in enumerate(zip(names, sizes, strict=True))
    }


class DirectPort(OwnerSession):
    """Port to an owner in this process, whose handler of directives answers."""

    def __init__(self, honest: Bidder, width: int = WIDTH) -> None:
        super().__init__(loopback_to(honest, width), "run-1")


def ports(tables: dict[str, Table]) -> list[DirectPort]:
    """Honest owners."""
    return [DirectPort(bidder(name, rows)) for name, rows in tables.items()]


def small_market(tables: Mapping[str, Table], seed: int = 0) -> InProcessMarket:
    """Owners of a simulation in this process, with three seed rows."""
    return open_market(SCHEMA, tables, table(3, 7), seed)


def make_h1(dimension: int = 16, seed: int = 5) -> RandomFourier:
    """A draw of the paired form."""
    return RandomFourier(FourierSpec("paired", dimension, 2.0, WIDTH, seed))


def make_task(
    p: int, *, seeds: int = 0, count_seeds: bool = True, target: FloatArray | None = None
) -> SummaryTask:
    """A run that looks for p rows like `target` (rows of D_v; by default eight in one corner)."""
    h1 = make_h1()
    rows = 0.3 * table(8, 900).values if target is None else target
    g = quantize_mean(h1.normalised(rows).mean(axis=0))
    return SummaryTask(
        "run-1", p, SCHEMA, h1, g, h1.fixed_point(table(seeds, 901).values), count_seeds=count_seeds
    )


def invitation(task: SummaryTask) -> Invitation:
    """Invitation that the owners of a run get before round 1."""
    terms = AuctionTerms(task.h1.spec, task.target)
    return Invitation(task.run, task.schema.digest(), "consumer", "algorithm3", (), terms)


def make_settings(
    auction: AnyAuction | None = None, broadcast: AnyMean | None = None, quorum: int = 1
) -> SummarySettings:
    """Ask everyone and exact means, unless something else is given."""
    return SummarySettings(
        auction=auction or AskEveryoneSettings(), broadcast=broadcast or ExactSettings(), quorum=quorum
    )


def run(
    task: SummaryTask,
    settings: SummarySettings,
    owner_ports: Sequence[OwnerSession],
    noise: NoiseFor | None = None,
    record: SummaryRecord | None = None,
) -> SummaryRecord:
    """One whole run over these ports."""
    record = SummaryRecord() if record is None else record
    gate = curator.summary.disclosures.SummaryDisclosures(task.run)
    noise = noise or noise_for(0, "curator")
    asyncio.run(run_summary(task, settings, owner_ports, noise, record, SilentObserver(), gate))
    return record


class Forger(DirectPort):
    """An owner that changes what it says; its gate counts what its honest part sent."""

    def __init__(
        self,
        honest: Bidder,
        *,
        bid: Callable[[Bid], Bid] = lambda bid: bid,
        row: Callable[[Row], Row] = lambda row: row,
    ) -> None:
        super().__init__(honest)
        self._forge_bid = bid
        self._forge_row = row

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        honest = await super().bid(broadcast)
        return None if honest is None else self._forge_bid(honest)

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        row = await super().reveal(round_number, token)
        assert isinstance(row, Row)
        return self._forge_row(row)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        rows = await super().draw(round_number, count)
        return [self._forge_row(row) for row in rows if isinstance(row, Row)]


class Mortal(DirectPort):
    """An owner that is gone when it is asked for `last` for the n-th time, and ever after."""

    def __init__(self, honest: Bidder, last: str, time: int = 1) -> None:
        super().__init__(honest)
        self._last = last
        self._left = time

    def _live(self, call: str) -> None:
        self._left -= call == self._last
        if self._left <= 0:
            raise OwnerLostError(f"{self.name}: its connection ended", "Start it again.")

    async def invite(self, invitation: Invitation) -> int:
        self._live("invite")
        return await super().invite(invitation)

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        self._live("bid")
        return await super().bid(broadcast)

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        self._live("reveal")
        return await super().reveal(round_number, token)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        self._live("draw")
        return await super().draw(round_number, count)

    async def close(self, last_round: int) -> Closing:
        self._live("close")
        return await super().close(last_round)


class Tardy(DirectPort):
    """An owner whose answers come after a random number of turns of the event loop."""

    def __init__(self, honest: Bidder, seed: int) -> None:
        super().__init__(honest)
        self.at_once = False
        self._random = np.random.default_rng(seed)

    async def _linger(self) -> None:
        for _ in range(self._random.integers(0, 6)):
            await asyncio.sleep(0)

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        await self._linger()
        return await super().bid(broadcast)

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        await self._linger()
        return await super().reveal(round_number, token)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        await self._linger()
        return await super().draw(round_number, count)


class Listener(DirectPort):
    """An owner that writes down what it is told."""

    def __init__(self, honest: Bidder) -> None:
        super().__init__(honest)
        self.invitations: list[Invitation] = []
        self.broadcasts: list[Broadcast] = []

    async def invite(self, invitation: Invitation) -> int:
        self.invitations.append(invitation)
        return await super().invite(invitation)

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        self.broadcasts.append(broadcast)
        return await super().bid(broadcast)


class WrittenNoise(SimulatedNoise):
    """Seeded noise that writes down the Laplace draws asked of it, as (scale, how many)."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(1))
        self.laplace_draws: list[tuple[float, int]] = []

    def laplace(self, scale: float, size: int) -> FloatArray:
        self.laplace_draws.append((scale, size))
        return super().laplace(scale, size)
