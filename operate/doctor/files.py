"""Checks of a party's files, their modes and their schema, and of its budgets as the journal counts them."""

import contextlib
import functools
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from consumer.releases.client import ReleaseConsumerSettings
from consumer.requests import Requests
from consumer.settings import ConsumerSettings
from consumer.summary.offers import check_asks
from curator.run.release_record import release_of
from curator.settings import CuratorSettings
from fedkme.errors import (
    BudgetError,
    DataError,
    FedkmeError,
    IdentityError,
    MissingDependencyError,
    StoreError,
)
from fedkme.ledgers.data_files import DataFiles, units_of
from fedkme.ledgers.windows import Readings
from fedkme.margins.picks import words_of_asks
from fedkme.party import PartySettings, StoredPartySettings
from fedkme.pki.files import key_file, key_mode
from fedkme.pki.identity import refuse_open_key
from fedkme.privacy.events import CURATOR
from fedkme.store import Store
from fedkme.store.migrations import SQLITE, is_current
from fedkme.store.reading import SqliteReader, read_store
from fedkme.tables.conversion import NOT_LISTED, cells_are
from fedkme.tables.data_file import Source, path_of
from fedkme.tables.files import load_rows
from fedkme.tables.schema import Schema, load_schema
from operate.configuration import tables_of
from operate.doctor.findings import Finding, failure, run_check
from owner.consent.history import files_of_runs
from owner.consent.policy import check_columns
from owner.settings import OwnerSettings

LITTLE_ROOM, NO_ROOM = 2**30, 50 * 2**20
"""Free bytes on a disk below which the check warns, and fails."""


def check_files(settings: PartySettings, name: str) -> Iterator[Finding]:
    """Check schema, tables, modes, and the folders that will be written."""
    yield from _key(settings)
    schema_file = getattr(settings, "schema_file", None)
    schema: Schema | None = None
    if schema_file is not None:
        try:
            schema = load_schema(schema_file)
            yield Finding("ok", "schema", f"{len(schema.columns)} columns, digest {schema.digest()[:16]}")
        except FedkmeError as error:
            yield failure("schema", error)
    if schema is not None:
        for source, what in tables_of(settings):
            yield from run_check("data", functools.partial(_table, schema, source, what, name))
        if isinstance(settings, CuratorSettings) and (folder := settings.summary.cells.release) is not None:
            yield from run_check("release", functools.partial(_release, schema, folder))
    if isinstance(settings, OwnerSettings) and schema is not None:
        yield from run_check("policy", lambda: _policy(settings, schema))
    for path in _folders(settings):
        yield from _folder(path)
    if isinstance(settings, StoredPartySettings):
        yield from run_check("journal", lambda: _journal(settings, name))


def _key(settings: PartySettings) -> Iterator[Finding]:
    """Check that nobody else can read the key."""
    if settings.identity is None:
        return
    path = key_file(settings.identity)
    try:
        mode = key_mode(settings.identity)
    except OSError:
        return  # the check that reads the file reports it
    try:
        refuse_open_key(settings.identity)
    except IdentityError as error:
        yield failure("modes", error)
        return
    if mode & 0o070:  # the group may belong to the service: then it is the operator's decision
        line = f"its group can read the key in {path} (mode {mode:04o})"
        yield Finding("warn", "modes", line, f"Run `chmod 600 {path}`.")
    else:
        yield Finding("ok", "modes", f"only its user can read the key in {path}")


def _table(schema: Schema, source: Source, what: str, name: str) -> Iterator[Finding]:
    try:
        rows = load_rows(source, schema, name, of_persons=what in ("rows", "D_v"))
    except DataError as error:
        if not path_of(source).is_file():
            raise
        more = (
            "`fedkme schema check` with the schema and this file names every fault, and settings that help."
        )
        raise DataError(error.cause, f"{error.remedy} {more}") from None
    yield Finding("ok", "data", f"{len(rows.table)} {what} fit the schema")
    for (column, cells), count in rows.swallowed.items():
        strange = NOT_LISTED in cells
        remedy = "See whether they mean what the schema says; `fedkme schema check` names the lines."
        line = f"column '{column}' of {what}: {cells_are(count)} {cells}"
        yield Finding("warn" if strange else "ok", "data", line, remedy if strange else "")


def _release(schema: Schema, folder: Path) -> str:
    release_of(folder, schema)
    return f"the release in {folder} is of rows by this schema"


def _policy(settings: OwnerSettings, schema: Schema) -> Iterator[Finding]:
    check_columns(settings.name, settings.policy, schema)
    policy = settings.policy
    if policy.most_rows is None and policy.most_rows_per_run is None:
        line = "any number of rows may leave"
        remedy = "Set 'most_rows' or 'most_rows_per_run' in [policy], before the first run."
        yield Finding("warn", "policy", line, remedy)
    elif not policy.budgets:
        line = "the number of rows is limited; what other owners learn about rows is not"
        yield Finding("warn", "policy", line, "Add [[policy.budgets]].")
    else:
        yield Finding("ok", "policy", "the number of rows and the epsilon towards other owners are limited")


def _folders(settings: PartySettings) -> Iterator[Path]:
    match settings:
        case CuratorSettings():
            yield settings.directory
        case ConsumerSettings() | ReleaseConsumerSettings():
            yield settings.output
    if settings.log_file is not None:
        yield settings.log_file.parent


def _folder(path: Path) -> Iterator[Finding]:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield Finding("fail", "folder", f"{path} cannot be written", "Correct the path, or its rights.", 10)
    else:
        yield from _room("folder", path, existing)


def _room(check: str, path: Path, existing: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(existing).free
    line = f"{path}: {free / 2**30:.1f} GiB free"
    if free < NO_ROOM:
        yield Finding("fail", check, line, "Make room: a full disk suspends every run.", StoreError.code)
    elif free < LITTLE_ROOM:
        yield Finding("warn", check, line, "Make room: a full disk suspends every run.")
    else:
        yield Finding("ok", check, line)


def _journal(settings: StoredPartySettings, name: str) -> Iterator[Finding]:
    """Check the journal without opening it for writing."""
    if "://" in settings.journal:
        yield from _server(settings.journal)
        return
    path = Path(settings.journal)
    if isinstance(settings, CuratorSettings):
        path = settings.directory / settings.journal
        name = CURATOR  # in ledgers a curator of any name is CURATOR
    folder = next(parent for parent in path.parents if parent.exists())
    if not path.exists():
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"{path} cannot be made", "Correct the path, or the rights of its folder.")
        yield Finding("ok", "journal", f"{path} will be created")
    else:
        yield from _database(path, name)
    yield from _room("journal", path, folder)


def _database(path: Path, party: str) -> Iterator[Finding]:
    uri = f"{Path(os.path.realpath(path)).as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        uri += "&immutable=1"  # no process has the file open, and reading makes no files next to it
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
            names = [party_name for (party_name,) in connection.execute("SELECT name FROM parties")]
            whole = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
            open_runs = connection.execute("SELECT count(*) FROM runs WHERE ended IS NULL").fetchone()[0]
    except (sqlite3.Error, ValueError) as error:
        cause = f"{path} cannot be read: {error}"
        raise StoreError(cause, "Bring back a backup, or correct the path.") from None
    current = is_current(version, SQLITE, str(path))
    if not whole:
        raise StoreError(f"{path} is damaged", "Keep it as it is, and bring back a backup.")
    if party not in names:
        cause = f"{path} is the journal of {', '.join(names)}"
        raise StoreError(cause, "Give each party a journal of its own.")
    note = "" if current else "; the next start brings it to this release's version"
    yield Finding("ok", "journal", f"{path}: version {version}, {open_runs} open runs{note}")
    if current:
        with closing(SqliteReader(path, party, unchanged=True)) as store:
            for lost in store.lost_archives(read=True):
                yield Finding("warn", "archive", lost.cause, lost.remedy)


def _server(place: str) -> Iterator[Finding]:
    try:
        import psycopg
    except ImportError:
        remedy = "Run `pip install 'fedkme[postgres]'`."
        raise MissingDependencyError("psycopg is not installed", remedy) from None
    try:
        with psycopg.connect(place, connect_timeout=5) as connection:
            version = connection.info.server_version // 10000
    except psycopg.Error as error:
        # psycopg's text may hold the address with its password
        cause = f"the journal's server is not reached ({type(error).__name__})"
        raise StoreError(cause, "Check address, user and password with psql.") from None
    yield Finding("ok", "journal", f"PostgreSQL {version} answers")


BEHIND_S = 5.0
"""Seconds that a clock may be behind its last reading; time servers correct as much."""


def check_budgets(settings: PartySettings) -> Iterator[Finding]:
    """Check an owner's or consumer's budgets: its clock, its data, and the cost of its requests.

    Raises:
        FedkmeError: a file cannot be read; the file's own check reports it, too.
    """
    if isinstance(settings, ConsumerSettings):
        yield _asks(settings)
    if not isinstance(settings, OwnerSettings | ConsumerSettings):
        return
    try:
        reader = _reader(settings.journal, settings.name)
    except FedkmeError:
        return  # the check of the journal reports it; before the first start there is no journal
    with contextlib.closing(reader) as store:
        yield _clock(store, time.time())
        yield _data(settings, store)


def _reader(journal: str, party: str) -> Store:
    """Open a store for reading, without making files next to it."""
    on_server = "://" in journal
    return read_store(journal, party) if on_server else SqliteReader(journal, party, unchanged=True)


def _asks(settings: ConsumerSettings) -> Finding:
    request = settings.request
    line = words_of_asks(request.privacy, request.asks, request.picks)
    try:
        check_asks(settings.name, settings.budget, request)
    except BudgetError as error:
        return Finding("warn", "asks", f"{line}; {error.cause}", error.remedy)
    return Finding("ok", "asks", line)


def _clock(store: Store, now: float) -> Finding:
    readings = Readings(store)
    for row in store.ledger(readings.last):
        readings.add(row.seq, row.written)
    if (behind := readings.largest - now) <= BEHIND_S:
        return Finding("ok", "ledger clock", "this host's clock is not behind the last time in the journal")
    line = (
        f"this host's clock is {behind / 3600:.1f} hours behind the last time in the journal: it was set "
        "back, or was ahead before; until it passes that time, runs of now stay in every window of `days`"
    )
    return Finding("warn", "ledger clock", line, "Let the host follow a time server.")


def _data(settings: OwnerSettings | ConsumerSettings, store: Store) -> Finding:
    """Compare the data file with the files that budgets were spent on."""
    schema, owner = load_schema(settings.schema_file), isinstance(settings, OwnerSettings)
    source = settings.data if isinstance(settings, OwnerSettings) else settings.validation
    units = units_of(load_rows(source, schema, settings.name, of_persons=True), schema)
    used = files_of_runs(store) if owner else Requests(settings.name, store).used_files
    files = DataFiles(store)
    comparison = files.compare(units, used - files.apart(units.data))
    if comparison.shared:
        line = "rows changed, and some are those that budgets were spent on: budgets continue"
    elif comparison.unknown:
        line = "the rows cannot be compared with those that budgets were spent on: budgets continue"
    elif comparison.apart:
        verb = f"fedkme {'owner' if owner else 'consumer'} new-data"
        remedy = f"Run `{verb}`, with the process stopped, to begin budgets anew for these rows."
        line = "no row is one that budgets were spent on, and budgets continue"
        return Finding("ok", "rows", line, remedy)
    else:
        line = "budgets count what was spent on these rows, and on no others"
    return Finding("ok", "rows", line)
