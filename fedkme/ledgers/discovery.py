"""Paths of the ledgers in a run's folder."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkme.errors import ConfigError
from fedkme.ledgers.run_endings import consumer_of
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Entry, Follow, follow_chain
from fedkme.store.reading import party_of


@dataclass(frozen=True, slots=True)
class Found:
    """A ledger on disk, with the party that its path stands for."""

    party: str
    path: Path
    entries: Sequence[Entry]


def following_once() -> Follow:
    """Make a `follow_chain` that reads each file once."""
    return functools.cache(follow_chain)


def locate(directory: Path, follow: Follow, others: Sequence[Path] = ()) -> list[tuple[str, Path]]:
    """Find all ledgers of a run, each with the party that its path stands for; the curator's first.

    Args:
        directory: the folder of the run.
        follow: reads a ledger whose path does not name its party.
        others: ledgers in other places.

    Raises:
        ConfigError: the folder holds no curator's ledger.
    """
    curator = directory / "journal.db"  # a deployment's; its ledger.jsonl dates from the curator's last stop
    named = {directory / "ledger.jsonl", *others}
    # for example of payouts, as earlier releases wrote them
    more = [path for path in sorted(directory.glob("*ledger*.jsonl")) if path not in named]
    stated = [(party, path) for path in (*others, *more) if (party := _party(path, follow))]
    if not curator.is_file() and not (curator := directory / "ledger.jsonl").is_file():
        raise ConfigError(f"{directory} holds no ledger.jsonl", "Give the folder of a run.")
    consumer = directory / "consumer" / "ledger.jsonl"
    owners = sorted((directory / "owners").glob("*.jsonl"))
    return [
        (CURATOR, curator),
        *((path.stem, path) for path in owners),
        *([(consumer_of(directory), consumer)] if consumer.is_file() else []),
        *stated,
    ]


def _party(ledger: Path, follow: Follow) -> str:
    """Name of a ledger's party; the file's stem if no line is whole, empty if there is no line."""
    if ledger.suffix == ".db":
        return party_of(ledger)
    entries, fault = follow(ledger)
    return entries[-1].party if entries else ledger.stem if fault else ""


def folder_of(curator: Found) -> Path | None:
    """Folder of a curator's records; None if the ledger was copied out of it."""
    return curator.path.parent if curator.path.name in ("journal.db", "ledger.jsonl") else None
