"""The table of a sweep: one row a run, in a Parquet file that is whole at any moment, and means."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedkme import durable
from fedkme.errors import DataError
from sim.sweep.measure import Row

FILE = "sweep.parquet"
AXIS = "set."
"""Beginning of the name of an axis's column."""
FIRST = ("key", "version", "seed", "code", "cause", "seconds")
"""Columns that every row has, before the axes and the run's own numbers."""


def read_rows(path: Path) -> list[Row]:
    """Rows of a table, without the cells that are empty; none where there is no file.

    Raises:
        DataError: the file is no table of a sweep.
        ModuleNotFoundError: pyarrow, of [sim], is not installed.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if not path.exists():
        return []
    try:
        rows = parquet.read_table(path).to_pylist()
    except (pa.ArrowInvalid, OSError):
        rows = [{}]
    if not all({"key", "code"} <= row.keys() for row in rows):
        raise DataError(f"{path} is not the table of a sweep", "Choose another --out, or remove the file.")
    return [{name: cell for name, cell in row.items() if cell is not None} for row in rows]


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the table anew; a reader sees the old one or the new one.

    A column is of booleans, whole numbers or numbers where all of its cells are, and of text otherwise.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: _column([row.get(name) for row in rows]) for name in column_names(rows)}
    content = io.BytesIO()
    parquet.write_table(pa.table(columns), content)
    durable.replace(path, content.getvalue())


def column_names(rows: Iterable[Row]) -> list[str]:
    """Columns of all rows: columns of every run, the axes, then further ones in order of appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    axes = [name for name in names if name.startswith(AXIS)]
    return list(dict.fromkeys([*(name for name in FIRST if name in names), *axes, *names]))


def _column(cells: list[Any]) -> list[Any]:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [cell if cell is None else float(cell) for cell in cells]
    return cells if len(kinds) < 2 else [cell if cell is None else str(cell) for cell in cells]


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean over seeds.

    Attributes:
        mean: mean of the values.
        error: standard error of the mean; NaN of one value.
        count: number of values.
    """

    mean: float
    error: float
    count: int


def mean_over(values: Iterable[float]) -> SeedMean | None:
    """Mean and standard error of the values that are finite; None without one."""
    finite = [float(value) for value in values if math.isfinite(value)]
    if not finite:
        return None
    spread = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
    return SeedMean(float(np.mean(finite)), spread / math.sqrt(len(finite)), len(finite))


def mean_of(rows: Iterable[Row], column: str) -> SeedMean | None:
    """Mean of a column over rows that have a number there."""
    cells = (row.get(column) for row in rows)
    return mean_over(cell for cell in cells if isinstance(cell, int | float))


def grouped(rows: Iterable[Row], columns: Sequence[str]) -> Mapping[tuple[Any, ...], list[Row]]:
    """Rows by their values in some columns, in the order in which these come."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(column) for column in columns), []).append(row)
    return groups
