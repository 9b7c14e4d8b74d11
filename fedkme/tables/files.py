"""Files of rows: .npz, .csv and .parquet, read through the public schema.

An .npz holds the table itself: `x`, numbers and category indices, and `y`, class indices. A .csv or .parquet
file holds named columns as people write them, categories and classes by name.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme import durable
from fedkme.errors import DataError, MissingDependencyError
from fedkme.inputs import open_input
from fedkme.tables import conversion, data_file
from fedkme.tables.cells import Cells, cells_of, column_names, columns_of, texts
from fedkme.tables.csv_rows import Part, read_parts
from fedkme.tables.data_file import DataFile, Source, as_file
from fedkme.tables.npz import HEADERS, MALFORMED, npz_bytes
from fedkme.tables.numbers import CLIPPED
from fedkme.tables.schema import Person, Schema
from fedkme.tables.table import CellChange, FaultyCells, Reading, Table, table_from_arrays, within_bound

BEYOND = "rows of a person beyond the schema's limit, left out"
"""Description of rows that do not count."""
_INDEX = re.compile(r"__index_level_\d+__")
"""Name that pandas gives an unnamed index, which is no column of the data frame."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Examined:
    """Rows of a file, with every fault and replacement of its cells.

    Attributes:
        table: the rows, of each person as many as count; with faults, all rows, and some cells are made up.
        unit: unit of `lines`: "line" of a .csv, "row" of other files.
        lines: (m,) number of the line or row of each row of the file, from 1.
        ragged: lines with more or fewer cells than the header.
        faults: cells that do not fit; unlisted names are faults if there are too many of them.
        swallowed: number of cells that `missing` and `clip` replace, by column and description.
        persons: person of each row of the file, if the schema has a person column and the rows are private.
    """

    table: Table
    unit: str
    lines: NDArray[np.int64]
    ragged: Sequence[int]
    faults: Sequence[FaultyCells]
    swallowed: Counter[tuple[str, str]]
    persons: Sequence[str] = ()


def counted_persons(examined: Examined, schema: Schema) -> Sequence[str]:
    """Person of each row of the table of a file without faults; empty where the schema names no persons."""
    if schema.person is None or len(examined.persons) == len(examined.table):
        return examined.persons
    counted = within_bound(examined.persons, schema.person.rows).tolist()
    return list(itertools.compress(examined.persons, counted))


def load_table(source: Source, schema: Schema, party: str, *, of_persons: bool = False) -> Table:
    """Read a .npz, .csv or .parquet file and check it against the schema.

    Args:
        source: the file.
        schema: schema of the rows.
        party: party that the rows belong to, for errors.
        of_persons: the rows are private: if the schema has a person column, rows of a person beyond the
            schema's limit are left out.

    Raises:
        DataError: the file cannot be read or does not fit; names party, column and line, never a value.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    return load_rows(source, schema, party, of_persons=of_persons).table


def ragged_remedy(ragged: Sequence[int], lines: Iterable[int]) -> str:
    """Remedy for lines `ragged`, with more or fewer cells than the header, of a file with rows on `lines`."""
    quotes = "put a cell that holds the separator in double quotes"
    if min(ragged) > max(lines, default=0):
        return f"Set 'skip_end' = {len(ragged)} beside the file's path if they are no rows; else {quotes}."
    return f"Correct these lines: {quotes}."


def load_rows(source: Source, schema: Schema, party: str, *, of_persons: bool = False) -> Examined:
    """Read a file as `load_table` does, with the cells that the schema and the file's settings replaced.

    Raises:
        DataError: see `load_table`.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    examined = examine(source, schema, party, of_persons=of_persons)
    if examined.ragged:
        where = f"{len(examined.ragged)} lines with more or fewer cells than its header"
        file = data_file.whose(party, as_file(source).path)
        cause = f"{file} has {where}, the first is line {examined.ragged[0]}"
        raise DataError(cause, ragged_remedy(examined.ragged, examined.lines))
    _refuse(examined.faults, party, examined.unit, examined.lines)
    return examined


def examine(source: Source, schema: Schema, party: str, *, of_persons: bool = False) -> Examined:
    """Read a file, and collect every fault of its cells.

    Raises:
        DataError: the file cannot be read, or has other columns than the schema.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    file = as_file(source)
    if file.carrier == "npz":
        return _examined_arrays(file, schema, party, of_persons)
    return examine_parts(read_parts_of(file, party), schema, file, party, of_persons)


def examine_parts(
    parts: Iterable[Part], schema: Schema, file: DataFile, party: str, of_persons: bool
) -> Examined:
    """Convert the parts of a file, and collect every fault of its cells."""
    converted: list[conversion.Converted] = []
    lines: list[NDArray[np.int64]] = []
    ragged: list[int] = []
    persons: list[str] = []
    names: list[str] = []
    rows = 0
    for part in parts:
        columns = data_file.named(part.columns, schema, file, party)
        if not converted:
            needed = data_file.needed_names(schema, of_persons=of_persons)
            allowed = data_file.allowed_names(schema, file)
            data_file.check_names(columns, needed, allowed, "column", party)
        names = list(columns)
        columns, places = conversion.labelled_rows(columns, schema, file)
        converted.append(conversion.convert(columns, schema, file, of_persons=of_persons))
        lines.append(np.asarray(part.lines, dtype=np.int64)[places])
        ragged += part.ragged
        rows += len(part.lines)
        persons += _persons(columns, schema) if of_persons else []
    unit = "line" if file.carrier == "text" else "row"
    found = Examined(converted[0].table, unit, np.concatenate(lines), ragged, (), Counter(), persons)
    unused = [name for name in names if name in (*schema.ignore, *file.ignore)]
    return _joined(found, converted, rows, schema, file, party, unused, of_persons=of_persons)


def _joined(
    read: Examined,
    parts: Sequence[conversion.Converted],
    rows: int,
    schema: Schema,
    file: DataFile,
    party: str,
    unused: Sequence[str],
    *,
    of_persons: bool,
) -> Examined:
    """Join the parts of what was read, with all that is told of it; `rows` are those in the file."""
    joined = conversion.joined_parts(parts, schema, file.unknown)
    if (dropped := rows - len(joined.table)) and schema.label:
        joined.swallowed[schema.label.name, conversion.UNLABELLED] += dropped
    table = joined.table
    if not joined.faults:
        table = _bounded(table, schema, read.persons, party) if of_persons else table
        table = replace(table, reading=_reading(joined, len(table), schema, unused))
    return replace(read, table=table, faults=joined.faults, swallowed=joined.swallowed)


def _reading(joined: conversion.Converted, rows: int, schema: Schema, unused: Sequence[str]) -> Reading:
    """Columns left out and cells changed; `rows` is the number of rows that count."""
    cells = {column.name: column.count * max(1, len(joined.table)) for column in schema.columns}
    moved = schema.moved(joined.table.values)
    changes = [
        CellChange(column, what, count, count / cells.get(column, max(1, len(joined.table))), extremes)
        for (column, what), count in joined.swallowed.items()
        for extremes in [moved.get(column, ()) if what == CLIPPED else ()]
    ]
    if schema.person and (beyond := len(joined.table) - rows):
        changes.append(CellChange(schema.person.column, BEYOND, beyond, beyond / len(joined.table)))
    return Reading(tuple(unused), tuple(changes))


def table_from_columns(
    columns: Mapping[str, Cells],
    schema: Schema,
    party: str,
    *,
    of_persons: bool = False,
    file: DataFile = data_file.PLAIN,
) -> Table:
    """Build a table from the columns of a file: names become indices, the dtype the narrowest common one.

    Args:
        columns: all columns of the file.
        schema: schema of the rows.
        party: party that the rows belong to, for errors.
        of_persons: see `load_table`.
        file: settings of the file.

    Raises:
        DataError: a missing or undescribed column, or a cell that does not fit.
    """
    return rows_from_columns(columns, schema, party, of_persons=of_persons, file=file).table


def rows_from_columns(
    columns: Mapping[str, Cells],
    schema: Schema,
    party: str,
    *,
    of_persons: bool = False,
    file: DataFile = data_file.PLAIN,
) -> Examined:
    """Build a table as `table_from_columns` does, with the person of each row.

    Raises:
        DataError: see `table_from_columns`.
    """
    rows = range(1, len(next(iter(columns.values()), ())) + 1)
    examined = examine_parts([Part(columns, rows, [])], schema, file, party, of_persons)
    _refuse(examined.faults, party, examined.unit, examined.lines)
    return examined


def _examined_arrays(file: DataFile, schema: Schema, party: str, of_persons: bool) -> Examined:
    arrays = read_arrays(file.path, party)
    person = [schema.person.column] if schema.person else []
    needed = ["x", *person] if of_persons else ["x"]
    data_file.check_names(arrays, needed, ["y", *person, *schema.ignore], "array", party)
    table = table_from_arrays(arrays["x"], arrays.get("y"))
    schema.check_form(table, party)
    own = columns_of({name: arrays[name] for name in person}, party) if of_persons and person else {}
    lines, persons = np.arange(1, len(table) + 1), _persons(own, schema) if own else []
    found = Examined(table, "row", lines, [], (), Counter(), persons)
    parts, unused = [conversion.of_arrays(table, schema)], [each for each in arrays if each in schema.ignore]
    return _joined(found, parts, len(table), schema, file, party, unused, of_persons=of_persons)


def _refuse(faults: Sequence[FaultyCells], party: str, unit: str, lines: NDArray[np.int64]) -> None:
    if faults:
        first, others = faults[0], faults[1:]
        cause = f"{party}: column '{first.column}': {first.what}, rows: {len(first.rows)}"
        place = f"{'the first in ' if len(first.rows) > 1 else ''}{unit} {lines[first.rows[0]]}"
        more = f"; and {len(others)} more: `fedkme schema check` lists all faults" if others else ""
        raise DataError(f"{cause}, {place}{more}", first.remedy)


def _persons(columns: Mapping[str, Cells], schema: Schema) -> list[str]:
    return list(texts(columns[schema.person.column])) if schema.person else []


def _bounded(table: Table, schema: Schema, persons: Sequence[str], party: str) -> Table:
    """Leave out rows of a person beyond the schema's limit.

    Args:
        table: the rows.
        schema: schema of the rows.
        persons: person of each row; "" for a row without a person.
        party: party that the rows belong to, for errors.

    Raises:
        DataError: a row has no person, or there are more or fewer persons than rows.
    """
    if schema.person is None:
        return table
    if len(persons) != len(table) or "" in persons:
        cause = f"{party}: column '{schema.person.column}' does not tell of each row whose it is"
        raise DataError(cause, conversion.NOBODY)
    counted = within_bound(persons, schema.person.rows)
    return table if counted.all() else table.take(counted)


def save_table(path: Path, table: Table, person: Person | None = None) -> None:
    """Write a table as .npz under any file name.

    Args:
        path: the file.
        table: the rows. With `person`, each row is written as another person's, so the rows must be within
            the limit already.
        person: person column of the schema with which the file will be read as private.
    """
    durable.replace(path, table_bytes(table, person))


def table_bytes(table: Table, person: Person | None = None) -> bytes:
    """Content of an .npz file of a table; see `save_table`."""
    arrays: dict[str, Any] = {"x": table.values}
    if table.labels is not None:
        arrays["y"] = table.labels
    if person is not None:
        arrays[person.column] = np.arange(len(table))
    return npz_bytes(arrays)


def read_arrays(path: Path, party: str) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file, by name.

    Raises:
        DataError: the file is missing, is not an .npz or holds pickled objects.
    """
    try:
        with HEADERS, open_input(path) as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise TypeError  # numpy gives other members as bytes
        return arrays
    except OSError as error:
        raise _unreadable(path, party, error) from None
    except MALFORMED:
        remedy = "Write it with numpy.savez, of arrays of numbers: objects are none."
        raise DataError(f"{data_file.whose(party, path)} is not an .npz of plain arrays", remedy) from None


def read_columns(source: Source, party: str) -> dict[str, Cells]:
    """Columns of a .csv or .parquet file, with the file's own names and cells.

    Raises:
        DataError: the file is missing, of another kind, or its lines do not match its header.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    file = as_file(source)
    columns: dict[str, Any] = {}
    shared_texts: dict[str, str] = {}  # one string object per distinct text: a cell then costs one pointer
    for part in read_parts_of(file, party):
        if part.ragged:
            cause = f"{data_file.whose(party, file.path)} has lines with more or fewer cells than its header"
            remedy = ragged_remedy(part.ragged, part.lines)
            raise DataError(f"{cause}, the first is line {part.ragged[0]}", remedy)
        if not isinstance(part.lines, list):
            return dict(part.columns)
        for name, cells in part.columns.items():
            columns.setdefault(name, []).extend(map(shared_texts.setdefault, cells, cells))
    return columns


def read_parts_of(file: DataFile, party: str) -> Iterator[Part]:
    """Yield the rows of a .csv or .parquet file in parts.

    Raises:
        DataError: see `read_columns`.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    if file.carrier not in ("text", "parquet"):
        what = "is neither a .csv, .tsv, .txt, .parquet nor .npz file"
        if file.carrier == "npz":
            what = "is an .npz file, which has numbers without names"
        raise DataError(f"{data_file.whose(party, file.path)} {what}", "Give a .csv or .parquet file.")
    try:
        if file.carrier == "text":
            yield from read_parts(file, party)
        else:
            columns = _read_parquet(file.path, party)
            rows = len(next(iter(columns.values()), ()))
            yield Part(columns, range(1, rows + 1), [])
    except OSError as error:
        raise _unreadable(file.path, party, error) from None


def _read_parquet(path: Path, party: str) -> dict[str, Cells]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        cause = f"{party}: reading {path} needs the package pyarrow"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[sim]'.") from None
    try:
        parts = "hive" if path.is_dir() else None  # a folder of files
        if parts is None:
            open_input(path).close()  # pyarrow would wait for what a named pipe brings
        frame = parquet.read_table(path, partitioning=parts, coerce_int96_timestamp_unit="us")
    except (ArrowException, ValueError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(
            f"{data_file.whose(party, path)} is not a Parquet file", "Write it again as Parquet."
        ) from None
    places = [place for place, name in enumerate(frame.column_names) if not _INDEX.fullmatch(name)]
    names = column_names([frame.column_names[place] for place in places], party, str(path))
    return {name: cells_of(frame.column(place)) for name, place in zip(names, places, strict=True)}


def _unreadable(path: Path, party: str, error: OSError) -> DataError:
    return DataError(
        f"{data_file.whose(party, path)} cannot be read: {error.strerror or 'unknown reason'}",
        "Check the path.",
    )
