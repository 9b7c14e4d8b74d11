"""Disclosures of a summary by cells: the curator writes what it receives and sends before it sends anything.

The curator sees an owner's noisy histogram, and orders tell other owners about that histogram: one line each,
which the owner writes in the same words. D_v's histogram has such lines too, which the consumer writes.
"""

from collections.abc import Mapping

from curator.summary.disclosures import RunDisclosures, validation_lines
from fedkme.cells.disclosures import Counts, histogram_disclosures, histogram_nonce, pick_nonces
from fedkme.exchange import Offer
from fedkme.privacy.events import OWNERS, Event, ExactStatistic

_UNDECLARED = ExactStatistic("a histogram whose protection the consumer did not declare")
_UNDECLARED_PICK = ExactStatistic("directions whose protection the consumer did not declare")
_ACCESSED = ExactStatistic("points accessed")


class CellDisclosures(RunDisclosures):
    """Disclosures of a summary by cells."""

    def receive_target(
        self, counts: Counts, offer: Offer, margins: Mapping[int, Counts] | None = None
    ) -> None:
        """Record D_v's picks and histogram as the consumer declared them: cells and orders follow from both.

        Args:
            counts: the histogram, or all margins one after another.
            offer: the offer that has it.
            margins: the margins by column, where D_v gave some.

        Raises:
            ProtocolError: a declaration is not about this request.
        """
        nonces = dict.fromkeys(pick_nonces(offer.picks, counts), _UNDECLARED_PICK)
        of_columns = [histogram_nonce(margin, column) for column, margin in (margins or {}).items()]
        nonces |= dict.fromkeys(of_columns or [histogram_nonce(counts)], _UNDECLARED)
        self._write(validation_lines(self._run, self._consumer, offer, nonces))

    def open(self) -> None:
        """Record, before any owner counts, that the consumer will learn how many rows came."""
        # The number is exact and has its own line; a line that equals an earlier one would hide nothing.
        self._write([self._about(0, OWNERS, self._consumer, _ACCESSED, "progress")])

    def receive_histogram(self, owner: str, event: Event, counts: Counts) -> None:
        """Record an owner's histogram, from which orders to other owners follow."""
        self._write(histogram_disclosures(self._run, owner, event, counts))
