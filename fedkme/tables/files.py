"""Files of rows: .npz, .csv and .parquet, read through the public schema.

An .npz holds the table itself: `x`, numbers and category indices, and `y`, class indices. A .csv or .parquet
file holds what people write: a named column each, categories and classes by name.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError, MissingDependencyError
from fedkme.tables.persons import within_bound
from fedkme.tables.schema import Label, Numeric, Person, Schema
from fedkme.tables.table import Table, table_from_arrays

Cells = NDArray[Any] | list[str]
"""A column of a file: numbers with NaN for an empty cell, or text with "" for one."""


def load_table(path: Path, schema: Schema, party: str, *, of_persons: bool = False) -> Table:
    """Read a .npz, .csv or .parquet file and check it against the schema.

    Args:
        path: the file.
        schema: of the rows.
        party: whose they are, for errors.
        of_persons: they are private: where the schema names a person, no more rows of one than it allows.

    Raises:
        DataError: the file cannot be read or does not fit; names party and column, never a value.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    if path.suffix == ".npz":
        arrays = read_arrays(path, party)
        needed = ["x", *_person(schema)] if of_persons else ["x"]
        _check_names(arrays, needed, ["y", *_person(schema), *schema.ignore], "array", party)
        table, cells = table_from_arrays(arrays["x"], arrays.get("y")), dict[str, Cells](arrays)
    else:
        cells = read_columns(path, party)
        table = table_from_columns(cells, schema, party, of_persons=of_persons)
    schema.check(table, party)
    return bounded(table, schema, cells, party) if of_persons else table


def bounded(table: Table, schema: Schema, cells: Mapping[str, Cells], party: str) -> Table:
    """Leave out rows beyond what the schema allows one person; `cells` has the column that tells them apart.

    Raises:
        DataError: it is empty in a row, or of another length.
    """
    if schema.person is None:
        return table
    persons = cells[schema.person.column]
    unknown = np.asarray(persons) == "" if isinstance(persons, list) else persons != persons
    if len(persons) != len(table) or np.any(unknown):
        raise DataError(
            f"{party}: column '{schema.person.column}' does not tell of each row whose it is",
            "Fill the empty cells: a row of nobody could be anybody's.",
        )
    kept = within_bound(persons, schema.person.rows)
    return table if kept.all() else table.take(kept)


def save_table(path: Path, table: Table, person: Person | None = None) -> None:
    """Write a table as .npz, whatever the name of the file.

    Args:
        path: the file.
        table: the rows; within the bound, where a person is named: each row is then somebody else's.
        person: of the schema with which the file will be read as private.
    """
    path.write_bytes(table_bytes(table, person))


def table_bytes(table: Table, person: Person | None = None) -> bytes:
    """A table as an .npz file holds it; see `save_table`."""
    arrays: dict[str, Any] = {"x": table.values}
    if table.labels is not None:
        arrays["y"] = table.labels
    if person is not None:
        arrays[person.column] = np.arange(len(table))
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def read_arrays(path: Path, party: str) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file, by name.

    Raises:
        DataError: the file is missing, is not an .npz or holds pickled objects.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise _unreadable(path, party, error) from None
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, EOFError):
        raise DataError(
            f"{party}: {path} is not an .npz of plain arrays", "Write it with numpy.savez."
        ) from None


def read_columns(path: Path, party: str) -> dict[str, Cells]:
    """Columns of a .csv or .parquet file, by name.

    Raises:
        DataError: the file is missing, of another kind, or its lines do not match its header.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    if path.suffix not in (".csv", ".parquet"):
        cause = f"{party}: {path} is neither a .npz, a .csv nor a .parquet file"
        raise DataError(cause, "Convert it to one of them.")
    try:
        return _read_csv(path, party) if path.suffix == ".csv" else _read_parquet(path, party)
    except OSError as error:
        raise _unreadable(path, party, error) from None


def _read_csv(path: Path, party: str) -> dict[str, Cells]:
    seen: dict[str, str] = {}  # one string object per distinct text: a cell then costs one pointer
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, strict=True)
            header = [name.strip() for name in next(lines, [])]
            columns: list[list[str]] = [[] for _ in header]
            ragged = 0
            for line in lines:
                if len(line) != len(header):
                    ragged += bool(line)  # an empty line is no row
                    continue
                for column, cell in zip(columns, line, strict=True):
                    text = cell.strip()
                    column.append(seen.setdefault(text, text))
    except (csv.Error, UnicodeDecodeError):
        raise DataError(f"{party}: {path} is not a CSV file in UTF-8", "Export it again as CSV.") from None
    if len(set(header)) < len(header) or not header:
        cause = f"{party}: {path} has no header or one that names a column twice"
        raise DataError(cause, "Make the first line the names of the columns.")
    if ragged:
        cause = f"{party}: {path} has {ragged} lines with more or fewer cells than its header"
        raise DataError(cause, "Correct these lines; put a cell that holds a comma in double quotes.")
    return dict(zip(header, columns, strict=True))


def _read_parquet(path: Path, party: str) -> dict[str, Cells]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        cause = f"{party}: reading {path} needs the package pyarrow"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[sim]'.") from None
    try:
        frame = parquet.read_table(path)
    except ArrowInvalid:
        raise DataError(f"{party}: {path} is not a Parquet file", "Write it again as Parquet.") from None
    return {name: _arrow_cells(frame.column(name)) for name in frame.column_names}


def _arrow_cells(column: Any) -> Cells:
    from pyarrow import types, uint8

    if types.is_boolean(column.type):  # false is "0" and true is "1"
        column = column.cast(uint8())
    if types.is_integer(column.type) or types.is_floating(column.type):
        numbers: NDArray[Any] = column.to_numpy()  # null becomes NaN
        return numbers
    return ["" if cell is None else str(cell).strip() for cell in column.to_pylist()]


def _person(schema: Schema) -> list[str]:
    return [schema.person.column] if schema.person else []


def table_from_columns(
    columns: Mapping[str, Cells], schema: Schema, party: str, *, of_persons: bool = False
) -> Table:
    """Build a table from the columns of a file: names become indices, the dtype the narrowest common one.

    Raises:
        DataError: a missing or undescribed column, text for a number, an unknown category or class.
    """
    label = [schema.label.name] if schema.label else []
    person = _person(schema)
    needed = [*schema.names, *person] if of_persons else schema.names
    _check_names(columns, needed, [*label, *person, *schema.ignore], "column", party)
    parts: list[NDArray[Any]] = []
    for spec in schema.columns:
        for name in spec.names:
            if isinstance(spec, Numeric):
                parts.append(_numbers(columns[name], name, party))
            else:
                parts.append(_indices(columns[name], spec.categories, spec.missing, name, party))
    values = np.empty((len(parts[0]), schema.width), dtype=np.result_type(*parts))
    for position, part in enumerate(parts):
        values[:, position] = part
    labels = None
    if schema.label and schema.label.name in columns:
        labels = _labels(columns[schema.label.name], schema.label, party)
    return Table(values, labels)


def _check_names(
    present: Iterable[str], needed: Iterable[str], allowed: Iterable[str], what: str, party: str
) -> None:
    # Missing names, the schema's own, come first: without a header the names of the file are a row of it.
    missing = sorted(set(needed) - set(present))
    if missing:
        cause = f"{party}: the file has no {what} {_some(missing)}"
        raise DataError(cause, f"Add what is missing, or give the {what} the name that the schema has.")
    extra = sorted(set(present) - set(needed) - set(allowed))
    if extra:
        cause = f"{party}: the schema does not describe {what} {_some(extra)} of the file"
        raise DataError(cause, "Remove it from the file or list it under 'ignore' in the schema.")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"'{name}'" for name in names[:3]) + more


def _numbers(cells: Cells, name: str, party: str) -> NDArray[Any]:
    if isinstance(cells, np.ndarray):
        return cells
    numbers = [_number(cell) for cell in cells]
    wrong = numbers.count(None)
    if wrong:
        cause = f"{party}: column '{name}': text where a number belongs, rows: {wrong}"
        raise DataError(cause, "Correct these rows; leave a cell empty where the value is missing.")
    return np.array(numbers, dtype=np.float64)


def _number(cell: str) -> float | None:
    if not cell:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def _indices(
    cells: Cells, names: tuple[str, ...], missing: str | None, column: str, party: str
) -> NDArray[Any]:
    index = {name: position for position, name in enumerate(names)}
    default = None if missing is None else index[missing]
    found = [index.get(cell, index.get(_text(cell), default)) for cell in list(cells)]
    wrong = found.count(None)
    if wrong:
        cause = f"{party}: column '{column}': an empty cell or a name not in the schema, rows: {wrong}"
        raise DataError(cause, f"The names are {_some(list(names))}; correct the rows or extend the schema.")
    return np.array(found, dtype=np.min_scalar_type(len(names)))


def _text(cell: str | float) -> str:
    """Name that a cell stands for: tools write a whole number as 1.0 once its column has a gap."""
    number = _number(str(cell))
    return str(cell) if number is None or not number.is_integer() else str(int(number))


def _labels(cells: Cells, label: Label, party: str) -> NDArray[np.int64]:
    if label.positive_above is None:
        return _indices(cells, label.classes, None, label.name, party).astype(np.int64)
    numbers = _numbers(cells, label.name, party)
    wrong = int(np.isnan(numbers).sum())
    if wrong:
        raise DataError(f"{party}: label '{label.name}': an empty cell, rows: {wrong}", "Remove these rows.")
    return (numbers > label.positive_above).astype(np.int64)


def _unreadable(path: Path, party: str, error: OSError) -> DataError:
    return DataError(
        f"{party}: {path} cannot be read: {error.strerror or 'unknown reason'}", "Check the path."
    )
