"""Accountants: figures for events, as published and as proven (DESIGN.md, decision 4).

A ledger holds events only. An accountant composes them when somebody reads a figure, at any delta. Rounds of
a run must not call this package: the first numerical figure imports dp-accounting, which is slow.
"""

from fedkme.privacy.accountants.bound import Accountant, Bound, Support
from fedkme.privacy.accountants.matrix import (
    TOGETHER,
    Cells,
    MatrixCell,
    by_owner,
    cells_of,
    composed,
    is_consumer,
    matrix,
    paid,
    with_coalition,
)
from fedkme.privacy.accountants.pld import to_dp_event
from fedkme.privacy.accountants.published import Published
from fedkme.privacy.accountants.sound import Sound

__all__ = [
    "TOGETHER",
    "Accountant",
    "Bound",
    "Cells",
    "MatrixCell",
    "Published",
    "Sound",
    "Support",
    "by_owner",
    "cells_of",
    "composed",
    "is_consumer",
    "matrix",
    "paid",
    "to_dp_event",
    "with_coalition",
]
