"""Shards in this process: everything that goes to one and comes back is pickled, and calls may break."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from fedkme.directives import Answer
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from sim.cluster.connections import ActorConnection, ShardConnection
from sim.cluster.shard import Addressed, OwnerShard, RowsRecipe, ShardPlan
from sim.engines.inprocess import SimulatedMarket
from sim.engines.loopback import KnownMembers


def travelled(value: Any) -> Any:
    """A value as the other side has it."""
    return pickle.loads(pickle.dumps(value))


class LocalActor:
    """A shard in this process, in place of one in an actor.

    Attributes:
        calls: batches that came, in order; one that was sent again is there twice.
        before: is told of each before it is answered, and may raise.
        after: likewise, when it has been answered: the answer is lost.
    """

    def __init__(self, plan: ShardPlan) -> None:
        self.shard = OwnerShard(travelled(plan))
        self.calls: list[Sequence[Addressed]] = []
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    async def answer(self, batch: Sequence[Addressed]) -> Sequence[Answer | None]:
        self.calls.append(batch)
        self.before()
        answers: Sequence[Answer | None] = travelled(self.shard.answer(travelled(batch)))
        self.after()
        return answers


def rows_in_memory(tables: Mapping[str, Table], names: Sequence[str]) -> Mapping[str, Table]:
    return {name: tables[name] for name in names}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LocalMarket(SimulatedMarket):
    """Parties whose owners are in shards of this process."""

    actors: Sequence[LocalActor]
    shards: Sequence[ShardConnection]

    @override
    async def collect_stores(self) -> Mapping[str, Store]:
        await asyncio.gather(*(shard.settle() for shard in self.shards))
        stores = [content for actor in self.actors for content in travelled(actor.shard.stores())]
        ours = {CURATOR: self.curator, CONSUMER: self.consumer}
        return {content.name: content.restored() for content in stores} | ours


class ShardedMarket:
    """Owners in shards, with the curator and the consumer.

    Attributes:
        actors: actors by shard.
        market: the parties.
    """

    def __init__(
        self,
        schema: Schema,
        rows: RowsRecipe,
        seeds: Table | None,
        shards: Sequence[tuple[str, ...]],
        progress_s: float = 60.0,
    ) -> None:
        self.actors = [LocalActor(ShardPlan(names, rows, schema, 0)) for names in shards]
        ways = [
            ShardConnection(f"{names[0]} to {names[-1]}", actor.answer, progress_s)
            for actor, names in zip(self.actors, shards, strict=True)
        ]
        connections: dict[str, ActorConnection] = {}
        for actor, way in zip(self.actors, ways, strict=True):
            sizes = actor.shard.open()
            assert isinstance(sizes, Mapping)
            connections |= {name: ActorConnection(name, size, way) for name, size in sizes.items()}
        self.market = LocalMarket(
            schema=schema,
            seeds=seeds,
            seed=0,
            owners=tuple(connections),
            members=KnownMembers(connections),
            noise_for=partial(noise_for, 0),
            curator=MemoryStore(CURATOR),
            consumer=MemoryStore(CONSUMER),
            actors=self.actors,
            shards=ways,
        )
