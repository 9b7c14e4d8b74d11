"""Connections to owners in the same process, in place of the streams of a deployment.

A directive goes to the `RunManager` of an owner, and its answer comes back: the values themselves, neither
encoded nor copied. The owner has the policy, gate, journal and ledger that it has on its host.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from curator.owners.connection import Connection, Traffic
from fedkme.directives import Answer, Directive, Limits, Rows
from fedkme.errors import FedkmeError, MissingOwnersError, OwnerFaultError, OwnerLostError
from fedkme.party import NoiseFor
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings


def within_limits(name: str, directive: Directive, answer: Answer | None, limits: Limits) -> Answer:
    """Check an answer that came over no network, and return it.

    Raises:
        OwnerFaultError: there is no answer, or it has more rows than the limits allow.
    """
    if answer is None or (isinstance(answer, Rows) and len(answer.rows) > limits.rows):
        cause = f"{name}, round {directive.round}: no answer, or more rows than it was asked for"
        raise OwnerFaultError(cause, "Check the owner's software.")
    return answer


class Loopback:
    """`Connection` to an owner in this process.

    Replacing `runs` stands for a restart of the owner's process.
    """

    at_once = True
    here = True

    def __init__(self, name: str, runs: RunManager) -> None:
        self.name = name
        self.runs = runs

    @property
    def rows(self) -> int:
        """Rows that a run may have of the owner."""
        return self.runs.rows

    async def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Ask the owner; `traffic` does not change, because nothing crosses a network."""
        return within_limits(self.name, directive, self.runs.answer(directive), limits)

    async def tell(self, directive: Directive) -> None:
        """Send a directive that needs no answer; a lost owner misses it."""
        with contextlib.suppress(OwnerLostError):
            self.runs.answer(directive)

    def cut(self) -> None:
        """Do nothing: there is no stream to cut."""


class KnownConnection(Connection, Protocol):
    """Connection to an owner that a simulation has from the beginning."""

    @property
    def here(self) -> bool:
        """True until the owner is lost."""

    @property
    def rows(self) -> int:
        """Rows that a run may have of the owner."""


ConnectionT = TypeVar("ConnectionT", bound=KnownConnection)


class KnownMembers(Generic[ConnectionT]):
    """`Membership` of owners who are all connected from the beginning; no owner comes later."""

    def __init__(self, connections: Mapping[str, ConnectionT]) -> None:
        """Take the connections to the owners, by name."""
        self._connections = dict(sorted(connections.items()))

    def connection(self, name: str) -> ConnectionT:
        """Find the connection to an owner."""
        return self._connections[name]

    def here(self) -> list[str]:
        """Names of the connected owners, sorted."""
        return [name for name, connection in self._connections.items() if connection.here]

    def missing(self) -> list[str]:
        """Names of the lost owners."""
        return [name for name, connection in self._connections.items() if not connection.here]

    def refusal(self, name: str) -> FedkmeError | None:
        """Error of an owner that was refused: none is."""
        return None

    def sizes(self) -> Mapping[str, int]:
        """Number of rows that a run may have of each connected owner."""
        return {name: self._connections[name].rows for name in self.here()}

    def enlist(self, run: str, owners: Sequence[str]) -> None:
        """Do nothing: owners do not come back, and need no list of their runs."""

    def discharge(self, run: str) -> None:
        """Do nothing at the end of a run."""

    async def gather(self, minimum: int, connect_s: float) -> list[str]:
        """Names of the connected owners.

        Raises:
            MissingOwnersError: there are fewer than `minimum`.
        """
        names = self.here()
        if len(names) < max(1, minimum):
            cause = f"there are {len(names)} owners and the run needs {max(1, minimum)}"
            raise MissingOwnersError(cause, "Lower the quorum, or simulate more owners.")
        return names


class LoopbackMembers(KnownMembers[Loopback]):
    """`Membership` of owners in this process."""

    def __init__(self, owners: Mapping[str, RunManager]) -> None:
        """Take owners by name."""
        super().__init__({name: Loopback(name, runs) for name, runs in owners.items()})


def open_owners(
    schema: Schema,
    tables: Mapping[str, Table],
    noise_of: Callable[[str], NoiseFor],
    policies: Mapping[str, PolicySettings],
) -> dict[str, OwnerParty]:
    """Create owners, each with a store of its own.

    Args:
        schema: schema of the rows.
        tables: rows by owner.
        noise_of: private randomness of a party.
        policies: policies by owner; `all` for owners without one; without either all is allowed.

    Returns:
        Owners by name.
    """
    return {
        name: OwnerParty(
            name=name,
            table=table,
            schema=schema,
            store=MemoryStore(name),
            noise_for=cache(noise_of(name)),
            policy=policy_of(policies, name),
            approvals=Path("no-approvals"),
        )
        for name, table in tables.items()
    }


def policy_of(policies: Mapping[str, PolicySettings], owner: str) -> PolicySettings:
    """Policy of an owner: its own, or the policy `all`; without either everything is allowed."""
    return policies.get(owner, policies.get("all", PolicySettings()))
