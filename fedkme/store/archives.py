"""Contents of an archive: lines of a ledger with the times at which they were written, and documents of runs.

An archive is text in gzip. The first line is an object: `first` and `last` are the numbers of the ledger's
lines that follow, byte for byte; `written` lists the times of these lines as pairs [Unix seconds, number of
lines]. After the ledger's lines comes an object for each run, with `run` and `document` in base64.
docs/formats.md describes the format for readers without our code.
"""

import base64
import gzip
import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fedkme.errors import ArchiveError
from fedkme.inputs import read_bytes
from fedkme.store.base import LedgerLine

_KEEP = "Bring the file back from a backup; budgets, new runs and the ledger's chain go on without it."


@dataclass(frozen=True, slots=True, repr=False)
class Contents:
    """Contents of an archive: lines of the ledger, and documents by run."""

    lines: list[LedgerLine]
    documents: dict[str, bytes]


def packed(first: int, lines: Sequence[LedgerLine], documents: Mapping[str, bytes]) -> bytes:
    """Compress lines of a ledger, the first of number `first`, and documents by run; deterministic."""
    times = [[at, len(list(some))] for at, some in itertools.groupby(line.written for line in lines)]
    head = {"first": first, "last": first + len(lines) - 1, "written": times}
    rest = (
        {"document": base64.b64encode(document).decode(), "run": run} for run, document in documents.items()
    )
    text = [json.dumps(head), *(line.line for line in lines), *map(json.dumps, rest)]
    return gzip.compress("".join(f"{line}\n" for line in text).encode("ascii"), 6, mtime=0)


def unpacked(content: bytes, digest: str, where: str) -> Contents:
    """Check an archive's digest, and read its contents.

    Raises:
        ArchiveError: the archive was changed, or is of another format.
    """
    if sha256(content).hexdigest() != digest:
        raise ArchiveError(f"{where} was changed since it was archived: its digest differs", _KEEP)
    try:
        head, *text = gzip.decompress(content).decode("ascii").splitlines()
        plain = json.loads(head)
        count = plain["last"] - plain["first"] + 1
        times = [float(at) for at, number in plain["written"] for _ in range(number)]
        numbered = zip(itertools.count(plain["first"]), text[:count], times, strict=False)
        rest = map(json.loads, text[count:])
        documents = {row["run"]: base64.b64decode(row["document"]) for row in rest}
    except (ValueError, KeyError, TypeError, OSError, EOFError, zlib.error):
        raise ArchiveError(f"{where} is no archive that this release can read", _KEEP) from None
    return Contents([LedgerLine(*row) for row in numbered], documents)


def read_archive(file: Path, digest: str) -> Contents:
    """Read an archive's file, and check its digest.

    Raises:
        ArchiveError: the file is missing, cannot be read, or was changed.
    """
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        raise gone(file.name) from None
    except OSError as error:
        raise ArchiveError(f"{file.name} cannot be read: {error.strerror}", _KEEP) from None
    return unpacked(content, digest, file.name)


def gone(where: str) -> ArchiveError:
    """Make the error for a missing archive."""
    return ArchiveError(f"{where} is gone, with lines of the ledger and documents of runs", _KEEP)
