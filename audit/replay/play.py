"""Plays one run of a case, and records it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from audit.in_memory import FreshNoise
from audit.replay.cases import Case
from audit.replay.figures import Exported, Figure
from audit.replay.neighbours import HOLDER, World
from audit.replay.observed import acting, observing
from audit.replay.owner_trace import DyingCurator, open_tapped
from audit.replay.patches import watching
from audit.replay.recorder import Recorder
from audit.streams import over_grpc
from curator.cells.pool_model import release_of_pool
from curator.run.record import RECORD
from fedkme.answers.folder import RELEASE
from fedkme.cells.plan import RELEASE_SHARE
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
    curating,
    open_market,
    release_in_process,
    run_in_process,
)

CANARY = "a line at the lowest level"


@dataclass(frozen=True, eq=False, repr=False)  # asyncio.run spells its result out, a quarter of the time
class Played:
    """Run of a case.

    Attributes:
        recorder: recorder of the run.
        ledgers: lines by party.
        files: files of a release.
        facts: entries of record.json.
        fault: reason of a failure, as the consumer hears it; empty without a failure.
        figures: figures for Prometheus, by party.
    """

    recorder: Recorder
    ledgers: Mapping[str, list[Disclosure]]
    files: Mapping[str, bytes]
    facts: Mapping[str, Any]
    fault: str
    figures: Mapping[str, Sequence[Figure]]

    def lines_about(self, party: str, protected: str, observer: str) -> list[Disclosure]:
        """Lines of a party's ledger about a protected set and an observer."""
        return [
            line for line in self.ledgers[party] if (line.protected, line.observer) == (protected, observer)
        ]


def play(case: Case, world: World, recorder: Recorder) -> Played:
    """Run a case over the rows of a world."""
    with tempfile.TemporaryDirectory() as folder:
        case = _over_release(case, world, Path(folder, "pool"))
        return _observed(case, world, recorder, Path(folder))


def _observed(case: Case, world: World, recorder: Recorder, folder: Path) -> Played:
    with observing(recorder.observe), watching(recorder, case.finish):
        for party in (*world.owners, CURATOR, CONSUMER):
            with acting(party):
                logging.getLogger("fedkme.replay").debug(CANARY)
        return asyncio.run(_play(case, world, recorder, folder))


def _over_release(case: Case, world: World, folder: Path) -> Case:
    """Make the release over which a case's summary is, of public rows, and name its folder in the case."""
    if case.summary is None or case.summary.cells.release is None:
        return case
    folder.mkdir()
    method = release_of_pool(case.summary, case.schema, 3, RELEASE_SHARE)
    (folder / RELEASE).write_bytes(asyncio.run(method.ask(FreshNoise(world.seeds, case.schema, 1))))
    (folder / RECORD).write_text(json.dumps({"owner_rows": dict.fromkeys(world.owners, 1)}))
    cells = case.summary.cells.model_copy(update={"release": folder})
    return replace(case, summary=case.summary.model_copy(update={"cells": cells}))


async def _play(case: Case, world: World, recorder: Recorder, approvals: Path) -> Played:
    exported = Exported()
    market = open_market(
        case.schema,
        {name: _bare(table, case.labels) for name, table in world.owners.items()},
        _bare(world.seeds, False) if case.seeds else None,
        recorder.seed,
        case.policies,
        cache(recorder.noise_for),  # a second run continues the streams of noise
        partial(_opened, case, recorder, exported, approvals),
    )
    measured = timed(market.curator, exported.curator.registry)
    market = replace(market, curator=measured, metrics=exported.curator)
    records, fault = KeptRecords(), ""

    def hear(event: str, **fields: Any) -> None:
        if event != "round":  # its time varies, and record.json has its content
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
    figures = exported.shown()  # after every owner heard of the end of the run
    ledgers = {
        name: disclosures_in(entry.line for entry in store.ledger())
        for name, store in market.stores().items()
    }
    return Played(recorder, ledgers, records.files, records.facts, fault, figures)


async def _carried_out(
    case: Case, world: World, recorder: Recorder, market: InProcessMarket, records: KeptRecords, hear: Hear
) -> None:
    """Carry out a case; a curator that dies has two lives."""
    if case.curator_dies is None:
        await _asked(case, world, market, records, hear)
        return
    members = DyingCurator(market.runs, case.curator_dies, case.in_sketch)
    mortal = replace(market, members=members, journaled=True)
    with contextlib.suppress(ConnectionFailedError, asyncio.CancelledError):  # the curator dies
        await _asked(case, world, mortal, records, hear)
    recorder.resume(CURATOR)
    if case.in_sketch:
        await _asked(case, world, mortal, records, hear, again=True)
        return
    tables = {} if case.summary is None else {"summary": case.summary}
    async with curating(mortal, records, hear, release=case.pooling, **tables) as (_, runs):
        runs.start()
        await runs.idle()
        records.check()


async def _asked(
    case: Case, world: World, market: InProcessMarket, records: KeptRecords, hear: Hear, again: bool = False
) -> None:
    """Ask for the summary or release of a case, and wait for it."""
    if case.summary is None or case.request is None:
        await release_in_process(market, case.settings, case.pooling, records, hear)
        return
    validation = _bare(world.validation, case.own_class)
    settings, request = case.summary, case.request
    await run_in_process(market, validation, settings, request, records, hear, case.pooling, again)


def _approve(market: InProcessMarket, approvals: Path) -> None:
    """Approve the refused request, as `fedkme owner approve` does."""
    for request in asked_in(market.owners[HOLDER].store):
        approve(approvals, request.consumer, request.protocol, request.rows, 1)


def _opened(
    case: Case, recorder: Recorder, exported: Exported, approvals: Path, party: OwnerParty
) -> RunManager:
    owner = replace(party, approvals=approvals, refused=partial(_refused, recorder, party.name))
    return open_tapped(owner, recorder, exported, case.dies.get(party.name))


def _refused(recorder: Recorder, owner: str, run: str, error: FedkmeError) -> None:
    line = f"{run} {error.code} {error.cause} {error.remedy}"
    recorder.refused.setdefault(owner, []).append(line)


@contextlib.asynccontextmanager
async def _reached(case: Case, market: InProcessMarket) -> AsyncIterator[InProcessMarket]:
    """Open the market with its owners in this process, or each on a stream of its own."""
    if case.engine == "loopback":
        yield market
        return
    async with over_grpc(market.runs) as members:
        yield replace(market, members=members)


def _bare(table: Table, labels: bool) -> Table:
    return Table(table.values, table.labels if labels else None)
