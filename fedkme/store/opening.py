"""Opening of a store by the place that a configuration gives."""

import importlib.util
from pathlib import Path

from fedkme.errors import ConfigError, MissingDependencyError
from fedkme.store.base import Store
from fedkme.store.sqlite import Durability, SqliteStore


def open_store(spec: str | Path, party: str, durability: Durability = "power") -> Store:
    """Open the store of a party: a file, `:memory:`, or `postgresql://USER@HOST/DATABASE`.

    Raises:
        ConfigError: the spec names no kind of store.
        MissingDependencyError: the store is on a server and psycopg is not installed.
        StoreError: the store cannot be opened, is in use, belongs to another party, or is of a newer version.
    """
    if not is_on_server(spec):
        return SqliteStore(spec, party, durability)
    from fedkme.store.postgres import PostgresStore

    return PostgresStore(str(spec), party)


def is_on_server(spec: str | Path) -> bool:
    """Check whether a store is on PostgreSQL rather than in a file, and psycopg is installed.

    Raises:
        ConfigError: the spec names no kind of store.
        MissingDependencyError: psycopg is not installed.
    """
    kind, scheme, _ = str(spec).partition("://")
    if isinstance(spec, Path) or not scheme:
        return False
    if kind not in ("postgresql", "postgres"):
        remedy = "Give a file, or postgresql://USER@HOST/DATABASE."
        raise ConfigError("the store is of a kind that does not exist", remedy)
    if importlib.util.find_spec("psycopg") is None:
        cause = "a store on PostgreSQL needs psycopg, which is not installed"
        raise MissingDependencyError(cause, "Run `pip install 'fedkme[postgres]'`.")
    return True
