"""Files that are whole at any moment, and on the disk when a call returns."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import IO


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file, new or not: who reads it, also after a power cut, sees all of the old or all of the new.

    It has its mode from the first byte on; without one, as the process makes files.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(partial, flags, 0o666 if mode is None else 0o600), "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            settle(file, partial, path)
    finally:
        partial.unlink(missing_ok=True)


def settle(file: IO[bytes], partial: Path, path: Path) -> None:
    """Give a file that was written under another name of the same folder its place.

    Raises:
        OSError: it cannot be written.
    """
    file.flush()
    os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


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
