"""The durable store of a party: its runs, their journals, its ledger, and small facts."""

from fedkme.store.base import OPEN, JournalEntry, LedgerLine, RunRow, Store
from fedkme.store.opening import open_store
from fedkme.store.sqlite import Durability

__all__ = ["OPEN", "Durability", "JournalEntry", "LedgerLine", "RunRow", "Store", "open_store"]
