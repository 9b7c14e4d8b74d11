"""Owners in the same process, reached as streams reach those that dialled in.

A directive goes to the `RunManager` of an owner, and its answer comes back: the values themselves, neither
encoded nor copied. The owner is what it is on its
host: it has its policy, gate, journal and ledger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from curator.owners.connection import Traffic
from fedkme.directives import Answer, Directive, Limits, Rows
from fedkme.errors import MissingOwnersError, OwnerFaultError, OwnerLostError
from owner.runs import RunManager


class Loopback:
    """The `Connection` to an owner in this process.

    Other `runs` in their place are another process of the owner.
    """

    at_once = True

    def __init__(self, name: str, runs: RunManager) -> None:
        self.name = name
        self.runs = runs

    async def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Ask the owner; `traffic` stays as it is, because nothing is on a network."""
        answer = self.runs.answer(directive)
        if answer is None or (isinstance(answer, Rows) and len(answer.rows) > limits.rows):
            raise OwnerFaultError(
                f"{self.name}, round {directive.round}: no answer, or more rows than it was asked for",
                "Check the owner's software.",
            )
        return answer

    async def tell(self, directive: Directive) -> None:
        """Say what needs no answer; an owner that is not here misses it."""
        with contextlib.suppress(OwnerLostError):
            self.runs.answer(directive)

    def cut(self) -> None:
        """Do nothing: there is no stream between the two that could be cut."""


class LoopbackMembers:
    """The `Membership` of owners in this process, who are all here from the beginning."""

    def __init__(self, owners: Mapping[str, RunManager]) -> None:
        """Take owners by name."""
        self._connections = {name: Loopback(name, runs) for name, runs in sorted(owners.items())}

    def connection(self, name: str) -> Loopback:
        """Find the way to an owner."""
        return self._connections[name]

    def here(self) -> list[str]:
        """Names of owners that are here: all."""
        return list(self._connections)

    def missing(self) -> list[str]:
        """Names of owners that are missing: none."""
        return []

    def sizes(self) -> Mapping[str, int]:
        """Rows that a run may have of each."""
        return {name: connection.runs.rows for name, connection in self._connections.items()}

    def enlist(self, run: str, owners: Sequence[str]) -> None:
        """Owners in this process do not come back, and need no list of their runs."""

    def discharge(self, run: str) -> None:
        """Let owners go at the end of a run."""

    async def gather(self, minimum: int, connect_s: float) -> list[str]:
        """Name all owners.

        Raises:
            MissingOwnersError: there are too few.
        """
        if len(self._connections) < max(1, minimum):
            raise MissingOwnersError(
                f"there are {len(self._connections)} owners and the run needs {max(1, minimum)}",
                "Lower the quorum, or simulate more owners.",
            )
        return self.here()
