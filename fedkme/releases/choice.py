"""Method of a release where nobody names one: `auto`, by the public schema alone (docs/decisions/021).

Sizes, epsilon and trust do not decide, so that a consumer's choice and a curator's plan are the same.
"""

from __future__ import annotations

from typing import Literal

from fedkme.features.binning import Binning
from fedkme.tables.schema import Numeric, Schema

AUTO = "auto"
LONG_BLOCK = 64
"""Like numbers, from so many on, are taken for a signal or an image."""
Task = Literal["rows", "kernel"]
"""Purpose of a release: rows and questions about columns, or questions about any function of a row."""
MOST_COLUMNS = 32
"""Columns up to which marginals are taken of any table."""
MOST_MIXED = 64
"""Columns up to which marginals are taken where a tenth of them are categories or more: on such tables of 33
to 57 they were better than moments (decision 021)."""
MOST_CELLS = 1 << 21
"""Cells of all pairs of columns together, beyond which a table is not taken for narrow."""


def method_for(schema: Schema, task: Task = "rows") -> tuple[str, str]:
    """Choose a method; its name, and the reason in words."""
    columns = f"{schema.width} column{'' if schema.width == 1 else 's'}"
    if task == "kernel":
        return "balog2", "questions about any function of a row need the embedding of a kernel"
    if any(isinstance(column, Numeric) and column.count >= LONG_BLOCK for column in schema.columns):
        return "moments", f"{columns}, of them a long block of like numbers, an image or a signal"
    if schema.width > MOST_COLUMNS and not _mixed(schema):
        return "moments", f"{columns} are too many for counts by a few"
    return "marginals", f"{columns}: counts by a few columns were closest on tables such as this"


def _mixed(schema: Schema) -> bool:
    numbers = sum(column.count for column in schema.columns if isinstance(column, Numeric))
    if schema.width > MOST_MIXED or 10 * (schema.width - numbers) < schema.width:
        return False
    sizes = Binning(schema).sizes
    return sum(sizes) ** 2 - sum(size**2 for size in sizes) <= 2 * MOST_CELLS
