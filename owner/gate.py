"""The one way out: what leaves an owner is counted, and written down, before it goes."""

from __future__ import annotations

from collections.abc import Sequence

from fedkme.errors import BudgetError
from fedkme.privacy.events import CURATOR, Disclosure, Event, ExactStatistic, RawRows
from fedkme.privacy.ledger import Ledger

_ROW = RawRows(1)
_BID = ExactStatistic("best marginal gain")
_COUNTS = ExactStatistic("counts at public prices")


class Gate:
    """Counts the distinct rows that left this owner.

    Attributes:
        rows_sent: rows of this run whose content left.
    """

    def __init__(
        self,
        owner: str,
        ledger: Ledger | None = None,
        *,
        most_rows: int | None = None,
        sent_before: int = 0,
    ) -> None:
        """Open for one owner.

        Args:
            owner: its name.
            ledger: where disclosures are written.
            most_rows: rows that may leave in all; None for no limit.
            sent_before: rows that left in earlier runs.
        """
        self._owner = owner
        self._ledger = ledger
        self._most_rows = most_rows
        self._sent_before = sent_before
        self._sent: set[int] = set()

    @property
    def rows_sent(self) -> int:
        """Distinct rows sent in this run."""
        return len(self._sent)

    def open(self) -> None:
        """Start a run: nothing was sent in it yet.

        Raises:
            BudgetError: no row may leave any more.
        """
        self._sent_before += len(self._sent)
        self._sent.clear()
        self._check(1)

    def pass_rows(self, run: str, round_number: int, tokens: Sequence[int]) -> None:
        """Let rows out; one that left before is no new disclosure.

        Raises:
            BudgetError: they are more than may leave; none does.
        """
        new = [token for token in tokens if token not in self._sent]
        self._check(len(new))
        self._sent.update(new)
        if new:
            self._write(run, round_number, _ROW, [f"row {token}" for token in new])

    def pass_bid(self, run: str, round_number: int) -> None:
        """Let the best marginal gain out, exact as it is."""
        self._write(run, round_number, _BID, ["bid"])

    def pass_counts(self, run: str, round_number: int) -> None:
        """Let out how many rows are worth each price."""
        self._write(run, round_number, _COUNTS, ["counts"])

    def _check(self, more: int) -> None:
        if self._most_rows is not None and self._sent_before + len(self._sent) + more > self._most_rows:
            raise BudgetError(
                f"{self._sent_before + len(self._sent)} of {self._most_rows} rows that may leave have left, "
                f"and {more} more are asked for",
                "The owner decides whether 'most_rows' may be larger.",
            )

    def _write(self, run: str, round_number: int, event: Event, nonces: Sequence[str]) -> None:
        if self._ledger is not None:
            self._ledger.extend(
                Disclosure(run, round_number, self._owner, CURATOR, event, "replace-one", None, nonce)
                for nonce in nonces
            )
