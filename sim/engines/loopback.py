"""Owners in the same process, reached as streams reach those that dialled in.

A directive goes to the `RunManager` of an owner, and its answer comes back: the values themselves, neither
encoded nor copied. The owner is what it is on its
host: it has its policy, gate, journal and ledger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from curator.owners.connection import Connection, Traffic
from fedkme.directives import Answer, Directive, Limits, Rows
from fedkme.errors import MissingOwnersError, OwnerFaultError, OwnerLostError
from owner.runs import RunManager


def within_limits(name: str, directive: Directive, answer: Answer | None, limits: Limits) -> Answer:
    """The answer of an owner that no network lies before.

    Raises:
        OwnerFaultError: there is none, or it has more rows than it may.
    """
    if answer is None or (isinstance(answer, Rows) and len(answer.rows) > limits.rows):
        raise OwnerFaultError(
            f"{name}, round {directive.round}: no answer, or more rows than it was asked for",
            "Check the owner's software.",
        )
    return answer


class Loopback:
    """The `Connection` to an owner in this process.

    Other `runs` in their place are another process of the owner.
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
        """Ask the owner; `traffic` stays as it is, because nothing is on a network."""
        return within_limits(self.name, directive, self.runs.answer(directive), limits)

    async def tell(self, directive: Directive) -> None:
        """Say what needs no answer; an owner that is not here misses it."""
        with contextlib.suppress(OwnerLostError):
            self.runs.answer(directive)

    def cut(self) -> None:
        """Do nothing: there is no stream between the two that could be cut."""


class KnownConnection(Connection, Protocol):
    """The way to an owner that a simulation has from the beginning."""

    @property
    def here(self) -> bool:
        """True until the owner is lost."""

    @property
    def rows(self) -> int:
        """Rows that a run may have of the owner."""


ConnectionT = TypeVar("ConnectionT", bound=KnownConnection)


class KnownMembers(Generic[ConnectionT]):
    """The `Membership` of owners who are all here from the beginning, and of whom none comes later."""

    def __init__(self, connections: Mapping[str, ConnectionT]) -> None:
        """Take the ways to them, by name."""
        self._connections = dict(sorted(connections.items()))

    def connection(self, name: str) -> ConnectionT:
        """Find the way to an owner."""
        return self._connections[name]

    def here(self) -> list[str]:
        """Names of owners that are here, sorted."""
        return [name for name, connection in self._connections.items() if connection.here]

    def missing(self) -> list[str]:
        """Names of owners that are lost."""
        return [name for name, connection in self._connections.items() if not connection.here]

    def sizes(self) -> Mapping[str, int]:
        """Rows that a run may have of each."""
        return {name: self._connections[name].rows for name in self.here()}

    def enlist(self, run: str, owners: Sequence[str]) -> None:
        """Owners do not come back, and need no list of their runs."""

    def discharge(self, run: str) -> None:
        """Let owners go at the end of a run."""

    async def gather(self, minimum: int, connect_s: float) -> list[str]:
        """Name the owners that are here.

        Raises:
            MissingOwnersError: there are too few.
        """
        here = self.here()
        if len(here) < max(1, minimum):
            raise MissingOwnersError(
                f"there are {len(here)} owners and the run needs {max(1, minimum)}",
                "Lower the quorum, or simulate more owners.",
            )
        return here


class LoopbackMembers(KnownMembers[Loopback]):
    """The `Membership` of owners in this process."""

    def __init__(self, owners: Mapping[str, RunManager]) -> None:
        """Take owners by name."""
        super().__init__({name: Loopback(name, runs) for name, runs in owners.items()})
