"""Store of what a party keeps across its own death, and the one interface to it.

A store belongs to one party and is open in one process. What a call wrote outside a transaction is durable
when the call returns; what calls wrote inside one is durable, all of it, when the transaction ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fedkme.errors import ArchiveError

OPEN = "open"
"""The status of a run that was opened and not updated since; other statuses are the caller's words."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the store knows it.

    Attributes:
        run: its name, unique in the store.
        peer: who asked for it, or whom it is with.
        status: `open`, then what the party says.
        document: what the party needs to know of it; opaque here.
        opened: when it was opened, Unix seconds.
        ended: when it was first said to have ended, Unix seconds; None before.
    """

    run: str
    peer: str
    status: str
    document: bytes
    opened: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry of a run's journal; `position` counts from 1 within the run."""

    position: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of the ledger, without its line end, from 1; `written` is when, in Unix seconds."""

    seq: int
    line: str
    written: float


@dataclass(frozen=True, slots=True)
class Archive:
    """Lines of the ledger and documents of runs that were moved out of the store's tables.

    Attributes:
        last: number of the last line in it; the first follows on the archive before.
        mark: the hash of that line.
        written: when it was written, Unix seconds.
        digest: SHA-256 of the content, in hexadecimal digits.
        file: where it is; None: in the database.
        content: the compressed bytes, of one that is being made and comes into the database.
    """

    last: int
    mark: str
    written: float
    digest: str
    file: Path | None = None
    content: bytes | None = field(default=None, repr=False)


class Store(Protocol):
    """Runs, journals, ledger and facts of one party.

    Every method raises StoreError where the store cannot be read or written (disk full, I/O error,
    corruption, connection lost) or was closed; what the call, or the transaction around it, would have
    written is then not there. One exception: a connection lost, or a disk that fails, while a transaction is
    being committed leaves open whether all of it is there or nothing after a restart. Names, kinds, statuses
    and keys are printable text; others raise ValueError.

    Threads may share a store: one waits while another is in a transaction. A transaction must not be held
    over an `await`, or what other tasks write becomes part of it. A process that forks closes it first.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """Make what is written inside durable together at the end, or, after an exception, not at all.

        A call that fails inside with the store's own failure spoils the transaction, also when the caller
        catches the error.

        Raises:
            RuntimeError: inside another transaction; they do not nest.
        """

    def open_run(self, run: str, peer: str, document: bytes) -> None:
        """Write down a new run.

        Raises:
            StoreError: a run of this name is there; the transaction is not spoilt.
        """

    def update_run(
        self, run: str, *, status: str | None = None, document: bytes | None = None, ended: bool = False
    ) -> None:
        """Change what is given; `ended` writes the time down, once.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """

    def run(self, run: str) -> RunRow | None:
        """A run by its name."""

    def runs(
        self, status: str | None = None, peer: str | None = None, latest: int | None = None
    ) -> list[RunRow]:
        """Runs, of a status or with a peer where one is given, by the order of opening; no other is read.

        With `latest` there are at most so many, the last that were opened.
        """

    def append(self, run: str, kind: str, body: bytes) -> int:
        """Add an entry to a run's journal, and say its position.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """

    def entries(self, run: str, after: int = 0) -> list[JournalEntry]:
        """A run's journal behind a position; empty for a run that is not there."""

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal; positions begin at 1 again. How thoroughly: see the backend."""

    def extend_ledger(self, lines: Sequence[str]) -> None:
        """Append lines of ASCII without line ends; none of them is ever changed or lost."""

    def ledger(self, after: int = 0) -> list[LedgerLine]:
        """The ledger behind a line, out of archives where it is in them.

        Raises:
            ArchiveError: an archive that has some of it is gone, or not what it was.
        """

    def last_ledger_line(self) -> str | None:
        """The last line of the ledger."""

    def archives(self, latest: int | None = None) -> list[Archive]:
        """Archives of this store, by their lines, without contents; with `latest` the last so many."""

    def finished(self) -> list[str]:
        """Runs that are over and in no archive, by the order of opening; none where nothing is archived."""

    def pack(self, last: int, mark: str, written: float, runs: Sequence[str]) -> Archive:
        """Make an archive of the ledger up to a line and of documents; the store is as it was.

        When this returns, a file of it is on the disk.

        Args:
            last: number of the line, perhaps that of the archive before: then no line goes into it.
            mark: its hash.
            written: when it was written.
            runs: whose documents go into it.
        """

    def archive(
        self, made: Archive, documents: Mapping[str, bytes], facts: Mapping[str, bytes | None]
    ) -> None:
        """Let go of what is in an archive, in a transaction of its own.

        Args:
            made: by `pack`; a line stays behind it.
            documents: what stands in place of those that are in it, by run.
            facts: written in the same transaction; None: deleted.
        """

    def document(self, run: str) -> bytes | None:
        """The document of a run as it was before it was archived; None where there is no such run.

        Raises:
            ArchiveError: its archive is gone, or not what it was.
        """

    def lost_archives(self, read: bool = False) -> list[ArchiveError]:
        """Errors about archives that are gone; with `read` also about those that are not what they were."""

    def put(self, key: str, value: bytes) -> None:
        """Write a fact, over what was there."""

    def get(self, key: str) -> bytes | None:
        """A fact by its key."""

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of facts that begin with a prefix, by code point."""

    def delete(self, key: str) -> None:
        """Delete a fact; nothing where there is none."""

    def close(self) -> None:
        """Let go of the store, at once and for the next process; an open transaction is rolled back."""
