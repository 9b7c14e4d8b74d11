"""Oracle of durable files: bytes are synced, then named, then the folder is synced, before a party goes on.

A power cut between two calls would lose what a later call was to make safe. All calls made, nothing is lost
in the end: their order shows only in a recording.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from audit.chaos.process import current
from fedkme.store.sqlite import SqliteStore

_Stamp = tuple[int, int]
_NEW = os.O_CREAT
_POWER = {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1}
"""Settings with which SQLite waits for the disk at each commit, and overwrites what is deleted."""


class FileOrder:
    """Recording of the calls that write, sync and name files in a folder.

    Attributes:
        violations: calls out of order, a line each.
    """

    def __init__(self, folder: Path) -> None:
        self.violations: list[str] = []
        self._folder = str(folder)
        self._synced: dict[int, _Stamp] = {}  # by inode
        self._names: dict[str, int] = {}  # names whose folder is not synced, with the folder's inode
        self._written: dict[str, None] = {}  # files that were made under their own name

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the calls of simulated processes."""
        heard: dict[str, Callable[..., Any]] = {
            "open": self._opened,
            "fsync": self._synced_one,
            "replace": self._named,
            "rename": self._named,
            "mkdir": self._made,
            "unlink": self._removed,
        }
        real = {name: getattr(os, name) for name in heard}
        for name, hear in heard.items():
            setattr(os, name, _recording(real[name], hear))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def settled(self) -> None:
        """Check that all files and names so far would survive a loss of power."""
        if not self._names and not self._written:
            return
        for path in self._written:
            status = Path(path).stat()
            if self._synced.get(status.st_ino) != _stamp(status):
                self._violated(path, "is used before its bytes are synced")
        for path in self._names:
            self._violated(path, "is used before its folder is synced")
        self.forget()

    def forget(self) -> None:
        """Forget what is not synced: a call failed, and nothing follows from these files."""
        self._names.clear()
        self._written.clear()

    def _opened(self, call: Callable[..., Any], path: Any, flags: int, *more: Any, **named: Any) -> Any:
        new = bool(flags & _NEW) and self._watched(path) and not Path(path).exists()
        handle = call(path, flags, *more, **named)
        if new and not Path(path).name.startswith("."):  # others are in the making
            self._written[str(path)] = None
            self._name(path)
        return handle

    def _synced_one(self, call: Callable[..., Any], handle: int) -> None:
        call(handle)
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self._names = {name: inode for name, inode in self._names.items() if inode != status.st_ino}
        else:
            self._synced[status.st_ino] = _stamp(status)

    def _named(self, call: Callable[..., Any], source: Any, target: Any, **named: Any) -> None:
        if self._watched(target):
            status = Path(source).stat()
            if self._synced.get(status.st_ino) != _stamp(status):
                self._violated(target, "is named before its bytes are synced")
            self._written.pop(str(source), None)
            self._names.pop(str(source), None)
            self._name(target)
        call(source, target, **named)

    def _made(self, call: Callable[..., Any], path: Any, *more: Any, **named: Any) -> None:
        call(path, *more, **named)
        if self._watched(path):
            self._name(path)

    def _removed(self, call: Callable[..., Any], path: Any, **named: Any) -> None:
        self._written.pop(str(path), None)
        self._names.pop(str(path), None)
        call(path, **named)

    def _watched(self, path: Any) -> bool:
        return str(path).startswith(self._folder)

    def _name(self, path: Any) -> None:
        self._names[str(path)] = Path(path).parent.stat().st_ino

    def _violated(self, path: Any, what: str) -> None:
        self.violations.append(f"power: {str(path).removeprefix(self._folder)} {what}")


def store_violations(folder: Path) -> Iterator[str]:
    """Find settings of a party's SQLite store that would lose a commit with the power."""
    store = SqliteStore(folder / "store.db", "curator", "power")
    with contextlib.closing(store):
        for name, expected in _POWER.items():
            ((value,),) = store._execute(f"PRAGMA {name}")
            if value != expected:
                yield f"power: SQLite's {name} is {value}, not {expected}"


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_size, status.st_mtime_ns


def _recording(call: Callable[..., Any], hear: Callable[..., Any]) -> Callable[..., Any]:
    def recorded(*arguments: Any, **named: Any) -> Any:
        return call(*arguments, **named) if current.get() is None else hear(call, *arguments, **named)

    return recorded
