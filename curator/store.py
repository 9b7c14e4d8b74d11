"""The record of a run on disk: readable with a text editor and numpy alone."""

from __future__ import annotations

import csv
import json
import secrets
from pathlib import Path
from typing import Any

from curator.summary.record import RoundRecord, SummaryRecord, round_row
from fedkme.data import Table, save_table


def next_run(directory: Path, repeatable: bool) -> str:
    """A run name that no folder in `directory` has.

    Ledgers tell runs apart by it, also those of an owner that serves two curators, so that outside of
    simulations it is unique.
    """
    number = 1
    names = {folder.name.split("-")[1] for folder in directory.glob("run-*")}
    while str(number) in names:
        number += 1
    return f"run-{number}" if repeatable else f"run-{number}-{secrets.token_hex(4)}"


def write_run(directory: Path, record: SummaryRecord, facts: dict[str, Any]) -> None:
    """Write record.json, rounds.csv and summary.npz; what there is of a run cut short.

    Args:
        directory: the run's folder; made if need be.
        record: what happened.
        facts: what else record.json should say (features, parameters, bytes, the ledger's head).
    """
    directory.mkdir(parents=True, exist_ok=True)
    summary = {
        "status": record.status,
        "reason": record.reason,
        "code": record.code,
        "rounds": len(record.rounds),
        "selected": [[row.owner, row.token, row.round, row.gain] for row in record.selected],
        "accessed": record.accessed_by_owner(),
        "wasted": record.wasted(),
        "value_by_owner": record.value_by_owner(),
        "owner_rows": record.owner_rows,
        "closings": record.closings,
        "faults": [
            {"round": f.round, "owner": f.owner, "code": f.code, "line": f.line} for f in record.faults
        ],
        **facts,
    }
    _write(directory / "record.json", json.dumps(summary, indent=2) + "\n")
    with (directory / "rounds.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(RoundRecord.__slots__)
        writer.writerows(round_row(row) for row in record.rounds)
    if record.selected:
        save_table(directory / "summary.npz", Table(record.values(), record.labels()))


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a crash leaves the old one or the new one."""
    partial = path.with_suffix(path.suffix + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
