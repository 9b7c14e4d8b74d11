"""Rows of one party, as arrays; a row in the clear that left its owner."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CellChange:
    """Cells of one column that reading changed.

    Attributes:
        column: name of the column.
        what: description of the change.
        cells: number of cells.
        share: their share of the column's cells.
        extremes: smallest and largest of the changed numbers, as text; empty where they are no numbers.
    """

    column: str
    what: str
    cells: int
    share: float
    extremes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Columns left out and cells changed by reading one file or data frame.

    Attributes:
        left_out: columns that are not used.
        changes: cells that `clip`, `missing`, `other` and `drop_unlabelled` changed.
    """

    left_out: tuple[str, ...] = ()
    changes: tuple[CellChange, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Table:
    """Rows of one party.

    Attributes:
        values: (m, c), any numeric dtype: a number or a category's index per column of the schema.
        labels: (m,) class index, or None.
        reading: what reading the rows left out or changed; None for rows that were not read, or taken from
            others.
    """

    values: NDArray[Any]
    labels: NDArray[np.int64] | None = None
    reading: Reading | None = None

    def __len__(self) -> int:
        return len(self.values)

    def digest(self) -> bytes:
        """SHA-256 of rows and labels."""
        digest = hashlib.sha256(repr(self.values.shape).encode())
        digest.update(self.values.tobytes())
        if self.labels is not None:
            digest.update(self.labels.tobytes())
        return digest.digest()

    def take(self, rows: NDArray[Any]) -> Table:
        """The rows at an array of indices, or where a mask is true; a copy."""
        return Table(self.values[rows], None if self.labels is None else self.labels[rows])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Row:
    """A row that left its owner.

    Attributes:
        token: the owner's name for the row.
        values: columns of the schema, (c,) float64.
        label: class index; None without labels.
    """

    token: int
    values: NDArray[np.float64]
    label: int | None


def joined(tables: Sequence[Table]) -> Table:
    """Concatenate tables; the result has labels if all of them do."""
    labels = [table.labels for table in tables if table.labels is not None]
    values = np.concatenate([table.values for table in tables])
    return Table(values, np.concatenate(labels) if len(labels) == len(tables) else None)


def table_from_arrays(values: NDArray[Any], labels: NDArray[Any] | None) -> Table:
    """Make a table of (m, ...) numbers, images flattened, and (m,) class indices, without any check."""
    if values.ndim > 2:
        values = values.reshape(len(values), math.prod(values.shape[1:]))
    if labels is not None and labels.dtype.kind in "iu":
        labels = labels.astype(np.int64)
    return Table(values, labels)


def within_bound(persons: NDArray[Any] | Sequence[str], most: int) -> NDArray[np.bool_]:
    """Mark the first `most` rows of each person, (m,); the marks depend on that person's rows alone.

    Args:
        persons: person of each row, in the order of the file; equal values are one person.
        most: rows of a person that count, >= 1.
    """
    _, person = np.unique(np.asarray(persons), return_inverse=True)
    order = np.argsort(person, kind="stable")
    grouped = person[order]
    first = np.searchsorted(grouped, grouped)
    mask = np.empty(len(person), dtype=np.bool_)
    mask[order] = np.arange(len(person)) - first < most
    return mask


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class FaultyCells:
    """Cells of a column that do not fit.

    Attributes:
        column: name of the column.
        what: description of the fault.
        remedy: remedy, a sentence.
        rows: (faults,) indices of the faulty rows.
    """

    column: str
    what: str
    remedy: str
    rows: NDArray[np.int64]
