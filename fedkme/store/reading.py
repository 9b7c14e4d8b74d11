"""Reading of a party's store while the party's process has it open; nothing here can write.

All reads inside a `transaction` see one state of the store, whatever the other process writes meanwhile.
"""

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from fedkme.errors import StoreError
from fedkme.store.base import Store
from fedkme.store.migrations import SQLITE, is_current
from fedkme.store.opening import is_on_server
from fedkme.store.sql import SqlStore
from fedkme.store.sqlite import MEMORY, SqliteStore


class SqliteReader(SqliteStore):
    """A read-only Store in a file; it takes no lock that keeps another process from writing."""

    _BEGIN = "BEGIN"

    def __init__(self, path: Path | str, party: str, unchanged: bool = False) -> None:
        """Open an existing store of a party.

        Args:
            path: the file.
            party: the party that the store belongs to.
            unchanged: make no file beside the store if no process has it open. A process that starts
                meanwhile is not noticed, and reads may then be wrong.

        Raises:
            StoreError: the store is missing, of another party or version, damaged or unreadable.
        """
        SqlStore.__init__(self, party, f"the store {path}", time.time)  # without the lock of SqliteStore
        self._path = Path(os.path.realpath(path))
        self._closed = self._forgot = False
        if str(path) == MEMORY or not self._path.is_file():
            raise StoreError(f"{self._where} is not there", "Start the party once; it makes its store.")
        with contextlib.ExitStack() as undo:
            alone = not self._path.with_name(f"{self._path.name}-wal").exists()
            uri = f"{self._path.as_uri()}?mode=ro{'&immutable=1' if unchanged and alone else ''}"
            self._connection = self._connect(uri, uri=True, timeout=5.0)
            undo.callback(self._connection.close)
            version = self._version()
            self._party = self._check_party() if version else 0
            if not self._party or not is_current(version, SQLITE, self._where):
                raise StoreError(f"{self._where} is of an earlier release", "Start the party with this one.")
            self._held = undo.pop_all()


def read_store(spec: str | Path, party: str) -> Store:
    """Open the store of a party for reading, in a file or on a server, also while the party runs.

    Raises:
        ConfigError: the spec names no kind of store.
        MissingDependencyError: the store is on a server and psycopg is not installed.
        StoreError: there is no such store, or it cannot be read.
    """
    if not is_on_server(spec):
        return SqliteReader(spec, party)
    from fedkme.store.postgres import PostgresReader

    return PostgresReader(str(spec), party)


def party_of(path: Path) -> str:
    """Name of the party that a store in a file belongs to; empty for a new store.

    Raises:
        StoreError: the file is no store, or cannot be read.
    """
    names = _names(path, "SELECT name FROM parties") if path.stat().st_size else []
    return names[0] if names else ""


def open_runs(path: Path) -> list[str]:
    """Names of the open runs in any party's store, also while the party runs.

    Raises:
        StoreError: the file is no store, or cannot be read.
    """
    return _names(path, "SELECT name FROM runs WHERE ended IS NULL")


def _names(path: Path, query: str) -> list[str]:
    try:
        with contextlib.closing(
            sqlite3.connect(f"{Path(os.path.realpath(path)).as_uri()}?mode=ro", uri=True)
        ) as connection:
            return [name for (name,) in connection.execute(query)]
    except (sqlite3.Error, UnicodeDecodeError):
        raise StoreError(f"{path} is not a store that can be read", "Name the journal of a party.") from None


def ledger_lines(path: Path) -> list[str]:
    """Lines of the ledger in any party's store, also while the party runs.

    Raises:
        StoreError: the file is no store, or cannot be read.
    """
    if not (party := party_of(path)):
        return []
    with contextlib.closing(read_store(path, party)) as store:
        return [line.line for line in store.ledger()]
