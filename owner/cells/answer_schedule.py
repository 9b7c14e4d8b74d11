"""Schedule of answers: the time of an answer must not tell which cells an owner's rows are in.

Filling an order is the same work whatever the order and the rows' cells are (`design`), and its answer leaves
at a time that follows from public numbers alone: rows, columns, rows ordered, and the time of a unit of work
on this host, measured before the order is known. An answer that is late nevertheless waits for the next
multiple of that time, so that it shows only how busy the host was, in coarse steps.
"""

import functools
import time
from dataclasses import dataclass

import numpy as np

from fedkme.embeddings.kernels import kernel_sum_at
from owner.cells.fill import ANCHORS, Span, candidates_for

MARGIN = 4.0
"""Factor on the estimated time, for a host that is busier than during the measurement."""
LEAST_S = 0.25
"""Time in every answer for directives, ledger, journal and a slow disk, in seconds."""
_BOX_S = 0.002  # per sealed row
_ROWS, _PICKS = 256, 32


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a host takes for units of the work.

    Attributes:
        pair: time for the kernel of two rows, in scores.
        product: time for each pick and pair of a candidate with an anchor or an earlier pick.
    """

    pair: float
    product: float

    def answer_s(self, rows: int, count: int) -> float:
        """Seconds after which an order of `count` out of `rows` rows is answered."""
        picks, pool, anchors = min(count, rows), candidates_for(rows, count), min(rows, ANCHORS)
        work = pool * (rows + anchors) * self.pair + picks * pool * (anchors + picks) * self.product
        return LEAST_S + MARGIN * (work + count * _BOX_S)


@functools.cache
def measured(columns: int) -> Pace:
    """Measure the pace of this host on random rows with `columns` encoded columns; once a process."""
    rows, alike = np.random.default_rng(0).random((_ROWS, columns)), np.full(_ROWS, 1.0 / _ROWS)
    began = time.perf_counter()
    scores = kernel_sum_at(rows, rows, alike, 1.0)
    scored = time.perf_counter()
    span = Span(rows, rows, alike, scores, _PICKS, 1.0)
    for place in range(_PICKS):
        span.gains()
        span.add(place)
    designed = time.perf_counter()
    return Pace((scored - began) / _ROWS**2, (designed - scored) / (_ROWS * _PICKS * (_ROWS + _PICKS)))


def wait_s(answer_s: float, taken_s: float) -> float:
    """Seconds from now until the scheduled answer, or the next multiple of its time; 0 without a schedule."""
    return -taken_s % answer_s if answer_s else 0.0
