"""The gate: declares every disclosure of D_v; the ledger has each line before anything leaves."""

from collections.abc import Sequence

from fedkme.cells.disclosures import Counts, pick_disclosures, validation_disclosures
from fedkme.cells.histogram import CountNoise
from fedkme.features.fixed_point import MeanVector
from fedkme.privacy import events
from fedkme.privacy.ledger import nonce_of
from fedkme.privacy.means import Cost
from fedkme.privacy.summary_disclosures import ROWS


class ConsumerGate:
    """One request's disclosures.

    Attributes:
        consumer: the consumer's name.
        declared: ledger lines of the request, in order.
    """

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        self._protected = events.validation_of(consumer)
        self.declared: list[events.Disclosure] = []

    def pass_target(self, run: str, target: MeanVector, cost: Cost) -> None:
        """Declare g~, which the curator passes on to owners."""
        self._write(run, cost.event, cost.sensitivity, nonce_of(target), events.CURATOR, events.OWNERS)

    def pass_histogram(self, run: str, how: CountNoise, counts: Counts, column: int | None = None) -> None:
        """Declare the noisy histogram of D_v by cells, or of a column; owners' orders follow from it."""
        self.declared += validation_disclosures(run, self.consumer, how, counts, column)

    def pass_picks(self, run: str, event: events.Event, picks: Sequence[int], counts: Counts) -> None:
        """Declare the directions that D_v picked, one event each, with the histogram by their cells."""
        self.declared += pick_disclosures(run, self.consumer, event, picks, counts)

    def pass_rows(self, run: str, count: int) -> None:
        """Declare D_v itself, without noise, for a curator that is trusted with it."""
        self._write(run, events.RawRows(count), None, ROWS, events.CURATOR)

    def _write(
        self, run: str, event: events.Event, sensitivity: float | None, nonce: str, *observers: str
    ) -> None:
        self.declared += (
            events.Disclosure(run, 0, self._protected, observer, event, "replace-one", sensitivity, nonce)
            for observer in observers
        )
