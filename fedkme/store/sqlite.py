"""Store in an SQLite file, as most parties have it, or in SQLite's memory.

Deleted entries are overwritten in the file (`secure_delete`) and the write-ahead log is emptied; the disk
below may keep copies of its own.
"""

import contextlib
import errno
import fcntl
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from fedkme.durable import make_folder, replace, sync_folder
from fedkme.errors import MissingDependencyError, StoreError, on_disk
from fedkme.store.base import Archive
from fedkme.store.migrations import SQLITE, Step, is_current, migrate
from fedkme.store.sql import Parameters, Row, SqlStore

Durability = Literal["power", "process"]
"""Failures that writes survive: loss of power, or only the death of the process."""

MEMORY = ":memory:"
BESIDE = ("-wal", "-shm", ".lock")
"""Suffixes of the files beside a store's file."""
_SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}
_EARLIEST = (3, 37)  # STRICT tables
_WARM = 128
"""Stores of a process that keep up to 256 KiB of pages each in memory; other stores read them again."""
_STATEMENTS, _FEW = 24, 6
"""Prepared statements of each of the first `_WARM` stores of a process (a run's), and of each further store
(a round's). A statement takes 1 to 4 KB."""
_CHECK = "PRAGMA main.quick_check(1)"  # without `main`, SQLite would open a temporary database and keep 90 KB
_SMALL = 4096  # pages: a file of up to 16 MiB is not vacuumed, and its free pages serve later runs


class SqliteStore(SqlStore):
    """A Store in a file that one process has open, or in memory.

    The file and those next to it (`-wal`, `-shm`, `.lock`) are its user's alone, mode 0600.
    """

    _BEGIN = "BEGIN IMMEDIATE"

    def __init__(
        self,
        path: Path | str,
        party: str,
        durability: Durability = "power",
        *,
        clock: Callable[[], float] = time.time,
        steps: tuple[Step, ...] = SQLITE,
    ) -> None:
        """Open the store of a party, or make it if there is no file.

        Args:
            path: the file, or `:memory:`.
            party: the party that the store belongs to; written into a new store.
            durability: failures that writes survive.
            clock: Unix seconds.
            steps: the versions of the tables.

        Raises:
            StoreError: the file is in use, of another party, of a newer version, damaged, or cannot be
                opened.
        """
        if sqlite3.sqlite_version_info < _EARLIEST:
            cause = f"SQLite is {sqlite3.sqlite_version}, and stores need 3.37"
            raise MissingDependencyError(cause, "Use a Python that is linked to a later SQLite.")
        self._path = None if str(path) == MEMORY else Path(os.path.realpath(path))
        super().__init__(party, f"the store {path}", clock)
        self._closed = False
        self._forgot = False
        with contextlib.ExitStack() as undo:
            if self._path is not None:
                self._hold(undo, self._path)
            target = MEMORY if self._path is None else str(self._path)
            # Several threads may write: SqlStore admits one at a time.
            statements = _STATEMENTS if len(_stores) < _WARM else _FEW
            self._connection = self._connect(
                target, timeout=0, check_same_thread=False, cached_statements=statements
            )
            undo.callback(self._connection.close)
            self._prepare(_SYNCHRONOUS[durability], steps)
            self._held = undo.pop_all()

    def forget_entries(self, run: str) -> None:
        """Delete a run's journal from the file, and from the write-ahead log once no backup reads it."""
        with self._lock:
            self._forgot = True
            super().forget_entries(run)
            if not self._within:
                self._after_commit()

    @override
    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                with _storing:
                    _stores.pop(weakref.ref(self), None)
                self._held.close()

    @override
    def archive(
        self, archive: Archive, documents: Mapping[str, bytes], facts: Mapping[str, bytes | None]
    ) -> None:
        self._forgot = True
        super().archive(archive, documents, facts)
        with self._lock:
            ((free,),), ((pages,),) = map(self._execute, ("PRAGMA freelist_count", "PRAGMA page_count"))
            if 2 * free > pages > _SMALL:
                self._execute("VACUUM")
                self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @override
    def _file(self, archive: Archive) -> Path | None:
        if self._path is None:
            return None
        name = f"{archive.last:012}-{archive.digest[:16]}.gz"
        return self._path.with_name(f"{self._path.name}.archive") / name

    @override
    def _store_content(self, archive: Archive, content: bytes) -> Archive:
        if archive.file is None:
            return super()._store_content(archive, content)
        remedy = "Make room; nothing was archived, and the party goes on."
        with on_disk(f"the archive {archive.file} cannot be written", remedy, StoreError):
            make_folder(archive.file.parent, 0o700)
            replace(archive.file, content, 0o600)
        return archive

    def _hold(self, undo: contextlib.ExitStack, path: Path) -> None:
        """Lock the file for this process; the operating system releases the lock when the process dies."""
        try:
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise OSError(errno.EINVAL, "it is a pipe or a device, where a file belongs")
            lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            undo.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
                cause = f"{self._where} is in use by process {holder or 'unknown'}"
                raise StoreError(cause, "Stop that process, or give this one a store of its own.") from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
            new = not path.exists()
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.fchmod(file, 0o600)
            finally:
                os.close(file)  # before SQLite opens it: closing later would end SQLite's own locks
            if new:
                sync_folder(path.parent)
        except OSError as error:
            cause = f"{self._where} cannot be opened: {error.strerror}"
            full = error.errno == errno.ENOSPC
            remedy = "Make room." if full else "Correct the path, or the rights of its folder."
            raise StoreError(cause, remedy) from None

    def _connect(self, target: str, **options: Any) -> sqlite3.Connection:
        try:
            connection: sqlite3.Connection = sqlite3.connect(target, isolation_level=None, **options)
        except sqlite3.Error as error:
            raise self._explanation(error) from None
        # one cursor for all statements: a connection keeps up to 200 cursors that were used once
        self._cursor = connection.cursor()
        return connection

    def _prepare(self, synchronous: str, steps: tuple[Step, ...]) -> None:
        version = self._version()
        current = is_current(version, steps, self._where)
        if version and self._path is not None:
            findings = self._execute(_CHECK)
            if findings != [("ok",)]:
                raise self._damaged()
        if version:
            self._check_party()
        if self._execute("PRAGMA journal_mode = WAL") not in ([("wal",)], [("memory",)]):
            cause = f"the disk of {self._where} cannot carry a write-ahead log"
            raise StoreError(cause, "Put the store on a local disk.")
        self._execute(f"PRAGMA synchronous = {synchronous}")
        self._execute("PRAGMA secure_delete = ON")
        self._execute("PRAGMA cache_size = -256")  # KiB; SQLite's default is 2 MB for each of many owners
        # the log shrinks again after a large transaction
        self._execute("PRAGMA journal_size_limit = 16777216")
        if not current:
            migrate(version, steps, self._where, self._BEGIN, self._execute)
        self._execute("PRAGMA foreign_keys = ON")  # after the steps, which may rebuild tables
        self._execute(
            "INSERT INTO parties (name) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM parties)", (self._name,)
        )
        self._party = self._check_party()

    def _version(self) -> int:
        """Version of the tables, read before anything is written; 0 for an empty file."""
        tables = {name for (name,) in self._execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return 0
        if "schema_version" not in tables or "parties" not in tables:
            raise StoreError(f"{self._where} is a database of something else", "Choose another file.")
        rows = self._execute("SELECT version FROM schema_version")
        if len(rows) != 1:
            raise self._damaged()
        version: int = rows[0][0]
        return version

    def _check_party(self) -> int:
        """Number of the party; 0 for a new file."""
        for number, name in self._execute("SELECT id, name FROM parties"):
            if name != self._name:
                cause = f"{self._where} belongs to {name}, not to {self._name}"
                raise StoreError(cause, f"Give {self._name} a store of its own.")
            return int(number)
        return 0

    def _execute(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        if self._closed:
            raise self._is_closed()
        _warm(self)
        try:
            return self._cursor.execute(statement, parameters).fetchall()
        except UnicodeDecodeError:  # an error message of SQLite that quotes damaged text
            raise self._damaged() from None
        except sqlite3.Error as error:
            raise self._explanation(error) from None

    def _execute_many(self, statement: str, many: Sequence[Parameters]) -> None:
        if self._closed:
            raise self._is_closed()
        try:
            self._cursor.executemany(statement, many)
        except sqlite3.Error as error:
            raise self._explanation(error) from None

    def _roll_back(self) -> None:
        # SQLite ends a transaction by itself where the disk is full or gone.
        if not self._closed and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def cool(self) -> None:
        """Free the memory of the store's pages, unless the store is in use."""
        if self._lock.acquire(blocking=False):
            try:
                if not (self._closed or self._within):
                    with contextlib.suppress(sqlite3.Error):
                        self._connection.execute("PRAGMA shrink_memory")
            finally:
                self._lock.release()

    def _after_commit(self) -> None:
        if self._forgot and not self._closed:
            with contextlib.suppress(sqlite3.Error):
                busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._forgot = bool(busy)  # a backup still reads the log: again after the next commit

    def _explanation(self, error: sqlite3.Error) -> Exception:
        """Turn one of SQLite's errors into a StoreError; a ProgrammingError is our own and stays."""
        if isinstance(error, sqlite3.ProgrammingError):
            return error
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")):  # the latter: no room for the -shm file
            cause = f"{self._where} could not be written: the disk is full"
            return StoreError(cause, "Make room; nothing of the transaction was written.")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return self._damaged()
        if name.startswith(
            ("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
        ):
            cause = f"{self._where} could not be read or written: {error} ({name})"
            return StoreError(cause, "See to the disk and the rights of its folder.")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            cause = f"{self._where} is being written by a process that is no party"
            return StoreError(cause, "End the tool that has it open; reading is harmless, writing is not.")
        return StoreError(f"{self._where} refused a statement: {error} ({name})", "See docs/errors.md.")

    def _damaged(self) -> StoreError:
        return StoreError(f"{self._where} is damaged, or no store", "Keep the file, and bring back a backup.")

    def _is_closed(self) -> StoreError:
        return StoreError(f"{self._where} was closed", "Open it again.")


_stores: dict[weakref.ref[SqliteStore], None] = {}
"""Stores that keep pages in memory, in the order of their last use."""
_storing = threading.Lock()


def _warm(store: SqliteStore) -> None:
    """Let a store keep its pages in memory; free the pages of the store unused for longest."""
    used, longest = weakref.ref(store), None
    with _storing:
        _stores.pop(used, None)
        _stores[used] = None
        if len(_stores) > _WARM:
            longest = next(iter(_stores))
            del _stores[longest]
    if longest is not None and (other := longest()) is not None:
        other.cool()
