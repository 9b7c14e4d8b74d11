"""Budgets of a party as they will count: its clock, its data, and what its requests cost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from consumer.requests import Requests
from consumer.settings import ConsumerSettings
from consumer.summary.spending import check_asks
from fedkme.cells.repeated_requests import words_of_asks
from fedkme.errors import BudgetError, FedkmeError
from fedkme.ledgers.data_files import DataFiles, units_of
from fedkme.ledgers.windows import Readings
from fedkme.party import PartySettings
from fedkme.store import Store
from fedkme.store.reading import SqliteReader, read_store
from fedkme.tables.files import load_rows
from fedkme.tables.schema import load_schema
from operate.doctor.findings import Finding
from owner.consent.history import files_of_runs
from owner.settings import OwnerSettings

BEHIND_S = 5.0
"""Seconds by which a clock may be behind what was read of it: time servers correct as much."""


def check_budgets(settings: PartySettings) -> Iterator[Finding]:
    """Find what makes a budget count otherwise than its owner may think; other roles have none here.

    Raises:
        FedkmeError: a file cannot be read, which its own check says, too.
    """
    if isinstance(settings, ConsumerSettings):
        yield _asks(settings)
    if not isinstance(settings, OwnerSettings | ConsumerSettings):
        return
    try:
        reader = _reader(settings.journal, settings.name)
    except FedkmeError:
        return  # said where the journal is looked at; before the first start there is none
    with contextlib.closing(reader) as store:
        yield _clock(store, time.time())
        yield _data(settings, store)


def _reader(journal: str, party: str) -> Store:
    """Open a store for reading; beside a file that nobody has open nothing is made."""
    on_server = "://" in journal
    return read_store(journal, party) if on_server else SqliteReader(journal, party, unchanged=True)


def _asks(settings: ConsumerSettings) -> Finding:
    request = settings.request
    line = words_of_asks(request.privacy, request.asks)
    try:
        check_asks(settings.name, settings.budget, request)
    except BudgetError as error:
        return Finding("warn", "asks", f"{line}; {error.cause}", error.remedy)
    return Finding("ok", "asks", line)


def _clock(store: Store, now: float) -> Finding:
    readings = Readings(store)
    for kept in store.ledger(readings.last):
        readings.add(kept.seq, kept.written)
    if (behind := readings.largest - now) <= BEHIND_S:
        return Finding("ok", "ledger clock", "this host's is not behind what the journal has read of it")
    line = (
        f"this host's is {behind / 3600:.1f} hours behind what the journal has read of it: it was set back, "
        "or it was ahead then; until it is past that, no window of `days` lets go of what is written now"
    )
    return Finding("warn", "ledger clock", line, "Let the host follow a time server.")


def _data(settings: OwnerSettings | ConsumerSettings, store: Store) -> Finding:
    """Compare the file with those that budgets were spent on."""
    schema, owner = load_schema(settings.schema_file), isinstance(settings, OwnerSettings)
    source = settings.data if isinstance(settings, OwnerSettings) else settings.validation
    units = units_of(load_rows(source, schema, settings.name, of_persons=True), schema)
    used = files_of_runs(store) if owner else Requests(settings.name, store).used_files
    files = DataFiles(store)
    found = files.compare(units, used - files.apart(units.data))
    if found.shared:
        line = "rows were changed, and some are those that budgets were spent on: budgets go on"
    elif found.unknown:
        line = "nothing tells whether rows are those that budgets were spent on: budgets go on"
    elif found.apart:
        verb = f"fedkme {'owner' if owner else 'consumer'} new-data"
        remedy = f"Run `{verb}`, with the process stopped, to begin them anew for these rows."
        return Finding("ok", "rows", "no row is one that budgets were spent on, and budgets go on", remedy)
    else:
        line = "budgets count what was spent on these rows, and on no others"
    return Finding("ok", "rows", line)
