"""Counting of rows by the cells of a code book, or by pairs of class and cell."""

from __future__ import annotations

from dataclasses import dataclass

from fedkme.arrays import IntArray, Rows
from fedkme.cells.codebook import CodeBook
from fedkme.cells.sketch import checked_labels


@dataclass(frozen=True, eq=False, slots=True)
class Counting:
    """A partition of rows: each row is in exactly one cell, or in one pair of class and cell.

    Where D_v has no labels, D_v is counted by cells alone, but owners count by pairs of class and cell. Pairs
    are a finer partition with the same sensitivity. Owners know the class of each of their rows, so orders
    can name the class, too.

    Attributes:
        book: code book of B cells.
        classes: C; 0: rows are counted by cells alone.
    """

    book: CodeBook
    classes: int = 0

    @property
    def size(self) -> int:
        """Number of counts of a histogram: B, or C B."""
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
