"""Files of identities: who may read them, how they are read, and how they are known to have changed."""

from __future__ import annotations

import re
from pathlib import Path

PRIVATE, PUBLIC = 0o600, 0o644

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Time of change in ns, bytes and inode of each file; None for one that is not there."""

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n.*?-----END \1-----", re.DOTALL)


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
