"""Files of heads, beside a ledger's file: an auditor checks the ledger against them (docs/formats.md).

One JSON object a line: openings of the party's own leaves; leaves of every log of which the party has some;
its own notes with others' signatures, and others' notes; and the signers' certificates.
"""

import base64
import binascii
import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkme.durable import replace
from fedkme.errors import ConfigError, LedgerError, on_disk
from fedkme.heads.log import CERTIFICATES, LEAVES, NOTES, OPENINGS, canonical, split
from fedkme.heads.notes import LEAF_BYTES, chains_of
from fedkme.inputs import read_bytes, read_text
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import read_chain
from fedkme.store import Store
from fedkme.store.reading import party_of, read_store

SUFFIX = ".heads"


@dataclass(slots=True)
class KeptHeads:
    """Heads that one party stores.

    Attributes:
        where: path of the file.
        openings: openings of the party's own leaves, in order.
        leaves: leaves of logs, by origin.
        notes: notes of the party's own log and of others'.
        chains: certificates of signers, PEM.
    """

    where: str
    openings: list[dict[str, Any]] = field(default_factory=list)
    leaves: dict[str, list[bytes]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chains: list[bytes] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Name of the party's own log, by its last opening; empty without openings."""
        return str(self.openings[-1]["origin"]) if self.openings else ""


def lines_of(store: Store) -> list[str]:
    """Lines of a file of heads, from a store."""

    def facts(prefix: str) -> list[tuple[str, bytes]]:
        return [(key.removeprefix(prefix), store.get(key) or b"") for key in store.keys(prefix)]

    lines: list[object] = [{"opening": json.loads(opening)} for _, opening in facts(OPENINGS)]
    lines += [{"leaves": base64.b64encode(all_).decode(), "origin": origin} for origin, all_ in facts(LEAVES)]
    lines += [{"note": note.decode()} for _, note in facts(NOTES)]
    lines += [{"certificates": chain.decode()} for _, chain in facts(CERTIFICATES)]
    return [canonical(line).decode("ascii") for line in lines]


def write_heads(store: Store, ledger: Path) -> None:
    """Write a party's heads beside its ledger's file; no file if there are no heads.

    Raises:
        ConfigError: the file cannot be written.
    """
    file = ledger.with_suffix(SUFFIX)
    with on_disk(f"{file} cannot be written", "Name another file."):
        if text := "".join(f"{line}\n" for line in lines_of(store)):
            replace(file, text.encode("ascii"), 0o600)  # openings say what commitments hide


@dataclass(frozen=True, slots=True)
class ExportedLedger:
    """A ledger that was written to a file.

    Attributes:
        file: path of the file.
        party: party whose ledger it is.
        lines: number of lines.
    """

    file: Path
    party: str
    lines: int

    def __str__(self) -> str:
        whose = "the curator" if self.party == CURATOR else self.party
        return f"{self.file}: {self.lines} lines of the ledger of {whose}"


def export(journal: str, party: str, file: Path) -> ExportedLedger:
    """Write a party's ledger to a file and its heads beside it, also while the party runs.

    Returns:
        Description of the written ledger; its `str` is a line for the terminal.

    Raises:
        ConfigError: see `export_ledger`.
        LedgerError: see `export_ledger`.
        StoreError: there is no such store, or it cannot be read.
    """
    with contextlib.closing(read_store(journal, party)) as store:
        count = export_ledger(party, store, file)
        write_heads(store, file)
    return ExportedLedger(file, party, count)


def read_heads(path: Path) -> KeptHeads:
    """Read heads from a file, or from the store of a party that may be running.

    Raises:
        LedgerError: the file cannot be read, or a line does not belong in a file of heads.
    """
    heads = KeptHeads(str(path))
    for number, line in enumerate(lines_in(path), start=1):
        try:
            match json.loads(line):
                case {
                    "opening": {"entries": int(), "hash": str(), "heads": list(), "origin": str()} as opening
                }:
                    heads.openings.append(opening)
                case {"leaves": str(text), "origin": str(origin)}:
                    leaves = base64.b64decode(text, validate=True)
                    if len(leaves) % LEAF_BYTES:
                        raise ValueError("a part of a leaf")
                    heads.leaves[origin] = split(leaves)
                case {"note": str(note)}:
                    heads.notes.append(note)
                case {"certificates": str(chain)}:
                    heads.chains += chains_of(chain.encode("ascii"))
                case _:
                    raise ValueError("another object")
        except (ValueError, binascii.Error, RecursionError):
            cause = f"{path}, line {number} is no line of a file of heads"
            raise LedgerError(cause, "Keep the file as evidence.") from None
    return heads


def heads_beside(ledger: Path) -> Path:
    """Path of the heads that belong to a ledger in a file or store; the file need not exist."""
    return ledger if ledger.suffix == ".db" else ledger.with_suffix(SUFFIX)


def lines_in(path: Path) -> list[str]:
    """Lines of a file of heads, or the same lines from a store.

    Raises:
        LedgerError: the file cannot be read.
    """
    if path.suffix == ".db":
        if not (party := party_of(path)):
            return []
        with contextlib.closing(read_store(path, party)) as store:
            return lines_of(store)
    try:
        return read_text(path, encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {error}", "Give a file of heads.") from None


def ledger_text(store: Store, folder: Path) -> bytes:
    """Ledger as text for a file in a folder: archived lines stay in archives, which the first line names."""
    archives = store.archives()
    if not archives or archives[-1].file is None:
        return "".join(f"{line.line}\n" for line in store.ledger()).encode("ascii")
    named = [
        {"file": os.path.relpath(archive.file, folder), "last": archive.last, "sha256": archive.digest}
        for archive in archives
        if archive.file is not None
    ]
    head = json.dumps({"archives": named, "hash": archives[-1].mark}, separators=(",", ":"))
    lines = (line.line for line in store.ledger(archives[-1].last))
    return "".join(f"{line}\n" for line in (head, *lines)).encode("ascii")


def export_ledger(party: str, store: Store, file: Path) -> int:
    """Write the whole chain to a file; replace only an earlier export of the same ledger.

    Returns:
        Number of lines.

    Raises:
        ConfigError: the file cannot be written, or is no ledger.
        LedgerError: the chain in the store has a fault, or does not begin with the earlier export.
    """
    text = "".join(f"{line.line}\n" for line in store.ledger()).encode("ascii")
    with on_disk(f"{file} cannot be written", "Name another file."):
        before = read_bytes(file) if file.exists() else b""
        if not text.startswith(before):
            if before.startswith(b'{"disclosure":'):
                cause = f"the ledger of {party} does not continue the export in {file}"
                raise LedgerError(cause, "Keep the file as evidence, and name another.")
            raise ConfigError(f"{file} exists and is no ledger", "Name another file.")
        entries = read_chain(text, f"the store of {party}")
        replace(file, text, 0o600)
    return len(entries)
