"""Disclosures of a summary by cells: what the curator lets out and what came, written before anything goes.

An owner's histogram, with its noise, is what the curator sees of it and what orders tell other owners of it:
one line each, written by the owner in the same words. D_v's histogram likewise, by the consumer.
"""

from __future__ import annotations

from curator.summary.disclosures import RunDisclosures, validation_lines
from fedkme.cells.disclosures import Counts, histogram_disclosures, histogram_nonce, pick_nonces
from fedkme.exchange import Offer
from fedkme.privacy.events import OWNERS, Event, ExactStatistic

_UNDECLARED = ExactStatistic("a histogram whose protection the consumer did not declare")
_UNDECLARED_PICK = ExactStatistic("directions whose protection the consumer did not declare")
_ACCESSED = ExactStatistic("points accessed")


class CellDisclosures(RunDisclosures):
    """Disclosures of a summary by cells."""

    def receive_target(self, counts: Counts, offer: Offer) -> None:
        """Take in D_v's picks and its histogram as the consumer declared them: cells and orders follow.

        Raises:
            ProtocolError: the consumer declared what is not about this request.
        """
        nonces = dict.fromkeys(pick_nonces(offer.picks, counts), _UNDECLARED_PICK)
        nonces[histogram_nonce(counts)] = _UNDECLARED
        self._write(validation_lines(self._run, self._consumer, offer, nonces))

    def open(self) -> None:
        """Before anybody counts: the consumer will be told how many rows came."""
        # Exact, and the rows as they are further down: nothing is drawn that an equal line could hide.
        self._write([self._about(0, OWNERS, self._consumer, _ACCESSED, "progress")])

    def receive_histogram(self, owner: str, event: Event, counts: Counts) -> None:
        """An owner's histogram came; orders that follow from it go to other owners."""
        self._write(histogram_disclosures(self._run, owner, event, counts))
