"""Body of a run that makes a summary, from its document to its record on disk."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from curator.owners.session import OwnerSession
from curator.run.journal import JournaledNoise, RunJournal
from curator.run.run import Run, Status
from curator.run.summary_record import RoundRecord, SummaryRecord, columns
from curator.runs.context import RunContext
from curator.runs.summary_families import Family
from fedkme.documents import Fault
from fedkme.errors import FedkmeError
from fedkme.exchange import RoundProgress
from fedkme.privacy.ledger import LedgerSink
from fedkme.privacy.noise import NoiseSource

PROGRESS_EVERY_S = 0.1
"""Least time between two reports: rounds take milliseconds, and a person reads no faster."""


class RunProgress:
    """`RunObserver` of a curator: reports at intervals, and after each tenth of the run."""

    def __init__(
        self, context: RunContext, run: Run, record: SummaryRecord, journal: RunJournal | None
    ) -> None:
        """Observe a run that fills `record`.

        With a journal, rounds that an earlier process has counted are not counted again.
        """
        self._context = context
        self._run = run
        self._record = record
        self._journal = journal
        self._counted = 0
        self._tenth = math.ceil(run.document.summary.rows / 10)
        self._next = 0.0
        self._untold: RoundRecord | None = None

    def round_done(self, record: RoundRecord) -> None:
        """Count a round, and report it if a report is due."""
        now = time.monotonic()
        self._untold = record
        self._count(record)
        if now >= self._next or record.round % self._tenth == 0:
            self._next = now + PROGRESS_EVERY_S
            self.tell()

    def tell(self) -> None:
        """Report the last round, unless it was reported."""
        record, self._untold = self._untold, None
        if record is None:
            return
        self._context.say("round", run=self._run.name, record=columns(record))
        selected = min(len(self._record.selected), self._run.document.summary.rows)
        self._run.tell(RoundProgress(record.round, selected, record.accessed))

    def _count(self, record: RoundRecord) -> None:
        accesses = self._record.accesses[self._counted :]
        self._counted += len(accesses)
        if self._journal is not None and self._journal.replaying:
            return
        self._context.round_done(self._run.name, record)
        if self._context.counters is not None:
            self._context.counters.round_done(record, accesses)

    def owner_left(self, fault: Fault) -> None:
        """Report an owner that left the run."""
        self._context.left(self._run.name, fault)


class SummaryRun:
    """Run of one summary, by the protocol of its family."""

    def __init__(self, context: RunContext, run: Run, family: Family) -> None:
        """Open the run with its journal of an earlier process, if there is one.

        Raises:
            StoreError: the journal cannot be read.
        """
        self.record = SummaryRecord()
        self.sessions: list[OwnerSession] = []
        self.quorum = context.settings.summary.quorum
        self._context = context
        self._run = run
        self._family = family
        self._journal = RunJournal(context.store, run.name, context.ledger) if context.journaled else None
        self._ledger: LedgerSink = self._journal or context.ledger

    @property
    def rounds(self) -> int:
        """Rounds so far."""
        return len(self.record.rounds)

    async def begin(self) -> None:
        """Do nothing: the plan and the offer were checked when they came."""

    def enter(self, owners: Sequence[str]) -> None:
        """Open a session with each owner."""
        width, sealed = self._context.schema.width, self._run.document.planned.sealed
        members, run = self._context.members, self._run.name
        sizes = members.sizes()
        for name in owners:
            way, most = members.connection(name), sizes.get(name)
            self.sessions.append(OwnerSession(way, run, self._journal, width, sealed, most))

    async def carry_out(self) -> Status:
        """Run the protocol over the owners."""
        body = self._family.body(self._run, self._ledger, self._noise_for)
        progress = RunProgress(self._context, self._run, self.record, self._journal)
        begins = {
            "protocol": self._protocol,
            "p": self._run.document.summary.rows,
            "owners": len(self.sessions),
        }
        self._context.say("run", run=self._run.name, round=0, **begins)
        self._context.begin_without(self._run, self.record.faults)
        if self._run.document.planned.cells is not None:
            self._context.warn_of_pool(self._run.name, [session.name for session in self.sessions])
        try:
            await body(self.sessions, self.record, progress)
        finally:
            progress.tell()
        return "complete" if self.record.status == "complete" else "stopped"

    @property
    def _protocol(self) -> str:
        """Name of the run's protocol in the table of protocols."""
        return self._context.summary_of(self._run.document).row.name

    def _noise_for(self, purpose: str) -> NoiseSource:
        source = self._context.noise_for(purpose)
        return source if self._journal is None else JournaledNoise(source, self._journal, purpose)

    def stop(self, error: FedkmeError, status: Status) -> None:
        """Note why the run ended before all rows came; the rows so far are kept."""
        self.record.stop(error)

    def write(self) -> None:
        """Make the run's inputs durable, then write the run's record.

        Raises:
            StoreError: the journal or the record cannot be written.
        """
        if self._journal is not None:
            self._journal.commit()
        self.leave()

    def leave(self) -> None:
        """Write the record so far.

        Raises:
            StoreError: the record cannot be written.
        """
        document = self._run.document
        rows = document.offered.validation
        facts: dict[str, Any] = {
            **self._context.facts(self._run, self.record.faults, self.sessions),
            "protocol": self._protocol,
            "plan": None if (choice := document.planned.choice) is None else asdict(choice),
            "p": document.summary.rows,
            "validation_rows": document.summary.validation_rows,
            "validation_points": 0 if rows is None else len(rows),
            "seed_rows": len(self._context.encoded_seeds),
            "features": asdict(document.planned.features),
            "cells": self._family.facts(document),
            "faults_of_cells": [asdict(fault) for fault in document.left],
            "prune": self._family.prunes(document),
            "ledger": self._ledger.head(),
        }
        self._context.records.keep_summary(self._run.name, self.record, facts)
