"""Ledgers of many parties and many runs, read as one set.

Outside of simulations a run's name is unique in all ledgers. Simulations give every run the same name: there,
a name identifies a run only within one folder, and the run is called FOLDER/RUN if there are several folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedkme.cells.disclosures import run_of
from fedkme.errors import ConfigError
from fedkme.ledgers.discovery import following_once, locate
from fedkme.ledgers.run_endings import rows_of_person
from fedkme.privacy.events import CURATOR, Disclosure
from fedkme.privacy.ledger import Follow, merged, read_ledger

_SIMULATED = re.compile(r"(.*/)?run-\d+")


@dataclass(frozen=True, slots=True)
class LedgerSet:
    """Disclosures and runs in a set of ledgers.

    Attributes:
        lines: every draw with its run, see `merged`; lines of two draws may be equal.
        rosters: owners of a run, if the run's folder has the ledger of each owner.
        lifetimes: runs of an owner, if its own ledger was given.
        group: rows that one person may have in all, by the schemas of the runs; 1 without a person column.
        unwatched: runs whose curator's ledger is not in the set: what it passed on to consumers is not known.
    """

    lines: Sequence[tuple[str, Disclosure]]
    rosters: Mapping[str, frozenset[str]]
    lifetimes: Mapping[str, frozenset[str]]
    group: int = 1
    unwatched: frozenset[str] = frozenset()

    @property
    def runs(self) -> list[str]:
        """Names of all runs, in the order in which they were read; a sketch counts with its run."""
        return list(dict.fromkeys(run_of(name) for name, _ in self.lines))

    def of(self, run: str) -> LedgerSet:
        """The part of the set that concerns one run, its sketch included.

        Raises:
            ConfigError: no run has that name.
        """
        if run not in self.runs:
            names = ", ".join(self.runs[:8]) + (", ..." if len(self.runs) > 8 else "")
            raise ConfigError(f"no ledger holds a run {run!r}", f"Runs that are there: {names or 'none'}.")
        return replace(self, lines=[line for line in self.lines if run_of(line[0]) == run])

    def disclosures(self) -> list[Disclosure]:
        """Every draw, with the run names of this set."""
        return [about for _, about in self.lines]

    def present(self, owner: str, run: str) -> bool:
        """Check whether an owner took part in a run; True unless a ledger shows the contrary.

        An owner writes a line in each run in which anything was computed from its rows.
        """
        if run in self.rosters:
            return owner in self.rosters[run]
        its = self.lifetimes.get(owner)
        return its is None or run in its or _SIMULATED.fullmatch(run_of(run)) is not None


def read_ledgers(paths: Sequence[Path]) -> LedgerSet:
    """Read folders of runs, and single ledgers.

    Raises:
        ConfigError: a folder holds no curator's ledger.
        LedgerError: a ledger cannot be read, or is not whole.
    """
    follow = following_once()
    files = [(path, file) for path in paths for file in _files(path, follow)]
    read = [(path, _home(file), read_ledger(file, follow)) for path, file in files]
    homes: dict[str, set[Path]] = {}
    for _, home, entries in read:
        for entry in entries:
            homes.setdefault(run_of(entry.disclosure.run), set()).add(home)

    def label(home: Path, run: str) -> str:
        its = homes[run_of(run)]
        if len(its) < 2 or _SIMULATED.fullmatch(run_of(run)) is None:
            return run
        same = [other for other in its if other.name == home.name]
        return f"{home.name if len(same) == 1 else home}/{run}"

    took_part = {
        path: {file.stem for file in (path / "owners").glob("*.jsonl")}
        for path in paths
        if (path / "owners").is_dir()
    }
    ledgers: list[list[tuple[str, Disclosure]]] = []
    rosters: dict[str, set[str]] = {}
    lifetimes: dict[str, set[str]] = {}
    watched: set[str] = set()
    for path, home, entries in read:
        lines = [(label(home, entry.disclosure.run), entry.disclosure) for entry in entries]
        runs = dict.fromkeys(name for name, _ in lines)
        ledgers.append([(name, replace(about, run=name)) for name, about in lines])
        if entries and entries[0].party == CURATOR:
            watched.update(map(run_of, runs))
        if path in took_part:
            for run in runs:
                rosters.setdefault(run, set()).update(took_part[path])
        elif path.is_file() and entries and entries[0].disclosure.protected == entries[0].party:
            lifetimes.setdefault(entries[0].party, set()).update(runs)
    return LedgerSet(
        merged(ledgers),
        {run: frozenset(names) for run, names in rosters.items()},
        {owner: frozenset(runs) for owner, runs in lifetimes.items()},
        max((rows_of_person(path) for path in paths if path.is_dir()), default=1),
        frozenset(run_of(run) for lines in ledgers for run, _ in lines) - watched,
    )


def _files(path: Path, follow: Follow) -> list[Path]:
    """Ledgers in a run's folder, or a single ledger."""
    return [path] if path.is_file() else [file for _, file in locate(path, follow)]


def _home(file: Path) -> Path:
    """Folder of the run that a ledger's file belongs to."""
    folder = Path(os.path.realpath(file)).parent
    inner = folder.name in ("owners", "consumer") and (folder.parent / "ledger.jsonl").is_file()
    return folder.parent if inner else folder
