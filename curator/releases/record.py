"""Record of a release run, and its folder: readable with a text editor and numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from curator.owners.roster import Fault
from curator.releases.method import RELEASE, Finished, Tell, finished, make_method
from fedkme.durable import make_folder, replace
from fedkme.errors import FedkmeError, NotMadeError, StoreError, error_of, on_disk
from fedkme.ops.derivation import Derivation, total
from fedkme.ops.linear_algebra import one_thread
from fedkme.releases.counts import PROTOCOL, counts_from_bytes, protocol_of
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import settings_from_json
from fedkme.sums.vector import one_owner_moves
from fedkme.tables.table import Table

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
    losses: tuple[NotMadeError, ...] = ()
    """Errors of what could not be made of the released numbers."""
    faults: list[Fault] = field(default_factory=list)

    @property
    def one_owner_moves(self) -> int:
        """Rows' worth by which a lie of one owner can move a sum, but for noise (docs/threat-model.md)."""
        return one_owner_moves(self.owner_rows.values(), self.secure)

    def stop(self, error: FedkmeError, status: Literal["failed", "cancelled"] = "failed") -> None:
        """End the run without a result."""
        self.status, self.reason, self.code = status, str(error), error.code
        self.cause, self.remedy = error.cause, error.remedy

    def complete(self, made: Finished) -> None:
        """End the run with what was made of the released numbers."""
        self.status, self.rows, self.files = "complete", made.rows, tuple(made.files)
        self.lose(made.losses)

    def lose(self, losses: Sequence[NotMadeError]) -> None:
        """Note what could not be made; the run is complete, and its code says that something is missing."""
        self.losses = (*self.losses, *losses)
        if (loss := total(self.losses)) is not None:
            self.reason, self.code, self.cause, self.remedy = str(loss), loss.code, loss.cause, loss.remedy

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
    directory: Path,
    record: ReleaseRecord,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
    steps: Derivation | None = None,
) -> None:
    """Write the files, the released numbers first, then record.json with these facts beside.

    A crash leaves no half a file under its name. With `steps` a file that the disk does not take is noted in
    the record; the released numbers and the record have to be written.

    Raises:
        OSError: the disk does not take them.
    """
    make_folder(directory)
    for name, data in files.items():
        write = partial(replace, directory / name, data)
        if steps is None or name == RELEASE:
            write()
        else:
            steps.step(name, write)
    if steps is not None:
        record.files = tuple(name for name in record.files if (directory / name).exists())
        record.lose(steps.losses)
    plain = {
        "kind": "release",
        "status": record.status,
        "reason": record.reason,
        "code": record.code,
        "cause": record.cause,
        "remedy": record.remedy,
        "rows": record.rows,
        "files": list(record.files),
        "losses": [loss.cause for loss in record.losses],
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


def completed(directory: Path, tell: Tell) -> tuple[NotMadeError, ...]:
    """Make again what follows from the released numbers in a folder, and write it beside them.

    Owners are asked for nothing, and nothing is charged. What cannot be made or written this time costs one
    error each; a file that is there stays as it is, or is replaced by the whole of a new one.

    Raises:
        StoreError: the folder has no released numbers.
    """
    path = directory / RELEASE
    with on_disk(f"{path} cannot be read", "Restore the run's folder.", StoreError):
        release = path.read_bytes()
    steps = Derivation()
    with one_thread():
        made = steps.step("what follows from the release", lambda: _made_again(release, tell))
    made = made or Finished({RELEASE: release}, 0)
    for name, data in made.files.items():
        if name != RELEASE:
            steps.step(name, partial(replace, directory / name, data))
    losses = (*made.losses, *steps.losses)
    if (directory / RECORD).exists():
        there = {name: data for name, data in made.files.items() if (directory / name).exists()}
        steps.step(RECORD, lambda: _complete_record(directory, Finished(there, made.rows, losses)))
    return (*made.losses, *steps.losses)


def _made_again(release: bytes, tell: Tell) -> Finished:
    """Files that follow from released numbers, whose file names method, settings and schema."""
    if protocol_of(release, RELEASE) == PROTOCOL:
        counts = counts_from_bytes(release, RELEASE)
        settings, schema, points = counts.settings, counts.schema, None
    else:
        stored = from_bytes(release, RELEASE)
        settings, schema, points = stored.settings, stored.schema, stored.public.get("z")
    asked = settings_from_json(json.dumps(dict(settings)))
    seeds = None if points is None else Table(points)  # of public rows, the release itself has what it used
    return finished(make_method(asked, schema, seeds, asked.seed or 0), release, tell)


def _complete_record(directory: Path, made: Finished) -> None:
    """Note in record.json how a release ended that was completed later."""
    plain, record = json.loads((directory / RECORD).read_text(encoding="utf-8")), ReleaseRecord()
    record.complete(made)
    plain |= {key: getattr(record, key) for key in ("status", "reason", "code", "cause", "remedy", "rows")}
    plain |= {"files": list(record.files), "losses": [loss.cause for loss in record.losses]}
    replace(directory / RECORD, (json.dumps(plain, indent=2) + "\n").encode())
