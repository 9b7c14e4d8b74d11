"""`fedkme bench ray`: one exchange with all owners in actors, against the same owners in this process.

An exchange is a broadcast of which every coordinate is new, and everybody's bid. The owners are the same and
so are their bids, which is checked. `bare` are as many actors that answer such batches with a constant: what
Ray alone takes. `one call an owner` is the engine without its batches.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from curator.owners.connection import Connection
from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from fedkme.directives import Directive
from fedkme.errors import PartyFailedError
from fedkme.features.fourier import FourierSpec
from fedkme.protocol import AuctionTerms, Bid, Broadcast, Invitation
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from lab.bench.result import BenchSettings, Cell, Result
from lab.bench.rounds import RoundEnds
from lab.bench.synthetic import OWNER_ROWS, synthetic_schema
from sim.cluster.connections import ActorConnection, ShardConnection
from sim.cluster.parties import ActorMarket, owners_in_actors
from sim.cluster.session import connected
from sim.cluster.shard import Addressed
from sim.config import load_simulation
from sim.engines.inprocess import open_market
from sim.scenarios.base import LazyTables, Scenario, owner_names

DIMENSION = 140
COLUMNS = 64
SLOW_ROUNDS = 5
"""Exchanges of `one call an owner`, which take seconds."""


def rows_by_name(names: Sequence[str]) -> Mapping[str, Table]:
    """Make owners' rows from their names alone, so that an actor makes its own."""
    return {name: _rows(name) for name in names}


def _rows(name: str) -> Table:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    return Table(rng.random((OWNER_ROWS, COLUMNS)))


class EchoShard:
    """An actor without owners."""

    def answer(self, batch: Sequence[Addressed]) -> list[Bid]:
        """Answer a batch with equal bids."""
        return [Bid(0.5, 1)] * len(batch)


@dataclass(slots=True)
class Way:
    """A way to reach all owners.

    Attributes:
        exchange: with everybody, of a round and its broadcast.
        rounds: exchanges in a block.
        wall: milliseconds of each.
        cpu: milliseconds of this process in each.
    """

    exchange: Callable[[Broadcast], Awaitable[object]]
    rounds: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def measured(self, broadcast: Broadcast) -> object:
        """Exchange once, and look at the clocks."""
        began, cpu = time.perf_counter(), time.process_time()
        answers = await self.exchange(broadcast)
        self.wall.append(1e3 * (time.perf_counter() - began))
        self.cpu.append(1e3 * (time.process_time() - cpu))
        return answers


def measure_ray(settings: BenchSettings) -> Result:
    """A line for each way; ratios are of medians, to the owners in this process."""
    title = f"one exchange with {settings.ray_owners} owners, {settings.ray_actors} actors"
    return Result("ray", title, asyncio.run(_measure(settings)))


async def _measure(settings: BenchSettings) -> list[dict[str, Cell]]:
    names, schema = owner_names(settings.ray_owners), synthetic_schema(COLUMNS)
    scenario = Scenario("bench", schema, LazyTables(names, _rows), _rows("D_v"), _rows("test"), None)
    per_actor = max(1, len(names) // settings.ray_actors)
    fixed = ("engine=ray", f"cluster.owners_per_actor={per_actor}")
    chosen = load_simulation("digits", fixed)
    began = time.perf_counter()
    local = open_market(schema, rows_by_name(names), None, 0)
    opened = [time.perf_counter() - began]
    with connected(settings.ray_address):
        began = time.perf_counter()
        async with owners_in_actors(scenario, rows_by_name, chosen) as market:
            opened.append(time.perf_counter() - began)
            connections = [local.members.connection(name) for name in names]
            ways = {
                "in process": Way(await _asker(schema, connections, "here"), settings.rounds),
                "actors": Way(
                    await _asker(schema, [market.members.connection(name) for name in names], "actors"),
                    settings.rounds,
                ),
                "bare": Way(_echo(market), settings.rounds),
                "one call an owner": Way(await _asker(schema, _apart(market), "apart"), SLOW_ROUNDS),
            }
            await _play(ways, settings)
    return [_row(name, way, ways["in process"]) | _seconds(name, opened) for name, way in ways.items()]


async def _play(ways: Mapping[str, Way], settings: BenchSettings) -> None:
    """Let the ways take turns, block by block; the bids of an exchange are the same on all of them."""
    for block, number in _turns(settings):
        broadcast = _broadcast(number)
        answers = [
            await way.measured(broadcast)
            for name, way in ways.items()
            if number % settings.rounds < way.rounds and name != "bare"
        ]
        await ways["bare"].measured(broadcast)
        if any(answer != answers[0] for answer in answers):
            raise PartyFailedError("owners in actors bid otherwise than here", "Report it.")
        if not block:
            for way in ways.values():  # the first block warms up
                way.wall.clear()
                way.cpu.clear()


def _turns(settings: BenchSettings) -> Iterator[tuple[int, int]]:
    for block in range(settings.blocks + 1):
        for turn in range(settings.rounds):
            yield block, block * settings.rounds + turn


def _broadcast(number: int) -> Broadcast:
    rng = np.random.default_rng(number)
    return Broadcast(number + 1, number + 1, rng.integers(-(2**20), 2**20, DIMENSION, dtype=np.int32))


async def _asker(
    schema: Schema, connections: Sequence[Connection], run: str
) -> Callable[[Broadcast], Awaitable[object]]:
    """Invite owners to a run of bids, and say how to ask all of them."""
    spec = FourierSpec("paired", DIMENSION, 1.0, COLUMNS, 5)
    terms = AuctionTerms(spec, np.zeros(DIMENSION, dtype=np.int32), OWNER_ROWS)
    invitation = Invitation(run, schema.digest(), "consumer", "ask-everyone", (), terms)
    roster = Roster(
        [OwnerSession(connection, run) for connection in connections], 1, RoundEnds().owner_left, []
    )
    await roster.ask(0, lambda owner, said: owner.invite(said), dict.fromkeys(roster.names, invitation))

    async def exchange(broadcast: Broadcast) -> object:
        broadcasts = dict.fromkeys(roster.names, broadcast)
        bids = await roster.ask(broadcast.round, lambda owner, connection: owner.bid(connection), broadcasts)
        return {name: bid and bid.value for name, bid in bids.items()}  # names of rows are of each run

    return exchange


def _apart(market: ActorMarket) -> list[ActorConnection]:
    """Ways to the owners in actors that have nothing in common: each directive is a call."""
    return [
        ActorConnection(name, OWNER_ROWS, ShardConnection(name, partial(actor.call, market.ray), 600.0))
        for actor in market.actors
        for name in actor.plan.names
    ]


def _echo(market: ActorMarket) -> Callable[[Broadcast], Awaitable[object]]:
    """Ask as many bare actors, with the same batches."""
    actor_class = market.ray.remote(num_cpus=0)(EchoShard)
    actors = [(actor_class.remote(), actor.plan.names) for actor in market.actors]

    def exchange(broadcast: Broadcast) -> Awaitable[object]:
        batches = (
            actor.answer.remote([(name, Directive("bare", 0, 1, broadcast)) for name in names])
            for actor, names in actors
        )
        return asyncio.gather(*batches)

    return exchange


def _row(name: str, way: Way, first: Way) -> dict[str, Cell]:
    return {
        "way": name,
        "p50 ms": float(np.median(way.wall)),
        "p99 ms": float(np.percentile(way.wall, 99)),
        "min ms": min(way.wall),
        "driver's CPU ms": float(np.median(way.cpu)),
        "p50 / in process": float(np.median(way.wall) / np.median(first.wall)),
    }


def _seconds(name: str, opened: Sequence[float]) -> dict[str, Cell]:
    seconds = dict(zip(("in process", "actors"), opened, strict=True)).get(name)
    return {"s to open": "" if seconds is None else seconds}
