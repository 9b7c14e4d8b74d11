"""Typed journals of runs over any store."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fedkme.store.base import Store
from fedkme.store.memory import MemoryStore

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """Entries of one kind in the journals of a store.

    Entries are encoded in a durable store; a `MemoryStore` holds the values themselves.
    """

    def __init__(
        self, store: Store, kind: str, encode: Callable[[Entry], bytes], decode: Callable[[bytes], Entry]
    ) -> None:
        """Args are the store, the entries' kind in it, and the codec of an entry."""
        in_memory = isinstance(store, MemoryStore)
        self._store = store
        self._kind = kind
        self._encode: Callable[[Entry], Any] = _identity if in_memory else encode
        self._decode: Callable[[Any], Entry] = _identity if in_memory else decode

    def append(self, run: str, entry: Entry) -> None:
        """Add an entry to a run's journal.

        Raises:
            StoreError: the entry could not be written.
        """
        self._store.append(run, self._kind, self._encode(entry))

    def entries(self, run: str) -> list[Entry]:
        """List a run's journal from its beginning."""
        return [self._decode(entry.body) for entry in self._store.entries(run)]


def _identity(value: Any) -> Any:
    return value
