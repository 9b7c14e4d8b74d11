"""Disks of processes that may die before, in or after a commit, and that may fail."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from audit.chaos.faults import CALLS
from audit.chaos.file_order import FileOrder
from audit.chaos.process import Killed, Process
from curator.releases.method import RELEASE
from curator.runs.context import RecordFolder
from curator.runs.release_run import RELEASED
from fedkme.errors import StoreError
from fedkme.store.memory import MemoryStore

_WRITES = ("open_run", "update_run", "append", "forget_entries", "extend_ledger", "put", "delete")


class Disk:
    """Disk of a party, which outlives its processes.

    Attributes:
        store: the store as the last commit left it.
        holder: the store of the newest process, which has the lock.
    """

    def __init__(self, store: MemoryStore, backups: bool = False) -> None:
        """Create a disk; with `backups` it keeps a copy of each commit for `put_back`."""
        self.store = store
        self.holder: MortalStore | None = None
        self._doubtful: MemoryStore | None = None
        self._backups: list[MemoryStore] | None = [store.copy()] if backups else None

    def committed(self) -> None:
        """Note a commit: no earlier write is in doubt any more."""
        self._doubtful = None
        if self._backups is not None:
            self._backups.append(self.store.copy())

    def doubt(self) -> None:
        """Note a refused commit that the next process may nevertheless find on disk."""
        self._doubtful = self.store.copy()

    def take(self, holder: MortalStore) -> None:
        """Give the lock to the next process, which finds a commit that is still in doubt.

        Until then an older process that lives on writes what the next one finds.
        """
        self.holder = holder
        self._settle()

    def _settle(self) -> None:
        if self._doubtful is not None:
            self.store, self._doubtful = self._doubtful, None

    def put_back(self, commits: int) -> None:
        """Restore the disk as of `commits` commits earlier."""
        self._doubtful = None
        if self._backups:
            del self._backups[max(1, len(self._backups) - commits) :]
            self.store = self._backups[-1].copy()

    def flip(self, which: int) -> bool:
        """Change a letter in a line of the ledger; false if the ledger is empty."""
        self._settle()
        lines = self.store._lines
        if not lines:
            return False
        line, written = lines[which % len(lines)]
        place = 7919 * which % len(line)
        lines[which % len(lines)] = (line[:place] + chr(ord(line[place]) ^ 1) + line[place + 1 :], written)
        return True


class MortalStore:
    """`Store` of one life of a party."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._within = False
        disk.take(self)  # an older process may read on, and writes no more

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the writes inside, or die, or fail."""
        if self._within:
            raise RuntimeError("transactions of a store do not nest")
        self._process.tick()
        self._check_lock()
        self._within = True
        try:
            with self._disk.store.transaction():
                yield
                self._process.tick()
                if self._process.fate.due:
                    self._fail()
        finally:
            self._within = False
        self._disk.committed()
        self._process.tick()

    def check(self) -> None:
        """Refuse a process whose lock the next process has."""
        if not self._process.alive:
            raise Killed
        self._check_lock()

    def _check_lock(self) -> None:
        if self._disk.holder is not self:
            raise StoreError("another process has the store", "Stop one of the two.")

    def _fail(self) -> None:
        """Fail in place of the commit, if such a fault is due."""
        if (fault := self._process.fate.take("full", "doubt")) is not None:
            if fault.kind == "doubt":
                self._disk.doubt()
            raise StoreError("the disk is full, or fails", "Make room.")

    def _check_released(self, run: str) -> None:
        """Note a run that releases numbers a second time."""
        if any(entry.kind == RELEASED for entry in self._disk.store.entries(run)):
            self._process.fate.redrawn.append(f"{run} releases numbers a second time")

    def _alone(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """Make a write method a transaction of its own when called outside one."""

        def call(*arguments: Any, **named: Any) -> Any:
            if self._within:
                if not self._process.alive:
                    raise Killed
                if arguments[1:2] == (RELEASED,):
                    self._check_released(arguments[0])
                return write(*arguments, **named)
            with self.transaction():
                return call(*arguments, **named)

        return call

    def _living(self, read: Callable[..., Any]) -> Callable[..., Any]:
        process = self._process

        def call(*arguments: Any, **named: Any) -> Any:
            if not process.alive:
                raise Killed
            return read(*arguments, **named)

        return call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk.store, name)
        call = self._alone(method) if name in _WRITES else self._living(method)
        setattr(self, name, call)  # the disk holds this store for as long as the process lives
        return call


class MortalRecords(RecordFolder):
    """Records of a process that may die while it writes one, or whose system call may fail."""

    def __init__(self, process: Process, directory: Path, order: FileOrder) -> None:
        super().__init__(directory)
        self._process = process
        self._order = order

    @override
    def keep_summary(self, *arguments: Any) -> None:
        with self._disturbed():
            super().keep_summary(*arguments)

    @override
    def keep_release(self, run: str, record: Any, files: Mapping[str, bytes], facts: Any) -> None:
        fate = self._process.fate
        if (release := files.get(RELEASE)) is not None and fate.answers.setdefault(run, release) != release:
            fate.redrawn.append(f"the release of {run} has other numbers than before")
        with self._disturbed():
            super().keep_release(run, record, files, facts)

    @contextlib.contextmanager
    def _disturbed(self) -> Iterator[None]:
        self._process.tick()
        fault = self._process.fate.take("file")
        try:
            with contextlib.nullcontext() if fault is None else failing(fault.amount % CALLS):
                yield
        except StoreError:
            self._order.forget()  # the files are written again before anything follows from them
            raise
        self._process.tick()


@contextlib.contextmanager
def failing(number: int) -> Iterator[None]:
    """Let the n-th system call that writes files fail, from 0; no other task runs meanwhile."""
    count, before = 0, {name: getattr(os, name) for name in ("open", "fsync", "replace", "rename", "mkdir")}

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            if call is before["open"] and arguments[1] & os.O_NONBLOCK:  # `fedkme.inputs` reads a file
                return call(*arguments, **named)
            count += 1
            if count == number + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **named)

        return called

    for name, call in before.items():
        setattr(os, name, counted(call))
    try:
        yield
    finally:
        for name, call in before.items():
            setattr(os, name, call)
