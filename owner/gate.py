"""The one way out for rows: what leaves is counted, and written down, before it goes."""

from __future__ import annotations

import json
from typing import TextIO


class Gate:
    """Counts the distinct rows that left this owner.

    Attributes:
        rows_sent: rows of this run whose content left.
    """

    def __init__(self, owner: str, ledger: TextIO | None = None) -> None:
        self._owner = owner
        self._ledger = ledger
        self._sent: set[int] = set()

    @property
    def rows_sent(self) -> int:
        """Distinct rows sent in this run."""
        return len(self._sent)

    def open(self) -> None:
        """Start a run: nothing was sent yet."""
        self._sent.clear()

    def pass_row(self, run: str, round_number: int, token: int) -> None:
        """Let one row out; the line is on its way to the disk before the row is to the curator."""
        again = token in self._sent
        self._sent.add(token)
        if self._ledger is not None and not again:
            event = {
                "run": run,
                "round": round_number,
                "protected": self._owner,
                "observer": "curator",
                "what": "row",
                "token": token,
            }
            self._ledger.write(json.dumps(event) + "\n")
            self._ledger.flush()
