"""Files of a party: readable, fit for its schema, and secret where they must be."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.errors import DataError, FedkmeError, MissingDependencyError, StoreError
from fedkme.party import PartySettings, StoredPartySettings
from fedkme.privacy.events import CURATOR
from fedkme.store.migrations import SQLITE, is_current
from fedkme.store.reading import SqliteReader
from fedkme.tables.conversion import NOT_LISTED
from fedkme.tables.data_file import Source, path_of
from fedkme.tables.files import load_rows
from fedkme.tables.schema import Schema, load_schema
from operate.configuration import tables_of
from operate.doctor.findings import Finding, failed, looked
from owner.consent.policy import check_columns
from owner.settings import OwnerSettings

LITTLE_ROOM, NO_ROOM = 2**30, 50 * 2**20
"""Bytes on a disk below which to warn, and to fail."""


def check_files(settings: PartySettings, name: str) -> Iterator[Finding]:
    """Schema, tables, modes, the places where something will be written."""
    yield from _key(settings)
    schema_file = getattr(settings, "schema_file", None)
    schema: Schema | None = None
    if schema_file is not None:
        try:
            schema = load_schema(schema_file)
            yield Finding("ok", "schema", f"{len(schema.columns)} columns, digest {schema.digest()[:16]}")
        except FedkmeError as error:
            yield failed("schema", error)
    if schema is not None:
        for source, what in tables_of(settings):
            yield from looked("data", functools.partial(_table, schema, source, what, name))
    if isinstance(settings, OwnerSettings) and schema is not None:
        yield from looked("policy", lambda: _policy(settings, schema))
    for path in _folders(settings):
        yield from _folder(path)
    if isinstance(settings, StoredPartySettings):
        yield from looked("journal", lambda: _journal(settings, name))


def _key(settings: PartySettings) -> Iterator[Finding]:
    """The key, and an owner's rows, must be nobody else's to read."""
    secret: list[tuple[str, Path]] = []
    if settings.identity is not None:
        folder = settings.identity.is_dir()
        secret.append(("the key in", settings.identity / "key.pem" if folder else settings.identity))
    for what, path in secret:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue  # said where it is read
        if mode & 0o077:
            can = "everybody on this host" if mode & 0o007 else "its group"
            # a group may be a service's own: then it is the operator's decision
            yield Finding(
                "fail" if mode & 0o007 else "warn",
                "modes",
                f"{can} may open {what} {path} (mode {mode:04o})",
                f"Run `chmod 600 {path}`.",
                33 if mode & 0o007 else 0,
            )
        else:
            yield Finding("ok", "modes", f"{what} {path} is its user's alone")


def _table(schema: Schema, source: Source, what: str, name: str) -> Iterator[Finding]:
    try:
        found = load_rows(source, schema, name, of_persons=what in ("rows", "D_v"))
    except DataError as error:
        if not path_of(source).is_file():
            raise
        more = (
            "`fedkme schema check` with the schema and this file names every fault, and settings that help."
        )
        raise DataError(error.cause, f"{error.remedy} {more}") from None
    yield Finding("ok", "data", f"{len(found.table)} {what} fit the schema")
    for (column, cells), count in found.swallowed.items():
        strange = NOT_LISTED in cells
        remedy = "See whether they mean what the schema says; `fedkme schema check` names the lines."
        line = f"column '{column}' of {what}: {count} cells are {cells}"
        yield Finding("warn" if strange else "ok", "data", line, remedy if strange else "")


def _policy(settings: OwnerSettings, schema: Schema) -> Iterator[Finding]:
    check_columns(settings.name, settings.policy, schema)
    policy = settings.policy
    if policy.most_rows is None and policy.most_rows_per_run is None:
        line = "any number of rows may leave"
        remedy = "Set 'most_rows' or 'most_rows_per_run' in [policy], before the first run."
        yield Finding("warn", "policy", line, remedy)
    elif not policy.budgets:
        line = "rows are limited; what other owners learn of them is not"
        yield Finding("warn", "policy", line, "Add [[policy.budgets]].")
    else:
        yield Finding("ok", "policy", "rows that leave and epsilon towards other owners are limited")


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
    """The journal as it is, without opening it for writing."""
    if "://" in settings.journal:
        yield from _server(settings.journal)
        return
    path = Path(settings.journal)
    if isinstance(settings, CuratorSettings):
        path = settings.directory / settings.journal
        name = CURATOR  # whatever it is called, its ledger is the curator's
    folder = next(parent for parent in path.parents if parent.exists())
    if not path.exists():
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"{path} cannot be made", "Correct the path, or the rights of its folder.")
        yield Finding("ok", "journal", f"{path} will be begun")
    else:
        yield from _database(path, name)
    yield from _room("journal", path, folder)


def _database(path: Path, party: str) -> Iterator[Finding]:
    uri = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        uri += "&immutable=1"  # nobody has it open, and looking makes no files beside it
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
            names = [kept for (kept,) in connection.execute("SELECT name FROM parties")]
            whole = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
            open_runs = connection.execute("SELECT count(*) FROM runs WHERE ended IS NULL").fetchone()[0]
    except (sqlite3.Error, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read: {error}", "Bring back a backup, or correct the path."
        ) from None
    current = is_current(version, SQLITE, str(path))
    if not whole:
        raise StoreError(f"{path} is damaged", "Keep it as it is, and bring back a backup.")
    if party not in names:
        raise StoreError(
            f"{path} is the journal of {', '.join(names)}", "Give each party a journal of its own."
        )
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
        raise MissingDependencyError(
            "psycopg is not installed", "Run `pip install 'fedkme[postgres]'`."
        ) from None
    try:
        with psycopg.connect(place, connect_timeout=5) as connection:
            version = connection.info.server_version // 10000
    except psycopg.Error as error:
        # psycopg's text may hold the address with its password
        cause = f"the journal's server is not reached ({type(error).__name__})"
        raise StoreError(cause, "Check address, user and password with psql.") from None
    yield Finding("ok", "journal", f"PostgreSQL {version} answers")
