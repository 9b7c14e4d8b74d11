"""A public schema with every kind of column, and rows of any schema."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

MIXED = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100)),
        Category(name="sex", categories=("f", "m")),
        Numeric(name="pixel", bounds=(-1, 1), count=2),
        Category(name="job", categories=("a", "b", "c", "d")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)


def random_table(schema: Schema, count: int, seed: int = 0) -> Table:
    """Rows drawn evenly from the domain, with labels where the schema has one."""
    g = np.random.default_rng(seed)
    columns: list[NDArray[np.float64]] = []
    for column in schema.columns:
        for _ in range(column.count):
            if isinstance(column, Category):
                drawn = g.integers(0, len(column.categories), count).astype(np.float64)
            else:
                drawn = column.rounded(g.uniform(*column.bounds, count))
                if column.atoms:
                    drawn = np.where(g.random(count) < 0.5, g.choice(column.atoms, count), drawn)
            columns.append(drawn)
    labels = g.integers(0, len(schema.classes), count) if schema.label is not None else None
    return Table(np.stack(columns, axis=1), labels)


def corners(schema: Schema) -> NDArray[np.float64]:
    """Every row whose numbers lie on their bounds, with every category; a schema has 2^12 of them at most."""
    ends: list[list[float]] = []
    for column in schema.columns:
        if isinstance(column, Numeric):
            ends += [[*(column.values or (*column.bounds, *column.atoms))]] * column.count
        else:
            ends.append(list(range(len(column.categories))))
    return np.array(list(itertools.islice(itertools.product(*ends), 2**12)), dtype=np.float64)
