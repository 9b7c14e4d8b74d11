"""The choice of a release method where a caller names none."""

from __future__ import annotations

from fedkme.tables.schema import Schema

MOST_COLUMNS = 32
"""Columns up to which marginals are taken; the widest table on which they were measured here has 15."""


def method_for(schema: Schema) -> tuple[str, str]:
    """Choose by the schema alone, which is public.

    Returns:
        The method's name, and the reason in words (docs/releases.md has what was measured).
    """
    columns = f"{schema.width} column{'' if schema.width == 1 else 's'}"
    if schema.width <= MOST_COLUMNS:
        return "marginals", f"{columns}: counts by a few columns were closest on tables of up to 15"
    return "merf", f"{columns} are too many for counts by a few: random features of whole rows"
