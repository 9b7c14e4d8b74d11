"""Protocols that an owner takes part in, and what each lets leave of its rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal

RowsLeave = Literal["raw", "hashed", "none"]
"""What of a row may reach the curator: the row, h1 of it at most (with the row sealed for the consumer), or
numbers about all rows alone."""

SumsLeave = Literal["exact", "aggregated", "noisy"]
"""What of sums over an owner's rows the curator may see: them as they are, only a total over all owners by
secure aggregation, or only a total in which the owners' noise is already."""

RELEASES = frozenset({"balog1", "balog2", "hermite", "marginals", "merf", "sketch"})
"""Protocols of sums: they ask for sums over all rows and for nothing of a row. `sketch` is for the public
code book of a summary by cells."""

CELLS = "cells"

PROTOCOLS: Mapping[str, RowsLeave] = {
    "ask-everyone": "raw",
    "ask-everyone-hashed": "hashed",
    "cells": "raw",
    "cells-sealed": "hashed",
    "clock": "raw",
    "clock-hashed": "hashed",
    "privauction": "raw",
    "privauction-hashed": "hashed",
    "uniform": "raw",
    "uniform-sealed": "hashed",
    "winner-only": "raw",
    "winner-only-hashed": "hashed",
    **dict.fromkeys(sorted(RELEASES), "none"),
}
"""By the name that an assignment has for the protocol. One that lets less leave says so here."""

QUESTIONS: Mapping[str, frozenset[str]] = {
    "ask-everyone": frozenset({"broadcast", "ask"}),
    "ask-everyone-hashed": frozenset({"broadcast", "ask"}),
    "cells": frozenset({"tally", "herd"}),
    "cells-sealed": frozenset({"tally", "herd"}),
    "clock": frozenset({"quote", "sell"}),
    "clock-hashed": frozenset({"quote", "sell"}),
    "privauction": frozenset({"broadcast", "ask"}),
    "privauction-hashed": frozenset({"broadcast", "ask"}),
    "uniform": frozenset({"draw"}),
    "uniform-sealed": frozenset({"draw"}),
    "winner-only": frozenset({"broadcast", "ask"}),
    "winner-only-hashed": frozenset({"broadcast", "ask"}),
    **dict.fromkeys(sorted(RELEASES), frozenset({"embed", "aggregate"})),
}
"""Directives that a protocol knows between the beginning and the end of a run."""

SEALED = frozenset(name for name, leaves in PROTOCOLS.items() if leaves == "hashed")
"""Protocols in which rows go through the curator in boxes that the consumer alone opens."""

HASHED = frozenset(name for name in SEALED if name.endswith("-hashed"))
"""Those of them in which the curator chooses by h1 of rows, under a draw that it does not know."""

_ALLOWED: Mapping[RowsLeave, frozenset[RowsLeave]] = {
    "raw": frozenset({"raw", "hashed", "none"}),
    "hashed": frozenset({"hashed", "none"}),
    "none": frozenset({"none"}),
}


def keeps_to(protocol: str, rows: RowsLeave) -> bool:
    """Whether no more of a row leaves in a protocol than may."""
    return PROTOCOLS[protocol] in _ALLOWED[rows]


def foreign(protocol: str, question: str) -> bool:
    """Whether a directive is one of other protocols: who agreed to one did not agree to what those ask."""
    others = (known for name, known in QUESTIONS.items() if name != protocol)
    return question not in QUESTIONS.get(protocol, {question}) and any(question in known for known in others)


def fault_of_protocol(name: str) -> str:
    """Why there is no protocol of this name, in a line; empty where there is."""
    if name in PROTOCOLS:
        return ""
    close = difflib.get_close_matches(name, PROTOCOLS, n=1)
    known = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(PROTOCOLS)}"
    return f"{name[:64]!r} is no protocol; {known}"
