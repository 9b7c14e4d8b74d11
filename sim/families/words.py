"""Words of a family of protocols: what a report says of its runs, and what it leaves out.

A family is one file beside this one and its line in table.py. Runs of sums make no summary: their page is
sim/report/release_page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from curator.summary.settings import SummarySettings
from sim.formatting import Metrics, number

Facts = list[tuple[str, str]]
"""Names and values."""


def _no_details(record: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _no_facts(metrics: Metrics) -> Facts:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Words in which runs of one family are reported.

    Attributes:
        ranked: rows are chosen one a round by their gains, so that there are rounds to draw, rows that were
            revealed in vain, gains to tell the curator, and a variant of the run that the paper has.
        together: caption of the distance with the seed set.
        sent: caption of the rows that owners sent.
        unused: name of the rows that were sent and are not in the summary.
        bound: name of the most rows that may be accessed.
        most_rows: that number, of settings, p and K; None where nothing is proven.
        line: rows and what became of them, in a line of metrics.json.
        tile: name, value and meaning of the last figure at the head of the page.
        facts: figures of metrics.json beside the rows by owner, of this family alone.
        details: entries of record.json that stand under `cells` in metrics.json.
    """

    ranked: bool = False
    together: str = "The seed set is public and not returned."
    sent: str
    unused: str
    bound: str
    most_rows: Callable[[SummarySettings, int, int], float | None]
    line: Callable[[Metrics], str]
    tile: Callable[[Metrics], tuple[str, str, str]]
    facts: Callable[[Metrics], Facts] = _no_facts
    details: Callable[[Mapping[str, Any]], dict[str, Any]] = _no_details

    def rounds(self, rows: int) -> int:
        """Number of rounds of a run for so many rows."""
        return rows if self.ranked else 1


def milliseconds(metrics: Metrics) -> str:
    """Median time of a round, or of the only one."""
    return f"{number(metrics.get('timing', {}).get('round_p50_ms'))} ms"
