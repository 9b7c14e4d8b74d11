"""Rows of the public domain as points of model space, in float64; rows outside the domain are refused.

`Schema.encode` computes in float32 and trusts its caller. A sensitivity is a statement about a domain, so
code that relies on a sensitivity checks here that rows are in the domain.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.tables.schema import Category, Schema

Units = Literal["model", "table"]
"""Units of numbers: model space ([0, 1] by the column's bounds), or the table's own units."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A number or category in model space: its first column there, and its levels, 0 for a number.

    A numeric column with atoms has two dimensions: the number, and behind it a category that tells the atom.
    `places` are the atoms' numbers in model space.
    """

    levels: int
    start: int
    places: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Columns of model space."""
        return max(1, self.levels)


class Domain:
    """The rows that a schema allows.

    Attributes:
        schema: the schema.
        dimensions: numbers and categories of a table, in order.
        numbers: columns of model space that hold numbers.
        codes: columns of model space that hold one-hot codes.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        dimensions: list[Dimension] = []
        start = 0
        for column in schema.columns:
            places = () if isinstance(column, Category) else column.atom_places
            for levels, width in column.parts:
                for at in range(start, start + width, max(1, levels)):
                    dimensions.append(Dimension(levels, at, places if levels else ()))
                start += width
        self.dimensions = tuple(dimensions)
        self.numbers = np.array([d.start for d in dimensions if not d.levels], dtype=np.intp)
        coded = [np.arange(d.start, d.start + d.levels) for d in dimensions if d.levels]
        self.codes = np.concatenate([np.zeros(0, dtype=np.intp), *coded])

    @property
    def categories(self) -> int:
        """Dimensions that are categories."""
        return sum(1 for dimension in self.dimensions if dimension.levels)

    def encode(self, rows: NDArray[Any]) -> FloatArray:
        """Model space of rows, (k, c) -> (k, n) float64: numbers in [0, 1], one-hot / sqrt(2).

        Raises:
            DataError: wrong shape, or rows outside the domain; the error names the column and counts the
                rows.
        """
        if rows.ndim != 2 or rows.shape[1] != self.schema.width or rows.dtype.kind not in "biuf":
            raise DataError(
                f"rows to embed have shape {rows.shape} and type {rows.dtype.name}",
                f"Give numbers of shape (rows, {self.schema.width}), and for a category its index.",
            )
        points = np.empty((len(rows), self.schema.encoded_width))
        source = target = 0
        for column in self.schema.columns:
            block = rows[:, source : source + column.count].astype(np.float64)
            counts: Counter[tuple[str, str]] = Counter()
            for what, remedy, wrong in column.faults(block):
                counts[what, remedy] += int(wrong.any(axis=1).sum())
            for (what, remedy), wrong_rows in counts.items():
                if wrong_rows:
                    raise DataError(f"to embed: column '{column.name}': {what}, rows: {wrong_rows}", remedy)
            encoded = column.encode(block)
            points[:, target : target + column.encoded_width] = encoded
            source += column.count
            target += column.encoded_width
        return points

    def extents(self, gains: FloatArray) -> float:
        """Largest squared distance of two points whose columns of model space are multiplied by `gains`.

        A number moves by at most 1 times its gain; a category moves by sqrt(1/2) in each of two columns.
        """
        total = 0.0
        for dimension in self.dimensions:
            squares = np.sort(gains[dimension.start : dimension.start + dimension.width] ** 2)
            if dimension.levels != 1:
                total += float(squares[0]) if not dimension.levels else float(squares[-2:].sum()) / 2.0
        return total

    def affine(self, units: Units, scales: tuple[float, ...] | None) -> tuple[FloatArray, FloatArray]:
        """Gain and shift, (n,) each: a point u of model space becomes gain u + shift.

        Args:
            units: `table` undoes the scaling of numbers by their bounds; for schemas without categories.
            scales: a factor for each entry of `schema.columns`, a block of like numbers having one; None: 1.

        Raises:
            ConfigError: table units with categories, or another number of scales than of columns.
        """
        columns = self.schema.columns
        if scales is not None and len(scales) != len(columns):
            cause = f"a feature map has {len(scales)} scales and the schema {len(columns)} columns"
            raise ConfigError(cause, "Give one scale for each column of the schema.")
        gains: list[float] = []
        shifts: list[float] = []
        for column, scale in zip(columns, scales or (1.0,) * len(columns), strict=True):
            low, high = 0.0, 1.0
            if units == "table":
                if isinstance(column, Category) or column.atoms or column.cuts or column.scale != "linear":
                    cause = f"column '{column.name}' has no units: it is a category or has a scale of its own"
                    raise ConfigError(cause, "Use the units 'model', or a schema of plain numbers alone.")
                low, high = column.bounds
            width = column.encoded_width
            gains += [scale * (high - low)] * width
            shifts += [scale * low] * width
        return np.array(gains), np.array(shifts)


def gaussian_spread(distance2: float, gamma: float) -> float:
    """Largest ||k_x - k_y|| for k = exp(-gamma r^2), r^2 <= `distance2`: sqrt(2 - 2 k), at most sqrt(2)."""
    return math.sqrt(-2.0 * math.expm1(-gamma * distance2))
