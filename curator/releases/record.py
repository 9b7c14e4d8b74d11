"""Record of a release run, and its folder: readable with a text editor and numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from curator.owners.roster import Fault
from fedkme.durable import make_folder, replace
from fedkme.errors import FedkmeError, StoreError, error_of
from fedkme.sums.vector import one_owner_moves

RECORD = "record.json"
Status = Literal["interrupted", "complete", "failed", "cancelled"]


@dataclass(slots=True)
class ReleaseRecord:
    """A release in the making, and its result in the end."""

    status: Status = "interrupted"
    reason: str | None = None
    code: int = 0
    """Number of the failure that ended the run; 0 for none."""
    cause: str = ""
    remedy: str = ""
    owner_rows: dict[str, int] = field(default_factory=dict)
    """Rows of each owner that takes part (m_j, public)."""
    secure: bool = False
    """Protection of sums by secure aggregation."""
    rows: int = 0
    """Rows that were made."""
    files: tuple[str, ...] = ()
    """Names of what was made, without the record itself."""
    faults: list[Fault] = field(default_factory=list)

    @property
    def one_owner_moves(self) -> int:
        """Rows' worth by which a lie of one owner can move a sum, but for noise (docs/threat-model.md)."""
        return one_owner_moves(self.owner_rows.values(), self.secure)

    def stop(self, error: FedkmeError, status: Literal["failed", "cancelled"] = "failed") -> None:
        """End the run without a result."""
        self.status, self.reason, self.code = status, str(error), error.code
        self.cause, self.remedy = error.cause, error.remedy

    def pooled(self) -> bytes:
        """Answers to the questions that owners were asked, to be kept with the release."""
        faults = [[f.round, f.owner, f.code, f.line] for f in self.faults]
        return json.dumps({"owner_rows": self.owner_rows, "faults": faults}).encode()

    def restore(self, pooled: bytes) -> None:
        """Be as when `pooled` was made."""
        plain = json.loads(pooled)
        self.owner_rows = dict(plain["owner_rows"])
        self.faults = [Fault(*values) for values in plain["faults"]]


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """A release run that is over, as its folder says.

    It has paths of files, numbers of rows and owners, or the failure that ended it.
    """

    files: tuple[Path, ...]
    rows: int
    owners: int
    fault: FedkmeError | None


def write_release(
    directory: Path, record: ReleaseRecord, files: Mapping[str, bytes], facts: Mapping[str, Any]
) -> None:
    """Write the files, then record.json with these facts beside.

    A crash leaves no half a file under its name.
    """
    make_folder(directory)
    for name, data in files.items():
        replace(directory / name, data)
    plain = {
        "kind": "release",
        "status": record.status,
        "reason": record.reason,
        "code": record.code,
        "cause": record.cause,
        "remedy": record.remedy,
        "rows": record.rows,
        "files": list(record.files),
        "owner_rows": record.owner_rows,
        "one_owner_moves": record.one_owner_moves,
        "faults": [
            {"round": f.round, "owner": f.owner, "code": f.code, "line": f.line} for f in record.faults
        ],
        **facts,
    }
    replace(directory / RECORD, (json.dumps(plain, indent=2) + "\n").encode())


def read_release(directory: Path) -> ReleaseOutcome:
    """Read the files that `write_release` wrote.

    Raises:
        StoreError: they are not there.
    """
    try:
        record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        files = tuple(directory / name for name in record["files"])
        fault = error_of(record["code"], record["cause"], record["remedy"])
        if not all(file.is_file() for file in files):
            raise OSError
        return ReleaseOutcome(files, record["rows"], len(record["owner_rows"]), fault)
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(
            f"the record of {directory.name} is not where it was written", "Restore the run's folder."
        ) from None
