"""Check of sealed rows without opening them: the length of each box, and no hash where none belongs."""

from __future__ import annotations

from collections.abc import Sequence

from fedkme.errors import DataError, FedkmeError
from fedkme.sealed.rows import AnyRow, HashedRow, row_box_bytes


def fault_of_boxes(columns: int, owner: str, rows: Sequence[AnyRow]) -> FedkmeError | None:
    """Reason why sealed rows cannot be passed on, or None; the consumer alone sees their contents."""
    length = row_box_bytes(columns)
    for row in rows:
        if not isinstance(row, HashedRow) or len(row.box) != length:
            return DataError(f"{owner}: a sealed row is of another length", "Check the owner's software.")
        if len(row.features):
            return DataError(f"{owner}: a sealed row comes with a hash", "Check the owner's software.")
    return None
