"""Disclosures of a summary by cells: what the curator lets out and what came, written before anything goes.

An owner's histogram, with its noise, is what the curator sees of it and what orders tell other owners of it:
one line each, written by the owner in the same words. D_v's histogram likewise, by the consumer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from curator.summary.disclosures import row_lines, validation_lines
from curator.summary.record import SelectedRow
from fedkme.cells.disclosures import Counts, histogram_disclosures, histogram_nonce
from fedkme.exchange import Offer
from fedkme.privacy.events import OWNERS, Disclosure, Event, ExactStatistic, RawRows
from fedkme.privacy.ledger import LedgerSink
from fedkme.sealed import AnyRow

_UNDECLARED = ExactStatistic("a histogram whose protection the consumer did not declare")
_ACCESSED = ExactStatistic("points accessed")


class CellDisclosures:
    """The curator's side of one run's disclosures."""

    def __init__(self, run: str, ledger: LedgerSink | None, consumer: str) -> None:
        """Open for one run of a consumer; without a ledger nothing is written."""
        self._run = run
        self._ledger = ledger
        self._consumer = consumer

    def receive_target(self, counts: Counts, offer: Offer) -> None:
        """Take in D_v's histogram under the mechanism that the consumer declared: orders follow from it.

        Raises:
            ProtocolError: the consumer declared what is not about this request.
        """
        nonce = histogram_nonce(counts)
        self._write(validation_lines(self._run, self._consumer, offer, nonce, _UNDECLARED))

    def open(self) -> None:
        """Before anybody counts: the consumer will be told how many rows came."""
        # Exact, and the rows as they are further down: nothing is drawn that an equal line could hide.
        self._write([self._about(0, OWNERS, self._consumer, _ACCESSED, "progress")])

    def receive_histogram(self, owner: str, event: Event, counts: Counts) -> None:
        """An owner's histogram came; orders that follow from it go to other owners."""
        self._write(histogram_disclosures(self._run, owner, event, counts))

    def receive_rows(self, number: int, owner: str, rows: Sequence[AnyRow]) -> None:
        """Take in rows that did not come before; what is sealed is the consumer's from then on."""
        self._write(row_lines(self._run, number, owner, rows, self._consumer))

    def pass_summary(self, number: int, selected: Iterable[SelectedRow]) -> None:
        """Let rows out to the consumer, as they are; sealed ones were written down when they came."""
        for owner, count in sorted(Counter(row.owner for row in selected if row.sealed is None).items()):
            self._write([self._about(number, owner, self._consumer, RawRows(count), "summary")])

    def _about(self, number: int, protected: str, observer: str, event: Event, nonce: str) -> Disclosure:
        return Disclosure(self._run, number, protected, observer, event, "replace-one", None, nonce)

    def _write(self, disclosures: Sequence[Disclosure]) -> None:
        if self._ledger is not None and disclosures:
            self._ledger.extend(disclosures)
