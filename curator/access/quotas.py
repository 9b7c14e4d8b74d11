"""Quotas: what one consumer may have of a curator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from curator.runs.queue import Run
from fedkme.config import Settings
from fedkme.errors import QuotaError

_REMEDY = "Ask for less, wait, or agree with the curator on a larger quota."


class Quota(Settings):
    """Limits for one consumer; none: no limit."""

    most_rows: int | None = Field(None, ge=1)
    """Rows of one summary."""
    most_rows_in_all: int | None = Field(None, ge=1)
    """Rows of all summaries that were begun and not cancelled before a row was chosen."""
    most_runs: int | None = Field(None, ge=1)
    """Runs in all."""
    most_open_runs: int | None = Field(None, ge=1)
    """Runs that wait or are under way at a time."""

    def check(self, consumer: str, rows: int, before: Sequence[Run]) -> None:
        """Refuse a request for `rows`, 0 of a release, that goes over it, given every run before.

        Raises:
            QuotaError: it does.
        """
        begun = [run for run in before if run.status != "asked"]
        asked_for = sum(run.rows for run in begun)
        limits = (
            ("rows of one summary", self.most_rows, rows),
            ("rows of all its summaries", self.most_rows_in_all, asked_for + rows),
            ("runs", self.most_runs, len(begun) + 1),
            ("open runs", self.most_open_runs, _open(begun) + 1),
        )
        for what, most, wanted in limits:
            if most is not None and wanted > most:
                raise QuotaError(f"{consumer} would have {wanted} {what} and may have {most}", _REMEDY)


def _open(runs: Iterable[Run]) -> int:
    return sum(run.open for run in runs)
