"""Quotas: what one consumer may have of a curator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from curator.run.run import Run
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
    most_open_runs: int | None = Field(16, ge=1)
    """Runs that wait or are under way at a time."""
    most_values: int | None = Field(2**23, ge=1)
    """Numbers of D_v itself (rows x columns) in all open runs, where it comes (`share = "rows"`)."""

    @property
    def counts_all(self) -> bool:
        """Tell a quota over all runs there were from one over those that are open."""
        return self.most_rows_in_all is not None or self.most_runs is not None

    def check(self, consumer: str, rows: int, before: Sequence[Run]) -> None:
        """Refuse a request for `rows`, 0 of a release, that goes over it, given the runs before.

        Of these the open ones are enough, unless `counts_all`.

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

    def check_values(self, consumer: str, values: int) -> None:
        """Refuse rows of D_v itself with which all open runs would have so many numbers.

        Raises:
            QuotaError: they are too many.
        """
        if self.most_values is not None and values > self.most_values:
            cause = f"{consumer} would send D_v of {values} numbers in all and may send {self.most_values}"
            raise QuotaError(cause, f'Leave D_v at home (share = "embedding"). {_REMEDY}')


def _open(runs: Iterable[Run]) -> int:
    return sum(run.open for run in runs)
