"""One run of a case, with everything that happens in it written down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fedkme.errors import FedkmeError
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import disclosures_in
from fedkme.tables.table import Table
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.inprocess import (
    InProcessMarket,
    KeptRecords,
    open_market,
    release_in_process,
    run_in_process,
)
from sim.engines.streams import over_grpc
from sim.replay.cases import Case
from sim.replay.neighbours import SCHEMA, UNLABELLED, World
from sim.replay.recorder import Recorder
from sim.replay.seams import watching
from sim.replay.tap import open_tapped

_OURS = ("consumer", "curator", "fedkme", "owner", "sim")


@dataclass(frozen=True, eq=False, repr=False)  # asyncio.run spells its result out, a quarter of the time
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
    market = open_market(
        schema,
        {name: _bare(table, case.labels) for name, table in world.owners.items()},
        _bare(world.seeds, False) if case.seeds else None,
        recorder.seed,
        case.policies,
        recorder.noise_for,
        partial(_opened, case, recorder),
    )
    records, fault = KeptRecords(), ""

    def hear(event: str, **fields: Any) -> None:
        if event != "round":  # said when it is time to, and of what record.json has
            recorder.said.append(f"{event} {fields}")

    async with _reached(case, market) as reached:
        try:
            if case.summary is not None and case.request is not None:
                await run_in_process(
                    reached,
                    _bare(world.validation, case.own_class),
                    case.summary,
                    case.request,
                    records,
                    hear,
                    case.pooling,
                )
            else:
                await release_in_process(reached, case.settings, case.pooling, records, hear)
        except FedkmeError as error:
            fault = f"{error.code} {error.cause} {error.remedy}"
    ledgers = {
        name: disclosures_in(kept.line for kept in store.ledger()) for name, store in market.stores().items()
    }
    return Played(recorder, ledgers, records.files, records.facts, fault)


def _opened(case: Case, recorder: Recorder, party: OwnerParty) -> RunManager:
    told = replace(party, refused=partial(_refused, recorder, party.name))
    return open_tapped(told, recorder, case.dies.get(party.name))


def _refused(recorder: Recorder, owner: str, run: str, error: FedkmeError) -> None:
    line = f"{run} {error.code} {error.cause} {error.remedy}"
    recorder.refused.setdefault(owner, []).append(line)


@contextlib.asynccontextmanager
async def _reached(case: Case, market: InProcessMarket) -> AsyncIterator[InProcessMarket]:
    """The market with its owners in this process, or each on a stream of its own."""
    if case.engine == "loopback":
        yield market
        return
    async with over_grpc(market.runs) as members:
        yield replace(market, members=members)


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
