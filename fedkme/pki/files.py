"""Files of identities: their permissions, their PEM blocks, and stamps that show a change."""

import codecs
import re
import stat
from pathlib import Path

PRIVATE, PUBLIC = 0o600, 0o644
KEY = "PRIVATE KEY"
"""End of the label of a key, of whatever kind."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Modification time (ns), size (bytes) and inode of each file; None for a missing file."""

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(\s.*?)-----END \1-----", re.DOTALL)
_LABELS = {"X509 CERTIFICATE": "CERTIFICATE", "NEW CERTIFICATE REQUEST": "CERTIFICATE REQUEST"}
"""Labels of today by those that other tools write."""
_COLUMNS = 64


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
    """Label and text of each PEM block, in order, as every reader of PEM takes it.

    Text between blocks is ignored; so are blanks, empty lines and line ends that editors and mails add, and
    UTF-16.
    """
    matches = _BLOCK.finditer(pem_text(data))
    blocks = ((_LABELS.get(match[1], match[1]), match[2]) for match in matches)
    return [(label, _pem(label, content)) for label, content in blocks]


def pem_text(data: bytes) -> str:
    """Text of a file of PEM blocks."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "latin-1", "replace")


def keys_in(data: bytes) -> list[bytes]:
    """Private keys of a file, in order."""
    return [block for label, block in pem_blocks(data) if label.endswith(KEY)]


def certificates_in(data: bytes) -> bytes:
    """All certificates of a file, one behind the other; without any, the data, which readers refuse."""
    return b"".join(block for label, block in pem_blocks(data) if label == "CERTIFICATE") or data


def _pem(label: str, content: str) -> bytes:
    """Text of a block in lines of equal length; an encrypted key may have a head, which stays."""
    lines = [line.strip(" \t>") for line in content.splitlines()]
    head = [line for line in lines if ":" in line]
    base64 = "".join("".join(line.split()) for line in lines if ":" not in line)
    body = [base64[start : start + _COLUMNS] for start in range(0, len(base64), _COLUMNS)]
    parts = [f"-----BEGIN {label}-----", *head, *([""] if head else []), *body, f"-----END {label}-----", ""]
    return "\n".join(parts).encode("latin-1")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
