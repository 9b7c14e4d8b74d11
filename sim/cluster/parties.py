"""The engine `ray`: the curator and the consumer in this process, owners in actors of a cluster.

`shard` has the state and answers of an actor, `connections` the calls; this module starts the actors.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from fedkme.directives import Answer, Refusal
from fedkme.errors import ConfigError, PartyFailedError
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from sim.cluster.connections import ActorConnection, ActorLostError, ShardConnection, UnknownOutcomeError
from sim.cluster.session import connected
from sim.cluster.shard import Addressed, KeptStore, OwnerShard, RowsRecipe, ShardPlan
from sim.config import ClusterSettings, LaunchSettings
from sim.engines.inprocess import SimulatedMarket
from sim.engines.loopback import KnownMembers
from sim.scenarios.base import Scenario

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class OwnerActor:
    """An actor with its owners.

    Attributes:
        title: names the first and last owner; it is the actor's name on Ray's dashboard and in its logs.
        handle: Ray's handle of the actor.
        plan: plan of the shard.
    """

    title: str
    handle: Any
    plan: ShardPlan

    async def call(self, ray: Any, batch: Sequence[Addressed]) -> Sequence[Answer | None]:
        """Have owners answer; see `Call`."""
        question = f"{batch[0][1].question} {batch[0][1].round}, {len(batch)} owners"
        with _losses(ray, self.title):
            answers: Sequence[Answer | None] = await self.handle.answer.options(name=question).remote(batch)
        return answers

    async def stores(self, ray: Any) -> Sequence[KeptStore]:
        """Read the stores of the actor's owners; empty for a lost actor."""
        stores: Sequence[KeptStore] = ()
        with contextlib.suppress(UnknownOutcomeError, ActorLostError), _losses(ray, self.title):
            stores = await self.handle.stores.remote()
        return stores


@contextlib.contextmanager
def _losses(ray: Any, title: str) -> Iterator[None]:
    """Translate Ray's errors about an actor: it may answer again, or it is gone."""
    try:
        yield
    except ray.exceptions.ActorUnavailableError:
        raise UnknownOutcomeError from None
    except (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError):
        raise ActorLostError(f"{title}: the actor is gone, with its node or alone") from None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ActorMarket(SimulatedMarket):
    """Parties whose owners are in actors.

    Attributes:
        ray: the module, connected to a cluster.
        actors: all actors that were started.
        shards: the connection to each actor, in the same order.
        note: gets a line on lost ledgers.
    """

    ray: Any
    actors: Sequence[OwnerActor]
    shards: Sequence[ShardConnection]
    note: Note = field(default=lambda line: None)

    @override
    async def collect_stores(self) -> Mapping[str, Store]:
        await asyncio.gather(*(shard.settle() for shard in self.shards))
        by_actor = await asyncio.gather(*(actor.stores(self.ray) for actor in self.actors))
        stores: dict[str, Store] = {
            content.name: content.restored() for contents in by_actor for content in contents
        }
        if gone := len(self.owners) - len(stores):
            self.note(
                f"the ledgers of {gone} owners are gone with their actors; the curator's ledger is whole"
            )
        return {**stores, CURATOR: self.curator, CONSUMER: self.consumer}


def shards_of(names: Sequence[str], owners_per_actor: int) -> list[tuple[str, ...]]:
    """Cut names into even parts, in order, each of at least `owners_per_actor` if there are as many."""
    count = max(1, len(names) // owners_per_actor)
    return [tuple(map(str, part)) for part in np.array_split(np.array(names, dtype=object), count)]


@contextlib.asynccontextmanager
async def owners_in_actors(
    scenario: Scenario, rows: RowsRecipe, settings: LaunchSettings, note: Note = lambda line: None
) -> AsyncIterator[ActorMarket]:
    """Open the owners of a scenario in actors, which end with this context.

    Args:
        scenario: gives the owners' names; their rows are not read here.
        rows: makes the owners' rows in the actors.
        settings: settings of the run.
        note: gets lines on the progress.

    Yields:
        The parties.

    Raises:
        FedkmeError: there is no cluster, or rows cannot be made; with the actor's message.
    """
    cluster: ClusterSettings = settings.cluster
    with connected(cluster.address) as ray:
        plans = [
            ShardPlan(names, rows, scenario.schema, settings.noise_seed, settings.policies)
            for names in shards_of(sorted(scenario.owners), cluster.owners_per_actor)
        ]
        note(f"starting {len(plans)} actors for {len(scenario.owners)} owners")
        actors = _start(ray, plans, scenario.name)
        try:
            opened = await asyncio.gather(*(_opened(ray, actor) for actor in actors))
            shards = [
                ShardConnection(actor.title, partial(actor.call, ray), settings.progress_s)
                for actor in actors
            ]
            connections = {
                name: ActorConnection(name, size, shard)
                for shard, sizes in zip(shards, opened, strict=True)
                for name, size in sizes.items()
            }
            yield ActorMarket(
                schema=scenario.schema,
                seeds=scenario.seeds,
                seed=settings.noise_seed,
                owners=tuple(connections),
                members=KnownMembers(connections),
                noise_for=partial(noise_for, settings.noise_seed),
                curator=MemoryStore(CURATOR),
                consumer=MemoryStore(CONSUMER),
                ray=ray,
                actors=actors,
                shards=shards,
                note=note,
            )
        finally:
            for actor in actors:
                ray.kill(actor.handle)


def _start(ray: Any, plans: Sequence[ShardPlan], name: str) -> list[OwnerActor]:
    """Start an actor for each shard, on every node of the cluster in turn."""
    actor_class = ray.remote(max_restarts=0, max_task_retries=0, num_cpus=0)(OwnerShard)
    nodes = itertools.cycle(
        [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")] or [None]
    )
    actors = []
    for plan, node in zip(plans, nodes, strict=False):
        title = f"{name}: {plan.names[0]} to {plan.names[-1]}"
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        where = "DEFAULT" if node is None else place(node, soft=False)
        actors.append(
            OwnerActor(title, actor_class.options(name=title, scheduling_strategy=where).remote(plan), plan)
        )
    return actors


async def _opened(ray: Any, actor: OwnerActor) -> Mapping[str, int]:
    """Open an actor's owners and wait for their rows; returns the number of rows of each owner.

    Raises:
        FedkmeError: the rows cannot be made.
    """
    try:
        with _losses(ray, actor.title):
            sizes: Mapping[str, int] | Refusal = await actor.handle.open.options(name="read rows").remote()
    except (UnknownOutcomeError, ActorLostError):
        remedy = "Look at the cluster's own log; it may have too little memory."
        raise PartyFailedError(f"{actor.title}: the actor died before it had its rows", remedy) from None
    if isinstance(sizes, Refusal):
        fault = sizes.error()
        if isinstance(fault, ConfigError):
            remedy = f"{fault.remedy} Files of a scenario are at the same path on every node."
            raise ConfigError(f"on a node of the cluster: {fault.cause}", remedy)
        raise fault
    return sizes
