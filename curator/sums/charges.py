"""Charges of one run of sums: on disk before owners are asked, and in the ledger once it is known what came.

A process that dies, or whose disk fails, between the two leaves them to the next one, which asks again; a run
that ends in any other way has them charged (docs/decisions/006).
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
"""Keys of the number of a run's last aggregation, of which owners take part in none twice; and of lines that
its owners may have written in an attempt whose own are not on disk."""
Settle = Callable[[Callable[[], None]], None]
"""Puts the ledger's lines so far on disk, in one transaction with what its argument keeps."""


class SumCharges:
    """The charges of one run.

    Attributes:
        gate: hears of every vector.
        interrupted: whether an earlier attempt was not settled: owners may have sent what it asked for, also
            where all of it came and is written.
    """

    def __init__(
        self,
        invitation: Invitation,
        ledger: Ledger,
        store: Store,
        written: Iterable[Disclosure] = (),
        outlives: bool = True,
    ) -> None:
        """Go on with what an earlier process left.

        Args:
            invitation: what owners are told.
            ledger: this curator's.
            store: where it is.
            written: lines about the run that are in it.
            outlives: whether the run goes on when this process dies.
        """
        self._run, self._ledger, self._store, self._outlives = invitation.run, ledger, store, outlives
        self.interrupted = store.get(DOUBTFUL + invitation.run) is not None
        self.gate = SumDisclosures(invitation, written, _left(store, invitation.run))

    @property
    def last(self) -> int:
        """Number of the last aggregation that owners may have heard of, 0 before."""
        return int(self._store.get(ASKED + self._run) or b"0")

    def propose(self, number: int) -> None:
        """Keep the number of an aggregation, before any owner hears of it."""
        self._store.put(ASKED + self._run, b"%d" % number)

    def before_vectors(self) -> None:
        """Keep what owners may write, before any of them can send its vector."""
        if self._outlives:
            kept = json.dumps(lines_to_json(self.gate.at_most()))
            self._store.put(DOUBTFUL + self._run, kept.encode("ascii"))

    def settle(self, keep: Callable[[], None] = lambda: None) -> None:
        """Charge what came, and what may have left and did not come; `keep` is in the same transaction."""

        def kept() -> None:
            keep()
            self._store.delete(DOUBTFUL + self._run)

        self._write([*self.gate.came(), *self.gate.doubtful()], kept)

    def end(self, keep: Callable[[], None] = lambda: None) -> None:
        """Settle for good."""

        def kept() -> None:
            keep()
            self._store.delete(ASKED + self._run)

        self.settle(kept)

    def suspend(self) -> None:
        """Charge what came: a later attempt hears the rest, or charges that it may have left."""
        self._write(self.gate.came(), lambda: None)

    def _write(self, lines: Sequence[Disclosure], keep: Callable[[], None]) -> None:
        with self._ledger.together(self._store):
            self._ledger.extend(lines)
            keep()
        self.gate.wrote(lines)  # now: where that fails, they are still to be written


def charge_ended(ledger: Ledger, store: Store, run: str) -> None:
    """Charge what may have left in a run that is over, and whose last attempt did not come to an end."""
    left = [replace(line, certain=False) for line in _left(store, run)]
    with ledger.together(store):
        written = {*disclosures_in(kept.line for kept in store.ledger())} if left else ()
        ledger.extend(line for line in left if line not in written)
        for key in (ASKED, DOUBTFUL):
            store.delete(key + run)


def _left(store: Store, run: str) -> list[Disclosure]:
    return lines_from_json(json.loads(store.get(DOUBTFUL + run) or b"[]"))
