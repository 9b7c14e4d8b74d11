"""Files of a summary run's record: readable with a text editor and numpy alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.run.summary_record import RoundRecord, SummaryRecord, round_row
from fedkme.durable import make_folder, replace
from fedkme.errors import DataError, FedkmeError, StoreError, error_of
from fedkme.exchange import Outcome
from fedkme.sealed.rows import HashedRow
from fedkme.tables.files import read_arrays, table_bytes
from fedkme.tables.npz import npz_bytes
from fedkme.tables.table import Table, table_from_arrays

SEALED = "sealed.npz"
"""File of the summary's sealed rows, which the consumer alone can open; it replaces summary.npz."""


@dataclass(frozen=True, slots=True, eq=False)
class MadeSummary:
    """Result of a finished run for its consumer: a table, sealed rows, or the fault that ended the run."""

    table: Table | None
    sealed: Sequence[HashedRow]
    outcome: Outcome
    fault: FedkmeError | None


def read_outcome(directory: Path) -> MadeSummary:
    """Read the files that `write_run` wrote.

    Raises:
        StoreError: a file is missing or unreadable.
    """
    try:
        record = json.loads((directory / "record.json").read_text(encoding="utf-8"))
        table, sealed = None, list[HashedRow]()
        if record["selected"] and record.get("sealed"):
            sealed = boxes_from_arrays(read_arrays(directory / SEALED, directory.name))
        elif record["selected"]:
            arrays = read_arrays(directory / "summary.npz", directory.name)
            table = table_from_arrays(arrays["x"], arrays.get("y"))
    except (OSError, ValueError, KeyError, DataError):
        raise StoreError(
            f"the record of {directory.name} is not where it was written", "Restore the run's folder."
        ) from None
    fault = error_of(record["code"], record["cause"], record["remedy"])
    outcome = Outcome(
        record["status"] == "complete",
        record["reason"] or "",
        record["rounds"],
        sum(record["accessed"].values()),
        bool(record.get("prune")),
    )
    return MadeSummary(table, sealed, outcome, fault)


def write_run(directory: Path, record: SummaryRecord, facts: dict[str, Any]) -> None:
    """Write record.json with `facts`, rounds.csv and summary.npz, also for a run that was cut short."""
    make_folder(directory)
    summary = {
        "status": record.status,
        "reason": record.reason,
        "code": record.code,
        "cause": record.cause,
        "remedy": record.remedy,
        "rounds": len(record.rounds),
        "selected": [[row.owner, row.token, row.round, row.gain] for row in record.selected],
        "accessed": record.accessed_by_owner(),
        "wasted": record.wasted(),
        "value_by_owner": record.value_by_owner(),
        "owner_rows": record.owner_rows,
        "closings": record.closings,
        "sealed": bool(record.sealed()),
        "faults": [
            {"round": f.round, "owner": f.owner, "code": f.code, "line": f.line} for f in record.faults
        ],
        **record.released,
        **facts,
    }
    replace(directory / "record.json", (json.dumps(summary, indent=2) + "\n").encode())
    rounds = io.StringIO(newline="")
    writer = csv.writer(rounds)
    writer.writerow(RoundRecord.__slots__)
    writer.writerows(round_row(row) for row in record.rounds)
    replace(directory / "rounds.csv", rounds.getvalue().encode())
    if sealed := record.sealed():
        replace(directory / SEALED, npz_bytes(boxes_to_arrays(sealed)))
    elif record.selected:
        replace(directory / "summary.npz", table_bytes(Table(record.values(), record.labels())))


def boxes_to_arrays(rows: Sequence[HashedRow]) -> dict[str, NDArray[Any]]:
    """Sealed rows of one run as arrays: `token` (k,), `features` (k, d), `box` (k, bytes)."""
    return {
        "token": np.array([row.token for row in rows], dtype=np.uint64),
        "features": np.array([row.features for row in rows], dtype=np.int16),
        "box": np.array([np.frombuffer(row.box, dtype=np.uint8) for row in rows]),
    }


def boxes_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[HashedRow]:
    """Read sealed rows from the arrays of `boxes_to_arrays`."""
    return [
        HashedRow(int(token), features, box.tobytes())
        for token, features, box in zip(arrays["token"], arrays["features"], arrays["box"], strict=True)
    ]
