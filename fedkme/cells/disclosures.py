"""Disclosures of a summary by cells, in the words that both sides write in their ledgers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.directions import SENSITIVITY as PICK_SENSITIVITY
from fedkme.cells.histogram import SENSITIVITY, CountNoise
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, validation_of
from fedkme.privacy.ledger import nonce_of

Counts = NDArray[np.int64]

HISTOGRAM = "histogram"
"""Word with which the nonces of its lines begin; what comes after it is of the released counts."""


def sketch_of(run: str) -> str:
    """The name in ledgers of the run of sums from which a run's cells come."""
    return f"{run}/cells"


def histogram_disclosures(run: str, owner: str, event: Event, counts: Counts) -> list[Disclosure]:
    """An owner's histogram as it leaves, with noise.

    The curator sees it, and orders that follow from it go to others.
    """
    return _lines(run, 1, owner, event, float(SENSITIVITY), counts)


def validation_disclosures(run: str, consumer: str, how: CountNoise, counts: Counts) -> list[Disclosure]:
    """D_v's histogram: towards the curator, then towards the owners, whose orders follow from it."""
    return _lines(run, 0, validation_of(consumer), how.event, how.sensitivity, counts)


def pick_disclosures(
    run: str, consumer: str, event: Event, picks: Sequence[int], counts: Counts
) -> list[Disclosure]:
    """D_v's picks of directions, one by one: towards the curator, then the owners, who hear the cells."""
    return [
        Disclosure(
            run, 0, validation_of(consumer), observer, event, "replace-one", float(PICK_SENSITIVITY), nonce
        )
        for nonce in pick_nonces(picks, counts)
        for observer in (CURATOR, OWNERS)
    ]


def pick_nonces(picks: Sequence[int], counts: Counts) -> list[str]:
    """Nonces of the lines of picks: of their bytes, and of the histogram's, which leave with them."""
    drawn = nonce_of(np.concatenate([np.asarray(picks, np.int64), counts]))
    return [f"pick {place} {drawn}" for place in range(1, len(picks) + 1)]


def histogram_nonce(counts: Counts) -> str:
    """Nonce of a histogram's lines."""
    return f"{HISTOGRAM} {nonce_of(counts)}"


def _lines(
    run: str, number: int, protected: str, event: Event, moved: float, counts: Counts
) -> list[Disclosure]:
    nonce = histogram_nonce(counts)
    return [
        Disclosure(run, number, protected, observer, event, "replace-one", moved, nonce)
        for observer in (CURATOR, OWNERS)
    ]
