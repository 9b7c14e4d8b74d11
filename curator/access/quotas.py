"""Quotas: limits on what one consumer may get from a curator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from curator.run.run import Run
from fedkme.config import Settings
from fedkme.errors import QuotaError

_REMEDY = "Ask for less, wait, or agree with the curator on a larger quota."


class Quota(Settings):
    """Limits for one consumer; None means no limit."""

    most_rows: int | None = Field(None, ge=1)
    """Rows of one summary."""
    most_rows_in_all: int | None = Field(None, ge=1)
    """Rows of all summaries, except those cancelled before a row was chosen."""
    most_runs: int | None = Field(None, ge=1)
    """Runs in all."""
    most_open_runs: int | None = Field(16, ge=1)
    """Runs that wait or are under way at the same time."""
    most_values: int | None = Field(2**23, ge=1)
    """Numbers of D_v (rows x columns) in all open runs that send D_v itself (`share = "rows"`)."""

    @property
    def counts_all(self) -> bool:
        """True where the quota limits all past runs, not the open runs alone."""
        return self.most_rows_in_all is not None or self.most_runs is not None

    def check(self, consumer: str, rows: int, before: Sequence[Run]) -> None:
        """Refuse a request that exceeds the quota.

        Args:
            consumer: who asks.
            rows: of the summary; 0 for a release.
            before: the consumer's earlier runs; its open runs are enough unless `counts_all`.

        Raises:
            QuotaError: the request exceeds the quota.
        """
        begun = [run for run in before if run.status != "asked"]
        earlier_rows = sum(run.rows for run in begun)
        limits = (
            ("rows of one summary", self.most_rows, rows),
            ("rows of all its summaries", self.most_rows_in_all, earlier_rows + rows),
            ("runs", self.most_runs, len(begun) + 1),
            ("open runs", self.most_open_runs, _open(begun) + 1),
        )
        for what, most, wanted in limits:
            if most is not None and wanted > most:
                raise QuotaError(f"{consumer} would have {wanted} {what} and may have {most}", _REMEDY)

    def check_values(self, consumer: str, values: int) -> None:
        """Refuse a D_v with which the consumer's open runs would hold `values` numbers in all.

        Raises:
            QuotaError: `values` exceeds the quota.
        """
        if self.most_values is not None and values > self.most_values:
            cause = f"{consumer} would send D_v of {values} numbers in all and may send {self.most_values}"
            raise QuotaError(cause, f'Leave D_v at home (share = "embedding"). {_REMEDY}')


def _open(runs: Iterable[Run]) -> int:
    return sum(run.open for run in runs)
