"""One run of a case, with everything that happens in it written down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedkme.errors import ConnectionFailedError, FedkmeError
from fedkme.ops.metrics import timed
from fedkme.privacy.events import CONSUMER, CURATOR, Disclosure
from fedkme.privacy.ledger import disclosures_in
from fedkme.tables.table import Table
from owner.consent.approvals import approve, asked_in
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.inprocess import (
    Hear,
    InProcessMarket,
    KeptRecords,
    go_on_in_process,
    open_market,
    release_in_process,
    run_in_process,
)
from sim.engines.streams import over_grpc
from sim.replay.cases import Case
from sim.replay.figures import Exported, Figure
from sim.replay.neighbours import HOLDER, World
from sim.replay.observed import acting, observing
from sim.replay.recorder import Recorder
from sim.replay.seams import watching
from sim.replay.tap import DyingCurator, open_tapped

CANARY = "a line at the lowest level"


@dataclass(frozen=True, eq=False, repr=False)  # asyncio.run spells its result out, a quarter of the time
class Played:
    """Run of a case.

    Attributes:
        recorder: of all that happened.
        ledgers: lines by party.
        files: of a release.
        facts: what record.json says.
        fault: why it failed, as its consumer hears; empty where it did not.
        figures: that Prometheus reads, by party.
    """

    recorder: Recorder
    ledgers: Mapping[str, list[Disclosure]]
    files: Mapping[str, bytes]
    facts: Mapping[str, Any]
    fault: str
    figures: Mapping[str, Sequence[Figure]]

    def told(self, party: str, protected: str, observer: str) -> list[Disclosure]:
        """Lines of a party's ledger about a protected set and an observer."""
        return [
            line for line in self.ledgers[party] if (line.protected, line.observer) == (protected, observer)
        ]


def play(case: Case, world: World, recorder: Recorder) -> Played:
    """Run a case over the rows of a world."""
    with (
        tempfile.TemporaryDirectory() as folder,
        observing(recorder.observe),
        watching(recorder, case.finish),
    ):
        for party in (*world.owners, CURATOR, CONSUMER):
            with acting(party):
                logging.getLogger("fedkme.replay").debug(CANARY)
        return asyncio.run(_play(case, world, recorder, Path(folder)))


async def _play(case: Case, world: World, recorder: Recorder, approvals: Path) -> Played:
    exported = Exported()
    market = open_market(
        case.schema,
        {name: _bare(table, case.labels) for name, table in world.owners.items()},
        _bare(world.seeds, False) if case.seeds else None,
        recorder.seed,
        case.policies,
        cache(recorder.noise_for),  # where a second run is asked for, its noise goes on
        partial(_opened, case, recorder, exported, approvals),
    )
    measured = timed(market.curator, exported.curator.registry)
    market = replace(market, curator=measured, metrics=exported.curator)
    records, fault = KeptRecords(), ""

    def hear(event: str, **fields: Any) -> None:
        if event != "round":  # said when it is time to, and of what record.json has
            recorder.observe(CURATOR, f"{event} {fields}")

    async with _reached(case, market) as reached:
        try:
            await _carried_out(case, world, recorder, reached, records, hear)
            for _ in range(case.requests - 1):
                await _asked(case, world, reached, records, hear)
            if case.by_hand:
                _approve(market, approvals)
                await _asked(case, world, reached, records, hear)
        except FedkmeError as error:
            fault = f"{error.code} {error.cause} {error.remedy}"
    for figure in exported.beside():
        recorder.observe("a process", f"exports {figure}")
    figures = exported.shown()  # when every owner was told that the run is over
    ledgers = {
        name: disclosures_in(kept.line for kept in store.ledger()) for name, store in market.stores().items()
    }
    return Played(recorder, ledgers, records.files, records.facts, fault, figures)


async def _carried_out(
    case: Case, world: World, recorder: Recorder, market: InProcessMarket, records: KeptRecords, hear: Hear
) -> None:
    """Carry out what a case is of, in two lives of a curator that dies."""
    if case.curator_dies is None:
        await _asked(case, world, market, records, hear)
        return
    members = DyingCurator(market.runs, case.curator_dies, case.in_sketch)
    mortal = replace(market, members=members, journaled=True)
    with contextlib.suppress(ConnectionFailedError, asyncio.CancelledError):  # it starts again
        await _asked(case, world, mortal, records, hear)
    recorder.resume(CURATOR)
    if case.in_sketch:
        await _asked(case, world, mortal, records, hear, again=True)
        return
    tables = {} if case.summary is None else {"summary": case.summary}
    await go_on_in_process(mortal, records, hear, release=case.pooling, **tables)


async def _asked(
    case: Case, world: World, market: InProcessMarket, records: KeptRecords, hear: Hear, again: bool = False
) -> None:
    """Ask for what a case is of, and wait for it."""
    if case.summary is None or case.request is None:
        await release_in_process(market, case.settings, case.pooling, records, hear)
        return
    validation = _bare(world.validation, case.own_class)
    settings, request = case.summary, case.request
    await run_in_process(market, validation, settings, request, records, hear, case.pooling, again)


def _approve(market: InProcessMarket, approvals: Path) -> None:
    """Approve what was refused, as `fedkme owner approve` does."""
    for asked in asked_in(market.owners[HOLDER].store):
        approve(approvals, asked.consumer, asked.protocol, asked.rows, 1)


def _opened(
    case: Case, recorder: Recorder, exported: Exported, approvals: Path, party: OwnerParty
) -> RunManager:
    told = replace(party, approvals=approvals, refused=partial(_refused, recorder, party.name))
    return open_tapped(told, recorder, exported, case.dies.get(party.name))


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
