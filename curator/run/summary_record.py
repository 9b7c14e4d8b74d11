"""Record of a summary run as the curator saw it: the source of metrics, reports and comparisons.

For the curator alone: other owners must not learn who won which round.
"""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from curator.run.record import RECORD, RunRecord, write_record
from fedkme.documents import Fault
from fedkme.durable import make_folder, replace
from fedkme.errors import DataError, FedkmeError, OwnerFaultError, StoreError, error_of
from fedkme.exchange import Outcome, Participation
from fedkme.inputs import read_text
from fedkme.sealed.rows import AnyRow, HashedRow
from fedkme.tables.files import read_arrays, table_bytes
from fedkme.tables.npz import npz_bytes
from fedkme.tables.table import Table, table_from_arrays

_CHECK = "Check the owner's software."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectedRow:
    """Row of the summary.

    Attributes:
        owner: the owner that sent the row.
        token: the owner's name for the row.
        round: round in which the row entered the summary.
        gain: the row's marginal gain in that round, by the broadcast means; NaN where no gain was computed.
        values: one number per schema column, (c,).
        label: class index, where the data have labels.
        sealed: the sealed row, in place of values and label.
    """

    owner: str
    token: int
    round: int
    gain: float
    values: NDArray[np.float64]
    label: int | None
    sealed: HashedRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """Record of one round; the attributes in order are the columns of rounds.csv.

    Attributes:
        round: l, from 1.
        size: q before the round, with the seed set.
        asked: owners that were asked for a row.
        revealed: rows that came and were accepted.
        accessed: points accessed so far in the run.
        pool: rows revealed and not used after the round.
        owners: owners still in the run.
        owner: owner of the row that entered the summary; empty if none, or several, entered.
        token: token of that row.
        bid: marginal gain of that row.
        mmd2_estimate: squared distance of g~ and the summary's exact mean of h1, after the round; NaN if the
            curator has no h1 of the rows.
        milliseconds: wall time of the round.
    """

    round: int
    size: int
    asked: int
    revealed: int
    accessed: int
    pool: int = 0
    owners: int
    owner: str = ""
    token: int = -1
    bid: float = math.nan
    mmd2_estimate: float = math.nan
    milliseconds: float


class RunObserver(Protocol):
    """Observer of a run while it goes on."""

    def round_done(self, record: RoundRecord) -> None:
        """Handle the end of a round."""

    def owner_left(self, fault: Fault) -> None:
        """Handle the loss, fault or exclusion of an owner."""


@dataclass(slots=True)
class SummaryRecord(RunRecord):
    """Record of a summary while it runs, and its result in the end."""

    rounds: list[RoundRecord] = field(default_factory=list)
    selected: list[SelectedRow] = field(default_factory=list)
    accesses: list[tuple[int, str, int]] = field(default_factory=list)
    """(round, owner, token) of every row whose content reached the curator, in order."""
    seen: set[tuple[str, int]] = field(default_factory=set)
    """(owner, token) of every row in `accesses`."""
    counted: Counter[str] = field(default_factory=Counter)
    """Rows by owner among the entries of `accesses` that were counted so far: each round asks for the
    counts."""
    closings: dict[str, int] = field(default_factory=dict)
    """Rows sent by each owner, as its own gate counted them."""
    released: dict[str, Any] = field(default_factory=dict)
    """Noisy values that the protocol released about private rows, and functions of these values, by name in
    record.json (docs/metrics.md)."""

    def stop(self, error: FedkmeError) -> None:
        """End the run before p rows came, and keep the rows so far."""
        self.end("stopped", error)

    def select(self, owner: str, row: AnyRow, number: int, gain: float) -> None:
        """Append a row to the summary."""
        if isinstance(row, HashedRow):
            self.selected.append(SelectedRow(owner, row.token, number, gain, np.empty(0), None, row))
            return
        self.selected.append(SelectedRow(owner, row.token, number, gain, row.values, row.label))

    def access(self, number: int, rows: Mapping[str, Sequence[AnyRow]]) -> dict[str, list[AnyRow]]:
        """Count rows that reached the curator in a round, by owner; a repeated row counts once.

        Returns:
            The rows that had not come before, by owner.
        """
        new: dict[str, list[AnyRow]] = {owner: [] for owner in rows}
        for owner, revealed in rows.items():
            for row in revealed:
                if (owner, row.token) not in self.seen:
                    self.seen.add((owner, row.token))
                    self.accesses.append((number, owner, row.token))
                    new[owner].append(row)
        return new

    def unsent(self) -> dict[str, int]:
        """Rows that have not come, by owner, out of the rows that the owner said it has."""
        return {name: self.owner_rows[name] - accessed for name, accessed in self.accessed_by_owner().items()}

    def accessed_by_owner(self) -> dict[str, int]:
        """Points accessed of every owner that took part, sorted by name."""
        self.counted.update(owner for _, owner, _ in self.accesses[self.counted.total() :])
        return {name: self.counted[name] for name in sorted(self.owner_rows)}

    def close(self, closings: Mapping[str, int]) -> dict[str, OwnerFaultError]:
        """Record the owners' own counts of sent rows.

        Returns:
            The errors of wrong counts, by owner.
        """
        self.closings.update(closings)
        accessed = self.accessed_by_owner()
        return {
            name: OwnerFaultError(f"{name} says that it sent {sent} rows, and {accessed[name]} came", _CHECK)
            for name, sent in closings.items()
            if sent != accessed[name]
        }

    def value_by_owner(self) -> dict[str, float]:
        """Sum of winning marginal gains of every owner: paying by it would reveal the winners.

        A row that was drawn and not chosen by its gain adds nothing.
        """
        value = dict.fromkeys(sorted(self.owner_rows), 0.0)
        for row in self.selected:
            value[row.owner] += 0.0 if math.isnan(row.gain) else row.gain
        return value

    def wasted(self) -> int:
        """Rows accessed and never used."""
        return len(self.accesses) - len(self.selected)

    def values(self) -> NDArray[np.float64]:
        """The summary in schema columns, (p, c)."""
        return np.array([row.values for row in self.selected], dtype=np.float64)

    def sealed(self) -> list[HashedRow]:
        """Sealed rows of the summary."""
        return [row.sealed for row in self.selected if row.sealed is not None]

    def labels(self) -> NDArray[np.int64] | None:
        """Class indices of the summary, (p,), where every row has one."""
        labels = [row.label for row in self.selected if row.label is not None]
        return np.array(labels, dtype=np.int64) if labels and len(labels) == len(self.selected) else None


def columns(record: RoundRecord) -> dict[str, Any]:
    """Convert a round to the columns of rounds.csv."""
    return {name: getattr(record, name) for name in RoundRecord.__slots__}


def round_row(record: RoundRecord) -> Sequence[str]:
    """Convert a round to a line of rounds.csv; floats round-trip."""
    return [str(value) for value in columns(record).values()]


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
        record = json.loads(read_text(directory / RECORD))
        table, sealed = None, list[HashedRow]()
        if record["selected"] and record.get("sealed"):
            sealed = boxes_from_arrays(read_arrays(directory / SEALED, directory.name))
        elif record["selected"]:
            arrays = read_arrays(directory / "summary.npz", directory.name)
            table = table_from_arrays(arrays["x"], arrays.get("y"))
    except (OSError, ValueError, KeyError, DataError):
        cause = f"the record of {directory.name} is not where it was written"
        raise StoreError(cause, "Restore the run's folder.") from None
    fault = error_of(record["code"], record["cause"], record["remedy"])
    outcome = Outcome(
        record["status"] == "complete",
        record["reason"] or "",
        record["rounds"],
        sum(record["accessed"].values()),
        bool(record.get("prune")),
        Participation.from_json(record.get("participation")),
    )
    return MadeSummary(table, sealed, outcome, fault)


def write_run(directory: Path, record: SummaryRecord, facts: dict[str, Any]) -> None:
    """Write record.json with `facts`, rounds.csv and summary.npz, also for a run that was cut short."""
    make_folder(directory)
    summary = {
        **record.facts(),
        "rounds": len(record.rounds),
        "selected": [[row.owner, row.token, row.round, row.gain] for row in record.selected],
        "accessed": record.accessed_by_owner(),
        "wasted": record.wasted(),
        "value_by_owner": record.value_by_owner(),
        "closings": record.closings,
        "sealed": bool(record.sealed()),
        **record.released,
        **facts,
    }
    write_record(directory, summary)
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
