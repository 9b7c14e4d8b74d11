"""The durable store of a party: its runs, their journals, its ledger, and small facts."""

from fedkme.store.base import OPEN, Archive, JournalEntry, LedgerLine, RunRow, Store
from fedkme.store.opening import open_store
from fedkme.store.sqlite import Durability

__all__ = ["OPEN", "Archive", "Durability", "JournalEntry", "LedgerLine", "RunRow", "Store", "open_store"]
