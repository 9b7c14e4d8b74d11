"""Store of what a party keeps across its own death, and the one interface to it.

A store belongs to one party and is open in one process. What a call wrote outside a transaction is durable
when the call returns; what calls wrote inside one is durable, all of it, when the transaction ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

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
        ...

    def open_run(self, run: str, peer: str, document: bytes) -> None:
        """Write down a new run.

        Raises:
            StoreError: a run of this name is there; the transaction is not spoilt.
        """
        ...

    def update_run(
        self, run: str, *, status: str | None = None, document: bytes | None = None, ended: bool = False
    ) -> None:
        """Change what is given; `ended` writes the time down, once.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """
        ...

    def run(self, run: str) -> RunRow | None:
        """A run by its name."""
        ...

    def runs(
        self, status: str | None = None, peer: str | None = None, latest: int | None = None
    ) -> list[RunRow]:
        """Runs, of a status or with a peer where one is given, by the order of opening; no other is read.

        With `latest` there are at most so many, the last that were opened.
        """
        ...

    def append(self, run: str, kind: str, body: bytes) -> int:
        """Add an entry to a run's journal, and say its position.

        Raises:
            StoreError: there is no such run; the transaction is not spoilt.
        """
        ...

    def entries(self, run: str, after: int = 0) -> list[JournalEntry]:
        """A run's journal behind a position; empty for a run that is not there."""
        ...

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal; positions begin at 1 again. How thoroughly: see the backend."""
        ...

    def extend_ledger(self, lines: Sequence[str]) -> None:
        """Append lines of ASCII without line ends; none of them is ever changed or deleted."""
        ...

    def ledger(self, after: int = 0) -> list[LedgerLine]:
        """The ledger behind a line."""
        ...

    def last_ledger_line(self) -> str | None:
        """The last line of the ledger."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Write a fact, over what was there."""
        ...

    def get(self, key: str) -> bytes | None:
        """A fact by its key."""
        ...

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of facts that begin with a prefix, by code point."""
        ...

    def delete(self, key: str) -> None:
        """Delete a fact; nothing where there is none."""
        ...

    def close(self) -> None:
        """Let go of the store, at once and for the next process; an open transaction is rolled back."""
        ...
