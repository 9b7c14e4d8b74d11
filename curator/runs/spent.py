"""Disclosures of owners' rows to other owners, from the curator's ledger, which is read incrementally."""

from __future__ import annotations

from collections.abc import Sequence

from fedkme.privacy.events import OWNERS, Disclosure
from fedkme.privacy.ledger import costs, disclosures_in
from fedkme.store import Store

_SPELLED = f'"observer":"{OWNERS}",'
"""Part of every line about what owners learn, in the one spelling of ledger lines."""


class OwnersSpent:
    """Lines about what owners learn; the ledger only grows, so reading continues after the last line read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        lines, self._read = costs(store)
        self._lines = [line for line in lines if line.observer == OWNERS]

    def lines(self) -> Sequence[Disclosure]:
        """List all lines so far.

        Raises:
            LedgerError: a line is no ledger entry.
        """
        entries = self._store.ledger(self._read)
        self._lines += disclosures_in(entry.line for entry in entries if _SPELLED in entry.line)
        self._read = entries[-1].seq if entries else self._read
        return self._lines
