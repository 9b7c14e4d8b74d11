"""Algorithm 3: rounds in which rows are revealed and the best of them is chosen."""

from __future__ import annotations

from curator.summary.settings import SummarySettings
from sim.families.words import Words, milliseconds
from sim.formatting import Metrics, number


def _most_rows(settings: SummarySettings, rows: int, owners: int) -> float | None:
    return settings.auction.access_bound(rows, owners) if owners else rows


def _line(metrics: Metrics) -> str:
    access = metrics["points_accessed"]
    line = (
        f"points accessed {number(access.get('total'))} ({number(access.get('wasted'))} never used), "
        f"rho {number(access.get('rho'))}"
    )
    bound = access.get("bound")
    return line if bound is None else f"{line}, bound on their expectation {number(bound)}"


def _tile(metrics: Metrics) -> tuple[str, str, str]:
    return "median round", milliseconds(metrics), "broadcast to verified row"


WORDS = Words(
    ranked=True,
    together="Algorithm 3 as printed optimises this; the seed set is public and not returned.",
    sent="Rows that left each owner: blue is in the summary, amber was revealed and never used.",
    unused="revealed, never used",
    bound="bound on the expected points accessed",
    most_rows=_most_rows,
    line=_line,
    tile=_tile,
)
"""Words of every auction."""
