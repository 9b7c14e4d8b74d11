"""A disk that loses what was not synced: what of a folder a loss of power would take at this moment."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND
_Stamp = tuple[int, int, int]


class Disk:
    """Watches every file that this process makes under a folder, by the interpreter's audit events.

    Stores are left out: SQLite syncs its own files, and tests/fedkme/store holds it to that.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._synced: dict[Path, _Stamp] = {}
        self._written: set[Path] = set()
        self._unsynced_names: set[Path] = set()

    def lost(self, folder: Path) -> list[str]:
        """Files under a folder that were written and would be gone, or not whole, after a loss of power."""
        folder = folder.resolve()
        named = (
            path for path in folder.rglob("*") if not path.name.startswith(".")
        )  # others are in the making
        files = [path for path in named if path.is_file() and path in self._written]
        return sorted(str(path.relative_to(self._root)) for path in files if not self._survives(path))

    @property
    def written(self) -> set[str]:
        """Names of all files that were written."""
        return {path.name for path in self._written}

    def _survives(self, path: Path) -> bool:
        above = [path, *(each for each in path.parents if each.is_relative_to(self._root))]
        return self._synced.get(path) == _stamp(path) and not self._unsynced_names.intersection(above)

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        """Take note of an audit event."""
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path, mode, flags = Path(os.fsdecode(arguments[0])).absolute(), arguments[1], arguments[2]
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (
                isinstance(flags, int) and flags & _WRITES
            )
            if writes and self._watched(path):
                self._written.add(path)
                if not path.exists():
                    self._unsynced_names.add(path)
        elif event == "os.mkdir" and self._watched(path := _path(arguments[0])):
            if not path.exists():
                self._unsynced_names.add(path)
        elif event == "os.rename" and self._watched(target := _path(arguments[1])):
            source = _path(arguments[0])
            if source in self._written:
                self._written.add(target)
                if (stamp := self._synced.pop(source, None)) is not None:
                    self._synced[target] = stamp
            self._unsynced_names.add(target)

    def sync(self, handle: int) -> None:
        """Take note of a file, or of a folder's names, that reached the disk."""
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            self._unsynced_names = {name for name in self._unsynced_names if name.parent != path}
        else:
            self._synced[path] = _stamp(path)

    def _watched(self, path: Path) -> bool:
        return path.is_relative_to(self._root) and ".db" not in _MAKING.sub(r"\1", path.name)


def _path(argument: object) -> Path:
    assert isinstance(argument, str | bytes | os.PathLike)
    return Path(os.fsdecode(argument)).absolute()


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


_MAKING = re.compile(r"^\.(.*)\.[0-9a-f]{8}$")
"""Name of a file in the making, such as ".rounds.csv.db3f0a11", which is no store's."""
_DISKS: list[Disk] = []


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _DISKS and event in ("open", "os.mkdir", "os.rename"):
        for disk in _DISKS:
            disk.hear(event, arguments)


sys.addaudithook(_heard)  # for good: an interpreter takes none back


@contextlib.contextmanager
def watched(root: Path) -> Iterator[Disk]:
    """Watch a folder, from now on."""
    disk, fsync = Disk(root), os.fsync

    def sync(handle: int) -> None:
        fsync(handle)
        disk.sync(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        _DISKS.append(disk)
        try:
            yield disk
        finally:
            _DISKS.remove(disk)
