"""The ledger of a party's store as a file, for `fedkme audit`; also while the party runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from fedkme.durable import replace
from fedkme.errors import ConfigError, LedgerError, on_disk
from fedkme.privacy.ledger import read_chain
from fedkme.store import Store


def ledger_text(store: Store, folder: Path) -> bytes:
    """The ledger for a file in a folder: lines of archives stay in their files, which a first line names."""
    archives = store.archives()
    if not archives or archives[-1].file is None:
        return "".join(f"{kept.line}\n" for kept in store.ledger()).encode("ascii")
    named = [
        {"file": os.path.relpath(each.file, folder), "last": each.last, "sha256": each.digest}
        for each in archives
        if each.file is not None
    ]
    head = json.dumps({"archives": named, "hash": archives[-1].mark}, separators=(",", ":"))
    lines = (kept.line for kept in store.ledger(archives[-1].last))
    return "".join(f"{line}\n" for line in (head, *lines)).encode("ascii")


def export_ledger(party: str, store: Store, file: Path) -> int:
    """Write the whole chain to a file; an earlier export there is replaced, and nothing else is.

    Returns:
        How many lines there are.

    Raises:
        ConfigError: the file cannot be written, or is something else.
        LedgerError: the chain in the store has a fault; or the earlier export is not how it began.
    """
    text = "".join(f"{kept.line}\n" for kept in store.ledger()).encode("ascii")
    with on_disk(f"{file} cannot be written", "Name another file."):
        before = file.read_bytes() if file.exists() else b""
        if not text.startswith(before):
            if before.startswith(b'{"disclosure":'):
                raise LedgerError(
                    f"the ledger of {party} does not go on from what {file} holds",
                    "Keep the file as evidence, and name another.",
                )
            raise ConfigError(f"{file} is there and is no ledger", "Name another file.")
        entries = read_chain(text, f"the store of {party}")
        replace(file, text, 0o600)
    return len(entries)
