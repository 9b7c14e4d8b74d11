"""Disclosures of a summary by cells, in the words that both sides write in their ledgers."""

from __future__ import annotations

from fedkme.cells.histogram import SENSITIVITY
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, validation_of

HISTOGRAM = "histogram"
"""The nonce of its lines."""


def sketch_of(run: str) -> str:
    """The name in ledgers of the run of sums from which a run's cells come."""
    return f"{run}/cells"


def histogram_disclosures(run: str, owner: str, event: Event) -> list[Disclosure]:
    """An owner's histogram: the curator sees it, and orders that follow from it go to other owners."""
    return [
        Disclosure(run, 1, owner, observer, event, "replace-one", float(SENSITIVITY), HISTOGRAM)
        for observer in (CURATOR, OWNERS)
    ]


def validation_disclosures(run: str, consumer: str, event: Event) -> list[Disclosure]:
    """D_v's histogram: towards the curator, then towards the owners, whose orders follow from it."""
    return [
        Disclosure(
            run, 0, validation_of(consumer), observer, event, "replace-one", float(SENSITIVITY), HISTOGRAM
        )
        for observer in (CURATOR, OWNERS)
    ]
