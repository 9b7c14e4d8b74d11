"""Counting of rows by the cells of a code book, each by class where a run asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from fedkme.arrays import IntArray, Rows
from fedkme.cells.codebook import CodeBook
from fedkme.cells.sketch import checked_labels


@dataclass(frozen=True, eq=False, slots=True)
class Counting:
    """A partition of rows: each row is in exactly one cell, or in one pair of class and cell.

    Owners count by pairs, a finer partition of the same sensitivity, where D_v has no labels and is counted
    by cells alone: an owner can tell rows of one cell and different classes apart, and orders then name the
    class too.

    Attributes:
        book: the code book, of B cells.
        classes: C; 0 for cells alone.
    """

    book: CodeBook
    classes: int = 0

    @property
    def size(self) -> int:
        """Counts of a histogram: B, or C B."""
        return max(1, self.classes) * self.book.cells

    def cells_of(self, rows: Rows, labels: IntArray | None) -> IntArray:
        """Cell of each encoded row, or class B + cell, (m,) int64 in 0 .. size - 1.

        Args:
            rows: encoded, (m, n).
            labels: classes of the rows, (m,); None where neither the book nor `classes` needs them.

        Raises:
            DataError: rows do not fit or are not finite, or their classes are missing or unknown.
        """
        cells = self.book.cells_of(rows, labels)
        if not self.classes:
            return cells
        joint: IntArray = checked_labels(labels, len(rows), self.classes) * self.book.cells + cells
        return joint
