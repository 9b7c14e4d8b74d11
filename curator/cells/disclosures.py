"""Disclosures of a summary by cells: what the curator lets out and what came, written before anything goes.

An owner's histogram, with its noise, is what the curator sees of it and what orders tell other owners of it:
one line each, written by the owner in the same words. D_v's histogram likewise, by the consumer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from curator.summary.disclosures import row_lines
from curator.summary.record import SelectedRow
from fedkme.cells.disclosures import histogram_disclosures, validation_disclosures
from fedkme.cells.histogram import HistogramNoise
from fedkme.errors import ProtocolError
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    REQUEST,
    Disclosure,
    Event,
    ExactStatistic,
    RawRows,
    validation_of,
)
from fedkme.privacy.ledger import LedgerSink
from fedkme.sealed import AnyRow

_UNDECLARED = ExactStatistic("a histogram whose protection the consumer did not declare")
_ACCESSED = ExactStatistic("points accessed")


class CellDisclosures:
    """The curator's side of one run's disclosures."""

    def __init__(self, run: str, ledger: LedgerSink | None, consumer: str) -> None:
        """Open for one run.

        Args:
            run: its name.
            ledger: where disclosures are written; None: nowhere.
            consumer: the name of the consumer who asked for it.
        """
        self._run = run
        self._ledger = ledger
        self._consumer = consumer
        self._validation = validation_of(consumer)

    def receive_declared(self, declared: Sequence[Disclosure], rows: int | None) -> None:
        """Take in D_v's histogram under the mechanism that the consumer declared, or D_v itself.

        Args:
            declared: what the consumer wrote in its ledger.
            rows: |D_v| where it came itself; None for a histogram.

        Raises:
            ProtocolError: the consumer declared what is not about this request.
        """
        for about in declared:
            here = about.run in (self._run, REQUEST) and about.round == 0
            if not here or about.protected != self._validation or about.observer not in (CURATOR, OWNERS):
                raise ProtocolError("the consumer declared an event that is not about its request")
        if rows is not None:
            self._write([about for about in declared if about.nonce != "rows"])
            self._write([self._about(0, self._validation, CURATOR, RawRows(rows), "rows")])
            return
        self._write(declared)
        for observer in (CURATOR, OWNERS):
            if not any(about.observer == observer and about.nonce == "histogram" for about in declared):
                self._write([self._about(0, self._validation, observer, _UNDECLARED, "histogram")])

    def pass_histogram(self, noise: HistogramNoise) -> None:
        """D_v's histogram, made here of its rows, decides what owners are ordered."""
        of_owners = validation_disclosures(self._run, self._consumer, noise.event)[1:]
        self._write(of_owners)

    def open(self) -> None:
        """Before anybody counts: the consumer will be told how many rows came."""
        self._write([self._about(0, OWNERS, self._consumer, _ACCESSED, "progress")])

    def receive_histogram(self, owner: str, event: Event) -> None:
        """An owner's histogram came; orders that follow from it go to other owners."""
        self._write(histogram_disclosures(self._run, owner, event))

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
