"""Random rows for a rehearsal, drawn from the public schema alone."""

from __future__ import annotations

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.tables.columns import GAP, GAPS, Category
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.tables.text import text_columns

GAP_SHARE = 0.05
"""Share of the cells of a nullable number that are empty."""


def dummy_rows(schema: Schema, rows: int, rng: np.random.Generator) -> Table:
    """Rows whose cells, and labels, are independent and uniform in the public domain."""
    values = schema.decode(rng.random((rows, schema.encoded_width)))
    for place, spec in enumerate(each for each in schema.columns for _ in each.names):
        if isinstance(spec, Category) and spec.gaps_of is not None:
            values[:, place] = _gaps(rows, rng)
    labels = rng.integers(0, len(schema.classes), rows) if schema.classes else None
    return Table(values, labels)


def dummy_columns(schema: Schema, rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Cells of dummy rows as text; each person has the schema's largest number of rows."""
    columns = text_columns(dummy_rows(schema, rows, rng), schema)
    if schema.person is not None:
        most = schema.person.rows
        columns = {schema.person.column: [f"person-{row // most + 1}" for row in range(rows)], **columns}
    return columns


def _gaps(rows: int, rng: np.random.Generator) -> FloatArray:
    return np.where(rng.random(rows) < GAP_SHARE, GAPS.index(GAP), 1.0 - GAPS.index(GAP))
