"""Accountants: figures for events, as published and as proven (DESIGN.md, decision 4).

Composition and curves are computed when a figure is read, at whatever delta is asked for; a ledger holds
events only. Nothing here belongs on the path of a round: the first numerical figure imports dp-accounting.
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
