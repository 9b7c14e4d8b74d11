"""Uniform sampling: one draw of each owner, whatever its rows are."""

from __future__ import annotations

from curator.summary.settings import SummarySettings
from sim.families.words import Words, milliseconds
from sim.formatting import Metrics, number


def _most_rows(settings: SummarySettings, rows: int, owners: int) -> float:
    return settings.drawn(rows)


def _line(metrics: Metrics) -> str:
    access = metrics["points_accessed"]
    return (
        f"rows drawn {number(access.get('total'))} ({number(access.get('wasted'))} not kept), "
        f"rho {number(access.get('rho'))}"
    )


def _tile(metrics: Metrics) -> tuple[str, str, str]:
    return "the round", milliseconds(metrics), "rows drawn at random, in one round"


WORDS = Words(
    sent="Rows that each owner drew at random and sent. Which of them were kept, no owner is told.",
    unused="drawn, not kept",
    bound="rows drawn at most",
    most_rows=_most_rows,
    line=_line,
    tile=_tile,
)
"""Words of uniform sampling."""
