"""Counts of an owner's rows in its coalition's part of a vector; fedkme.cells.coalitions has the proof."""

from __future__ import annotations

import json

import numpy as np

from fedkme.arrays import IntArray
from fedkme.cells.codebook import code_book_from_json
from fedkme.cells.counting import Counting
from fedkme.cells.histogram import counts
from fedkme.errors import ConfigError
from fedkme.sums.values import CellCounts
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class CoalitionCounts:
    """One question for counts by cells, over one schema.

    Attributes:
        length: length of the vector: coalitions times cells, times classes where rows are counted by class.
    """

    def __init__(self, query: CellCounts, schema: Schema) -> None:
        """Read the code book.

        Raises:
            ConfigError: the text is not a code book, or rows are to be counted by other classes than the
                schema has.
        """
        self._query, self._schema = query, schema
        try:
            plain = json.loads(query.code_book)
        except (ValueError, RecursionError):
            raise ConfigError("this is no code book", "Compare the parties' versions.") from None
        book = code_book_from_json(plain, schema)
        if query.classes not in (0, len(schema.classes)):
            raise ConfigError(
                f"rows are to be counted by {query.classes} classes, the schema has {len(schema.classes)}",
                "Give all parties the same schema file.",
            )
        self._counting = Counting(book, query.classes)
        self.length = len(query.firsts) * self._counting.size

    def of(self, table: Table, owner: str) -> IntArray:
        """Count an owner's rows in its coalition's block; zeros elsewhere, (length,) int64.

        Raises:
            ConfigError: the owner is in no coalition.
            DataError: rows are to be counted by class and have no labels.
        """
        size = self._counting.size
        cells = self._counting.cells_of(self._schema.encode(table.values), table.labels)
        start = self._query.coalition_of(owner) * size
        vector = np.zeros(self.length, dtype=np.int64)
        vector[start : start + size] = counts(cells, size)
        return vector
