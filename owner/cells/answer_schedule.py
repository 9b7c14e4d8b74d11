"""Schedule of answers whose time must not tell which cells an owner's rows are in.

Filling an order is the same work whatever the order and the rows' cells are (`herding`, `design`), and its
answer leaves at a time that follows from public numbers alone: rows, columns, rows ordered, how they are to
be picked, and what this host takes for a unit of the work, measured before it knows anything of the order. An
answer that is late nevertheless waits for the next multiple of that time, so that what shows is how busy the
host was, in coarse steps.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np

from fedkme.protocol import Fill
from owner.cells.design import ANCHORS, Span, candidates_for
from owner.cells.herding import herd, target_scores

MARGIN = 4.0
"""Factor on the time that is foreseen, for a host that is busier than when it was measured."""
LEAST_S = 0.25
"""Part of the time of every answer: directives, ledger and journal, and a disk that waits."""
_BOX_S = 0.002  # for each row that is sealed
_ROWS, _PICKS = 256, 32


@dataclass(frozen=True, slots=True)
class Pace:
    """Time that a host takes, in seconds.

    Attributes:
        pair: for two rows, in scores.
        pick: for a row, each time that one is picked by herding.
        product: for a candidate and an anchor or a row picked before, each time that one is picked by design.
    """

    pair: float
    pick: float
    product: float

    def answer_s(self, rows: int, count: int, fill: Fill) -> float:
        """Time at which an order of `count` of so many rows is answered."""
        picks = min(count, rows)
        if fill == "design":
            pool, anchors = candidates_for(rows, count), min(rows, ANCHORS)
            work = pool * (rows + anchors) * self.pair + picks * pool * (anchors + picks) * self.product
        else:
            work = rows * rows * self.pair + picks * rows * self.pick
        return LEAST_S + MARGIN * (work + count * _BOX_S)


@functools.cache
def measured(columns: int) -> Pace:
    """Pace of this host with rows of so many encoded columns, on rows that are nobody's; once a process."""
    rows, alike = np.random.default_rng(0).random((_ROWS, columns)), np.full(_ROWS, 1.0 / _ROWS)
    began = time.perf_counter()
    scores = target_scores(rows, rows, alike, 1.0)
    scored = time.perf_counter()
    herd(rows, scores, _PICKS, 1.0)
    herded = time.perf_counter()
    span = Span(rows, rows, alike, scores, _PICKS, 1.0)
    for place in range(_PICKS):
        span.gains()
        span.add(place)
    designed = time.perf_counter()
    return Pace(
        (scored - began) / _ROWS**2,
        (herded - scored) / (_ROWS * _PICKS),
        (designed - herded) / (_ROWS * _PICKS * (_ROWS + _PICKS)),
    )


def wait_s(answer_s: float, taken_s: float) -> float:
    """Seconds from now to the time of an answer, or to its next multiple; 0 where there is none."""
    return -taken_s % answer_s if answer_s else 0.0
