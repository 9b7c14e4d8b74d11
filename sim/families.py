"""Wording of reports by family of protocols, and the parts that a report leaves out.

A family is one class here. Runs of sums make no summary: their page is sim/report/release_page.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from curator.summary.settings import SummarySettings
from fedkme.errors import ConfigError
from fedkme.pages.html import number
from fedkme.protocols import PROTOCOLS, Family, fault_of_protocol
from sim.formatting import Metrics


class Words(ABC):
    """Words in which runs of one family are reported.

    Attributes:
        ranked: rows are chosen one a round by their gains, so that there are rounds to draw, rows that were
            revealed in vain, gains to tell the curator, and a variant of the run that the paper has.
        together: caption of the distance with the seed set.
        sent: caption of the rows that owners sent.
        unused: name of the rows that were sent and are not in the summary.
        bound: name of the most rows that may be accessed.
    """

    ranked = False
    together = "The seed set is public and not returned."
    sent: str
    unused: str
    bound: str

    @abstractmethod
    def most_rows(self, settings: SummarySettings, rows: int, owners: int) -> float | None:
        """Most rows that may be accessed, of settings, p and K; None where nothing is proven."""

    @abstractmethod
    def line(self, metrics: Metrics) -> str:
        """Rows and their fate, in a line."""

    @abstractmethod
    def tile(self, metrics: Metrics) -> tuple[str, str, str]:
        """Name, value and meaning of the last figure at the head of the page."""

    def facts(self, metrics: Metrics) -> list[tuple[str, str]]:
        """Names and values of figures beside the rows by owner, of this family alone."""
        return []

    def details(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Entries of record.json that stand under `cells` in metrics.json."""
        return {}

    def rounds(self, rows: int) -> int:
        """Number of rounds of a run for so many rows."""
        return rows if self.ranked else 1


class AuctionWords(Words):
    """Words of Algorithm 3: rounds in which rows are revealed and the best of them is chosen."""

    ranked = True
    together = "Algorithm 3 as printed optimises this; the seed set is public and not returned."
    sent = "Rows that left each owner: blue is in the summary, amber was revealed and never used."
    unused = "revealed, never used"
    bound = "bound on the expected points accessed"

    @override
    def most_rows(self, settings: SummarySettings, rows: int, owners: int) -> float | None:
        return settings.auction.access_bound(rows, owners) if owners else rows

    @override
    def line(self, metrics: Metrics) -> str:
        bound = metrics["points_accessed"].get("bound")
        line = f"points accessed {_accessed(metrics, 'never used')}"
        return line if bound is None else f"{line}, bound on their expectation {number(bound)}"

    @override
    def tile(self, metrics: Metrics) -> tuple[str, str, str]:
        return "median round", _milliseconds(metrics), "broadcast to verified row"


class UniformWords(Words):
    """Words of uniform sampling: one draw of each owner, independent of its rows."""

    sent = "Rows that each owner drew at random and sent. Which of them were kept, no owner is told."
    unused = "drawn, not kept"
    bound = "rows drawn at most"

    @override
    def most_rows(self, settings: SummarySettings, rows: int, owners: int) -> float | None:
        return settings.drawn(rows)

    @override
    def line(self, metrics: Metrics) -> str:
        return f"rows drawn {_accessed(metrics, 'not kept')}"

    @override
    def tile(self, metrics: Metrics) -> tuple[str, str, str]:
        return "the round", _milliseconds(metrics), "rows drawn at random, in one round"


class CellWords(Words):
    """Words of orders by public cells: a histogram of each owner, an order to it, and its rows."""

    sent = "Rows that left each owner to fill its order. Which of them were kept, no owner is told."
    unused = "sent, not kept"
    bound = "rows ordered at most"

    @override
    def most_rows(self, settings: SummarySettings, rows: int, owners: int) -> float | None:
        return round(settings.cells.rho * rows)

    @override
    def line(self, metrics: Metrics) -> str:
        access, cells = metrics["points_accessed"], metrics.get("cells", {})
        line = (
            f"rows ordered {number(cells.get('ordered'))}, {number(access.get('total'))} accessed, "
            f"{number(access.get('wasted'))} not kept"
        )
        dropped = cells.get("dropped")
        where = "of D_v in cells that no owner seems to have"
        return line if dropped is None else f"{line}; {dropped:.1%} {where}"

    @override
    def tile(self, metrics: Metrics) -> tuple[str, str, str]:
        rho = number(metrics.get("cells", {}).get("rho"))
        return "rows asked per row kept", rho, "ordered by cells, in one round"

    @override
    def facts(self, metrics: Metrics) -> list[tuple[str, str]]:
        cells = metrics.get("cells", {})
        dropped = "-" if cells.get("dropped") is None else f"{cells['dropped']:.1%}"
        return [
            ("public cells", number(cells.get("cells"))),
            ("share of D_v in cells that no owner seems to have", dropped),
        ]

    @override
    def details(self, record: Mapping[str, Any]) -> dict[str, Any]:
        book = record.get("code_book") or {}
        return {
            "rho": record["cells"]["rho"],
            "code_book": book.get("kind"),
            "cells": book.get("cells"),
            "classes": record.get("classes"),
            "ordered": sum(record["orders"].values()) if "orders" in record else None,
            "dropped": record.get("dropped"),
        }


FAMILIES: Mapping[Family, Words] = {
    "auction": AuctionWords(),
    "uniform": UniformWords(),
    "cells": CellWords(),
}


def words_of(protocol: str) -> Words:
    """Look up the words of a protocol by its name.

    Raises:
        ConfigError: no protocol of this name makes a summary.
    """
    row = PROTOCOLS.get(protocol)
    if row is None or row.family not in FAMILIES:
        fault = fault_of_protocol(protocol) or f"{protocol!r} makes no summary"
        raise ConfigError(fault, "Install the package that the run's protocol comes from.")
    return FAMILIES[row.family]


def _accessed(metrics: Metrics, unused: str) -> str:
    access = metrics["points_accessed"]
    return (
        f"{number(access.get('total'))} ({number(access.get('wasted'))} {unused}), "
        f"rho {number(access.get('rho'))}"
    )


def _milliseconds(metrics: Metrics) -> str:
    """Median time of a round, or of the only one."""
    return f"{number(metrics.get('timing', {}).get('round_p50_ms'))} ms"
