"""Samples of columns for a draft, collected in one pass over the rows and in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fedkme.tables.cells import Cells, normal, texts

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
        for word, count in Counter(words).items():
            text = normal(word, read)
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
