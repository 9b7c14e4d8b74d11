"""One run of a case, with everything that happens in it written down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio

from curator.access.names import NameRegister
from curator.owners.members import Members
from curator.owners.owner_service import OwnerService
from fedkme.errors import FedkmeError
from fedkme.privacy.events import CONSUMER, CURATOR, Disclosure
from fedkme.privacy.ledger import disclosures_in
from fedkme.store.memory import MemoryStore
from fedkme.tables.table import Table
from fedkme.wire.channel import SERVER_OPTIONS
from fedkme.wire.dial import dial
from fedkme.wire.v1 import owners_pb2_grpc
from owner.agent import attend
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.inprocess import (
    InProcessMarket,
    KeptRecords,
    policy_of,
    release_in_process,
    run_in_process,
)
from sim.engines.loopback import LoopbackMembers
from sim.replay.cases import Case
from sim.replay.neighbours import SCHEMA, UNLABELLED, World
from sim.replay.recorder import Recorder
from sim.replay.seams import watching
from sim.replay.tap import open_tapped

_PATIENCE_S = 60.0
_GRACE_S = 0.5
_OURS = ("consumer", "curator", "fedkme", "owner", "sim")


@dataclass(frozen=True, eq=False)
class Played:
    """Run of a case.

    Attributes:
        recorder: of all that happened.
        ledgers: lines by party.
        files: of a release.
        facts: what record.json says.
        fault: why it failed, as its consumer hears; empty where it did not.
    """

    recorder: Recorder
    ledgers: Mapping[str, list[Disclosure]]
    files: Mapping[str, bytes]
    facts: Mapping[str, Any]
    fault: str

    def told(self, party: str, protected: str, observer: str) -> list[Disclosure]:
        """Lines of a party's ledger about a protected set and an observer."""
        return [
            line for line in self.ledgers[party] if (line.protected, line.observer) == (protected, observer)
        ]


def play(case: Case, world: World, recorder: Recorder) -> Played:
    """Run a case over the rows of a world."""
    with watching(recorder, case.finish), _heard(recorder):
        return asyncio.run(_play(case, world, recorder))


async def _play(case: Case, world: World, recorder: Recorder) -> Played:
    schema = SCHEMA if case.labels else UNLABELLED
    tables = {name: _bare(table, case.labels) for name, table in world.owners.items()}
    parties = {
        name: OwnerParty(
            name=name,
            table=table,
            schema=schema,
            store=MemoryStore(name),
            noise_for=recorder.noise_for(name),
            policy=policy_of(case.policies, name),
            approvals=Path("no-approvals"),
            refused=partial(_refused, recorder, name),
        )
        for name, table in tables.items()
    }
    runs = {name: open_tapped(party, recorder, case.dies.get(name)) for name, party in parties.items()}
    market = InProcessMarket(
        schema,
        _bare(world.seeds, False) if case.seeds else None,
        recorder.seed,
        parties,
        LoopbackMembers(runs),
        recorder.noise_for,
        MemoryStore(CURATOR),
        MemoryStore(CONSUMER),
    )
    records, fault = KeptRecords(), ""

    def hear(event: str, **fields: Any) -> None:
        if event != "round":  # said when it is time to, and of what record.json has
            recorder.said.append(f"{event} {fields}")

    async with _reached(case, market, runs) as reached:
        try:
            if case.summary is not None and case.request is not None:
                await run_in_process(
                    reached, world.validation, case.summary, case.request, records, hear, case.pooling
                )
            else:
                await release_in_process(reached, case.settings, case.pooling, records, hear)
        except FedkmeError as error:
            fault = f"{error.code} {error.cause} {error.remedy}"
    ledgers = {
        name: disclosures_in(kept.line for kept in store.ledger()) for name, store in market.stores().items()
    }
    return Played(recorder, ledgers, records.files, records.facts, fault)


def _refused(recorder: Recorder, owner: str, run: str, error: FedkmeError) -> None:
    line = f"{run} {error.code} {error.cause} {error.remedy}"
    recorder.refused.setdefault(owner, []).append(line)


@contextlib.asynccontextmanager
async def _reached(
    case: Case, market: InProcessMarket, runs: Mapping[str, RunManager]
) -> AsyncIterator[InProcessMarket]:
    """The market with its owners in this process, or each on a stream of its own."""
    if case.engine == "loopback":
        yield market
        return
    members = Members(sorted(runs), _PATIENCE_S, 0.0)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    owners_pb2_grpc.add_OwnersServicer_to_server(OwnerService(members, NameRegister(), _PATIENCE_S), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    owners = [asyncio.create_task(_attend(address, name, manager)) for name, manager in runs.items()]
    try:
        await members.gather(len(runs), _PATIENCE_S)
        yield replace(market, members=members)
    finally:
        await members.end()
        await server.stop(_GRACE_S)
        await asyncio.gather(*owners, return_exceptions=True)


async def _attend(address: str, name: str, runs: RunManager) -> None:
    async with await dial(address, None, _PATIENCE_S) as channel:
        await attend(channel, address, name, secrets.token_bytes(16), runs, lambda epoch: None)


def _bare(table: Table, labels: bool) -> Table:
    return Table(table.values, table.labels if labels else None)


class _Lines(logging.Handler):
    """Lines that any module logs."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.INFO)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of this package's; libraries log what their threads come to."""
        if record.name.partition(".")[0] in _OURS:
            self._said.append(f"{record.name}: {record.getMessage()}")


@contextlib.contextmanager
def _heard(recorder: Recorder) -> Iterator[None]:
    handler, root = _Lines(recorder.said), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
