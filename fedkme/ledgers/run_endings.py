"""Ends of a curator's runs, from the records in its folder, and its open runs, from its store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkme.cells.disclosures import sketch_of
from fedkme.errors import OwnerLostError, SealedBoxError
from fedkme.heads.files import heads_beside, read_heads
from fedkme.inputs import read_text
from fedkme.privacy.events import CONSUMER, CURATOR, Disclosure
from fedkme.store.reading import open_runs, party_of


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of a curator's runs.

    Attributes:
        stayed: owners that took part to the end, by run (of runs with at least one round).
        lost: owners that were lost, by run, each with the round of the loss.
        under_way: open runs.
        begun: runs that surely began, because some party has a line about owners' rows or a head made at the
            run's end; each of these has a record. None: records were not looked for.
    """

    stayed: Mapping[str, Set[str]]
    lost: Mapping[str, Mapping[str, int]]
    under_way: Set[str]
    begun: Set[str] | None = None

    @staticmethod
    def of(ledger: Path, directory: Path | None = None) -> Ends:
        """Read a curator's ledger or store, and the records in its folder if the folder is given."""
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
        """Names of the ended runs, also of runs without a line in the curator's ledger."""
        return self.lost.keys()

    def explains(self, party: str, about: Disclosure) -> bool:
        """Check whether a party's disclosure may be on its way to the curator, or was lost with the party."""
        lost = self.lost.get(about.run, {}).get(party)
        gone = lost is not None and about.round >= lost
        return about.run in self.under_way or gone or self._came_to_nothing(about.run)

    def _came_to_nothing(self, name: str) -> bool:
        """Check for the sketch of a run that never began and so has no record.

        A curator that removes the record of a run is exposed by any line of the run in any ledger, and by its
        own head, which others store.
        """
        run, _, part = name.partition("/")
        return bool(part) and self.begun is not None and run not in (self.lost.keys() | self.begun)


def runs_with_heads(curator: Path, parties: Iterable[Path]) -> frozenset[str]:
    """Runs at whose end the curator made a head, or a party made a head that the curator's head refers to.

    Neither can deny the head later, since others store the leaves.

    Args:
        curator: path of the curator's ledger or store.
        parties: paths of other parties' ledgers or stores; they may have runs of other curators too.

    Raises:
        LedgerError: a file of heads cannot be read.
    """
    own, *others = (_openings(path) for path in (curator, *parties))
    heard = {(origin, size) for opening in own for origin, size, _ in opening["heads"]}
    met = (
        opening
        for openings in others
        for opening in openings
        if (opening["origin"], opening.get("number")) in heard
    )
    return frozenset(str(run) for opening in (*own, *met) if (run := opening.get("run")))


def _openings(ledger: Path) -> list[dict[str, Any]]:
    """Openings of the leaves of a party's own log, if they are beside its ledger."""
    heads = heads_beside(ledger)
    return read_heads(heads).openings if heads.is_file() else []


def emptied(ledger: Path, entries: Sequence[object]) -> str:
    """Describe a ledger that is empty although its heads count lines: an emptied file looks like a new one.

    Raises:
        LedgerError: the file of heads cannot be read.
    """
    if entries or not (written := _lines_at_heads(ledger)):
        return ""
    return f"line 1: there is none, and a head beside it says that {written} were written"


def gone(directory: Path, there: Set[str]) -> list[tuple[str, str]]:
    """Files of heads in a run's folder whose ledgers are missing, each with a description of the fault.

    Args:
        directory: the folder of the run.
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
    """Number of a ledger's lines by the heads beside it; 0 without heads."""
    return max((int(opening["entries"]) for opening in _openings(ledger)), default=0)


def owner_of(ledger: Path) -> str:
    """Name of the party of an empty ledger: by its store or its heads, else the file's stem."""
    if ledger.suffix == ".db":
        return party_of(ledger) or ledger.stem
    origin = read_heads(heads).origin if (heads := heads_beside(ledger)).is_file() else ""
    role, _, name = origin.partition("/")[2].partition("/")
    return (CURATOR if role == CURATOR else name) or ledger.stem


def consumer_of(directory: Path) -> str:
    """Name of the consumer that asked for the run in a folder, from the curator's record.json."""
    return str(read_record(directory).get("consumer", CONSUMER))


def rows_of_person(directory: Path) -> int:
    """Count the rows that one person may have in all, by the records of a curator's runs."""
    return max((int(record.get("rows_of_person", 1)) for record in _records(directory)), default=1)


def read_record(directory: Path) -> Mapping[str, Any]:
    """The curator's record of the run in a folder; empty without a record."""
    path = directory / "record.json"
    record: Mapping[str, Any] = json.loads(read_text(path)) if path.is_file() else {}
    return record


def _records(directory: Path) -> list[Mapping[str, Any]]:
    """Records of a curator's ended runs."""
    records = [read_record(folder) for folder in (directory, *directory.glob("run-*"))]
    return [record for record in records if "run" in record]


def _lost(record: Mapping[str, Any]) -> dict[str, int]:
    """Owners that the curator lost, each with the first round without it.

    An owner that came back without the keys of its sealed rows had died; its last lines may never have been
    sent.
    """
    faults = record.get("faults", ())
    died = (OwnerLostError.code, SealedBoxError.code)
    return {str(fault["owner"]): int(fault["round"]) for fault in faults if fault["code"] in died}
