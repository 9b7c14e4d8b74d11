"""Orders by public cells: one histogram of each owner, one order to each, and the rows that fill it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curator.summary.settings import SummarySettings
from sim.families.words import Facts, Words
from sim.formatting import Metrics, number


def _most_rows(settings: SummarySettings, rows: int, owners: int) -> float:
    return round(settings.cells.rho * rows)


def _details(record: Mapping[str, Any]) -> dict[str, Any]:
    book = record.get("code_book") or {}
    return {
        "rho": record["cells"]["rho"],
        "code_book": book.get("kind"),
        "cells": book.get("cells"),
        "classes": record.get("classes"),
        "ordered": sum(record["orders"].values()) if "orders" in record else None,
        "dropped": record.get("dropped"),
    }


def _line(metrics: Metrics) -> str:
    access, cells = metrics["points_accessed"], metrics.get("cells", {})
    line = (
        f"rows ordered {number(cells.get('ordered'))}, {number(access.get('total'))} accessed, "
        f"{number(access.get('wasted'))} not kept"
    )
    dropped = cells.get("dropped")
    return line if dropped is None else f"{line}; {dropped:.1%} of D_v in cells that no owner seems to have"


def _tile(metrics: Metrics) -> tuple[str, str, str]:
    rho = number(metrics.get("cells", {}).get("rho"))
    return "rows asked per row kept", rho, "ordered by cells, in one round"


def _facts(metrics: Metrics) -> Facts:
    cells = metrics.get("cells", {})
    dropped = cells.get("dropped")
    return [
        ("public cells", number(cells.get("cells"))),
        ("share of D_v in cells that no owner seems to have", "-" if dropped is None else f"{dropped:.1%}"),
    ]


WORDS = Words(
    sent="Rows that left each owner to fill its order. Which of them were kept, no owner is told.",
    unused="sent, not kept",
    bound="rows ordered at most",
    most_rows=_most_rows,
    line=_line,
    tile=_tile,
    facts=_facts,
    details=_details,
)
"""Words of a summary by cells."""
