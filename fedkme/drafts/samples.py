"""Samples of columns, as a draft sees them: a pass over the rows, in memory that does not grow with them."""

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
    """Cells of one column as they were seen.

    Attributes:
        rows: cells, empty ones too.
        counts: how often each text was seen, until there were too many different ones.
        many: there were.
        numbers: cells that are numbers; `low`, `high`: the bounds of these; `whole`: all are whole numbers.
    """

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    many: bool = False
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True

    def add(self, cells: Cells, read: Callable[[str], float]) -> None:
        """Count more cells, of which some may be read as numbers."""
        said = texts(cells)
        self.rows += len(said)
        for text, count in Counter(said).items():
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
    # pandas.NA is equal to nothing, and says so by a value that has no truth
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)
