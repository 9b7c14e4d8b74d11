"""Journals of runs as values, whatever they are kept in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fedkme.store.base import Store
from fedkme.store.memory import MemoryStore

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """Entries of one kind in the journals of a store.

    They are encoded where they outlive the process; a `MemoryStore` keeps the values themselves.
    """

    def __init__(
        self, store: Store, kind: str, encode: Callable[[Entry], bytes], decode: Callable[[bytes], Entry]
    ) -> None:
        """Write to a store, and read what it has; args are its place and the codec of an entry."""
        in_memory = isinstance(store, MemoryStore)
        self._store = store
        self._kind = kind
        self._encode: Callable[[Entry], Any] = _itself if in_memory else encode
        self._decode: Callable[[Any], Entry] = _itself if in_memory else decode

    def append(self, run: str, entry: Entry) -> None:
        """Add an entry to a run's journal.

        Raises:
            StoreError: it could not be kept.
        """
        self._store.append(run, self._kind, self._encode(entry))

    def entries(self, run: str) -> list[Entry]:
        """List a run's journal from its beginning."""
        return [self._decode(kept.body) for kept in self._store.entries(run)]


def _itself(value: Any) -> Any:
    return value
