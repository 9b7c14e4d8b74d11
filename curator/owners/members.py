"""Register of owners: which process of each owner is served, and which owners are here; it knows no gRPC."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from curator.owners.connection import Connection, Exchanged, OwnerConnection, Stream
from fedkme import errors
from fedkme.directives import Hello
from fedkme.ledgers.departures import Departure
from fedkme.store import Store
from fedkme.wire.directives import end_to_wire, welcome_to_wire

MOST_FENCED = 1024
"""Processes of an owner that are remembered as fenced. Each process is told when it is fenced. A process that
missed the message and comes back after so many later processes counts as new and fences the newest; both
sides log it."""
_INSTANCE = 64  # bytes


def next_epoch(store: Store, owner: str) -> int:
    """Count one more process of an owner; the count survives restarts of the curator."""
    key = f"epoch/{owner}"
    epoch = int(store.get(key) or b"0") + 1
    store.put(key, b"%d" % epoch)
    return epoch


class Membership(Protocol):
    """Owners that a run may begin with, and the connection to each: what runs need from `Members`."""

    def connection(self, name: str) -> Connection:
        """Find the connection to an owner, here or not."""

    def here(self) -> list[str]:
        """List the owners that are here, sorted."""

    def missing(self) -> list[str]:
        """List the expected owners that are not here, sorted."""

    def refusal(self, name: str) -> errors.FedkmeError | None:
        """Error with which an owner was refused as it joined; None if it joined since, or never tried."""

    def sizes(self) -> Mapping[str, int]:
        """Rows that a run may have from each owner that is here and has given the number."""

    def enlist(self, run: str, owners: Sequence[str]) -> None:
        """Note that a run is open for these owners."""

    def discharge(self, run: str) -> None:
        """Note that a run is over for every owner."""

    async def gather(self, minimum: int, connect_s: float) -> list[str]:
        """Wait for the owners of a run; return their names, sorted.

        Raises:
            MissingOwnersError: too few owners came in time.
        """


class Members:
    """Owners and their connections.

    A new process of an owner fences the earlier process: the earlier process is told and not let in again.
    """

    def __init__(
        self,
        expected: Sequence[str],
        progress_s: float,
        grace_s: float,
        next_epoch: Callable[[str], int] | None = None,
        say: Callable[..., None] = lambda event, **fields: None,
        approval_s: float = 0.0,
        exchanged: Exchanged | None = None,
        departures: Callable[[str], Sequence[Departure]] = lambda name: (),
    ) -> None:
        """Begin without any owner.

        Args:
            expected: names of owners; where it is empty, any owner may join.
            progress_s: see `OwnerConnection`.
            grace_s: see `OwnerConnection`.
            next_epoch: counts processes of an owner, also over restarts of the curator.
            say: reports fenced processes.
            approval_s: see `OwnerConnection`.
            exchanged: see `OwnerConnection`.
            departures: reads the last runs that went on without an owner.
        """
        self._expected = frozenset(expected)
        self._progress_s = progress_s
        self._grace_s = grace_s
        self._approval_s = approval_s
        self._exchanged = exchanged
        self._next_epoch = next_epoch or self._count
        self._departures = departures
        self._say = say
        self._connections: dict[str, OwnerConnection] = {}
        self._instances: dict[str, bytes] = {}
        self._epochs: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._tickets: dict[str, int] = {}
        self._fenced: dict[str, dict[bytes, None]] = {}  # the oldest first
        self._runs: dict[str, dict[str, None]] = {}
        self._refusals: dict[str, errors.FedkmeError] = {}
        self._missed = set[str]()  # owners that a run waited for in vain and that have not joined since
        self._changed = asyncio.Condition()

    def connection(self, name: str) -> OwnerConnection:
        """Connection to an owner, here or not."""
        if (connection := self._connections.get(name)) is None:
            times = self._progress_s, self._grace_s, self._approval_s
            connection = self._connections[name] = OwnerConnection(name, *times, self._exchanged)
        return connection

    def here(self) -> list[str]:
        """Names of owners with a stream, sorted; any thread may call this."""
        connections = list(self._connections.items())
        return sorted(name for name, connection in connections if connection.stream is not None)

    def connections(self) -> list[OwnerConnection]:
        """Connections to every owner that is expected or came; any thread may call this."""
        connections = dict(list(self._connections.items()))
        return [
            connections.get(name) or OwnerConnection(name, 0, 0)
            for name in sorted(self._expected.union(connections))
        ]

    def missing(self) -> list[str]:
        """Names of the expected owners that are not here."""
        return sorted(self._expected.difference(self.here()))

    async def refuse(self, name: str, error: errors.FedkmeError) -> None:
        """Note why an expected owner is not let in: runs begin without it, and do not wait for it."""
        if name not in self._expected or self.connection(name).stream is not None:
            return
        self._refusals[name] = error
        self._missed.add(name)
        async with self._changed:
            self._changed.notify_all()

    def refusal(self, name: str) -> errors.FedkmeError | None:
        """Reason why an owner was refused, or lost, and has not joined since; None if it never tried."""
        lost = self.connection(name).lost
        if lost is None or name in self._refusals:
            return self._refusals.get(name)
        cause = f"{lost.cause}, and {name} has not joined again; the run begins without it"
        return errors.MissingOwnersError(cause, lost.remedy)

    def sizes(self) -> Mapping[str, int]:
        """Rows for a run from each owner with a stream that gave the number; any thread may call this."""
        sizes = dict(self._sizes)
        return {name: sizes[name] for name in self.here() if name in sizes}

    def enlist(self, run: str, owners: Sequence[str]) -> None:
        """Note that a run is open for these owners."""
        for name in owners:
            self._runs.setdefault(name, {})[run] = None

    def discharge(self, run: str) -> None:
        """Note that a run is over for every owner."""
        for runs in self._runs.values():
            runs.pop(run, None)

    async def join(self, stream: Stream, hello: Hello) -> OwnerConnection:
        """Let a process in, by its name and instance; directives that wait for an answer are sent again.

        Raises:
            IdentityError: the name is not expected.
            FencedError: a later process of the name was here.
            ProtocolError: the id of the process is too long.
            StoreError: the store fails to count the process.
            ConnectionFailedError: the process is gone already.
        """
        name, instance = hello.name, hello.instance
        if self._expected and name not in self._expected:
            cause = f"{name!r} is not one of this curator's owners"
            raise errors.IdentityError(cause, "Add it to 'owners' of the curator.")
        if len(instance) > _INSTANCE:
            raise errors.ProtocolError(f"{name} drew an odd instance")
        fenced = self._fenced.setdefault(name, {})
        if instance in fenced:
            raise _fenced_error(name, self._epochs[name])
        connection = self.connection(name)
        ticket = self._tickets[name] = self._tickets.get(name, 0) + 1
        before = self._instances.get(name)
        if before != instance:
            self._epochs[name] = self._next_epoch(name)  # first: if the store fails, no state has changed
            self._instances[name] = instance
            if before is not None:
                fenced[before] = None
                if len(fenced) > MOST_FENCED:
                    del fenced[next(iter(fenced))]
                if (old := connection.stream) is not None:
                    await self._fence(name, old)
        elif (old := connection.stream) is not None:
            connection.detach(old)
            old.cut()
        await stream.write(welcome_to_wire(self._epochs[name], self._runs.get(name, ()), hello.version))
        if self._tickets[name] != ticket:  # another process joined while this one was being welcomed
            raise _fenced_error(name, self._epochs[name])
        self._sizes.pop(name, None)
        if hello.rows is not None:
            self._sizes[name] = hello.rows
        try:
            await connection.attach(stream)
            self._missed.discard(name)
            self._refusals.pop(name, None)
            async with self._changed:
                self._changed.notify_all()
        except BaseException:  # cancelled: the stream broke before anybody attended to it
            connection.detach(stream)
            raise
        return connection

    async def remind(self, connection: OwnerConnection) -> None:
        """Tell an owner why runs went on without it: it may have been away when they ended."""
        with contextlib.suppress(errors.StoreError):  # it hears when it joins again
            for departure in self._departures(connection.name):
                await connection.tell(departure.directive)

    async def _fence(self, name: str, old: Stream) -> None:
        error = _fenced_error(name, self._epochs[name])
        self._say("fenced", owner=name, epoch=self._epochs[name])
        self.connection(name).detach(old)
        with contextlib.suppress(errors.ConnectionFailedError):
            await old.write(end_to_wire(error))
        old.cut()

    async def gather(self, minimum: int, connect_s: float) -> list[str]:
        """Wait `connect_s` for all expected owners, then begin with at least `minimum`; return sorted names.

        Once a run has waited in vain for an owner, later runs do not wait for the owner until it has joined.

        Raises:
            MissingOwnersError: too few owners came in time.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(connect_s):
                    await self._changed.wait_for(lambda: self._are_here(minimum))
            except TimeoutError:
                present = self.here()
                if len(present) < minimum or not present:
                    who = ", ".join(self.missing()) or f"{minimum - len(present)} owners"
                    cause = f"{who} did not join within {connect_s:g} s"
                    remedy = "Start them, or raise 'connect_s'; their own log says why they could not."
                    raise errors.MissingOwnersError(cause, remedy) from None
                self._missed.update(self.missing())
            return self.here()

    def _are_here(self, minimum: int) -> bool:
        """Check whether enough owners are here; each join calls this, so the cheap test comes first."""
        count = max(len(self._expected) - len(self._missed), minimum)
        return len(self._connections) >= count and len(self.here()) >= count

    async def end(self) -> None:
        """Say farewell to all owners, so that they do not come back."""
        for connection in self._connections.values():
            await connection.end()

    def _count(self, name: str) -> int:
        return self._epochs.get(name, 0) + 1


def _fenced_error(name: str, epoch: int) -> errors.FencedError:
    cause = f"another process of {name} has joined, as number {epoch}, and is served in place of this one"
    remedy = "Leave one of the two running; if you started one, issue a new certificate."
    return errors.FencedError(cause, remedy)
