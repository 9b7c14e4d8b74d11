"""Carries out one run over owners that dialled in, from its document to its record on disk.

Called again for the same run after the process died, it does the same again, from the run's journal.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.members import Members
from curator.owners.roster import Fault
from curator.owners.session import OwnerSession
from curator.runs.journal import JournaledNoise, RunJournal
from curator.runs.public_draws import reference_rows
from curator.runs.queue import Run, Status
from curator.runs.record_files import write_run
from curator.runs.secret_draws import content_of, reference_of
from curator.settings import CuratorSettings
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.record import RoundRecord, SummaryRecord, columns
from curator.summary.run import run_summary
from curator.summary.task import SummaryTask
from fedkme.cells.codebook import CodeBook, code_book_from_json
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.noise import on_integers
from fedkme.errors import CancelledRunError, FedkmeError, MissingOwnersError, StoreError
from fedkme.features.fixed_point import MeanVector
from fedkme.features.fourier import RandomFourier
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import Ledger
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.settings import release_target
from fedkme.sealed import Gift
from fedkme.store import Store
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.sealed import gifts_from_wire
from fedkme.wire.v1 import journals_pb2
from fedkme.wire.v1 import summaries_pb2 as pb

Say = Callable[..., None]
PROGRESS_EVERY_S = 0.1
"""Rounds take milliseconds; a person reads no faster than this."""


class RunCounters(Protocol):
    """Counts what runs do, for operators."""

    def round_done(self, record: RoundRecord, accesses: Sequence[tuple[int, str, int]]) -> None:
        """A round ended, with (round, owner, token) of rows that came in it for the first time."""


class RunProgress:
    """Tells the launcher and the consumer how far a run is: now and then, and after each tenth of it."""

    def __init__(
        self,
        run: Run,
        say: Say,
        record: SummaryRecord | None = None,
        journal: RunJournal | None = None,
        meter: RunCounters | None = None,
    ) -> None:
        """Watch a run.

        Args:
            run: whose followers are told.
            say: reports events.
            record: is being filled.
            journal: knows what was done, and counted, by an earlier process.
            meter: counts; None for nobody.
        """
        self._run = run
        self._say = say
        self._record = record
        self._journal = journal
        self._meter = meter
        self._counted = 0
        self._tenth = math.ceil(run.document.request.rows / 10)
        self._next = 0.0
        self._untold: RoundRecord | None = None

    def round_done(self, record: RoundRecord) -> None:
        """See `RunObserver`."""
        now = time.monotonic()
        self._untold = record
        if self._meter is not None:
            self._count(self._meter, record)
        if now >= self._next or record.round % self._tenth == 0:
            self._next = now + PROGRESS_EVERY_S
            self.tell()

    def tell(self) -> None:
        """Pass on the last round that was not."""
        record, self._untold = self._untold, None
        if record is None:
            return
        self._say("round", run=self._run.name, record=columns(record))
        self._run.tell(
            pb.Progress(round=record.round, selected=record.round, points_accessed=record.accessed)
        )

    def _count(self, meter: RunCounters, record: RoundRecord) -> None:
        if self._record is None:
            return
        accesses = self._record.accesses[self._counted :]
        self._counted += len(accesses)
        if self._journal is None or not self._journal.replaying:
            meter.round_done(record, accesses)

    def owner_left(self, fault: Fault) -> None:
        """See `RunObserver`."""
        self._say("owner_left", run=self._run.name, owner=fault.owner, round=fault.round, line=fault.line)


@dataclass(frozen=True, eq=False)
class SummaryRun:
    """Everything that runs share."""

    settings: CuratorSettings
    schema: Schema
    seeds: NDArray[np.float32]
    """Encoded public rows, (s, n)."""
    members: Members
    store: Store
    ledger: Ledger
    noise_for: NoiseFor
    say: Say
    meter: RunCounters | None = None

    async def carry_out(self, run: Run) -> Status | None:
        """Carry out a run, or what is left of it.

        Returns:
            How it ended, with its record on disk; None when it is left open for a later process, because the
            store failed.
        """
        record = SummaryRecord()
        sessions: list[OwnerSession] = []
        gate: SummaryDisclosures | None = None
        try:
            journal = RunJournal(self.store, run.name, self.ledger)
            gate = SummaryDisclosures(run.name, journal, run.consumer)
            status = await self._outcome(run, record, sessions, gate, journal)
            journal.commit()
            self._write(run, record, sessions, gate)
        except StoreError as error:
            run.error = error
            where = {"run": run.name, "round": len(record.rounds)}
            self.say("suspended", **where, code=error.code, cause=error.cause, remedy=error.remedy)
            return None
        except asyncio.CancelledError:  # told to stop: the run is left open, and what there is can be read
            self._write(run, record, sessions, gate)
            raise
        self.members.discharge(run.name)
        for session in sessions:
            await session.dismiss()
        how = {"status": record.status, "reason": record.reason}
        self.say("ended", run=run.name, round=len(record.rounds), **how)
        return status

    async def _outcome(
        self,
        run: Run,
        record: SummaryRecord,
        sessions: list[OwnerSession],
        gate: SummaryDisclosures,
        journal: RunJournal,
    ) -> Status:
        """Everything but what comes after; `record` and `sessions` are filled."""
        try:
            sessions += await self._sessions(run, journal)
            await self._carry_out(run, record, sessions, gate, journal)
        except StoreError:
            raise
        except FedkmeError as error:
            record.stop(error)
            return "failed"
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            record.stop(CancelledRunError(f"{run.name} was cancelled", "Ask again for another run."))
            return "cancelled"
        return "complete" if record.status == "complete" else "stopped"

    async def _sessions(self, run: Run, journal: RunJournal) -> list[OwnerSession]:
        """The owners of the run: who is here when it begins, for good."""
        document = run.document
        if not document.owners:
            names = await self.members.gather(self.settings.summary.quorum, self.settings.connect_s)
            document.owners.extend(names)
            document.missing.extend(self.members.missing())
            self.store.update_run(run.name, document=document.SerializeToString())
        self.members.enlist(run.name, document.owners)
        width = self.schema.width
        return [
            OwnerSession(self.members.connection(name), run.name, journal, width, document.hashed)
            for name in document.owners
        ]

    async def _carry_out(
        self,
        run: Run,
        record: SummaryRecord,
        sessions: list[OwnerSession],
        gate: SummaryDisclosures,
        journal: RunJournal,
    ) -> None:
        if run.document.HasField("cells"):
            await self._by_cells(run, record, sessions, journal)
            return
        document = run.document
        h1 = RandomFourier(codecs.features_from_wire(document.features, self.schema.encoded_width))

        def noise_for(purpose: str) -> NoiseSource:
            return JournaledNoise(self.noise_for(purpose), journal, purpose)

        hashed = content_of(document, self.schema) if document.secret_draw else None
        task = SummaryTask(
            run.name,
            document.request.rows,
            self.schema,
            h1,
            self._target(document, h1, gate, noise_for),
            h1.fixed_point(self.seeds if hashed is None else self.seeds[:0]),
            count_seeds=self.settings.summary.seed_set == "counted",
            reference=(
                h1.fixed_point(reference_rows(self.schema, self.seeds, h1.spec.seed))
                if hashed is None
                else reference_of(document)
            ),
            consumer=run.consumer,
            gifts=_gifts(document),
            hashed=hashed,
        )
        watcher = self._begin(run, record, sessions, journal)
        try:
            await run_summary(task, self.settings.summary, sessions, noise_for, record, watcher, gate)
        finally:
            watcher.tell()

    async def _by_cells(
        self, run: Run, record: SummaryRecord, sessions: list[OwnerSession], journal: RunJournal
    ) -> None:
        gate = CellDisclosures(run.name, journal, run.consumer)
        document, settings = run.document, self.settings.summary

        def noise_for(purpose: str) -> NoiseSource:
            return JournaledNoise(self.noise_for(purpose), journal, purpose)

        plan = document.cells
        book = code_book_from_json(codecs.code_book_from_wire(plan), self.schema)
        histogram, encoded = self._histogram(document, book, gate, noise_for)
        task = CellTask(
            run.name,
            document.request.rows,
            plan.rho,
            self.schema,
            book,
            plan.gamma,
            settings.owner_noise().histogram,
            histogram,
            document.request.validation_rows,
            encoded,
            plan.classes,
            run.consumer,
            _gifts(document),
        )
        watcher = self._begin(run, record, sessions, journal)
        try:
            await run_cells(task, sessions, settings.quorum, record, watcher, gate)
        finally:
            watcher.tell()

    def _histogram(
        self, document: journals_pb2.RunDocument, book: CodeBook, gate: CellDisclosures, noise_for: NoiseFor
    ) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """D_v by cells, made here where D_v itself came; then also its encoded rows, to prune by."""
        declared = codecs.disclosures_from_wire(document.disclosures, codecs.MOST_DECLARED)
        if document.HasField("histogram"):
            gate.receive_declared(declared, None)
            return codecs.histogram_from_wire(document.histogram, book.cells), None
        rows = codecs.rows_from_wire([document.validation])
        encoded = self.schema.encode(codecs.values_of(rows, self.schema.width))
        gate.receive_declared(declared, len(rows))
        how = histogram_noise(self.settings.summary.privacy.epsilon)
        gate.pass_histogram(how)
        noise = on_integers(noise_for("histogram"))
        return noisy_counts(book.cells_of(encoded), book.cells, how, noise), encoded

    def _begin(
        self, run: Run, record: SummaryRecord, sessions: list[OwnerSession], journal: RunJournal
    ) -> RunProgress:
        """Say that the run begins, and without whom."""
        watcher = RunProgress(run, self.say, record, journal, self.meter)
        self.say("run", run=run.name, round=0, p=run.document.request.rows, owners=len(sessions))
        for owner in run.document.missing:
            absent = MissingOwnersError(f"{owner} has not joined; the run begins without it", "Start it.")
            fault = Fault(0, owner, absent.code, str(absent))
            record.faults.append(fault)
            watcher.owner_left(fault)
        return watcher

    def _prune(self, document: journals_pb2.RunDocument) -> bool:
        """Whether the consumer gets more rows than it asked for, to keep the best."""
        if document.HasField("cells"):
            return document.HasField("histogram") or document.hashed
        rows = document.request.rows
        return self.settings.summary.drawn(rows) > rows

    def _target(
        self,
        document: journals_pb2.RunDocument,
        h1: RandomFourier,
        gate: SummaryDisclosures,
        noise_for: NoiseFor,
    ) -> MeanVector:
        """g~ for the owners, made here where D_v itself came."""
        declared = codecs.disclosures_from_wire(document.disclosures, codecs.MOST_DECLARED)
        if document.HasField("target"):
            target = codecs.mean_from_wire(document.target, h1.spec.dimension)
            gate.receive_target(target, declared)
            return target
        rows = codecs.rows_from_wire([document.validation])
        table = Table(codecs.values_of(rows, self.schema.width), None)
        gate.receive_validation(len(table), declared)
        encoded = self.schema.encode(table.values)
        target, cost = release_target(self.settings.summary.target, h1, encoded, noise_for("target"))
        gate.pass_target(target, cost)
        return target

    def _write(
        self, run: Run, record: SummaryRecord, sessions: list[OwnerSession], gate: SummaryDisclosures | None
    ) -> None:
        """The record of the run, as far as it is.

        Raises:
            StoreError: it cannot be written.
        """
        document = run.document
        spec = codecs.features_from_wire(document.features, self.schema.encoded_width)
        facts: dict[str, Any] = {
            "run": run.name,
            "consumer": run.consumer,
            "p": document.request.rows,
            "validation_rows": document.request.validation_rows,
            "validation_points": len(document.validation.rows),
            "seed_rows": len(self.seeds),
            "features": asdict(spec),
            "cells": _cells_facts(document),
            "prune": self._prune(document),
            "bytes": {
                "sent": sum(session.traffic.sent for session in sessions),
                "received": sum(session.traffic.received for session in sessions),
            },
            "ledger": None if gate is None else gate.head(),
        }
        try:
            write_run(self.settings.directory / run.name, record, facts)
        except OSError as error:
            raise StoreError(
                f"the record of {run.name} cannot be written: {error.strerror}",
                "Make room, and start the curator again: the run goes on.",
            ) from None


def _gifts(document: journals_pb2.RunDocument) -> dict[str, Gift] | None:
    """The group secret by owner; None where rows come as they are."""
    return gifts_from_wire(document.gifts) if document.hashed else None


def _cells_facts(document: journals_pb2.RunDocument) -> dict[str, Any] | None:
    """What record.json says of the cells protocol, where it is one."""
    if not document.HasField("cells"):
        return None
    return {"rho": document.cells.rho}
