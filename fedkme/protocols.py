"""Table of protocols: one row a protocol, from which every other list of them is read.

A row says what an owner agrees to by the protocol's name: the family it belongs to, the questions that it
asks between the beginning and the end of a run, what of a row may leave, and the words in which people are
told of it. Variants in which the curator handles sealed or hashed rows are derived. Owners' policies, the
wire, settings, the audit, metrics, reports and `--help` read this table; there is no second one
(docs/decisions/011).

To add a protocol, write its folder at each party and one row here. An auction or a release method that
another package brings adds its row by an entry point (docs/extending.md).
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from fedkme.errors import ExtensionError
from fedkme.extensions import AUCTIONS, RELEASES, registered

Family = Literal["auction", "uniform", "cells", "sums"]
"""Course of a run: rounds of Algorithm 3 by an auction, uniform draws, one order by cells, sums over rows."""

RowsLeave = Literal["raw", "hashed", "none"]
"""Part of a row that may reach the curator: the row, h1 of it at most (with the row sealed for the consumer),
or numbers about all rows alone."""

SumsLeave = Literal["exact", "noisy"]
"""Part of sums over an owner's rows that the curator may see: them as they are, or only a total over all
owners in which the owners' noise is already, by secure aggregation."""

NO_EXACT_TOTALS = (
    "is withdrawn: the difference of two exact totals, over other owners or of nearly the same question, was "
    "one owner's exact sums (docs/decisions/005)"
)
"""Reason why secure aggregation without owners' noise is no setting any more."""

Question = Literal[
    "broadcast", "ask", "quote", "sell", "draw", "histogram", "fill_order", "embed", "aggregate"
]
"""A directive between the beginning and the end of a run, by its name on the wire."""

Following = Mapping[str, str]
"""Questions that are legal in a state of a run, and the state after each was answered."""

_RANKS: Mapping[str, Following] = {
    "open": {"broadcast": "open", "ask": "open", "draw": "open", "quote": "quoted", "close": "closed"},
    "quoted": {"quote": "quoted", "sell": "open", "close": "closed"},
    "closed": {},
}
ORDER: Mapping[Family, Mapping[str, Following]] = {
    "auction": _RANKS,
    "uniform": _RANKS,
    "cells": {
        "open": {"histogram": "counted", "fill_order": "filled", "close": "closed"},
        "counted": {"fill_order": "filled", "close": "closed"},
        "filled": {"close": "closed"},
        "closed": {},
    },
    "sums": {"open": {"embed": "open", "aggregate": "open"}},
}
"""States of a run by family; of a secure aggregation, `fedkme.secagg` has the order of the phases."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Row of the table: all that an owner agrees to by a protocol's name.

    Attributes:
        name: name in owners' policies, invitations and ledgers.
        family: how its runs go; it decides which terms an invitation has.
        questions: what owners are asked between the beginning and the end of a run.
        title: what a person reads.
        rows: what of a row may leave.
        base: the name of the protocol of which this is a variant; its own name otherwise.
        settings: `module:Class` of the settings of an auction or a release method, empty for other protocols;
            imported by the roles that read such settings, and not by owners.
        method: `module:name` of what makes the method of a release; imported by the curator alone.
    """

    name: str
    family: Family
    questions: frozenset[Question]
    title: str
    rows: RowsLeave = "raw"
    base: str = ""
    settings: str = ""
    method: str = ""

    @property
    def sealed(self) -> bool:
        """Check whether rows go through the curator in boxes that the consumer alone opens."""
        return self.rows == "hashed"

    @property
    def ordered(self) -> bool:
        """Check whether owners send the rows that fill an order."""
        return "fill_order" in self.questions

    @property
    def hashed(self) -> bool:
        """Check whether the curator chooses by h1 of rows, under a draw that it does not know."""
        return self.sealed and self.family == "auction"


_RANKED: frozenset[Question] = frozenset({"broadcast", "ask"})
_SUMS: frozenset[Question] = frozenset({"embed", "aggregate"})
_GROUPS: Mapping[str, Family] = {AUCTIONS: "auction", RELEASES: "sums"}


def release_protocol(name: str, title: str, *, settings: str, method: str) -> Protocol:
    """The row of a release method: it asks for sums over all rows and for nothing of a row."""
    return Protocol(name, "sums", _SUMS, title, rows="none", settings=settings, method=method)


def auction_protocol(
    name: str, title: str, *, settings: str, questions: Iterable[Question] = _RANKED
) -> Protocol:
    """The row of an auction of Algorithm 3."""
    return Protocol(name, "auction", frozenset(questions), title, settings=settings)


_ROWS = (
    auction_protocol(
        "ask-everyone",
        "Algorithm 3, everyone is asked",
        settings="curator.summary.auctions.base:AskEveryoneSettings",
    ),
    auction_protocol(
        "clock",
        "Algorithm 3, descending clock",
        questions=("quote", "sell"),
        settings="curator.summary.auctions.clock:ClockSettings",
    ),
    auction_protocol(
        "privauction",
        "Algorithm 3, PRIVAUCTION as published",
        settings="curator.summary.auctions.privauction:PrivAuctionSettings",
    ),
    auction_protocol(
        "winner-only",
        "Algorithm 3, the best bidder alone is asked",
        settings="curator.summary.auctions.base:WinnerOnlySettings",
    ),
    Protocol("cells", "cells", frozenset({"histogram", "fill_order"}), "orders by public cells"),
    Protocol("uniform", "uniform", frozenset({"draw"}), "uniform sampling"),
    release_protocol(
        "balog1",
        "weighted public points (Balog 2018, Algorithm 1)",
        settings="fedkme.releases.settings:Balog1Settings",
        method="curator.releases.methods.balog:Balog1",
    ),
    release_protocol(
        "balog2",
        "weighted points found against the release (Balog 2018, Algorithm 2)",
        settings="fedkme.releases.settings:Balog2Settings",
        method="curator.releases.methods.balog:Balog2",
    ),
    release_protocol(
        "hermite",
        "rows of a generator trained on Hermite features (DP-HP, Vinaroz 2022)",
        settings="fedkme.releases.settings:HermiteSettings",
        method="curator.releases.methods.generated:Hermite",
    ),
    release_protocol(
        "marginals",
        "rows of a model of noisy marginals",
        settings="fedkme.releases.settings:MarginalsSettings",
        method="curator.releases.methods.marginals:MarginalsMethod",
    ),
    release_protocol(
        "merf",
        "rows of a generator trained on random features (DP-MERF, Harder 2021)",
        settings="fedkme.releases.settings:MerfSettings",
        method="curator.releases.methods.generated:Merf",
    ),
    release_protocol(
        "moments",
        "rows sampled from noisy second moments by class",
        settings="fedkme.releases.settings:MomentsSettings",
        method="curator.releases.methods.moments:Moments",
    ),
    Protocol("sketch", "sums", _SUMS, "sketch or release of rows for public cells", rows="none"),
)


def _variants(row: Protocol) -> Iterator[Protocol]:
    """A row of the table, and the variant in which the curator handles boxes in place of rows."""
    yield replace(row, base=row.name)
    if row.rows == "raw":
        suffix = "hashed" if row.family == "auction" else "sealed"
        title = f"{row.title}, on hashes" if suffix == "hashed" else f"{row.title}, rows sealed"
        yield replace(row, name=f"{row.name}-{suffix}", title=title, rows="hashed", base=row.name)


def _by_name(rows: Iterable[Protocol]) -> dict[str, Protocol]:
    """Rows and their variants by name."""
    protocols: dict[str, Protocol] = {}
    for row in (variant for each in rows for variant in _variants(each)):
        if protocols.setdefault(row.name, row) is not row:
            cause = f"two protocols are called '{row.name}'"
            raise ExtensionError(cause, "Uninstall the package that brings one of them.")
    return protocols


_by_name(_ROWS)  # every row of this package has a name of its own


class _Table(Mapping[str, Protocol]):
    """Protocols of this package, then of other packages, which are looked up at the first use."""

    @cached_property
    def _rows(self) -> Mapping[str, Protocol]:
        """All rows by name."""
        others = [
            _checked(name, row, group, family)
            for group, family in _GROUPS.items()
            for name, row in registered(group).items()
        ]
        return _by_name([*_ROWS, *others])

    def __getitem__(self, name: str) -> Protocol:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _checked(name: str, row: object, group: str, family: Family) -> Protocol:
    """The row that an entry point registered."""
    rows = "none" if family == "sums" else "raw"
    if (
        not isinstance(row, Protocol)
        or (row.name, row.family, row.rows) != (name, family, rows)
        or not row.settings
    ):
        remedy = "Register what auction_protocol or release_protocol returns, under the name of the row."
        raise ExtensionError(f"'{name}' in {group} has no row for the table of protocols", remedy)
    return row


PROTOCOLS: Mapping[str, Protocol] = _Table()
"""Every protocol by name: this package's, and those of packages that are installed here."""

ALGORITHM3 = "algorithm3"
"""The word in settings of summaries that stands for the protocol of the auction that they name."""
AUTO = "auto"
"""The word in settings of summaries that leaves the protocol to the plan (docs/decisions/008)."""
TARGET = "target"
"""The word in settings of a simulation that stands for a release, and rows for a target made of it at the
consumer; no protocol of its own, as owners take part in the release alone."""
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


def summaries() -> tuple[str, ...]:
    """Ways to make a summary, by their words in settings: the plan's, auctions together, all others."""
    return (AUTO, ALGORITHM3, *(row.name for row in _own("cells", "uniform")))


def configured(family: Family) -> dict[str, str]:
    """`module:Class` of the settings of a family's own protocols, by the name that is their kind."""
    return {row.name: row.settings for row in _own(family) if row.settings}


def _own(*families: Family) -> Iterator[Protocol]:
    """Rows of families that are variants of no other."""
    return (row for row in PROTOCOLS.values() if row.family in families and row.base == row.name)


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


def is_blind(protocol: str) -> bool:
    """Check whether no question of a protocol depends on values of rows; of an unknown name any may."""
    return (row := PROTOCOLS.get(protocol)) is not None and row.family == "uniform"


def keeps_to(protocol: str, rows: RowsLeave) -> bool:
    """Check that a protocol lets no more of a row leave than an owner allows."""
    return PROTOCOLS[protocol].rows in _ALLOWED[rows]


def fault_of_protocol(name: str) -> str:
    """Reason why no protocol has this name, in a line; empty where one has."""
    if name in PROTOCOLS:
        return ""
    close = difflib.get_close_matches(name, PROTOCOLS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(PROTOCOLS)}"
    return f"{name[:64]!r} is no protocol; {hint}"
