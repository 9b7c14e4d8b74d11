"""Gram matrices of rows: the whole matrix for few rows, single columns where the whole would not fit.

A method that chooses or weighs rows reads the columns of chosen rows: some hundreds of 50,000 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import rbf_between, squared_norms

WHOLE_ROWS = 2048
"""Largest number of rows whose whole Gram matrix is in memory: 32 MiB."""
KEPT_VALUES = 2**26
"""Largest number of kernel values in cached columns: half a gigabyte."""
_BATCH = 64


class Gram(Protocol):
    """Inner products of M elements of the RKHS."""

    def diagonal(self) -> FloatArray:
        """Give the squared norms, (M,)."""

    def column(self, row: int) -> FloatArray:
        """Give the inner products of all elements with one element, (M,); callers must not write to it."""

    def applied(self, rows: IntArray, weights: FloatArray) -> FloatArray:
        """Give the weighted sum of the columns of some elements, (M,)."""

    def among(self, rows: IntArray, others: IntArray) -> FloatArray:
        """Give the inner products of some elements with others."""

    def some(self, rows: IntArray) -> Gram:
        """Give the Gram matrix of some of the elements."""


def gram_of(rows: Rows, gamma: float) -> Gram:
    """Gram matrix of rows (r, n) for the RBF kernel."""
    values = np.asarray(rows, np.float64)
    columns = KernelColumns(values, gamma, squared_norms(values))
    places = np.arange(len(values))
    return WholeGram(columns.among(places, places)) if len(values) <= WHOLE_ROWS else columns


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class WholeGram:
    """Gram matrix (M, M) in memory."""

    values: FloatArray

    def diagonal(self) -> FloatArray:
        """Give the squared norms, (M,)."""
        return np.diagonal(self.values)

    def column(self, row: int) -> FloatArray:
        """Give the inner products of all elements with one element, (M,)."""
        values: FloatArray = self.values[row]
        return values

    def applied(self, rows: IntArray, weights: FloatArray) -> FloatArray:
        """Give the weighted sum of the columns of some elements, (M,)."""
        total: FloatArray = weights @ self.values[rows]
        return total

    def among(self, rows: IntArray, others: IntArray) -> FloatArray:
        """Give the inner products of some elements with others."""
        return self.values[np.ix_(rows, others)]

    def some(self, rows: IntArray) -> Gram:
        """Give the Gram matrix of some of the elements."""
        return WholeGram(self.among(rows, rows))


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class KernelColumns:
    """Gram matrix of rows for the RBF kernel, in memory that grows linearly with the number of rows.

    Attributes:
        rows: (M, n).
        gamma: gamma of the kernel.
        norms: the rows' squared norms, (M,).
    """

    rows: FloatArray
    gamma: float
    norms: FloatArray
    _cache: dict[int, FloatArray] = field(default_factory=dict)

    def diagonal(self) -> FloatArray:
        """Give the squared norms in the RKHS, all 1, (M,)."""
        return np.ones(len(self.rows))

    def column(self, row: int) -> FloatArray:
        """Give the kernel of all rows with one row, (M,)."""
        return next(self._columns(np.array([row])))

    def applied(self, rows: IntArray, weights: FloatArray) -> FloatArray:
        """Give the weighted sum of the columns of some rows, (M,)."""
        total = np.zeros(len(self.rows))
        for weight, column in zip(weights, self._columns(rows), strict=True):
            total += weight * column
        return total

    def among(self, rows: IntArray, others: IntArray) -> FloatArray:
        """Give the kernel of some rows with others."""
        some_rows, other_rows = self.rows[rows], self.rows[others]
        return rbf_between(some_rows, other_rows, self.norms[rows], self.norms[others], self.gamma)

    def some(self, rows: IntArray) -> Gram:
        """Give the Gram matrix of some of the rows."""
        return gram_of(self.rows[rows], self.gamma)

    def _columns(self, rows: IntArray) -> Iterator[FloatArray]:
        most = max(_BATCH, KEPT_VALUES // len(self.rows))
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH].tolist()
            missing = [row for row in dict.fromkeys(batch) if row not in self._cache]
            columns = {row: self._cache[row] for row in batch if row in self._cache}
            if missing:
                columns |= zip(missing, self._compute(missing), strict=True)
            self._cache.update(columns)
            while len(self._cache) > most:
                del self._cache[next(iter(self._cache))]  # the oldest
            yield from (columns[row] for row in batch)

    def _compute(self, rows: list[int]) -> FloatArray:
        batch = self.rows[rows]
        return rbf_between(batch, self.rows, self.norms[rows], self.norms, self.gamma)
