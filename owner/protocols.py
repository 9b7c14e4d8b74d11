"""Protocols that an owner takes part in, and what each lets leave of its rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal

RowsLeave = Literal["raw", "hashed", "none"]
"""What of a row may reach the curator: the row, h1 of it, or numbers about all rows alone."""

PROTOCOLS: Mapping[str, RowsLeave] = {
    "ask-everyone": "raw",
    "clock": "raw",
    "privauction": "raw",
    "uniform": "raw",
    "winner-only": "raw",
}
"""By the name that an assignment has for the protocol. One that lets less leave says so here."""

_ALLOWED: Mapping[RowsLeave, frozenset[RowsLeave]] = {
    "raw": frozenset({"raw", "hashed", "none"}),
    "hashed": frozenset({"hashed", "none"}),
    "none": frozenset({"none"}),
}


def keeps_to(protocol: str, rows: RowsLeave) -> bool:
    """Whether no more of a row leaves in a protocol than may."""
    return PROTOCOLS[protocol] in _ALLOWED[rows]


def fault_of_protocol(name: str) -> str:
    """Why there is no protocol of this name, in a line; empty where there is."""
    if name in PROTOCOLS:
        return ""
    close = difflib.get_close_matches(name, PROTOCOLS, n=1)
    known = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(PROTOCOLS)}"
    return f"{name[:64]!r} is no protocol; {known}"
