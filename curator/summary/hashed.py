"""Checks and scores of hashed rows, for a curator that sees hashes only and never computes h1 itself.

Protocols check whether rows fit, and compute the rows' features. `HashedContent` does both for hashed rows,
`SummaryTask` for plain rows: the curator may look at a hash but not at the row. The consumer checks, after
opening the boxes, that each hash belongs to its row (`fedkme.sealed.rows.mismatched`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError, FedkmeError
from fedkme.features.fixed_point import Features, MeanVector
from fedkme.features.fourier import SecretFourierSpec
from fedkme.features.hashes import fault_of_hashes, herd_hashes
from fedkme.sealed.rows import HashedRow, row_box_bytes


@dataclass(frozen=True, slots=True)
class HashedContent:
    """Form of a run's rows without the draw of h1; `columns` is 0 where labels alone are sealed."""

    spec: SecretFourierSpec
    columns: int

    def features_of(self, rows: Sequence[HashedRow]) -> Features:
        """Hashes as the owner sent them, (k, d): bit for bit the features of the owner's bids."""
        if not rows:
            return np.empty((0, self.spec.dimension), dtype=np.int16)
        return np.array([row.features for row in rows])

    def fault(self, owner: str, rows: Sequence[HashedRow]) -> FedkmeError | None:
        """Fault of rows whose hash belongs to no row, or whose box has another length; else None."""
        length = row_box_bytes(self.columns)
        if any(len(row.box) != length for row in rows):
            return DataError(f"{owner}: a sealed row is of another length", "Check the owner's software.")
        if any(row.features.shape != (self.spec.dimension,) for row in rows):
            return DataError(f"{owner}: a hash is of another map", "Check the owner's software.")
        if why := fault_of_hashes(self.features_of(rows), self.spec):
            return DataError(f"{owner}: {why}", "Check the owner's software.")
        return None

    def prune(self, rows: Sequence[HashedRow], target: MeanVector, p: int) -> NDArray[np.int64]:
        """Choose p rows by their hashes, see `herd_hashes`; a seed set's hashes would reveal h1.

        Raises:
            NotEnoughRowsError: p is larger than the number of rows.
        """
        return herd_hashes(self.features_of(rows), target, p)
