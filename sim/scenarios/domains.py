"""Public domains of the experiments' tables: bounds, names of categories and classes, in schemas/*.toml.

Bounds and names come from the sources' code books; none is learnt from rows. A code book may give no bounds,
as for the principal components of `credit`, the amplitudes of `epileptic` and the byte counts of `intrusion`:
then bounds are round numbers, and values beyond them are clipped. The papers take such numbers from the
private rows and do not pay for them.
"""

from __future__ import annotations

from pathlib import Path

from fedkme.tables.schema import Schema, load_schema


def domain(name: str) -> Schema:
    """Load the schema schemas/NAME.toml."""
    return load_schema(Path(__file__).parent / "schemas" / f"{name}.toml")
