"""Disclosures of a summary by cells: the lines that both sides write in their ledgers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.histogram import SENSITIVITY, CountNoise
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, validation_of
from fedkme.privacy.ledger import nonce_of

Counts = NDArray[np.int64]
PICK_SENSITIVITY = 1
"""Sensitivity of the score of every direction that D_v may pick, replace-one."""

_SKETCH = "/cells"
HISTOGRAM = "histogram"
"""First word of the nonces of histograms' lines; a digest of the released counts follows."""


def sketch_of(run: str) -> str:
    """Name in ledgers of the run of sums that gives a run its cells."""
    return f"{run}{_SKETCH}"


def run_of(name: str) -> str:
    """Run that a name in ledgers belongs to: its own or, for a sketch, the run that has the cells."""
    return name.removesuffix(_SKETCH)


def histogram_disclosures(run: str, owner: str, event: Event, counts: Counts) -> list[Disclosure]:
    """Lines of an owner's noisy histogram.

    The curator sees the histogram; other owners get orders that follow from it.
    """
    return _lines(run, 1, owner, event, float(SENSITIVITY), counts)


def validation_disclosures(
    run: str, consumer: str, how: CountNoise, counts: Counts, column: int | None = None
) -> list[Disclosure]:
    """Lines of D_v's histogram, by cells or of a column: towards the curator, then owners, who get orders."""
    return _lines(run, 0, validation_of(consumer), how.event, how.sensitivity, counts, column)


def pick_disclosures(
    run: str, consumer: str, event: Event, picks: Sequence[int], counts: Counts
) -> list[Disclosure]:
    """Lines of D_v's picks of directions: each towards the curator, then the owners, who get the cells."""
    return [
        Disclosure(
            run, 0, validation_of(consumer), observer, event, "replace-one", float(PICK_SENSITIVITY), nonce
        )
        for nonce in pick_nonces(picks, counts)
        for observer in (CURATOR, OWNERS)
    ]


def pick_nonces(picks: Sequence[int], counts: Counts) -> list[str]:
    """Nonces of the lines of picks: a digest of the picks and of the histogram, which leaves with them."""
    drawn = nonce_of(np.concatenate([np.asarray(picks, np.int64), counts]))
    return [f"pick {place} {drawn}" for place in range(1, len(picks) + 1)]


def histogram_nonce(counts: Counts, column: int | None = None) -> str:
    """Nonce of the lines of a histogram by cells, or of a column: of two columns they differ."""
    nonce = f"{HISTOGRAM} {nonce_of(counts)}"
    return nonce if column is None else f"{nonce} {column}"


def _lines(
    run: str,
    number: int,
    protected: str,
    event: Event,
    moved: float,
    counts: Counts,
    column: int | None = None,
) -> list[Disclosure]:
    nonce = histogram_nonce(counts, column)
    return [
        Disclosure(run, number, protected, observer, event, "replace-one", moved, nonce)
        for observer in (CURATOR, OWNERS)
    ]
