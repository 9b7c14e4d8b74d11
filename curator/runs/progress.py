"""Progress of a summary run, as reported to operators, the launcher and the consumer."""

from __future__ import annotations

import math
import time

from curator.run.journal import RunJournal
from curator.run.roster import Fault
from curator.run.run import Run
from curator.run.summary_record import RoundRecord, SummaryRecord, columns
from curator.runs.context import RunContext
from fedkme.exchange import RoundProgress

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
        self._run.tell(RoundProgress(record.round, record.round, record.accessed))

    def _count(self, record: RoundRecord) -> None:
        counters = self._context.counters
        if counters is None:
            return
        accesses = self._record.accesses[self._counted :]
        self._counted += len(accesses)
        if self._journal is None or not self._journal.replaying:
            counters.round_done(record, accesses)

    def owner_left(self, fault: Fault) -> None:
        """Report an owner that left the run."""
        self._context.left(self._run.name, fault)
