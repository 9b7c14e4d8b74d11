"""Files that are whole at any moment, and on the disk when a call returns: so parties write results."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import BinaryIO


class PartialFile:
    """A file that comes in parts, and gets its name once it is whole and on the disk."""

    def __init__(self, path: Path, mode: int | None = None) -> None:
        """Begin beside its place; it has its mode from the first byte on, by default the process's.

        Raises:
            OSError: the folder takes no file.
        """
        self._path = path
        self._partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self._file = _new(self._partial, mode)
        self._mode = mode

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # of a full disk: it was said when it was written
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Take a part.

        Raises:
            OSError: it cannot be written.
        """
        self._file.write(data)

    def finish(self) -> None:
        """Give the whole file its place.

        Raises:
            OSError: it cannot be written; what was in its place is there.
        """
        _settle(self._file, self._mode)
        self._partial.replace(self._path)
        sync_folder(self._path.parent)


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file, new or not: who reads it, also after a power cut, sees all of the old or all of the new.

    It has its mode from the first byte on; without one, as the process makes files.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    with PartialFile(path, mode) as file:
        file.write(data)
        file.finish()


def create(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file that must not exist yet; nobody else may read it before it has its mode.

    Raises:
        OSError: it exists, or cannot be written; what was begun is gone.
    """
    new = _new(path, mode)
    try:
        with new as file:
            file.write(data)
            _settle(file, mode)
        sync_folder(path.parent)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _new(path: Path, mode: int | None) -> BinaryIO:
    """Open a file that must not exist yet; until it has its mode nobody else may read it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(path, flags, 0o666 if mode is None else 0o600), "wb")


def _settle(file: BinaryIO, mode: int | None) -> None:
    """Give a file its mode, and have the disk hold what was written."""
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    file.flush()
    os.fsync(file.fileno())


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it, where there is none; their names survive a loss of power.

    Raises:
        OSError: it cannot be made.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a loss of power.

    Raises:
        OSError: the disk fails.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
