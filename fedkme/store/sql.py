"""Store in SQL: the statements and the rules of transactions, which every backend shares.

The statements use the common dialect of SQLite and PostgreSQL, with `?` for a parameter. Rows are keyed by
the party's number, so that parties can share a server.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from fedkme.errors import ArchiveError, StoreError
from fedkme.store.archives import Contents, gone, packed, read_archive, unpacked
from fedkme.store.base import OPEN, Archive, JournalEntry, LedgerLine, RunRow, Store

Parameters = tuple[str | bytes | float | None, ...]
Row = tuple[Any, ...]
Answer = TypeVar("Answer")

_OPEN_RUN = (
    "INSERT INTO runs (party, name, peer, status, opened, document) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (party, name) DO NOTHING RETURNING id"
)
_UPDATE_RUN = (
    "UPDATE runs SET status = COALESCE(?, status), document = COALESCE(?, document),"
    " ended = COALESCE(ended, ?) WHERE party = ? AND name = ? RETURNING id"
)
_RUNS = "SELECT name, peer, status, document, opened, ended FROM runs WHERE party = ?"
_APPEND = (
    "INSERT INTO journal (run, position, kind, body)"
    " SELECT id, 1 + COALESCE((SELECT MAX(position) FROM journal WHERE run = runs.id), 0), ?, ?"
    " FROM runs WHERE party = ? AND name = ? RETURNING position"
)
_RUN_NUMBER = "(SELECT id FROM runs WHERE party = ? AND name = ?)"
_ENTRIES = (
    f"SELECT position, kind, body FROM journal WHERE run = {_RUN_NUMBER} AND position > ? ORDER BY position"
)
_FORGET = f"DELETE FROM journal WHERE run = {_RUN_NUMBER}"
_EXTEND = (
    "INSERT INTO ledger (party, seq, line, written)"
    " VALUES (?, 1 + COALESCE((SELECT MAX(seq) FROM ledger WHERE party = ?), 0), ?, ?)"
)
_LEDGER = "SELECT seq, line, written FROM ledger WHERE party = ? AND seq > ? ORDER BY seq"
_LAST_LINE = "SELECT line FROM ledger WHERE party = ? ORDER BY seq DESC LIMIT 1"
_ARCHIVES = "SELECT last, mark, written, digest FROM archives WHERE party = ? ORDER BY last DESC"
_CONTENT = "SELECT content FROM archives WHERE party = ? AND digest = ?"
_NEW_ARCHIVE = "INSERT INTO archives (party, last, mark, written, digest, content) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_LINES = "DELETE FROM ledger WHERE party = ? AND seq <= ?"
_SHORTEN = "UPDATE runs SET document = ?, archive = ? WHERE party = ? AND name = ?"
_FINISHED = "SELECT name FROM runs WHERE party = ? AND ended IS NOT NULL AND archive IS NULL ORDER BY id"
_DOCUMENT = "SELECT document, archive FROM runs WHERE party = ? AND name = ?"
_PUT = (
    "INSERT INTO facts (party, name, value) VALUES (?, ?, ?)"
    " ON CONFLICT (party, name) DO UPDATE SET value = excluded.value"
)
_GET = "SELECT value FROM facts WHERE party = ? AND name = ?"
_KEYS = "SELECT name FROM facts WHERE party = ? AND name >= ? AND name < ? ORDER BY name"
_DELETE = "DELETE FROM facts WHERE party = ? AND name = ?"


class _Transaction(AbstractContextManager[None]):
    """Transaction of a store: one object, because each of an owner's answers is one."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @override
    def __enter__(self) -> None:
        self._store.begin()

    @override
    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._store.end(failed=kind is not None)


class SqlStore(Store, ABC):
    """A Store over one connection; a backend says how to open it and how a statement reaches it."""

    _BEGIN: ClassVar[str]

    def __init__(self, party: str, where: str, clock: Callable[[], float]) -> None:
        """Args are the party, the store's place as errors show it, and a clock of Unix seconds."""
        self._name = printable(party)
        self._where = where
        self._clock = clock
        self._party = 0  # the party's number in the store, set by the backend
        self._lock = threading.RLock()
        self._within = False
        self._spoilt = False
        self._transaction = _Transaction(self)

    @abstractmethod
    def _execute(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """Run one statement; StoreError where it fails."""

    @abstractmethod
    def _execute_many(self, statement: str, many: Sequence[Parameters]) -> None:
        """Run one statement for each tuple of parameters; StoreError where it fails."""

    @abstractmethod
    def _roll_back(self) -> None:
        """End the transaction without its writes; do nothing if it has ended already."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    @override
    def transaction(self) -> AbstractContextManager[None]:
        return self._transaction

    def begin(self) -> None:
        """Begin a transaction, which `end` ends."""
        self._lock.acquire()
        if self._within:
            self._lock.release()
            raise RuntimeError("transactions of a store do not nest")
        self._within = True
        try:
            self._execute(self._BEGIN)
        except BaseException:
            self.end(failed=True)
            raise

    def end(self, failed: bool) -> None:
        """Make the writes since `begin` durable, or take them back."""
        try:
            if not failed:
                self._refuse_spoilt()
                self._execute("COMMIT")
        except BaseException:
            failed = True
            raise
        finally:
            if failed:
                self._roll_back()
            self._within = self._spoilt = False
            try:
                if not failed:
                    self._after_commit()
            finally:
                self._lock.release()

    def _after_commit(self) -> None:
        """Do what a backend needs after a commit; must not fail."""
        return

    @override
    def check(self) -> None:
        self._query("SELECT 1")

    @override
    def open_run(self, run: str, peer: str, document: bytes) -> None:
        new = (self._party, printable(run), printable(peer), OPEN, self._clock(), document)
        if not self._query(_OPEN_RUN, *new):
            raise StoreError(f"run {run} is in the store of {self._name} already", "Choose another name.")

    @override
    def update_run(
        self, run: str, *, status: str | None = None, document: bytes | None = None, ended: bool = False
    ) -> None:
        time = self._clock() if ended else None
        status = None if status is None else printable(status)
        if not self._query(_UPDATE_RUN, status, document, time, self._party, printable(run)):
            raise self._no_run(run)

    @override
    def run(self, run: str) -> RunRow | None:
        rows = self._query(f"{_RUNS} AND name = ?", self._party, printable(run))
        return RunRow(*rows[0]) if rows else None

    @override
    def runs(
        self, status: str | None = None, peer: str | None = None, latest: int | None = None
    ) -> list[RunRow]:
        wanted = {"status": status, "peer": peer}
        filters = {column: printable(word) for column, word in wanted.items() if word is not None}
        where = "".join(f" AND {column} = ?" for column in filters)
        query = f"{_RUNS}{where} ORDER BY id"
        if latest is None:
            return [RunRow(*row) for row in self._query(query, self._party, *filters.values())]
        rows = self._query(f"{query} DESC LIMIT ?", self._party, *filters.values(), latest)
        return [RunRow(*row) for row in reversed(rows)]

    @override
    def append(self, run: str, kind: str, body: bytes) -> int:
        rows = self._query(_APPEND, printable(kind), body, self._party, printable(run))
        if not rows:
            raise self._no_run(run)
        position: int = rows[0][0]
        return position

    @override
    def entries(self, run: str, after: int = 0) -> list[JournalEntry]:
        return [JournalEntry(*row) for row in self._query(_ENTRIES, self._party, printable(run), after)]

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal; the backend says what a disk may still hold."""
        self._query(_FORGET, self._party, printable(run))

    @override
    def extend_ledger(self, lines: Sequence[str]) -> None:
        check_lines(lines)
        written = self._clock()
        many = [(self._party, self._party, line, written) for line in lines]
        with self._lock:
            if self._within:
                self._guarded(self._execute_many, _EXTEND, many)
            else:
                with self._transaction:
                    self._execute_many(_EXTEND, many)

    @override
    def ledger(self, after: int = 0) -> list[LedgerLine]:
        recent = [LedgerLine(*row) for row in self._query(_LEDGER, self._party, after)]
        first = recent[0].seq if recent else after + 1  # lines that are archived meanwhile are in both
        archived = (
            [archive for archive in self.archives() if archive.last > after] if first > after + 1 else []
        )
        lines = [line for archive in archived for line in self._contents(archive).lines]
        return [*(line for line in lines if after < line.seq < first), *recent]

    @override
    def archives(self, latest: int | None = None) -> list[Archive]:
        if latest is None:
            rows = self._query(_ARCHIVES, self._party)
        else:
            rows = self._query(f"{_ARCHIVES} LIMIT ?", self._party, latest)
        return [
            replace(archive, file=self._file(archive))
            for archive in (Archive(*row) for row in reversed(rows))
        ]

    @override
    def finished(self) -> list[str]:
        return [name for (name,) in self._query(_FINISHED, self._party)]

    @override
    def pack(self, last: int, mark: str, written: float, runs: Sequence[str]) -> Archive:
        first = 1 + max((earlier.last for earlier in self.archives(latest=1)), default=0)
        lines = [line for line in self.ledger(first - 1) if line.seq <= last]
        documents = {row.run: row.document for row in map(self.run, runs) if row is not None}
        content = packed(first, lines, documents)
        archive = Archive(last, mark, written, sha256(content).hexdigest())
        return self._store_content(replace(archive, file=self._file(archive)), content)

    @override
    def archive(
        self, archive: Archive, documents: Mapping[str, bytes], facts: Mapping[str, bytes | None]
    ) -> None:
        with self.transaction():
            row = archive.last, archive.mark, archive.written, archive.digest, archive.content
            self._query(_NEW_ARCHIVE, self._party, *row)
            self._query(_DROP_LINES, self._party, archive.last)
            for run, document in documents.items():
                self._query(_SHORTEN, document, archive.digest, self._party, run)
            for key, value in facts.items():
                self.delete(key) if value is None else self.put(key, value)

    @override
    def document(self, run: str) -> bytes | None:
        for document, digest in self._query(_DOCUMENT, self._party, printable(run)):
            for archive in self.archives() if digest else ():
                if archive.digest == digest:
                    return self._contents(archive).documents[run]
            return bytes(document)
        return None

    @override
    def lost_archives(self, read: bool = False) -> list[ArchiveError]:
        lost = []
        for archive in self.archives():
            try:
                if read:
                    self._contents(archive)
                elif archive.file is not None and not archive.file.is_file():
                    raise gone(archive.file.name)
            except ArchiveError as error:
                lost.append(error)
        return lost

    def _file(self, archive: Archive) -> Path | None:
        """Path of an archive; None if archives are in the database."""
        return None

    def _store_content(self, archive: Archive, content: bytes) -> Archive:
        """Write an archive's file; a backend without files returns the archive with its content."""
        return replace(archive, content=content)

    def _contents(self, archive: Archive) -> Contents:
        if archive.file is None:
            content = self._query(_CONTENT, self._party, archive.digest)[0][0]
            return unpacked(content, archive.digest, f"archive {archive.last} in {self._where}")
        return read_archive(archive.file, archive.digest)

    @override
    def last_ledger_line(self) -> str | None:
        rows = self._query(_LAST_LINE, self._party)
        return rows[0][0] if rows else None

    @override
    def put(self, key: str, value: bytes) -> None:
        self._query(_PUT, self._party, printable(key), value)

    @override
    def get(self, key: str) -> bytes | None:
        rows = self._query(_GET, self._party, printable(key))
        return rows[0][0] if rows else None

    @override
    def keys(self, prefix: str = "") -> list[str]:
        behind = prefix + "\U0010ffff"  # the last code point, which no printable key has
        rows = self._query(_KEYS, self._party, printable(prefix), behind)
        return [name for (name,) in rows]

    @override
    def delete(self, key: str) -> None:
        self._query(_DELETE, self._party, printable(key))

    def _query(self, statement: str, *parameters: str | bytes | float | None) -> list[Row]:
        return self._guarded(self._execute, statement, parameters)

    def _guarded(self, execute: Callable[[str, Any], Answer], statement: str, parameters: object) -> Answer:
        with self._lock:
            self._refuse_spoilt()
            try:
                return execute(statement, parameters)
            except BaseException:
                self._spoilt = self._within
                raise

    def _refuse_spoilt(self) -> None:
        if self._spoilt:
            cause = f"an earlier statement of this transaction on the store of {self._name} failed"
            raise StoreError(cause, "See the line before; nothing of the transaction was written.")

    def _no_run(self, run: str) -> StoreError:
        return StoreError(f"there is no run {run} in the store of {self._name}", "Correct the name.")


def printable(text: str) -> str:
    """Return text that every backend can store unchanged: no NUL, control character or lone surrogate."""
    if not text.isprintable():
        raise ValueError("a name in the store is not printable text")
    return text


def check_lines(lines: Sequence[str]) -> None:
    """Raise ValueError unless each line is one line of printable ASCII."""
    together = "".join(lines)
    if not (together.isascii() and together.isprintable()):
        raise ValueError("a line of the ledger is not one line of printable ASCII")
