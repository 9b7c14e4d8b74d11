"""Record of a release run and the run's folder: readable with a text editor and numpy alone."""

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from curator.releases.method import RELEASE, Finished, Method, RowMethod, Tell, finished, make_method
from curator.run.record import RECORD, RunRecord, write_record
from fedkme.answers.folder import SYNTHETIC, WEIGHTED, AskedFolder
from fedkme.documents import Fault
from fedkme.durable import make_folder, replace
from fedkme.errors import DataError, FedkmeError, NotMadeError, StoreError, error_of, on_disk
from fedkme.exchange import Participation
from fedkme.inputs import read_bytes, read_text
from fedkme.ops.derivation import Derivation, total
from fedkme.ops.threads import one_thread
from fedkme.releases.counts import PROTOCOL, counts_from_bytes, protocol_of
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import settings_from_json
from fedkme.sums.vector import one_owner_moves
from fedkme.tables.npz import npz_arrays
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, table_from_arrays

_NAMED = 5
"""Owners that an error names, at most."""


@dataclass(slots=True)
class ReleaseRecord(RunRecord):
    """Record of a release while it runs, and its result in the end."""

    secure: bool = False
    """True where secure aggregation protects the sums."""
    rows: int = 0
    """Synthetic rows that were made."""
    files: tuple[str, ...] = ()
    """Names of the files that were made, without the record itself."""
    losses: tuple[NotMadeError, ...] = ()
    """Errors of the steps that could not derive their files from the released numbers."""

    @property
    def one_owner_moves(self) -> int:
        """Rows by which one owner's lie can move a sum, apart from noise (docs/threat-model.md)."""
        return one_owner_moves(self.owner_rows.values(), self.secure)

    def stop(self, error: FedkmeError, status: Literal["failed", "cancelled"] = "failed") -> None:
        """End the run without a result."""
        self.end(status, error)

    def complete(self, derived: Finished) -> None:
        """End the run with the files that were derived from the released numbers."""
        self.status, self.rows, self.files = "complete", derived.rows, tuple(derived.files)
        self.lose(derived.losses)

    def lose(self, losses: Sequence[NotMadeError]) -> None:
        """Record failed steps; the run is complete, and its code says that files are missing."""
        self.losses = (*self.losses, *losses)
        if (loss := total(self.losses)) is not None:
            self.end(self.status, loss)

    def pooled(self) -> bytes:
        """Encode the owners' rows and faults, to be kept with the release."""
        faults = [[f.round, f.owner, f.code, f.line] for f in self.faults]
        return json.dumps({"owner_rows": self.owner_rows, "faults": faults}).encode()

    def restore(self, pooled: bytes) -> None:
        """Restore the owners' rows and faults that `pooled` encoded."""
        plain = json.loads(pooled)
        self.owner_rows = dict(plain["owner_rows"])
        self.faults = [Fault(*values) for values in plain["faults"]]


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """Outcome of a finished release run, from its folder: files, rows, owners, and fault."""

    files: tuple[Path, ...]
    rows: int
    owners: int
    fault: FedkmeError | None
    participation: Participation | None


def write_release(
    directory: Path,
    record: ReleaseRecord,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
    steps: Derivation | None = None,
) -> None:
    """Write the files, the released numbers first, then record.json with `facts`.

    A crash leaves no partial file. With `steps` a file that cannot be written is noted in the record; the
    released numbers and the record must be written.

    Raises:
        OSError: the released numbers or the record cannot be written.
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
        **record.facts(),
        "rows": record.rows,
        "files": list(record.files),
        "losses": [loss.cause for loss in record.losses],
        "one_owner_moves": record.one_owner_moves,
        **facts,
    }
    write_record(directory, plain)


def read_release(directory: Path) -> ReleaseOutcome:
    """Read the files that `write_release` wrote.

    Raises:
        StoreError: a file is missing or unreadable.
    """
    try:
        record = json.loads(read_text(directory / RECORD))
        files = tuple(directory / name for name in record["files"])
        fault = error_of(record["code"], record["cause"], record["remedy"])
        if not all(file.is_file() for file in files):
            raise OSError
        participation = Participation.from_json(record.get("participation"))
        return ReleaseOutcome(files, record["rows"], len(record["owner_rows"]), fault, participation)
    except (OSError, ValueError, KeyError, TypeError):
        cause = f"the record of {directory.name} is not where it was written"
        raise StoreError(cause, "Restore the run's folder.") from None


def completed(
    directory: Path, tell: Tell, participation: Participation | None = None
) -> tuple[NotMadeError, ...]:
    """Derive again all files that follow from the released numbers in a folder, and write them there.

    No owner is asked and nothing is charged. The cards name the owners that the run lost: those of the record
    in the folder, or in a folder without one of `participation`. Each file that cannot be made or written
    gives one error; an existing file stays as it is or is replaced atomically.

    Returns:
        Errors of the files that are still missing.

    Raises:
        StoreError: the folder has no released numbers.
    """
    path = directory / RELEASE
    with on_disk(f"{path} cannot be read", "Restore the run's folder.", StoreError):
        release = read_bytes(path)
    steps, record = Derivation(), directory / RECORD
    if record.exists():
        plain = json.loads(read_text(record))
        participation = Participation.from_json(plain.get("participation"))
    with one_thread():
        derived = steps.step(
            "what follows from the release",
            lambda: finished(_method_again(release), release, tell, participation),
        )
    derived = derived or Finished({RELEASE: release}, 0)
    for name, data in derived.files.items():
        if name != RELEASE:
            steps.step(name, partial(replace, directory / name, data))
    losses = (*derived.losses, *steps.losses)
    if record.exists():
        written = {name: data for name, data in derived.files.items() if (directory / name).exists()}
        steps.step(RECORD, lambda: _complete_record(directory, Finished(written, derived.rows, losses)))
    return (*derived.losses, *steps.losses)


def release_of(folder: Path, schema: Schema) -> bytes:
    """Read the released numbers in a folder, of rows by this schema.

    Raises:
        DataError: the folder has no release, or one by another schema.
    """
    release = AskedFolder(folder)
    if release.stored.schema.digest() != schema.digest():
        cause = f"the release in {folder} is of rows by another schema"
        raise DataError(cause, "Name a release by the curator's 'schema_file'.")
    return release.data


def check_owners(folder: Path, owners: Collection[str]) -> None:
    """Check that the release in a folder is of the rows of these owners, by its record or by their number.

    Raises:
        DataError: it is of others.
    """
    names = set[str]()
    with contextlib.suppress(FedkmeError, OSError, ValueError, TypeError, LookupError):
        names |= {*json.loads(read_text(folder / RECORD))["owner_rows"]}
    if names:
        lacking, besides = sorted({*owners} - names), sorted(names - {*owners})
        said = [("lacks ", lacking), ("has rows of ", besides)]
        what = " and ".join(verb + ", ".join(who[:_NAMED]) for verb, who in said if who)
    else:
        count = AskedFolder(folder).stored.owners
        what = "" if count == len(owners) else f"counts {count} owners, and the run has {len(owners)}"
    if what:
        cause = f"cells are of the release in {folder}, which is not of this run's owners: it {what}"
        raise DataError(cause, "Name a release of these owners in 'cells.release'.")


def redrawn(release: bytes, rows: int, tell: Tell) -> Table | None:
    """Draw synthetic rows again from released numbers: as many as asked for, which costs nothing.

    Args:
        release: content of release.npz.
        rows: number of rows to draw.
        tell: is told of the progress.

    Returns:
        The rows, or None where the method gives weighted points, of which more draws hold no more.

    Raises:
        DataError: the bytes are no release.
        MissingDependencyError: a package that the method needs is not installed.
        NotMadeError: the rows could not be made.
    """
    method, steps = _method_again(release, rows), Derivation()
    with one_thread():
        if isinstance(method, RowMethod):
            table = steps.step("rows of the release", lambda: method.draw(release, rows, tell))
            if table is None:
                raise steps.losses[0]
            return table
        derived = finished(method, release, tell, None)
    if WEIGHTED in derived.files:
        return None
    if (data := derived.files.get(SYNTHETIC)) is not None:
        arrays = npz_arrays(data, SYNTHETIC)
        return table_from_arrays(arrays["x"], arrays.get("y"))
    if (loss := total(derived.losses)) is not None:
        raise loss
    return None


def _method_again(release: bytes, rows: int | None = None) -> Method:
    """Method of a release, by the name, settings and schema in its file.

    With `rows`, so many rows are drawn, and no copies of them.
    """
    if protocol_of(release, RELEASE) == PROTOCOL:
        counts = counts_from_bytes(release, RELEASE)
        settings, schema, points = counts.settings, counts.schema, None
    else:
        stored = from_bytes(release, RELEASE)
        settings, schema, points = stored.settings, stored.schema, stored.public.get("z")
    changed = dict(settings)
    if changed.get("mechanism") == "aim":  # rows of its marginals are made as those of others
        changed["mechanism"] = "rounds"
        changed.pop("ways", None)
    if rows is not None:
        changed |= {"rows": rows} | ({"copies": 0} if "copies" in settings else {})
    wanted = settings_from_json(json.dumps(changed))
    seeds = None if points is None else Table(points)  # the public rows that the release used are in its file
    return make_method(wanted, schema, seeds, wanted.seed or 0)


def _complete_record(directory: Path, derived: Finished) -> None:
    """Update record.json of a release that was completed later."""
    plain, record = json.loads(read_text(directory / RECORD)), ReleaseRecord()
    record.complete(derived)
    plain |= {key: getattr(record, key) for key in ("status", "reason", "code", "cause", "remedy", "rows")}
    plain |= {"files": list(record.files), "losses": [loss.cause for loss in record.losses]}
    write_record(directory, plain)
