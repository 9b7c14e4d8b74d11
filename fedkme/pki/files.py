"""Files of identities: their permissions, their PEM blocks, and stamps that show a change."""

import re
import stat
from pathlib import Path

PRIVATE, PUBLIC = 0o600, 0o644

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Modification time (ns), size (bytes) and inode of each file; None for a missing file."""

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n.*?-----END \1-----", re.DOTALL)


def stamp(*paths: Path) -> Stamp:
    """Stamp that changes when a file is written or replaced: one system call a file, no file is read."""
    return tuple(_stamp(path) for path in paths)


def key_file(identity: Path) -> Path:
    """File of an identity's key: the bundle, or `key.pem` of a folder."""
    return identity / "key.pem" if identity.is_dir() else identity


def key_mode(identity: Path) -> int:
    """Permissions of the file with an identity's key.

    Raises:
        OSError: the file cannot be looked at.
    """
    return stat.S_IMODE(key_file(identity).stat().st_mode)


def pem_blocks(data: bytes) -> list[tuple[str, bytes]]:
    """Label and text of each PEM block, in order; text between blocks is ignored."""
    return [(match[1].decode(), match[0] + b"\n") for match in _BLOCK.finditer(data)]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
