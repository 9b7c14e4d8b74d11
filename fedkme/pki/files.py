"""Files of identities: private where they must be, whole at any moment, and recognised when they change."""

from __future__ import annotations

import os
import re
from pathlib import Path

PRIVATE, PUBLIC = 0o600, 0o644

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Time of change in ns, bytes and inode of each file; None for one that is not there."""

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n.*?-----END \1-----", re.DOTALL)


def create(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet; nobody else may read it before it has its mode.

    Raises:
        OSError: it exists, or cannot be written.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def stamp(*paths: Path) -> Stamp:
    """Stamp of files that changes when one is written or replaced; one system call each, nothing is read."""
    return tuple(_stamp(path) for path in paths)


def pem_blocks(data: bytes) -> list[tuple[str, bytes]]:
    """The label and text of each PEM block, in order; anything between them is ignored."""
    return [(match[1].decode(), match[0] + b"\n") for match in _BLOCK.finditer(data)]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
