"""Approvals of an owner that decides on each run itself.

The store belongs to the owner's process alone, so that `fedkme owner approve` cannot write there. It leaves
an approval as a file, written whole or not at all, in a folder next to the configuration; the process looks
there when a run asks, and at no other time. The file says what is approved; how often it was used stands in
the store (`approved/ID`), in the transaction that lets the run in (`admitted/RUN`). So a file that outlives a
crash, or is brought back from a backup, approves nothing twice, and a run that asks again after a crash needs
no second approval. A second database would have needed a transaction over two files for the same.
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
from fedkme.store import Store

MOST_ASKED = 32
"""Requests that are remembered, one for each consumer and protocol; the oldest gives way."""

_ASKED = "asked/"
_APPROVED = "approved/"
_ID = re.compile(r"\d{10}-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Approval:
    """Runs that the owner agreed to.

    Attributes:
        id: its name, by the order of approving.
        consumer: for whom.
        protocol: by which protocol.
        rows: p at most; 0 for releases, in which no row leaves.
        runs: how many.
    """

    id: str
    consumer: str
    protocol: str
    rows: int
    runs: int

    def covers(self, asked: Asked) -> bool:
        """Check whether a run is among those that the approval is about."""
        same = (asked.consumer, asked.protocol) == (self.consumer, self.protocol)
        return same and asked.rows <= self.rows

    @property
    def what(self) -> str:
        """Description of the runs that it is about, for a line."""
        what = f"runs of at most {self.rows} rows" if self.rows else "releases"
        return f"{what} for {self.consumer} by {self.protocol}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A run that was refused because nobody had approved it; the last one of a consumer and protocol."""

    run: str
    consumer: str
    protocol: str
    rows: int
    at: float
    """Unix seconds."""
    expected: str = ""
    """Expectation of the run, in the words of the curator's plan."""

    def command(self, config: str = "OWNER.toml") -> str:
        """Command that approves the run, given where the owner's configuration is."""
        command = f"fedkme owner approve {config} --consumer {self.consumer} --protocol {self.protocol}"
        return f"{command} --rows {self.rows}" if self.rows else command

    @property
    def _key(self) -> str:
        return f"{_ASKED}{self.consumer}/{self.protocol}"

    def note(self, store: Store) -> None:
        """Keep it for `fedkme owner status`."""
        with store.transaction():
            store.put(self._key, json.dumps(asdict(self)).encode("ascii"))
            known = sorted(asked_in(store), key=lambda asked: asked.at)
            for asked in known[: max(0, len(known) - MOST_ASKED)]:
                store.delete(asked._key)

    def forget(self, store: Store) -> None:
        """Forget that approval was asked, once it was given."""
        store.delete(self._key)


def asked_in(store: Store) -> list[Asked]:
    """Requests that nobody approved, by consumer and protocol."""
    return [Asked(**json.loads(store.get(key) or b"")) for key in store.keys(_ASKED)]


def uses(store: Store, approval: Approval) -> int:
    """Number of runs that an approval let in."""
    return int(store.get(f"{_APPROVED}{approval.id}") or b"0")


def use(store: Store, approval: Approval) -> None:
    """Count one more; inside the transaction that lets the run in."""
    store.put(f"{_APPROVED}{approval.id}", str(uses(store, approval) + 1).encode("ascii"))


def left_in(folder: Path, store: Store) -> list[tuple[Approval, int]]:
    """Approvals with the runs that are left of each, the oldest first.

    Raises:
        ConfigError: a file there is no approval.
        StoreError: the folder cannot be read.
    """
    counted = [(approval, approval.runs - uses(store, approval)) for approval in _read(folder)]
    return [(approval, left) for approval, left in counted if left > 0]


def tidy(folder: Path, store: Store) -> None:
    """Remove the files of approvals that are used up; one that stays approves nothing."""
    for approval in _read(folder):
        if uses(store, approval) >= approval.runs:
            try:
                (folder / f"{approval.id}.json").unlink(missing_ok=True)
            except OSError:  # its count in the store is what matters
                return


def approve(folder: Path, consumer: str, protocol: str, rows: int, runs: int) -> Approval:
    """Agree to runs before they ask, or after they were refused; also while the owner's process runs.

    Raises:
        ConfigError: the folder cannot be written.
    """
    approval = Approval(f"{int(time.time()):010d}-{secrets.token_hex(8)}", consumer, protocol, rows, runs)
    with on_disk(f"{folder} cannot be written", "Correct 'approvals'."):
        make_folder(folder, 0o700)
        replace(folder / f"{approval.id}.json", json.dumps(asdict(approval)).encode("ascii"), 0o600)
    return approval


def _read(folder: Path) -> list[Approval]:
    remedy = "Approve as the user that the owner's process runs as."
    with on_disk("the owner's approvals cannot be read", remedy, StoreError):
        files = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
        return [_approval(path) for path in files]


def _approval(path: Path) -> Approval:
    try:
        plain: dict[str, Any] = json.loads(path.read_bytes())
        approval = Approval(**plain)
        numbers = ((approval.rows, 0), (approval.runs, 1))
        whole = all(type(value) is int and value >= least for value, least in numbers)
        if approval.id != path.stem or not _ID.fullmatch(approval.id) or not whole:
            raise ValueError
    except (ValueError, TypeError):
        raise ConfigError(
            f"{path.name} among the owner's approvals is not an approval",
            "Remove it; use 'fedkme owner approve'.",
        ) from None
    return approval
