"""Facts of a run for its papers, from its folder and its ledgers."""

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from fedkme.errors import ConfigError, LedgerError
from fedkme.inputs import read_text
from fedkme.ledgers.figures import check_figures
from fedkme.ledgers.ledger_set import LedgerSet, read_ledgers
from fedkme.ledgers.reconcile import verify
from fedkme.ledgers.statements import statements
from fedkme.privacy.accountants import is_consumer
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.privacy.events import VALIDATION, Disclosure, Event

MISSING = "TO BE ADDED:"
"""Mark of a field that a person must add."""
_TABLES = ("summary.csv", "synthetic.csv")
_ARRAYS = ("summary.npz", "weighted.npz", "repeats.npz", "release.npz")
_SETTINGS = ("run.toml", "release.toml")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a run, or of the runs in a party's ledgers, for papers.

    Attributes:
        name: name of the folder.
        runs: names of all runs in the statements; a sketch counts with its summary.
        statements: statements of the sound accountant alone, as `fedkme audit ledger` prints them.
        mechanisms: kinds of disclosures, with parameters of their noise and their observers.
        record: the curator's record of the run, the last of several; empty without a record.
        metrics: metrics of a simulation; empty for a deployment.
        day: day of the last change of the folder's record, or else of the folder, UTC.
        tables: the product's files in the folder: csv files, else arrays.
        simulated: True if the folder is a simulation's.
    """

    name: str
    runs: tuple[str, ...]
    statements: tuple[PrivacyStatement, ...]
    mechanisms: tuple[str, ...]
    record: Mapping[str, Any]
    metrics: Mapping[str, Any]
    day: date
    tables: tuple[Path, ...]
    simulated: bool

    @property
    def is_release(self) -> bool:
        """True if the product is a release; False if it is owners' rows."""
        return self.record.get("kind") == "release" or "method" in self.metrics

    @property
    def protocol(self) -> str:
        """Recorded protocol of the run; empty without a record."""
        protocol = self.record.get("protocol") or self.metrics.get("protocol") or self.metrics.get("method")
        return str(protocol or "")

    @property
    def product(self) -> PrivacyStatement | None:
        """Weakest statement about owners' rows towards consumers.

        Without such a statement, the weakest statement of all; None without any statement.
        """
        owners = [one for one in self.statements if not one.protected.startswith(VALIDATION)]
        got = [one for one in owners if is_consumer(one.observer)]
        return max(got or self.statements, key=lambda one: one.epsilon, default=None)


def read_facts(
    folder: Path, ledgers: Sequence[Path] = (), run: str | None = None, delta: float = 1e-5
) -> Facts:
    """Read a run's folder, and ledgers stored elsewhere in place of its own.

    Args:
        folder: folder of a finished simulation, of a curator or of a consumer.
        ledgers: a party's ledgers, if the folder has none.
        run: name of a single run; by default all runs in the ledgers are composed.
        delta: delta of the stated epsilons.

    Raises:
        ConfigError: the folder is missing or has no ledger, or no ledger has the run.
        LedgerError: a ledger is missing, cannot be read, is not whole, or does not agree with another.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder", "Give the folder of a run.")
    simulated = any((folder / name).is_file() for name in _SETTINGS)
    books = read_ledgers(ledgers or [folder])
    if simulated and not ledgers:
        _check(folder)
    books = books if run is None else books.of(run)
    record = _record(folder, run)
    return Facts(
        name=Path(os.path.realpath(folder)).name,
        runs=tuple(books.runs),
        statements=tuple(each for each in statements(books, delta) if each.accountant == "sound"),
        mechanisms=tuple(_mechanisms(books)),
        record=record,
        metrics=_plain(folder / "metrics.json"),
        day=_day(folder),
        tables=_tables(folder),
        simulated=simulated,
    )


def _check(folder: Path) -> None:
    for verdict in [*verify(folder), *check_figures(folder)]:
        if verdict.fault or verdict.absent:
            cause = f"{verdict.about}: {verdict.fault or 'not given'}"
            raise LedgerError(cause, "Papers need ledgers that agree: see `fedkme audit verify`.")


def _plain(path: Path) -> Mapping[str, Any]:
    values: Mapping[str, Any] = json.loads(read_text(path)) if path.is_file() else {}
    return values


def _record(folder: Path, run: str | None) -> Mapping[str, Any]:
    files = [folder / "record.json", *sorted(folder.glob("run-*/record.json"))]
    records = [record for file in files if (record := _plain(file))]
    named = [record for record in records if run is None or record.get("run") == run]
    return named[-1] if named else {}


def _day(folder: Path) -> date:
    record = folder / "record.json"
    written = (record if record.is_file() else folder).stat().st_mtime
    return datetime.fromtimestamp(written, UTC).date()


def _tables(folder: Path) -> tuple[Path, ...]:
    """Csv files of the product, else its arrays."""
    for names in (_TABLES, _ARRAYS):
        for place in (folder, folder / "consumer"):
            if files := tuple(place / name for name in names if (place / name).is_file()):
                return files
    return ()


def _mechanisms(books: LedgerSet) -> list[str]:
    """One line per kind of disclosure, with its observers."""
    kinds: defaultdict[str, list[Disclosure]] = defaultdict(list)
    for about in books.disclosures():
        kinds[about.event.kind].append(about)
    return [
        f"{kind}{_noise(disclosures)}: towards {_observers(disclosures)}"
        for kind, disclosures in sorted(kinds.items())
    ]


def _noise(disclosures: Sequence[Disclosure]) -> str:
    """Parameters of a mechanism, if equal in all its lines, else their number."""
    events = {about.event for about in disclosures}
    return f" ({_spelled(events.pop())})" if len(events) == 1 else f" ({len(events)} settings)"


def _spelled(event: Event) -> str:
    values = {name: value for name, value in event.to_json().items() if name != "kind"}
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def _observers(disclosures: Sequence[Disclosure]) -> str:
    return ", ".join(sorted({about.observer for about in disclosures}))
