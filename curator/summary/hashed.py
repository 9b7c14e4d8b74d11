"""Checks and scores of a curator that handles hashes only: it never computes h1 itself.

The two questions that the protocols ask of rows (do they fit, what are their features) have other answers
here than in `SummaryTask`: a hash may be looked at, a row may not. Whether a hash is its row's is for the
consumer to see, after opening (`fedkme.sealed.rows.mismatched`).
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
    """Shape of a run's rows to a curator without the draw; no columns where labels alone are sealed."""

    spec: SecretFourierSpec
    columns: int

    def features_of(self, rows: Sequence[HashedRow]) -> Features:
        """The hashes as the owner sent them, (k, d): what it bid with, bit for bit."""
        if not rows:
            return np.empty((0, self.spec.dimension), dtype=np.int16)
        return np.array([row.features for row in rows])

    def fault(self, owner: str, rows: Sequence[HashedRow]) -> FedkmeError | None:
        """Fault of rows that are hashes of no row, or boxes of another length; else None."""
        length = row_box_bytes(self.columns)
        if any(len(row.box) != length for row in rows):
            return DataError(f"{owner}: a sealed row is of another length", "Check the owner's software.")
        if any(row.features.shape != (self.spec.dimension,) for row in rows):
            return DataError(f"{owner}: a hash is of another map", "Check the owner's software.")
        if why := fault_of_hashes(self.features_of(rows), self.spec):
            return DataError(f"{owner}: {why}", "Check the owner's software.")
        return None

    def prune(self, rows: Sequence[HashedRow], target: MeanVector, p: int) -> NDArray[np.int64]:
        """Choose p rows by their hashes, see `herd_hashes`; no seed set, whose hashes would give h1 away.

        Raises:
            NotEnoughRowsError: p is larger than the number of rows.
        """
        return herd_hashes(self.features_of(rows), target, p)
