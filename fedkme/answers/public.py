"""Rows of the public domain, drawn from the schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.functions import values_of
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

FloatArray = NDArray[np.float64]
_EVEN, _LOW, _HIGH = 0.6, 0.15, 0.05
"""Parts of the values of a number that lie evenly, at the lower bound, at the upper; the rest is near the
lower, as skewed columns are."""


@dataclass(frozen=True, eq=False, slots=True)
class PublicRows:
    """Rows as a table of the schema has them, (k, c), and their columns by name."""

    table: FloatArray
    values: Mapping[str, FloatArray]


def public_rows(schema: Schema, count: int, stream: int) -> PublicRows:
    """Rows drawn from the domain, each column by itself: the same for the same schema, count and stream."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([0xA5, stream])))
    drawn: list[FloatArray] = []
    for column in schema.columns:
        for _ in range(column.count):
            if isinstance(column, Category):
                drawn.append(rng.integers(0, len(column.categories), count).astype(np.float64))
                continue
            low, high = column.bounds
            kind, place = rng.random(count), rng.random(count)
            place = np.where(kind < _EVEN, place, place**3)
            place = np.where((kind >= _EVEN) & (kind < _EVEN + _LOW), 0.0, place)
            place = np.where((kind >= _EVEN + _LOW) & (kind < _EVEN + _LOW + _HIGH), 1.0, place)
            values = low + place * (high - low)
            drawn.append(np.rint(values) if column.integer else values)
    table = np.column_stack(drawn)
    return PublicRows(table, values_of(Table(table), schema))
