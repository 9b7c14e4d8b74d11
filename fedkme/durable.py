"""Atomic and durable writing of files: whole at any moment, and on the disk when a call returns."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from pydantic import BaseModel

_MOST_OF_NAME, _MOST_OF_PATH = 255, 4095
"""Bytes of a file's name and of a path, on Linux."""


def key_of_no_path(values: Any, key: str = "") -> str:
    """Key of a path that no system can look up, in settings: each call would fail with it; "" for none."""
    inner = values.items() if isinstance(values, Mapping) else values if isinstance(values, BaseModel) else ()
    for name, each in inner:
        if wrong := key_of_no_path(each, f"{key}.{name}" if key else str(name)):
            return wrong
    if not isinstance(values, Path):
        return ""
    try:
        path = os.fsencode(values)
    except UnicodeEncodeError:
        return key
    hopeless = b"\0" in path or len(path) > _MOST_OF_PATH
    return key if hopeless or max(map(len, path.split(b"/"))) > _MOST_OF_NAME else ""


class PartialFile:
    """File that is written in parts, and gets its name once it is whole and on the disk."""

    def __init__(self, path: Path, mode: int | None = None) -> None:
        """Open a temporary file beside the path, with the mode from the first byte on.

        Without `mode`, the file has the process's default mode.

        Raises:
            OSError: the file cannot be made.
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
        with contextlib.suppress(OSError):  # a full disk: `write` has raised already
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append a part.

        Raises:
            OSError: the part cannot be written.
        """
        with _named(self._path):
            self._file.write(data)

    def finish(self) -> None:
        """Move the whole file to its path.

        Raises:
            OSError: the file cannot be written; an earlier file at the path stays.
        """
        with _named(self._path):
            _settle(self._file, self._mode)
            self._partial.replace(self._path)
            sync_folder(self._path.parent)


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file, new or not: a reader, also after a power cut, sees all of the old or all of the new data.

    The file has its mode from the first byte on; without `mode`, the process's default.

    Raises:
        OSError: the file cannot be written; an earlier file stays as it was.
    """
    with PartialFile(path, mode) as file:
        file.write(data)
        file.finish()


def create(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a new file; no other user may read the file before it has its mode.

    Raises:
        OSError: the file exists, or cannot be written; then no partial file stays.
    """
    new = _new(path, mode)
    try:
        with _named(path), new as file:
            file.write(data)
            _settle(file, mode)
        sync_folder(path.parent)
    except OSError:
        path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give an error of a write, as of a full disk, the file's name, which the system leaves out."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _new(path: Path, mode: int | None) -> BinaryIO:
    """Open a new file; with `mode` to come, no other user may read the file before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(path, flags, 0o666 if mode is None else 0o600), "wb")


def _settle(file: BinaryIO, mode: int | None) -> None:
    """Set a file's mode, and flush its data to the disk."""
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    file.flush()
    os.fsync(file.fileno())


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and its missing parents; their names survive a loss of power.

    Raises:
        OSError: a folder cannot be made.
    """
    missing = [folder]
    while not missing[-1].is_dir() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for each in reversed(missing[:-1]):
        each.mkdir(mode if each == folder else 0o777, exist_ok=True)
        sync_folder(each.parent)


def move(names: Iterable[str], folder: Path, place: Path) -> None:
    """Move those files of a folder that exist, in order, to a new folder of its owner's alone.

    Raises:
        OSError: a file cannot be moved.
    """
    make_folder(place, 0o700)
    for name in names:
        if (folder / name).exists():
            (folder / name).rename(place / name)
    sync_folder(place)
    sync_folder(folder)


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
