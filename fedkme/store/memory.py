"""Store in Python's own objects, for owners and curators that are simulated in one process.

Reading and writing cost what dictionaries cost; no value is copied, and none outlives the object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from fedkme.errors import ArchiveError, StoreError
from fedkme.store.base import OPEN, Archive, JournalEntry, LedgerLine, RunRow
from fedkme.store.sql import check_lines, printable


class _Transaction:
    """Transaction of a store: one object, because each of an owner's answers is one."""

    def __init__(self, lock: threading.RLock, check_open: Callable[[], None]) -> None:
        self.undo: list[Callable[[], object]] | None = None  # None outside
        self._lock = lock
        self._check_open = check_open

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._check_open()
            if self.undo is not None:
                raise RuntimeError("transactions of a store do not nest")
            self.undo = []
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        steps, self.undo = self.undo or [], None
        try:
            if kind is None:
                self._check_open()
                steps = []
        finally:
            for undo in reversed(steps):
                undo()
            self._lock.release()


class MemoryStore:
    """A Store of one party for as long as the object lives."""

    def __init__(self, party: str, *, clock: Callable[[], float] = time.time) -> None:
        """Begin without runs; args are the party and a clock of Unix seconds."""
        self._name = printable(party)
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False
        self._transaction = _Transaction(self._lock, self._check_open)
        self._runs: dict[str, RunRow] = {}
        self._journals: dict[str, list[tuple[str, bytes]]] = {}  # kinds and bodies of entries
        self._lines: list[tuple[str, float]] = []  # lines and the times at which they were written
        self._facts: dict[str, bytes] = {}

    def transaction(self) -> AbstractContextManager[None]:
        """Undo the writes inside if an exception leaves it."""
        return self._transaction

    def check(self) -> None:
        """Refuse a closed store."""
        self._check_open()

    def open_run(self, run: str, peer: str, document: bytes) -> None:
        """Add a new run."""
        with self._open():
            if printable(run) in self._runs:
                raise StoreError(f"run {run} is in the store of {self._name} already", "Choose another name.")
            self._runs[run] = RunRow(run, printable(peer), OPEN, document, self._clock(), None)
            self._journals[run] = []
            self._on_undo(lambda: (self._runs.pop(run), self._journals.pop(run)))

    def update_run(
        self, run: str, *, status: str | None = None, document: bytes | None = None, ended: bool = False
    ) -> None:
        """Change the given columns of a run."""
        with self._open():
            before = self._row(run)
            after = before if status is None else replace(before, status=printable(status))
            if document is not None:
                after = replace(after, document=document)
            if ended and before.ended is None:
                after = replace(after, ended=self._clock())
            self._runs[run] = after
            self._on_undo(lambda: self._runs.__setitem__(run, before))

    def run(self, run: str) -> RunRow | None:
        """Find a run by its name."""
        with self._open():
            return self._runs.get(printable(run))

    def runs(
        self, status: str | None = None, peer: str | None = None, latest: int | None = None
    ) -> list[RunRow]:
        """List runs in the order of opening."""
        with self._open():
            rows = list(self._runs.values())
        matches = [row for row in rows if status in (None, row.status) and peer in (None, row.peer)]
        return matches if latest is None else matches[max(len(matches) - latest, 0) :]

    def append(self, run: str, kind: str, body: bytes) -> int:
        """Add an entry to a run's journal, and return its position."""
        with self._open():
            self._row(run)
            journal = self._journals[run]
            journal.append((printable(kind), body))
            self._on_undo(journal.pop)
            return len(journal)

    def entries(self, run: str, after: int = 0) -> list[JournalEntry]:
        """List a run's entries after a position."""
        with self._open():
            entries = enumerate(self._journals.get(printable(run), [])[after:], start=after + 1)
            return [JournalEntry(position, kind, body) for position, (kind, body) in entries]

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal."""
        with self._open():
            if (before := self._journals.get(printable(run))) is not None:
                self._journals[run] = []
                self._on_undo(lambda: self._journals.__setitem__(run, before))

    def extend_ledger(self, lines: Sequence[str]) -> None:
        """Append lines of ASCII without line ends."""
        check_lines(lines)
        with self._open():
            count, written = len(self._lines), self._clock()
            self._lines += [(line, written) for line in lines]
            self._on_undo(lambda: self._lines.__delitem__(slice(count, None)))

    def ledger(self, after: int = 0) -> list[LedgerLine]:
        """List the ledger's lines after a line number."""
        with self._open():
            lines = enumerate(self._lines[after:], start=after + 1)
            return [LedgerLine(seq, line, written) for seq, (line, written) in lines]

    def last_ledger_line(self) -> str | None:
        """Find the last line of the ledger."""
        with self._open():
            return self._lines[-1][0] if self._lines else None

    def archives(self, latest: int | None = None) -> list[Archive]:
        """List no archives: a store in memory has none."""
        return []

    def finished(self) -> list[str]:
        """List no run: a store in memory archives none."""
        return []

    def pack(self, last: int, mark: str, written: float, runs: Sequence[str]) -> Archive:
        """Refuse."""
        raise NotImplementedError("a store in memory has no archives")

    def archive(
        self, archive: Archive, documents: Mapping[str, bytes], facts: Mapping[str, bytes | None]
    ) -> None:
        """Refuse."""
        raise NotImplementedError("a store in memory has no archives")

    def document(self, run: str) -> bytes | None:
        """Find the document of a run."""
        row = self.run(run)
        return None if row is None else row.document

    def lost_archives(self, read: bool = False) -> list[ArchiveError]:
        """List none."""
        return []

    def put(self, key: str, value: bytes) -> None:
        """Write a fact; an earlier value is replaced."""
        with self._open():
            self._keep_fact(printable(key))
            self._facts[key] = value

    def get(self, key: str) -> bytes | None:
        """Find a fact by its key."""
        with self._open():
            return self._facts.get(printable(key))

    def keys(self, prefix: str = "") -> list[str]:
        """List keys of facts that begin with a prefix, in the order of code points."""
        printable(prefix)
        with self._open():
            return sorted(key for key in self._facts if key.startswith(prefix))

    def delete(self, key: str) -> None:
        """Delete a fact, if it exists."""
        with self._open():
            self._keep_fact(printable(key))
            self._facts.pop(key, None)

    def close(self) -> None:
        """Close the store; an open transaction is rolled back."""
        with self._lock:
            self._closed = True

    def copy(self) -> MemoryStore:
        """Copy the store as a backup would, also inside a transaction."""
        other = MemoryStore(self._name, clock=self._clock)
        with self._lock:
            other._runs, other._facts, other._lines = dict(self._runs), dict(self._facts), list(self._lines)
            other._journals = {run: list(journal) for run, journal in self._journals.items()}
        return other

    def _open(self) -> AbstractContextManager[Any]:
        """Refuse a closed store; the lock waits for another thread's transaction."""
        self._check_open()
        return self._lock

    def _on_undo(self, undo: Callable[[], object]) -> None:
        if self._transaction.undo is not None:
            self._transaction.undo.append(undo)

    def _keep_fact(self, key: str) -> None:
        before = self._facts.get(key)
        if before is None:
            self._on_undo(lambda: self._facts.pop(key, None))
        else:
            self._on_undo(lambda: self._facts.__setitem__(key, before))

    def _row(self, run: str) -> RunRow:
        if (row := self._runs.get(printable(run))) is None:
            raise StoreError(f"there is no run {run} in the store of {self._name}", "Correct the name.")
        return row

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store of {self._name} was closed", "Open it again.")
