"""Table of protocols: one row a protocol, from which every other list of them is read.

A row says what an owner agrees to by the protocol's name: the family it belongs to, the questions that it
asks between the beginning and the end of a run, what of a row may leave, and the words in which people are
told of it. Variants in which the curator handles sealed or hashed rows are derived. Owners' policies, the
wire, settings, the audit, metrics, reports and `--help` read this table; there is no second one
(docs/decisions/010).

To add a protocol, write its folder at each party and one row here. An auction or a release method that
another package brings adds its row by an entry point (docs/extending.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Family = Literal["auction", "uniform", "cells", "sums"]
"""How a run goes: rounds of Algorithm 3 by an auction, uniform draws, one order by cells, sums over rows."""

RowsLeave = Literal["raw", "hashed", "none"]
"""What of a row may reach the curator: the row, h1 of it at most (with the row sealed for the consumer), or
numbers about all rows alone."""

SumsLeave = Literal["exact", "aggregated", "noisy"]
"""What of sums over an owner's rows the curator may see: them as they are, only a total over all owners by
secure aggregation, or only a total in which the owners' noise is already."""

Question = Literal["broadcast", "ask", "quote", "sell", "draw", "tally", "herd", "embed", "aggregate"]
"""A directive between the beginning and the end of a run, by its name on the wire."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What an owner agrees to by a protocol's name.

    Attributes:
        name: as owners' policies, invitations and ledgers have it.
        family: how its runs go; it decides which terms an invitation has.
        questions: what owners are asked between the beginning and the end of a run.
        title: what a person reads.
        rows: what of a row may leave.
        base: the name of the protocol of which this is a variant; its own name otherwise.
        settings: table of settings in which a run is configured: `summary`, or the release's own.
    """

    name: str
    family: Family
    questions: frozenset[Question]
    title: str
    rows: RowsLeave = "raw"
    base: str = ""
    settings: str = "summary"

    @property
    def sealed(self) -> bool:
        """Whether rows go through the curator in boxes that the consumer alone opens."""
        return self.rows == "hashed"

    @property
    def hashed(self) -> bool:
        """Whether the curator chooses by h1 of rows, under a draw that it does not know."""
        return self.sealed and self.family == "auction"


_RANKED: frozenset[Question] = frozenset({"broadcast", "ask"})
_SUMS: frozenset[Question] = frozenset({"embed", "aggregate"})


def sums_protocol(name: str, title: str) -> Protocol:
    """The row of a release method: it asks for sums over all rows and for nothing of a row."""
    return Protocol(name, "sums", _SUMS, title, rows="none", settings="release")


def auction_protocol(name: str, title: str, questions: Iterable[Question] = _RANKED) -> Protocol:
    """The row of an auction of Algorithm 3."""
    return Protocol(name, "auction", frozenset(questions), title)


_ROWS = (
    auction_protocol("ask-everyone", "Algorithm 3, everyone is asked"),
    auction_protocol("clock", "Algorithm 3, descending clock", ("quote", "sell")),
    auction_protocol("privauction", "Algorithm 3, PRIVAUCTION as published"),
    auction_protocol("winner-only", "Algorithm 3, the best bidder alone is asked"),
    Protocol("cells", "cells", frozenset({"tally", "herd"}), "orders by public cells"),
    Protocol("uniform", "uniform", frozenset({"draw"}), "uniform sampling"),
    sums_protocol("balog1", "weighted public points (Balog 2018, Algorithm 1)"),
    sums_protocol("balog2", "weighted generated points (Balog 2018, Algorithm 2)"),
    sums_protocol("hermite", "DP-HP, generated rows"),
    sums_protocol("marginals", "rows of a model of noisy marginals"),
    sums_protocol("merf", "DP-MERF, generated rows"),
    sums_protocol("sketch", "sketch of owners' rows for public cells"),
)


def _variants(row: Protocol) -> Iterator[Protocol]:
    """A row of the table, and the variant in which the curator handles boxes in place of rows."""
    yield replace(row, base=row.name)
    if row.rows == "raw":
        suffix = "hashed" if row.family == "auction" else "sealed"
        title = f"{row.title}, on hashes" if suffix == "hashed" else f"{row.title}, rows sealed"
        yield replace(row, name=f"{row.name}-{suffix}", title=title, rows="hashed", base=row.name)


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {row.name: row for each in _ROWS for row in _variants(each)}
)
"""Every protocol that this package knows, by name."""

SKETCH = "sketch"
"""The protocol of sums by which a summary by cells makes its public code book."""

_ALLOWED: Mapping[RowsLeave, frozenset[RowsLeave]] = {
    "raw": frozenset({"raw", "hashed", "none"}),
    "hashed": frozenset({"hashed", "none"}),
    "none": frozenset({"none"}),
}


def names(family: Family | None = None) -> tuple[str, ...]:
    """Names of all protocols, or of a family's, in the order of the table."""
    return tuple(name for name, row in PROTOCOLS.items() if family in (None, row.family))


def variant(base: str, sealed: bool) -> Protocol:
    """The row of a protocol whose rows come as they are, or in boxes.

    Raises:
        KeyError: there is no such protocol.
    """
    return next(row for row in PROTOCOLS.values() if row.base == base and row.sealed == sealed)


def is_sealed(protocol: str) -> bool:
    """Check whether rows of a protocol travel in boxes; an unknown name has none."""
    return (row := PROTOCOLS.get(protocol)) is not None and row.sealed


def is_hashed(protocol: str) -> bool:
    """Check whether the curator of a protocol chooses by hashes; of an unknown name it does not."""
    return (row := PROTOCOLS.get(protocol)) is not None and row.hashed


def keeps_to(protocol: str, rows: RowsLeave) -> bool:
    """Check that a protocol lets no more of a row leave than an owner allows."""
    return PROTOCOLS[protocol].rows in _ALLOWED[rows]


def foreign(protocol: str, question: str) -> bool:
    """Check whether a question belongs to other protocols only: agreeing to one is not agreeing to theirs."""
    row = PROTOCOLS.get(protocol)
    asked_here = row is None or question in row.questions
    return not asked_here and any(question in other.questions for other in PROTOCOLS.values())


def fault_of_protocol(name: str) -> str:
    """Reason why no protocol has this name, in a line; empty where one has."""
    if name in PROTOCOLS:
        return ""
    close = difflib.get_close_matches(name, PROTOCOLS, n=1)
    known = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(PROTOCOLS)}"
    return f"{name[:64]!r} is no protocol; {known}"
