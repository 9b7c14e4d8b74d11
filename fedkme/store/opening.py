"""Opening a store by what a configuration says of its place."""

from __future__ import annotations

from pathlib import Path

from fedkme.errors import ConfigError, MissingDependencyError
from fedkme.store.base import Store
from fedkme.store.sqlite import Durability, SqliteStore


def open_store(spec: str | Path, party: str, durability: Durability = "power") -> Store:
    """Open the store of a party: a file, `:memory:`, or `postgresql://USER@HOST/DATABASE`.

    Raises:
        ConfigError: the spec names no kind of store.
        MissingDependencyError: the store is on a server and psycopg is not installed.
        StoreError: the store cannot be opened, is in use, of another party or of a newer version.
    """
    kind, scheme, _ = str(spec).partition("://")
    if isinstance(spec, Path) or not scheme:
        return SqliteStore(spec, party, durability)
    if kind not in ("postgresql", "postgres"):
        remedy = "Give a file, or postgresql://USER@HOST/DATABASE."
        raise ConfigError("the store is of a kind that does not exist", remedy)
    try:
        from fedkme.store.postgres import PostgresStore
    except ImportError:
        cause = "a store on PostgreSQL needs psycopg, which is not installed"
        raise MissingDependencyError(cause, "Run `pip install 'fedkme[postgres]'`.") from None
    return PostgresStore(str(spec), party)
