"""Approvals of an owner whose operator decides on each run.

Only the owner's process may write its store, so `fedkme owner approve` writes each approval as a file, whole
or not at all, in a folder next to the configuration. The process reads the folder when a run asks, and at no
other time. The file says what is approved; the store counts how often the approval was used (`approved/ID`),
in the transaction that lets the run in (`admitted/RUN`). So a file that outlives a crash, or comes back from
a backup, approves nothing twice, and a run that asks again after a crash needs no second approval. A second
database would need a transaction over two files for the same.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkme.durable import make_folder, replace
from fedkme.errors import ConfigError, StoreError, on_disk
from fedkme.inputs import SMALL, read_bytes
from fedkme.store import Store

MOST_ASKED = 32
"""Requests in the store, one per consumer and protocol; a new request replaces the oldest."""

_ASKED = "asked/"
_APPROVED = "approved/"
_ID = re.compile(r"\d{10}-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Approval:
    """Runs that the owner agreed to.

    Attributes:
        id: name of the approval; ids sort by time.
        consumer: consumer of the runs.
        protocol: protocol of the runs.
        rows: largest p; 0 for releases, in which no row leaves.
        runs: number of runs.
    """

    id: str
    consumer: str
    protocol: str
    rows: int
    runs: int

    def covers(self, request: Asked) -> bool:
        """Check whether the approval covers a requested run."""
        same = (request.consumer, request.protocol) == (self.consumer, self.protocol)
        return same and request.rows <= self.rows

    @property
    def what(self) -> str:
        """Description of the approved runs, for a log line."""
        what = f"runs of at most {self.rows} rows" if self.rows else "releases"
        return f"{what} for {self.consumer} by {self.protocol}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A run refused for want of approval: the last such run of a consumer and protocol."""

    run: str
    consumer: str
    protocol: str
    rows: int
    at: float
    """Unix seconds."""
    expected: str = ""
    """Expected outcome of the run, in the words of the curator's plan."""

    def command(self, config: str = "OWNER.toml") -> str:
        """Command that approves the run, given the path of the owner's configuration."""
        command = f"fedkme owner approve {config} --consumer {self.consumer} --protocol {self.protocol}"
        return f"{command} --rows {self.rows}" if self.rows else command

    @property
    def _key(self) -> str:
        return f"{_ASKED}{self.consumer}/{self.protocol}"

    def note(self, store: Store) -> None:
        """Store the request for `fedkme owner status`."""
        with store.transaction():
            store.put(self._key, json.dumps(asdict(self)).encode("ascii"))
            requests = sorted(asked_in(store), key=lambda request: request.at)
            for request in requests[: max(0, len(requests) - MOST_ASKED)]:
                store.delete(request._key)

    def forget(self, store: Store) -> None:
        """Delete the request, once it was approved."""
        store.delete(self._key)


def asked_in(store: Store) -> list[Asked]:
    """Read the requests without approval, by consumer and protocol."""
    return [Asked(**json.loads(store.get(key) or b"")) for key in store.keys(_ASKED)]


def uses(store: Store, approval: Approval) -> int:
    """Number of runs that an approval let in."""
    return int(store.get(f"{_APPROVED}{approval.id}") or b"0")


def use(store: Store, approval: Approval) -> None:
    """Count one use more, inside the transaction that lets the run in."""
    store.put(f"{_APPROVED}{approval.id}", str(uses(store, approval) + 1).encode("ascii"))


def left_in(folder: Path, store: Store) -> list[tuple[Approval, int]]:
    """Read the approvals that still have runs left, with the number of these, the oldest first.

    Raises:
        ConfigError: a file in the folder is not an approval.
        StoreError: the folder cannot be read.
    """
    counted = [(approval, approval.runs - uses(store, approval)) for approval in _read(folder)]
    return [(approval, runs_left) for approval, runs_left in counted if runs_left > 0]


def tidy(folder: Path, store: Store) -> None:
    """Remove the files of used-up approvals. A file that stays approves nothing."""
    for approval in _read(folder):
        if uses(store, approval) >= approval.runs:
            try:
                (folder / f"{approval.id}.json").unlink(missing_ok=True)
            except OSError:  # harmless: the count in the store decides
                return


def approve(folder: Path, consumer: str, protocol: str, rows: int, runs: int) -> Approval:
    """Approve runs before they ask, or after they were refused; also while the owner's process runs.

    Raises:
        ConfigError: the folder cannot be written.
    """
    approval = Approval(f"{int(time.time()):010d}-{secrets.token_hex(8)}", consumer, protocol, rows, runs)
    with on_disk(f"{folder} cannot be written", "Correct 'approvals'."):
        make_folder(folder, 0o700)
        replace(folder / f"{approval.id}.json", json.dumps(asdict(approval)).encode("ascii"), 0o600)
    return approval


def _read(folder: Path) -> list[Approval]:
    remedy = "Run 'fedkme owner approve' as the user of the owner's process."
    with on_disk("the owner's approvals cannot be read", remedy, StoreError):
        files = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
        return [_approval(path) for path in files]


def _approval(path: Path) -> Approval:
    try:
        plain: dict[str, Any] = json.loads(read_bytes(path, SMALL))
        approval = Approval(**plain)
        numbers = ((approval.rows, 0), (approval.runs, 1))
        whole = all(type(value) is int and value >= least for value, least in numbers)
        if approval.id != path.stem or not _ID.fullmatch(approval.id) or not whole:
            raise ValueError
    except (ValueError, TypeError):
        cause = f"{path.name} among the owner's approvals is not an approval"
        raise ConfigError(cause, "Remove it; use 'fedkme owner approve'.") from None
    return approval
