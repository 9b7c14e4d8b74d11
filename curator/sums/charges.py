"""Charges of one run of sums: on disk before owners are asked, and in the ledger once vectors came.

A process that dies, or whose disk fails, between the two leaves the charges to the next process, which asks
again. A run that ends in any other way has the charges written to the ledger (docs/decisions/006).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from curator.sums.disclosures import SumDisclosures
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import Ledger, disclosures_in, lines_from_json, lines_to_json
from fedkme.protocol import Invitation
from fedkme.store import Store

ASKED, DOUBTFUL = "asked/", "doubtful/"
"""Keys of the number of a run's last aggregation (owners take part in no aggregation twice), and of the lines
that owners may have written in an attempt whose lines are not in the curator's ledger yet."""
Settle = Callable[[Callable[[], None]], None]
"""Writes the ledger's lines so far to disk, in one transaction with the writes of its argument."""


class SumCharges:
    """Charges of one run.

    Attributes:
        gate: records the disclosure of every vector.
        interrupted: True where an earlier attempt was not settled: owners may have sent its vectors, even if
            all vectors came and are written.
    """

    def __init__(
        self,
        invitation: Invitation,
        ledger: Ledger,
        store: Store,
        written: Iterable[Disclosure] = (),
        outlives: bool = True,
    ) -> None:
        """Take over the charges of an earlier process.

        Args:
            invitation: the run's invitation to owners.
            ledger: the curator's ledger.
            store: the store of the ledger.
            written: lines about the run that are in the ledger.
            outlives: True where the run goes on in a later process if this process dies.
        """
        self._run, self._ledger, self._store, self._outlives = invitation.run, ledger, store, outlives
        self.interrupted = store.get(DOUBTFUL + invitation.run) is not None
        self.gate = SumDisclosures(invitation, written, _doubtful_lines(store, invitation.run))

    @property
    def last(self) -> int:
        """Number of the last aggregation that owners may know of; 0 before the first."""
        return int(self._store.get(ASKED + self._run) or b"0")

    def propose(self, number: int) -> None:
        """Store the number of an aggregation, before any owner learns of it."""
        self._store.put(ASKED + self._run, b"%d" % number)

    def before_vectors(self) -> None:
        """Store the lines that owners may write, before any owner can send its vector."""
        if self._outlives:
            lines = json.dumps(lines_to_json(self.gate.at_most()))
            self._store.put(DOUBTFUL + self._run, lines.encode("ascii"))

    def settle(self, keep: Callable[[], None] = lambda: None) -> None:
        """Charge vectors that came or may have left; `keep` runs in the same transaction."""

        def keep_and_clear() -> None:
            keep()
            self._store.delete(DOUBTFUL + self._run)

        self._write([*self.gate.came(), *self.gate.doubtful()], keep_and_clear)

    def end(self, keep: Callable[[], None] = lambda: None) -> None:
        """Settle for good: no further aggregation follows."""

        def keep_and_clear() -> None:
            keep()
            self._store.delete(ASKED + self._run)

        self.settle(keep_and_clear)

    def suspend(self) -> None:
        """Charge vectors that came: a later attempt receives the others, or charges them as possible."""
        self._write(self.gate.came(), lambda: None)

    def _write(self, lines: Sequence[Disclosure], keep: Callable[[], None]) -> None:
        with self._ledger.together(self._store):
            self._ledger.extend(lines)
            keep()
        self.gate.wrote(lines)  # last: if the store fails, the lines are still unwritten


def charge_ended(ledger: Ledger, store: Store, run: str) -> None:
    """Charge vectors that may have left in a finished run whose last attempt was not settled."""
    doubtful = [replace(line, certain=False) for line in _doubtful_lines(store, run)]
    with ledger.together(store):
        written = {*disclosures_in(entry.line for entry in store.ledger())} if doubtful else ()
        ledger.extend(line for line in doubtful if line not in written)
        for key in (ASKED, DOUBTFUL):
            store.delete(key + run)


def _doubtful_lines(store: Store, run: str) -> list[Disclosure]:
    return lines_from_json(json.loads(store.get(DOUBTFUL + run) or b"[]"))
