"""State of a curator's runs, as one value from its store, its records and notes on open runs.

Notes are folded from the events that the curator reports. A curator that restarts repeats a run from its
journal and reports the run's events again, so notes need no storage.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from curator.owners.connection import OwnerConnection
from curator.owners.members import Members
from curator.run.run import OPEN
from curator.runs.queue import kind_of
from curator.settings import CuratorSettings
from curator.watch.ledger import LedgerFigures
from fedkme.directives import WORDS
from fedkme.documents import RunDocument
from fedkme.errors import ApprovalError, BudgetError, PolicyError
from fedkme.inputs import read_text
from fedkme.pki.expiry import Read
from fedkme.protocols import PROTOCOLS
from fedkme.store import RunRow, Store
from fedkme.watch.state import News, OwnerState, OwnerStatus, RunState, Watched
from fedkme.wire.journals import run_document_from_bytes

Notes = Mapping[str, "RunNotes"]


@dataclass(frozen=True, slots=True)
class RunNotes:
    """Part of a run's state that only its process knows.

    Attributes:
        protocol: the protocol's name.
        began: when the run began, Unix seconds.
        done: rounds that are over.
        rounds: rounds in all; 0 where the number is not known.
        fraction: finished part of a release's work.
        stage: stage of a release's work, in words.
        progressed: when rounds, fraction or stage last changed, Unix seconds.
        plan: forecast of the run, in words.
        faults: number of the error and line of each owner that left, by name.
        reason: why the run ended as it did.
    """

    protocol: str = ""
    began: float | None = None
    done: int = 0
    rounds: int = 0
    fraction: float | None = None
    stage: str = ""
    progressed: float | None = None
    plan: str = ""
    faults: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    reason: str = ""


def noted(notes: Notes, at: float, event: str, fields: Mapping[str, Any]) -> Notes:
    """Update the notes by an event that the curator reported at a time, Unix seconds."""
    run = fields.get("run", "")
    before = notes.get(run, RunNotes())
    match event:
        case "run":
            rounds = rounds_of(fields["protocol"], fields.get("p", 0))
            news = {"protocol": fields["protocol"], "began": at, "rounds": rounds}
            after = replace(before, **news, done=0, stage="", fraction=None)
        case "round":
            after = replace(before, done=fields["record"]["round"], progressed=at)
        case "progress":
            words = f"{fields['stage']}: {fields['line']}"
            after = replace(before, stage=words, fraction=fields["fraction"], progressed=at)
        case "planned":
            after = replace(before, plan=fields["line"])
        case "owner_left":
            faults = {**before.faults, fields["owner"]: (fields["code"], fields["line"])}
            after = replace(before, faults=faults)
        case "ended":
            after = replace(before, reason=fields["reason"] or "", progressed=at)
        case _:
            return notes
    return {**notes, run: after} if run else notes


def rounds_of(protocol: str, rows: int) -> int:
    """Number of rounds of a run for `rows` rows; 0 where the number is not known before the run."""
    row = PROTOCOLS.get(protocol)
    return 0 if row is None or row.family == "sums" else rows if row.family == "auction" else 1


def event_of(at: float, event: str, fields: Mapping[str, Any]) -> News | None:
    """Turn an event into news for the page; None for an event that is no news."""
    run, owner, line = (str(fields.get(name, "")) for name in ("run", "owner", "line"))
    match event:
        case "run":
            why = f"{fields['protocol']}, {fields['owners']} owners"
            return News(at, "owners are asked", run, why=why)
        case "queued":
            return News(at, f"accepted for {fields['consumer']}", run)
        case "ended":
            why = ": ".join(filter(None, (fields["status"], fields["reason"])))
            return News(at, "is over", run, why=why)
        case "owner_left":
            return News(at, "left the run", run, owner, line)
        case "owner_joined":
            return News(at, "connected", owner=owner)
        case "owner_gone":
            return News(at, "disconnected", owner=owner)
        case "warning" | "unwitnessed":
            return News(at, "a warning", why=line)
        case "refused" | "suspended":
            return News(at, "refused" if event == "refused" else "goes on later", why=fields["cause"])
    return None


MOST_ENDED = 20
"""Number of finished runs that are shown."""
MOST_EVENTS = 40
_STATES: Mapping[int, OwnerState] = {
    ApprovalError.code: "approval",
    PolicyError.code: "refused",
    BudgetError.code: "refused",
}
"""States of owners that left a run, by the number of their error; with any other error the state is lost."""

PATIENCE_S = 1.0
"""Seconds after which a question is shown as waiting for its answer: rounds take milliseconds."""


class CuratorWatch:
    """State of a curator; one thread reports events to it, and any other thread may read it."""

    def __init__(self, settings: CuratorSettings, store: Store) -> None:
        """Begin with the runs of the store and their news; every owner counts as here until `attend`."""
        self._settings = settings
        self._store = store
        self._members: Members | None = None
        self._must_be_renewed: Read = tuple
        self._figures = LedgerFigures(store, settings.budget)
        self._notes: Notes = {}
        self._events: deque[News] = deque(maxlen=MOST_EVENTS)
        self._records: dict[str, Mapping[str, Any]] = {}
        self._lock = threading.Lock()
        self._events.extend(sorted(self._past(), key=lambda news: -news.at)[:MOST_EVENTS])

    def attend(self, members: Members, must_be_renewed: Read) -> None:
        """Show, from now on, which owners are here, which questions they were asked, and what ends soon."""
        self._members, self._must_be_renewed = members, must_be_renewed

    def hear(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in an event that the curator reports."""
        now = time.time()
        self._notes = noted(self._notes, now, event, fields)
        if (news := event_of(now, event, fields)) is not None:
            self._events.appendleft(news)

    def state(self) -> Watched:
        """Compute the current state.

        Raises:
            StoreError: the store cannot be read.
            LedgerError: the ledger cannot be read.
        """
        with self._lock:
            self._figures.read()
            rows = [row for status in OPEN for row in self._store.runs(status)]
            last = self._store.runs(latest=MOST_ENDED + len(rows))
            over = [row for row in last if row.status not in OPEN][-MOST_ENDED:]
            runs = sorted(rows, key=lambda row: -row.opened) + over[::-1]
            connections = None
            if self._members is not None:
                connections = {owner.name: owner for owner in self._members.connections()}
            return Watched(
                self._settings.name,
                time.time(),
                tuple(self._run(row, connections) for row in runs),
                self._figures.learned,
                self._figures.spending,
                tuple(self._events.copy()),
                "; ".join(str(each) for each in self._must_be_renewed() if each.due),
            )

    def _run(self, row: RunRow, connections: Mapping[str, OwnerConnection] | None) -> RunState:
        document, notes = run_document_from_bytes(row.document), self._notes.get(row.run, RunNotes())
        record = {} if row.status in OPEN else self._record(row.run)
        kind = kind_of(document)
        choice = document.planned.choice if kind == "summary" else None
        if kind == "summary" and row.status in ("asked", "queued") and document.planned.cells is not None:
            notes = replace(notes, stage="", fraction=None)  # the plan is made, and so is the pool's release
        protocol = notes.protocol or record.get("protocol") or (choice.protocol if choice else "")
        wanted = document.summary.rows if kind == "summary" else 0
        return RunState(
            row.run,
            row.peer,
            kind,
            row.status,
            row.opened,
            notes.began,
            row.ended,
            protocol,
            wanted,
            notes.done or record.get("rounds", 0),
            notes.rounds or rounds_of(protocol, wanted),
            notes.fraction,
            notes.stage,
            notes.progressed,
            notes.plan or (choice.line if choice else ""),
            choice.accessed if choice else 0,
            self._figures.came(row.run),
            notes.reason or record.get("reason") or "",
            lanes=tuple(self._lanes(row, document, notes, record, connections)),
        )

    def _lanes(
        self,
        row: RunRow,
        document: RunDocument,
        notes: RunNotes,
        record: Mapping[str, Any],
        connections: Mapping[str, OwnerConnection] | None,
    ) -> Iterator[OwnerStatus]:
        """Status of each owner that a run began with, or may begin with."""
        faults = {fault["owner"]: (fault["code"], fault["line"]) for fault in record.get("faults", ())}
        faults |= notes.faults
        sent = self._figures.rows(row.run)
        rows = record.get("owner_rows") or (self._members.sizes() if self._members is not None else {})
        begun = {*document.owners, *document.missing, *faults, *sent}
        expected = {*self._settings.owners, *(connections or {})} if row.status in OPEN else rows.keys()
        for owner in sorted(begun or expected):
            if owner in faults:
                code, line = faults[owner]
                lane = OwnerStatus(owner, _STATES.get(code, "lost"), line)
            else:
                connection = None if connections is None else connections.get(owner)
                lane = _lane(owner, row, connection, bool(document.owners), connections is None)
            yield replace(lane, rows=rows.get(owner), seen=sent.get(owner, 0))

    def _past(self) -> Iterator[News]:
        """News of runs from earlier processes, as far as the store has them."""
        for row in self._store.runs(latest=MOST_ENDED):
            yield News(row.opened, f"accepted for {row.peer}", row.run)
            if row.ended is not None:
                reason = self._record(row.run).get("reason")
                yield News(row.ended, "is over", row.run, why=": ".join(filter(None, (row.status, reason))))

    def _record(self, run: str) -> Mapping[str, Any]:
        """Read the record of a finished run; empty where there is none."""
        if run not in self._records:
            path: Path = self._settings.directory / run / "record.json"
            try:
                self._records[run] = json.loads(read_text(path))
            except (OSError, ValueError):
                return {}
        return self._records[run]


def _lane(
    owner: str, row: RunRow, connection: OwnerConnection | None, begun: bool, present: bool
) -> OwnerStatus:
    """Status of an owner that is in the run, or may join it."""
    if row.status not in OPEN:
        return OwnerStatus(owner, "done")
    question = None if connection is None else connection.question(row.run)
    if connection is not None and (wait := connection.approval(row.run)) is not None:
        return OwnerStatus(owner, "approval", wait.why, wait.since, wait.due)
    if not present and (connection is None or connection.stream is None):
        return OwnerStatus(owner, "absent", due=question.due if question else None)
    if question is not None and time.time() - question.since >= PATIENCE_S:
        return OwnerStatus(owner, "asked", WORDS.get(question.directive, ""), question.since, question.due)
    return OwnerStatus(owner, "answered" if begun and row.status == "running" else "here")
