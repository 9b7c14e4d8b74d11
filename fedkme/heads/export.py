"""Export of a ledger from a party's store to a file, for `fedkme audit`; also while the party runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from fedkme.durable import replace
from fedkme.errors import ConfigError, LedgerError, on_disk
from fedkme.privacy.ledger import read_chain
from fedkme.store import Store


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
        before = file.read_bytes() if file.exists() else b""
        if not text.startswith(before):
            if before.startswith(b'{"disclosure":'):
                raise LedgerError(
                    f"the ledger of {party} does not continue the export in {file}",
                    "Keep the file as evidence, and name another.",
                )
            raise ConfigError(f"{file} exists and is no ledger", "Name another file.")
        entries = read_chain(text, f"the store of {party}")
        replace(file, text, 0o600)
    return len(entries)
