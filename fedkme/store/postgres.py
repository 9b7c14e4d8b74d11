"""A store on a PostgreSQL server, in its schema `fedkme`, which several parties share.

The right to write as a party is an advisory lock of the connection: the server gives it back when the process
dies, and a party whose connection broke has lost it. A connection pooler in between would break this.

Back up with the server running: `pg_dump --schema=fedkme --format=custom --file=BACKUP URL`, and restore with
`pg_restore --dbname=URL BACKUP`. Deleted entries stay on the server's disk, in its log and in its backups
until the server reuses the space.
"""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from typing_extensions import override

from fedkme.errors import ConfigError, StoreError
from fedkme.store.migrations import POSTGRES, Step, is_current, migrate
from fedkme.store.sql import Parameters, Row, SqlStore

_CONNECTION = {
    # Both sides notice a silently lost connection in about half a minute.
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SESSION = (
    "SET search_path TO fedkme",
    "SET tcp_keepalives_idle = 15",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    # The lock would be lost if the server ended idle sessions. PostgreSQL 13 lacks the setting.
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'",
    # Stronger settings than these stay.
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')",
)
_HOLDER = (
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND (classid::bigint << 32 | objid::bigint) = ?"
)


class PostgresStore(SqlStore):
    """A Store on a server."""

    _BEGIN = "BEGIN"

    def __init__(
        self,
        url: str,
        party: str,
        *,
        clock: Callable[[], float] = time.time,
        steps: tuple[Step, ...] = POSTGRES,
        patience_s: float = 3.0,
    ) -> None:
        """Connect as a party; the first party makes the schema.

        Args:
            url: `postgresql://USER@HOST/DATABASE`, with any parameter of libpq; a password is never shown.
            party: the party that the store's rows belong to.
            clock: Unix seconds.
            steps: the versions of the tables.
            patience_s: time to wait for a session of this party that is just ending, seconds.

        Raises:
            ConfigError: the URL cannot be read.
            StoreError: the server does not answer or refuses, the party is connected already, or the tables
                are of a newer version.
        """
        parts = _parts(url)
        where = f"{parts.get('host', 'localhost')}:{parts.get('port', '5432')}/{parts.get('dbname', '')}"
        super().__init__(party, f"the store at {where}", clock)
        name = f"fedkme process {os.getpid()} on {platform.node()}"[:63]
        settings = {**_CONNECTION, **parts, "application_name": name, "client_encoding": "utf8"}
        try:
            self._connection = psycopg.connect(psycopg.conninfo.make_conninfo(**settings), autocommit=True)
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            if password := parts.get("password"):
                reason = reason.replace(password, "***")
            remedy = "See that the server runs, and correct the URL."
            raise StoreError(f"{self._where} cannot be opened: {reason}", remedy) from None
        try:
            self._cursor = self._connection.cursor(binary=True)
            self._prepare(steps, patience_s)
        except BaseException:
            self._connection.close()
            raise

    @override
    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _prepare(self, steps: tuple[Step, ...], patience_s: float) -> None:
        for statement in _SESSION:
            self._execute(statement)
        self._execute(f"SET lock_timeout = {max(1, round(1000 * patience_s))}")
        self._reach_version(steps)
        key = _lock_key(f"party {self._name}")
        try:
            self._execute("SELECT pg_advisory_lock(?)", (key,))
        except _InUseError:
            remedy = "Stop that process, or give this one a store of its own."
            holder = self._holder(key)
            raise StoreError(f"{self._where}: {self._name} is in use by {holder}", remedy) from None
        self._execute("SET lock_timeout = 0")
        self._execute("INSERT INTO parties (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (self._name,))
        self._party = self._execute("SELECT id FROM parties WHERE name = ?", (self._name,))[0][0]

    def _reach_version(self, steps: tuple[Step, ...]) -> None:
        """Migrate if no other party is connected, and keep others from migrating while this one is."""
        key = _lock_key("schema")
        shared = "SELECT pg_advisory_lock_shared(?)"
        try:
            self._execute(shared, (key,))
            if is_current(self._version(), steps, self._where):
                return
            self._execute("SELECT pg_advisory_unlock_shared(?)", (key,))
            self._execute("SELECT pg_advisory_lock(?)", (key,))
            version = self._version()  # another party may have been faster
            if not is_current(version, steps, self._where):
                migrate(version, steps, self._where, self._BEGIN, self._execute)
            self._execute(shared, (key,))
            self._execute("SELECT pg_advisory_unlock(?)", (key,))
        except _InUseError:
            cause = f"{self._where} needs another version of its tables, and is in use by {self._holder(key)}"
            raise StoreError(cause, "Stop every party on this server, then start them again.") from None

    def _version(self) -> int:
        if self._execute("SELECT to_regclass('fedkme.schema_version')::text") == [(None,)]:
            return 0
        version: int = self._execute("SELECT version FROM schema_version")[0][0]
        return version

    def _holder(self, key: int) -> str:
        rows = self._execute(_HOLDER, (key,))
        return rows[0][0] if rows and rows[0][0] else "another process"

    def _execute(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        with self._explained():
            self._cursor.execute(statement.replace("?", "%s").encode("ascii"), parameters)
            return self._cursor.fetchall() if self._cursor.description else []

    def _execute_many(self, statement: str, many: Sequence[Parameters]) -> None:
        with self._explained():
            self._cursor.executemany(statement.replace("?", "%s").encode("ascii"), many)

    def _roll_back(self) -> None:
        idle = self._connection.info.transaction_status in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)
        if not idle:
            with contextlib.suppress(psycopg.Error):
                self._cursor.execute("ROLLBACK")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the server's errors into StoreError, without the error's details: they may hold values."""
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise _InUseError(f"{self._where} is in use by another process", "Stop that process.") from None
        except psycopg.Error as error:
            if self._connection.broken:
                cause = f"the connection to {self._where} was lost"
                raise StoreError(cause, "Start this party again when the server is back.") from None
            if self._connection.closed:
                raise StoreError(f"{self._where} was closed", "Open it again.") from None
            if error.sqlstate is None:
                raise  # an error of our own statements
            reason = f"{error.diag.message_primary} (SQLSTATE {error.sqlstate})"
            remedy = "See to the server and the rights of its user; nothing of the transaction was written."
            raise StoreError(f"{self._where} refused a statement: {reason}", remedy) from None


class PostgresReader(PostgresStore):
    """A read-only Store on a server, without the lock that gives the right to write as the party."""

    _BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

    def _prepare(self, steps: tuple[Step, ...], patience_s: float) -> None:
        """Find the party; no table is made or changed."""
        for statement in (*_SESSION, "SET default_transaction_read_only = on"):
            self._execute(statement)
        version = self._version()
        if version and not is_current(version, steps, self._where):
            raise StoreError(f"{self._where} is of an earlier release", "Start the party with this one.")
        numbers = version and self._execute("SELECT id FROM parties WHERE name = ?", (self._name,))
        if not numbers:
            raise StoreError(f"{self._where} holds nothing of {self._name}", "Start the party once.")
        self._party = numbers[0][0]


def _parts(url: str) -> dict[str, str]:
    """Parse a URL; errors show no part of it, as each may belong to a password."""
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        parts = {}
    # A password with a bare @ or / is cut there, and libpq takes the rest for host, port or database.
    if not parts or any("@" in parts.get(key, "") for key in ("host", "port", "dbname")):
        cause = "the URL of the store cannot be read"
        remedy = "Write postgresql://USER@HOST/DATABASE, and percent-encode signs like @ and / in its parts."
        raise ConfigError(cause, remedy)
    return parts


class _InUseError(StoreError):
    """A lock that another session holds."""


def _lock_key(what: str) -> int:
    """A number for an advisory lock of the database; 63 bits, so that pg_locks shows it as it is."""
    return int.from_bytes(hashlib.sha256(f"fedkme store: {what}".encode()).digest()[:8]) >> 1
