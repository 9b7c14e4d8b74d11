"""Samples of columns for a draft, collected in one pass over the rows and in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedkme.tables.conversion import texts
from fedkme.tables.csv_rows import Cells

_MOST_TEXTS = 5000


@dataclass(slots=True)
class ColumnSample:
    """Statistics of one column's cells.

    Attributes:
        rows: number of cells, empty cells included.
        counts: number of cells with each text, until there are too many distinct texts.
        many: there were too many distinct texts.
        numbers: number of cells that are numbers.
        low: smallest number.
        high: largest number.
        whole: all numbers are whole.
    """

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    many: bool = False
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True

    def add(self, cells: Cells, read: Callable[[str], float]) -> None:
        """Count more cells; `read` reads a text as a number, or raises ValueError."""
        words = texts(cells)
        self.rows += len(words)
        for text, count in Counter(words).items():
            if len(self.counts) < _MOST_TEXTS or text in self.counts:
                self.counts[text] += count
            else:
                self.many = True
            self._number(text, count, read)

    def _number(self, text: str, count: int, read: Callable[[str], float]) -> None:
        try:
            number = read(text)
        except ValueError:
            return
        if math.isfinite(number):
            self.numbers += count
            self.low, self.high = min(self.low, number), max(self.high, number)
            self.whole = self.whole and number.is_integer()


def columns_of(frame: Any) -> dict[str, Cells]:
    """Columns of a pandas DataFrame, or of a mapping of names to cells, as a file has them."""
    return {str(name): _cells(frame[name]) for name in frame}


def _cells(cells: Any) -> Cells:
    values = np.asarray(cells)
    if values.dtype.kind in "iufb":
        return values
    if values.dtype.kind == "M":
        values = values.astype("datetime64[D]")
        return ["" if np.isnat(value) else str(value) for value in values]
    return ["" if _is_gap(cell) else str(cell).strip() for cell in values.tolist()]


def _is_gap(cell: Any) -> bool:
    # comparisons with pandas.NA give pandas.NA, which has no truth value
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)
