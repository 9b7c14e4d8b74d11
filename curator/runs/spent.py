"""Spending of owners' rows towards other owners, as a curator's ledger has it, without reading it anew."""

from __future__ import annotations

from collections.abc import Sequence

from fedkme.privacy.events import OWNERS, Disclosure
from fedkme.privacy.ledger import costs, disclosures_in
from fedkme.store import Store

_SPELLED = f'"observer":"{OWNERS}",'
"""Part of every such line, in the one spelling that lines have."""


class OwnersSpent:
    """Lines about what owners hear; the ledger only grows, and is read on from its last line."""

    def __init__(self, store: Store) -> None:
        self._store = store
        lines, self._read = costs(store)
        self._lines = [line for line in lines if line.observer == OWNERS]

    def lines(self) -> Sequence[Disclosure]:
        """List all of them so far.

        Raises:
            LedgerError: one is no entry.
        """
        kept = self._store.ledger(self._read)
        self._lines += disclosures_in(each.line for each in kept if _SPELLED in each.line)
        self._read = kept[-1].seq if kept else self._read
        return self._lines
