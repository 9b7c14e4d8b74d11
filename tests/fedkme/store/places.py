"""Places of stores, for a suite that runs on every backend."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from fedkme.store.base import Store
from fedkme.store.memory import MemoryStore
from fedkme.store.sqlite import SqliteStore


@dataclass(frozen=True)
class Place:
    """Place of a store, and how to open it."""

    kind: str
    spec: str

    def open(self, party: str = "curator", **options: Any) -> contextlib.closing[Store]:
        return contextlib.closing(self.store(party, **options))

    def refused(self) -> None:
        """Open it where it is in use, with little patience."""
        options: dict[str, Any] = {"patience_s": 0.2} if self.kind == "postgres" else {}
        self.store(**options)

    def store(self, party: str = "curator", **options: Any) -> Store:
        if self.kind == "objects":
            return MemoryStore(party, **options)
        if self.kind != "postgres":
            return SqliteStore(self.spec, party, **options)
        from fedkme.store.postgres import PostgresStore

        return PostgresStore(self.spec, party, **options)
