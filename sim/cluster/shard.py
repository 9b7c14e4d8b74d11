"""Owners of one actor; they answer as in the engine `inprocess`. This module knows no Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from fedkme import __version__
from fedkme.directives import Answer, Directive, Refusal
from fedkme.errors import SAME_RELEASE, ConfigError, FedkmeError
from fedkme.party import noise_for
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings
from sim.engines.loopback import open_owners
from sim.scenarios import ScenarioConfig, build_scenario

RowsRecipe = Callable[[Sequence[str]], Mapping[str, Table]]
"""Makes the rows of owners by their names, in the actor. It is a module's function, or a `partial` of such a
function, so that it can travel."""
Addressed = tuple[str, Directive]
"""Name of an owner, and a directive for it."""


def rows_of_scenario(config: ScenarioConfig, seed: int, names: Sequence[str]) -> Mapping[str, Table]:
    """Read the rows of some owners of a scenario from its files on this machine.

    Raises:
        FedkmeError: see `build_scenario`.
    """
    owners = build_scenario(config, seed, at_once=False).owners
    return {name: owners[name] for name in names}


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Plan of a shard, which travels to its actor: everything but rows.

    Attributes:
        names: names of the shard's owners, sorted.
        rows: makes the owners' rows.
        schema: schema of the rows.
        seed: seed of owners' private randomness; None: randomness comes from the operating system.
        policies: policies by owner; `all` for owners that are not named.
        version: version of the package in the driver.
    """

    names: tuple[str, ...]
    rows: RowsRecipe
    schema: Schema
    seed: int | None
    policies: Mapping[str, PolicySettings] = field(default_factory=dict)
    version: str = __version__


@dataclass(frozen=True, slots=True)
class KeptStore:
    """Content of an owner's store once its runs are over, which travels from an actor to the driver.

    Attributes:
        name: name of the owner.
        lines: lines of the owner's ledger.
        facts: facts of the store by key, with heads and notes.
    """

    name: str
    lines: tuple[str, ...]
    facts: Mapping[str, bytes]

    @classmethod
    def of(cls, name: str, store: Store) -> KeptStore:
        """Read a store."""
        facts = {key: store.get(key) or b"" for key in store.keys("")}
        return cls(name, tuple(entry.line for entry in store.ledger()), facts)

    def restored(self) -> MemoryStore:
        """Make a store with this content."""
        store = MemoryStore(self.name)
        store.extend_ledger(self.lines)
        for key, value in self.facts.items():
            store.put(key, value)
        return store


class OwnerShard:
    """Owners of one actor."""

    def __init__(self, plan: ShardPlan) -> None:
        """Create a shard without rows: `open` makes them, and can report an error."""
        self._plan = plan
        self._owners: Mapping[str, OwnerParty] = {}
        self._runs: Mapping[str, RunManager] = {}

    def open(self) -> Mapping[str, int] | Refusal:
        """Make the rows and open every owner.

        Returns:
            Number of rows that a run may have of each owner, by name; or a refusal with the reason.
        """
        plan = self._plan
        try:
            if plan.version != __version__:
                cause = f"a node of the cluster has fedkme {__version__}, and the driver {plan.version}"
                raise ConfigError(cause, SAME_RELEASE)
            tables = plan.rows(plan.names)
            self._owners = open_owners(plan.schema, tables, partial(noise_for, plan.seed), plan.policies)
            self._runs = {name: RunManager(owner) for name, owner in self._owners.items()}
        except FedkmeError as error:
            return Refusal.of(error)
        return {name: runs.rows for name, runs in self._runs.items()}

    def answer(self, batch: Sequence[Addressed]) -> list[Answer | None]:
        """Answer directives in turn; a repeated directive gets the same answer at no cost."""
        return [self._runs[name].answer(directive) for name, directive in batch]

    def stores(self) -> list[KeptStore]:
        """Read every owner's store."""
        return [KeptStore.of(name, owner.store) for name, owner in self._owners.items()]
