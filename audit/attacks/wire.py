"""Engines of the games that are whole runs: the curator's connections to owners.

`LOOPBACK` hands directives to owners in this process. With `GRPC` each owner attends through a stream of its
own over a socket, with the sessions and handlers of a deployment, on the same loop. Channels and streams stay
open over the runs of a game, so that a run costs only its messages.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from audit.streams import over_grpc
from curator.owners.session import OwnerSession
from curator.run.summary_record import RoundRecord
from fedkme.documents import Fault
from fedkme.party import noise_for
from fedkme.protocol import Invitation
from fedkme.store.memory import MemoryStore
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.handler import RunHandler
from owner.keyring import KeyRing
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.summary.bidder import Bidder
from owner.summary.handler import SummaryHandler
from sim.engines.loopback import Loopback

Party = Bidder | HistogramResponder
Seat = Callable[[Sequence[Party]], Sequence[OwnerSession]]
"""Begins a run: its owners replace the last run's owners of the same names."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Kind of connection to owners.

    Attributes:
        note: name of the engine in a finding.
        open: opens connections, from the sorted names of the owners and the width of an encoded row.
    """

    note: str
    open: Callable[[Sequence[str], int], AbstractAsyncContextManager[Seat]]


class SilentObserver:
    """Observer that ignores a run's events."""

    def round_done(self, record: RoundRecord) -> None:
        """Ignore the end of a round."""

    def owner_left(self, fault: Fault) -> None:
        """Ignore an owner's leaving."""


@contextlib.asynccontextmanager
async def _looped(names: Sequence[str], width: int) -> AsyncIterator[Seat]:
    yield lambda parties: looped(parties, width)


def looped(parties: Sequence[Party], width: int) -> list[OwnerSession]:
    """Sessions with owners in this process; their handlers of directives answer."""
    return [OwnerSession(loopback_to(party, width), "audit") for party in parties]


def loopback_to(party: Party, width: int) -> Loopback:
    """Connection to an owner in this process that answers one run."""
    place = _Place(party.name, width)
    place.take(party)
    return Loopback(party.name, place.runs)


@contextlib.asynccontextmanager
async def _streamed(names: Sequence[str], width: int) -> AsyncIterator[Seat]:
    places = {name: _Place(name, width) for name in names}
    numbers = itertools.count(1)
    async with over_grpc({name: place.runs for name, place in places.items()}) as members:

        def seat(parties: Sequence[Party]) -> Sequence[OwnerSession]:
            run = f"audit-{next(numbers)}"
            for party in parties:
                places[party.name].take(party)
            return [OwnerSession(members.connection(party.name), run) for party in parties]

        yield seat


@dataclass(frozen=True, kw_only=True, eq=False)
class _Played(OwnerParty):
    """Owner without rows of its own, in whose place another answers each run."""

    answering: Callable[[str], RunHandler]

    @override
    def handler(self, invitation: Invitation, gate: OwnerGate, keys: KeyRing) -> RunHandler:
        return self.answering(invitation.run)


class _Place:
    """Place of an owner: its stream stays for all runs, while each run has new owner objects."""

    def __init__(self, name: str, width: int) -> None:
        self._party: Party | None = None
        self._width = width
        nothing, schema = Table(np.empty((0, 1))), Schema(columns=(Numeric(name="x", bounds=(0, 1)),))
        store, noise = MemoryStore(name), noise_for(0, name)
        self.runs = RunManager(
            _Played(
                name=name, table=nothing, schema=schema, store=store, noise_for=noise, answering=self._handler
            )
        )

    def take(self, party: Party) -> None:
        """Take the next run's owner, and forget the last run."""
        self._party = party
        self.runs.welcome(())

    def _handler(self, run: str) -> RunHandler:
        assert self._party is not None
        if isinstance(self._party, Bidder):
            return SummaryHandler(run, self._party, self._width)
        return CellHandler(run, self._party)


LOOPBACK = Engine("whole runs, owners in one process", _looped)
GRPC = Engine("whole runs, each owner on a gRPC stream over a loopback socket", _streamed)
