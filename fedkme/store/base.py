"""Interface to the durable store of a party.

A store belongs to one party and is open in one process. A write outside a transaction is durable when the
call returns; the writes inside a transaction become durable together when the transaction ends.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fedkme.errors import ArchiveError

OPEN = "open"
"""Status of a run that was opened and not updated since; callers choose all other statuses."""


@dataclass(frozen=True, slots=True, repr=False)
class RunRow:
    """A run's row in the store.

    Attributes:
        run: name of the run, unique in the store.
        peer: party that asked for the run, or with which it takes place.
        status: `open`, then a status of the caller's.
        document: the party's data about the run; opaque to the store.
        opened: time of opening, Unix seconds.
        ended: time of the first update with `ended`, Unix seconds; None before.
    """

    run: str
    peer: str
    status: str
    document: bytes
    opened: float
    ended: float | None


@dataclass(frozen=True, slots=True, repr=False)
class JournalEntry:
    """One entry of a run's journal; `position` counts from 1 within the run."""

    position: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of the ledger, without its line end; `seq` counts from 1, `written` is in Unix seconds."""

    seq: int
    line: str
    written: float


@dataclass(frozen=True, slots=True)
class Archive:
    """Lines of the ledger and documents of runs that were moved out of the store's tables.

    Attributes:
        last: number of the archive's last line; its first line follows the previous archive.
        mark: hash of the last line.
        written: time at which the last line was written, Unix seconds.
        digest: SHA-256 of the content, in hexadecimal digits.
        file: path of the archive; None: it is in the database.
        content: compressed bytes, only of a new archive that is about to go into the database.
    """

    last: int
    mark: str
    written: float
    digest: str
    file: Path | None = None
    content: bytes | None = field(default=None, repr=False)


class Store(Protocol):
    """Runs, journals, ledger and facts of one party.

    Every method raises StoreError if the store cannot be read or written (disk full, I/O error, corruption,
    connection lost) or was closed; nothing of the call, or of the transaction around it, is then written. One
    exception: if the connection is lost or the disk fails during a commit, a restart finds either all of the
    transaction or nothing. Names, kinds, statuses and keys are printable text; other text raises ValueError.

    Threads may share a store: a thread waits while another is in a transaction. Never hold a transaction over
    an `await`: writes of other tasks would become part of it. Close the store before a fork.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """Make all writes inside durable together at the end, or, after an exception, none.

        A call inside that fails because the store failed spoils the transaction, even if the caller catches
        the error.

        Raises:
            RuntimeError: inside another transaction; they do not nest.
        """

    def check(self) -> None:
        """Check that this process can still write; else it sends nothing that should be on disk.

        Raises:
            StoreError: the connection was lost; another process may have the store.
        """

    def open_run(self, run: str, peer: str, document: bytes) -> None:
        """Add a new run.

        Raises:
            StoreError: a run of this name exists; the transaction is not spoilt.
        """

    def update_run(
        self, run: str, *, status: str | None = None, document: bytes | None = None, ended: bool = False
    ) -> None:
        """Change the given columns of a run; `ended` sets the time of its end, once.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """

    def run(self, run: str) -> RunRow | None:
        """The run of a name; None if there is none."""

    def runs(
        self, status: str | None = None, peer: str | None = None, latest: int | None = None
    ) -> list[RunRow]:
        """Runs in the order of opening, filtered by status and peer if given; no other run is read.

        With `latest`, only the last so many.
        """

    def append(self, run: str, kind: str, body: bytes) -> int:
        """Add an entry to a run's journal, and return its position.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """

    def entries(self, run: str, after: int = 0) -> list[JournalEntry]:
        """Entries of a run's journal after a position; empty for an unknown run."""

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal; positions begin at 1 again. The backend says what a disk may still hold."""

    def extend_ledger(self, lines: Sequence[str]) -> None:
        """Append lines of ASCII without line ends; no line is ever changed or lost."""

    def ledger(self, after: int = 0) -> list[LedgerLine]:
        """Lines of the ledger after a line number, archived lines included.

        Raises:
            ArchiveError: an archive of these lines is missing, or was changed.
        """

    def last_ledger_line(self) -> str | None:
        """The last line of the ledger."""

    def archives(self, latest: int | None = None) -> list[Archive]:
        """Archives in the order of their lines, without contents; with `latest`, only the last so many."""

    def finished(self) -> list[str]:
        """Ended runs that are in no archive, in the order of opening; none in a store without archives."""

    def pack(self, last: int, mark: str, written: float, runs: Sequence[str]) -> Archive:
        """Make an archive of the ledger up to a line and of runs' documents; the store does not change.

        When this returns, an archive that has a file is on the disk.

        Args:
            last: number of the last line; the previous archive's last line: no line is archived.
            mark: hash of that line.
            written: time at which that line was written.
            runs: runs whose documents are archived.
        """

    def archive(
        self, archive: Archive, documents: Mapping[str, bytes], facts: Mapping[str, bytes | None]
    ) -> None:
        """Remove the archived lines and documents from the tables, in a transaction of its own.

        Args:
            archive: archive that `pack` made; at least one line after it stays.
            documents: shorter documents in place of the archived ones, by run.
            facts: facts to write in the same transaction; None deletes the fact.
        """

    def document(self, run: str) -> bytes | None:
        """A run's whole document, from its archive if it has one; None if there is no such run.

        Raises:
            ArchiveError: the archive is missing, or was changed.
        """

    def lost_archives(self, read: bool = False) -> list[ArchiveError]:
        """Errors about missing archives; with `read` also about archives that were changed."""

    def put(self, key: str, value: bytes) -> None:
        """Write a fact; an earlier value is replaced."""

    def get(self, key: str) -> bytes | None:
        """The fact of a key; None if there is none."""

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of facts that begin with a prefix, in the order of code points."""

    def delete(self, key: str) -> None:
        """Delete a fact, if it exists."""

    def close(self) -> None:
        """Close the store at once, so that another process can open it; roll back an open transaction."""
