"""Ends of a curator's runs, from the records in its folder, and which runs go on, from its store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkme.cells.disclosures import sketch_of
from fedkme.errors import OwnerLostError, SealedBoxError
from fedkme.heads.files import heads_beside, read_heads
from fedkme.privacy.events import CONSUMER, CURATOR, Disclosure
from fedkme.store.reading import open_runs, party_of


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of a curator's runs.

    Attributes:
        stayed: owners that were in a run of a round or more to its end, by run.
        lost: owners that a run lost, by run, with the round in which it did.
        under_way: runs that are open.
        begun: runs of which some party has what no plan alone gives: a line about owners' rows, or a head
            made at its end; each has a record. None: records were not looked for.
    """

    stayed: Mapping[str, Set[str]]
    lost: Mapping[str, Mapping[str, int]]
    under_way: Set[str]
    begun: Set[str] | None = None

    @staticmethod
    def of(ledger: Path, directory: Path | None = None) -> Ends:
        """Read what a curator's ledger or store says, and the records in its folder, where it is known."""
        records = [] if directory is None else _records(directory)
        names = open_runs(ledger) if ledger.suffix == ".db" else []
        return Ends(
            {
                str(record["run"]): frozenset(record.get("closings", ()) if record.get("rounds", 1) else ())
                for record in records
            },
            {str(record["run"]): _lost(record) for record in records},
            {*names, *map(sketch_of, names)},
        )

    @property
    def recorded(self) -> Set[str]:
        """Names of the runs that are over, also of those of which the curator wrote down nothing."""
        return self.lost.keys()

    def explains(self, party: str, about: Disclosure) -> bool:
        """Check whether what a party wrote may be on its way to the curator, or was lost with the party."""
        lost = self.lost.get(about.run, {}).get(party)
        gone = lost is not None and about.round >= lost
        return about.run in self.under_way or gone or self._came_to_nothing(about.run)

    def _came_to_nothing(self, name: str) -> bool:
        """Check whether it is the sketch of a run that did not begin, of which there is no record.

        A curator that removes the record of a run is found out by any line of it, in whosever ledger, and by
        its own head, which others keep.
        """
        run, _, part = name.partition("/")
        return bool(part) and self.begun is not None and run not in (self.lost.keys() | self.begun)


def runs_with_heads(curator: Path, parties: Iterable[Path]) -> frozenset[str]:
    """Runs at whose end a curator made a head, or a party whose head it took up into its own.

    Neither can take that back, since others keep the leaves.

    Args:
        curator: its ledger or store.
        parties: those of others, which may have been in runs of other curators, too.

    Raises:
        LedgerError: a file of heads cannot be read.
    """
    own, *others = (_openings(path) for path in (curator, *parties))
    heard = {(origin, size) for opening in own for origin, size, _ in opening["heads"]}
    met = (each for kept in others for each in kept if (each["origin"], each.get("number")) in heard)
    return frozenset(str(run) for each in (*own, *met) if (run := each.get("run")))


def _openings(ledger: Path) -> list[dict[str, Any]]:
    """Openings of the leaves of a party's own log, as far as they are beside its ledger."""
    heads = heads_beside(ledger)
    return read_heads(heads).openings if heads.is_file() else []


def emptied(ledger: Path, entries: Sequence[object]) -> str:
    """Describe what heads say that an empty ledger had: an emptied file looks like a new one.

    Raises:
        LedgerError: the file of heads cannot be read.
    """
    if entries or not (written := _lines_at_heads(ledger)):
        return ""
    return f"line 1: there is none, and a head beside it says that {written} were written"


def gone(directory: Path, there: Set[str]) -> list[tuple[str, str]]:
    """Files of heads in a run's folder whose ledgers are gone from beside them, each with its fault.

    Args:
        directory: the folder.
        there: parties whose ledgers were given.

    Raises:
        LedgerError: a file of heads cannot be read.
    """
    heads = [
        path for place in ("", "owners/", "consumer/") for path in sorted(directory.glob(f"{place}*.heads"))
    ]
    return [
        (str(path), f"the ledger beside it is gone, which had {written} lines")
        for path in heads
        if owner_of(path) not in there and (written := _lines_at_heads(path))
    ]


def _lines_at_heads(ledger: Path) -> int:
    """Number of lines that the heads beside a ledger say it had; 0 where there are none."""
    return max((int(opening["entries"]) for opening in _openings(ledger)), default=0)


def owner_of(ledger: Path) -> str:
    """Name of the party whose empty ledger a file is: by its store or its heads, else by its own name."""
    if ledger.suffix == ".db":
        return party_of(ledger) or ledger.stem
    origin = read_heads(heads).origin if (heads := heads_beside(ledger)).is_file() else ""
    role, _, name = origin.partition("/")[2].partition("/")
    return (CURATOR if role == CURATOR else name) or ledger.stem


def consumer_of(directory: Path) -> str:
    """Name of the consumer that asked for the run in a folder, as the curator's record.json has it."""
    return str(read_record(directory).get("consumer", CONSUMER))


def rows_of_person(directory: Path) -> int:
    """Count the rows that one person may have in all, by the records of a curator's runs."""
    return max((int(record.get("rows_of_person", 1)) for record in _records(directory)), default=1)


def read_record(directory: Path) -> Mapping[str, Any]:
    """The curator's record of the run in a folder; empty where there is none."""
    path = directory / "record.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def _records(directory: Path) -> list[Mapping[str, Any]]:
    """Records of a curator's runs that are over."""
    found = [read_record(folder) for folder in (directory, *directory.glob("run-*"))]
    return [record for record in found if "run" in record]


def _lost(record: Mapping[str, Any]) -> dict[str, int]:
    """Owners of which the curator heard no more, each with the round from which on.

    One that came back without the keys of its sealed rows had died; what it wrote may never have left.
    """
    faults = record.get("faults", ())
    died = (OwnerLostError.code, SealedBoxError.code)
    return {str(fault["owner"]): int(fault["round"]) for fault in faults if fault["code"] in died}
