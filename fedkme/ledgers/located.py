"""Places of ledgers in the folder of a run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkme.errors import ConfigError
from fedkme.ledgers.endings import consumer_of
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Entry, Follow, follow_chain
from fedkme.store.reading import party_of


@dataclass(frozen=True, slots=True)
class Found:
    """A ledger on disk, by the party that it should be of."""

    party: str
    path: Path
    entries: Sequence[Entry]


def following_once() -> Follow:
    """Make a `follow_chain` that reads each file once, and gives the same again."""
    return functools.cache(follow_chain)


def locate(directory: Path, follow: Follow, others: Sequence[Path] = ()) -> list[tuple[str, Path]]:
    """All ledgers of a run, with the parties that they should be of; the curator's first.

    Args:
        directory: the folder.
        follow: reads a ledger that does not say by its place whose it is.
        others: ledgers that are kept elsewhere.

    Raises:
        ConfigError: the folder holds no curator's ledger.
    """
    curator = directory / "journal.db"  # of a deployment; its ledger.jsonl is as of when it last stopped
    named = {directory / "ledger.jsonl", *others}
    more = [
        path for path in sorted(directory.glob("*ledger*.jsonl")) if path not in named
    ]  # as of payouts once
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
    """Name of the party whose ledger a file holds; the file's if no line is whole, empty if there is none."""
    if ledger.suffix == ".db":
        return party_of(ledger)
    entries, fault = follow(ledger)
    return entries[-1].party if entries else ledger.stem if fault else ""


def folder_of(curator: Found) -> Path | None:
    """The folder in which a curator keeps its records, unless its ledger was taken out of it."""
    return curator.path.parent if curator.path.name in ("journal.db", "ledger.jsonl") else None
