"""Choice of the release method `auto`, by the public schema alone (docs/decisions/021).

The number of rows, epsilon and trust do not matter, so that a consumer and a curator choose the same method.
"""

from typing import Literal

from fedkme.features.binning import Binning
from fedkme.tables.schema import Numeric, Schema

AUTO = "auto"
LONG_BLOCK = 64
"""Least length of a block of like numbers that is treated as a signal or an image."""
Task = Literal["rows", "kernel"]
"""Purpose of a release: rows and questions about columns, or questions about any function of a row."""
MOST_COLUMNS = 32
"""Most columns, gaps not counted, at which every table gets marginals."""
MOST_MIXED = 64
"""Most columns at which a table gets marginals if a tenth of its columns or more are categories. On such
tables of 33 to 57 columns, with gaps up to 89, marginals were better than moments (decision 021)."""
MOST_CELLS = 1 << 21
"""Most cells of all pairs of columns together at which a table with categories gets marginals."""


def method_for(schema: Schema, task: Task = "rows") -> tuple[str, str]:
    """Choose a method; return its name and the reason."""
    gaps = len(schema.gaps)
    own = schema.width - gaps
    columns = f"{own} column{'' if own == 1 else 's'}" + (f", with gaps {schema.width}" if gaps else "")
    if task == "kernel":
        return "balog2", "questions about any function of a row need the embedding of a kernel"
    if schema.has_rules:
        return "marginals", f"{columns}, with public rules that rows of other methods do not obey"
    if any(isinstance(column, Numeric) and column.count >= LONG_BLOCK for column in schema.columns):
        return "moments", f"{columns}, of them a long block of like numbers, an image or a signal"
    if own > MOST_COLUMNS and not _suits_marginals(schema, own):
        return "moments", f"{columns} are too many for counts by a few"
    return "marginals", f"{columns}: counts by a few columns were closest on tables such as this"


def _suits_marginals(schema: Schema, own: int) -> bool:
    numbers = sum(column.count for column in schema.columns if isinstance(column, Numeric))
    if own > MOST_MIXED or 10 * (own - numbers) < own:
        return False
    sizes = Binning(schema).sizes
    return sum(sizes) ** 2 - sum(size**2 for size in sizes) <= 2 * MOST_CELLS
