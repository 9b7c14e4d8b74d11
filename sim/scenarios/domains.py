"""Public domains of the experiments' tables: bounds, names of categories and classes, in schemas/*.toml.

Bounds and names are those of the sources' code books, written down there: none is learnt from rows. Where a
code book gives none, as for the principal components of `credit`, the amplitudes of `epileptic` and the byte
counts of `intrusion`, bounds are round numbers beyond which values are clipped. The papers take such numbers
from the private rows and do not pay for them.
"""

from __future__ import annotations

from pathlib import Path

from fedkme.tables.schema import Schema, load_schema


def domain(name: str) -> Schema:
    """Schema of a table, by the name of its file."""
    return load_schema(Path(__file__).parent / "schemas" / f"{name}.toml")
