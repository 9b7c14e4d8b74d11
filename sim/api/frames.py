"""Data frames of a caller as tables, and tables as data frames."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkme.config import validate
from fedkme.drafts.reading import RowsToCheck
from fedkme.errors import ConfigError, DataError
from fedkme.tables.cells import columns_of, is_table
from fedkme.tables.data_file import OF_TEXT, PLAIN, DataFile, allowed_names, as_file, refuse_text
from fedkme.tables.names import NO_GAP, Category
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema, load_schema, schema_from
from fedkme.tables.table import Table, table_from_arrays
from sim.api.drafts import SchemaDraft
from sim.scenarios.tables import split_by_site, tables_of_sites

Rows = Any
"""A data frame of pandas, polars or pyarrow with the schema's columns and categories by name, columns by
name, or a list of rows by name; or a .csv, .parquet or .npz file: its path. With settings to read them:
{"path": "north.csv", "sep": ";"}, {"frame": north, "na": ["?"], "columns": {"age": {"from": "Alter"}}}."""
SchemaLike: TypeAlias = Schema | SchemaDraft | Mapping[str, Any] | str | Path
"""A schema, a draft of one, the schema's plain values (`columns`, `label`, ...), or the schema's file."""
NO_SCHEMA = (
    "Give schema=: columns with public bounds and categories, as a file, a dict or an fk.Schema; they are "
    "agreed on, never read from owners' rows: fk.draft_schema makes one of public rows."
)

NO_OWNERS = 'Give {"north": rows, "south": rows}; or one table, and site_column= says whose each row is.'


def path_of(path: str | os.PathLike[str], what: str = "folder") -> Path:
    """Read the path of a folder or a file; an error has the type of another value, which may be rows.

    Raises:
        ConfigError: the value is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"a value of type {type(path).__name__} is no {what}", f"Give the path of a {what}."
        )
    return Path(path)


def schema_of(schema: SchemaLike | None) -> Schema:
    """Read a schema in any form that a caller may give.

    Raises:
        ConfigError: there is no schema, or no such file.
        SchemaError: the schema is inconsistent; names the key.
    """
    if schema is None:
        raise ConfigError("there is no schema", NO_SCHEMA)
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, SchemaDraft):
        return schema.schema()
    return schema_from(schema) if isinstance(schema, Mapping) else load_schema(path_of(schema, "schema"))


def table_of(rows: Rows, schema: Schema, party: str, *, private: bool = True) -> Table:
    """Read a party's rows and check them against the schema.

    Args:
        rows: rows of the party.
        schema: schema of the rows.
        party: name of the party, for errors.
        private: bound the rows of each person, if the schema names a column of persons.

    Raises:
        ConfigError: settings are wrong.
        DataError: rows do not fit the schema; names party and column, never a value.
    """
    subject = rows_to_check(rows, schema, party, private=private)
    try:
        return subject.load(schema).table
    except DataError as error:
        if subject.frame is None and not os.path.exists(subject.file.path):  # noqa: PTH110 (raises for long names)
            raise
        more = "fk.check(schema, rows) finds every fault, and settings that read the rows."
        raise DataError(error.cause, f"{error.remedy} {more}") from None


def rows_to_check(rows: Rows, schema: Schema, party: str, *, private: bool = True) -> RowsToCheck:
    """Columns of a frame, or a file, with the settings to read them.

    Raises:
        ConfigError: settings are wrong.
        DataError: the rows are no table.
    """
    frame, file = with_settings(rows, party)
    columns = None if frame is None else columns_of(frame, party, allowed_names(schema, file))
    given = isinstance(rows, Mapping) and rows is not frame
    return RowsToCheck(party, file, private, columns, has_section=given)


def with_settings(rows: Rows, party: str) -> tuple[Any, DataFile]:
    """A frame, or None where the rows are in a file, and the settings to read the rows.

    Raises:
        ConfigError: settings are wrong, or a path is the text of a file.
    """
    if isinstance(rows, str | Path):
        refuse_text(rows, party)
    if isinstance(rows, str | Path | DataFile):
        return None, as_file(Path(rows) if isinstance(rows, str) else rows)
    if isinstance(rows, Mapping) and is_table(rows.get("frame")):
        settings = {key: value for key, value in rows.items() if key != "frame"}
        if others := [key for key in ("path", *OF_TEXT) if key in settings]:
            cause = f"{party}: '{others[0]}' is a setting of files, and the rows are a frame"
            raise ConfigError(cause, "Remove the setting; leave totals and titles out of the frame itself.")
        return rows["frame"], validate(DataFile, {"path": PLAIN.path, **settings}, party)
    if isinstance(rows, Mapping) and isinstance(rows.get("path"), str | Path):
        return None, validate(DataFile, rows, party)
    return () if rows is None else rows, PLAIN


def owners_of(owners: Mapping[str, Rows] | Rows, site_column: str | None, schema: Schema) -> dict[str, Table]:
    """Rows of each owner by name: given by owner, or split from one table by a column of sites.

    Raises:
        ConfigError: there are no owners, or the table is neither a frame nor a file with named columns.
        DataError: rows do not fit the schema, or sites cannot be told apart; names party and column.
    """
    if site_column is None:
        if isinstance(owners, Mapping) and owners:
            if others := [name for name in owners if not isinstance(name, str)]:
                raise ConfigError(f"{others[0]!r} is no owner's name", "Name owners by text, such as 'h1'.")
            return {name: table_of(owners[name], schema, name) for name in sorted(owners)}
        raise ConfigError("there are no owners", NO_OWNERS)
    site_column = str(site_column)  # names of a frame's columns may be numbers
    frame, file = with_settings(owners, "owners")
    if frame is None:
        return tables_of_sites(file, site_column, 1, schema)
    columns = columns_of(frame, "owners", [site_column, *allowed_names(schema, file)])
    return split_by_site(columns, site_column, schema, file=file)


def frame_of(table: Table, schema: Schema) -> pd.DataFrame:
    """Make a readable frame of a table: columns and label by name, categories and classes as categoricals.

    Dates become dates. A nullable column has no value in its gaps.
    """
    values = dict(zip(schema.names, np.asarray(table.values, np.float64).T, strict=True))
    for mark, number in schema.gaps:
        gaps = values.pop(mark.name) != NO_GAP
        values[number.name] = np.where(gaps, np.nan, values[number.name])
    columns = {
        name: _column(spec, values[name]) for spec in schema.columns for name in spec.names if name in values
    }
    if schema.label is not None and table.labels is not None:
        columns[schema.label.name] = _names(table.labels, schema.classes)
    return pd.DataFrame(columns)


def _column(spec: Numeric | Category, values: NDArray[np.float64]) -> Any:
    if isinstance(spec, Category):
        names = _names(np.nan_to_num(values, nan=-1.0).astype(np.int64), spec.categories)  # -1: missing
        return names if spec.gap is None else names.remove_categories([spec.gap])
    if spec.kind == "date":
        return pd.to_datetime(np.rint(values).astype("datetime64[D]"))
    return pd.array(np.rint(values), dtype="Int64") if spec.integer else values


def _names(codes: NDArray[np.int64], names: Sequence[str]) -> Any:
    return pd.Categorical.from_codes(codes, pd.Index(names))


def rows_in(arrays: Mapping[str, NDArray[Any]], schema: Schema, source: str) -> Table:
    """Rows of an archive of another party's making, checked against the schema.

    Raises:
        DataError: there are none, or they do not fit.
    """
    if "x" not in arrays:
        raise DataError(f"{source} has no rows", "Fetch it again.")
    table = table_from_arrays(arrays["x"], arrays.get("y"))
    schema.check(table, source)
    return table
