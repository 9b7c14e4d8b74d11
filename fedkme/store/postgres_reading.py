"""Reading of a party's store on a PostgreSQL server while the party's process has it open."""

from __future__ import annotations

from fedkme.errors import StoreError
from fedkme.store.migrations import Step, is_current
from fedkme.store.postgres import _SESSION, PostgresStore


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
