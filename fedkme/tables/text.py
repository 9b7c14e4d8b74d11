"""Rows as text for people: names of categories and classes, dates, an empty cell for a gap; random rows."""

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.cells import date_of
from fedkme.tables.names import NO_GAP, Category
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

Cell = str | int | float | None

_AT_ONCE = 1000
"""Rows written in one call; no other thread runs during the call."""
GAP_SHARE = 0.05
"""Share of the cells of a nullable number that are empty."""


def cell_columns(table: Table, schema: Schema) -> dict[str, list[Cell]]:
    """Cells of a file's columns: categories and classes by name, dates and whole numbers as such.

    The gaps of a nullable column are empty cells. The column that marks those of a number is left out: the
    number's cells are empty there, or codes of owners' files. A label of kind `positive_above` is a number
    in a file, and a class does not determine that number: the first class becomes the threshold, the second
    the threshold plus one.
    """
    columns: dict[str, list[Cell]] = {}
    for place, (name, spec) in enumerate((n, column) for column in schema.columns for n in column.names):
        values = table.values[:, place]
        if isinstance(spec, Numeric) or spec.gaps_of is None:
            columns[name] = _cells(values, spec)
        else:
            gaps = gap_cells(schema.number_of(spec))
            cells = zip(columns[spec.gaps_of], values.astype(int).tolist(), strict=True)
            columns[spec.gaps_of] = [gaps[kind - 1] if kind != NO_GAP else cell for cell, kind in cells]
    if table.labels is not None and schema.label:
        above = schema.label.positive_above
        names: Sequence[Cell] = schema.classes if above is None else (float(above), above + 1.0)
        columns[schema.label.name] = [names[index] for index in table.labels.tolist()]
    return columns


def text_columns(table: Table, schema: Schema) -> dict[str, list[str]]:
    """Cells of valid rows as text, by column; `load_table` reads the same rows from them."""
    return {name: list(map(_text, cells)) for name, cells in cell_columns(table, schema).items()}


def gap_cells(spec: Numeric) -> list[Cell]:
    """Cells of files for the kinds of gaps of a nullable number, from the second category of its marks on.

    They are codes of the schema, such as -9, as in owners' files, which programs for these files know. A
    single code stands for every gap; with none, or several, an empty cell (None) stays empty.
    """
    codes: list[Cell] = [
        date_of(code) if spec.kind == "date" else int(code) if float(code).is_integer() else code
        for code in spec.missing_codes
    ]
    return codes if len(codes) == 1 else [None, *codes]


def harmless(cell: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula (= + - @, tab, return).

    Numbers stay unchanged, and so do signs alone.
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or not cell.strip("+-"):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def csv_text(columns: Mapping[str, Sequence[str | float | None]]) -> str:
    """Text of a .csv file with columns of equal length."""
    return csv_encoded(columns).decode()


def csv_encoded(columns: Mapping[str, Sequence[str | float | None]]) -> bytes:
    """Encode columns of equal length as a .csv file in UTF-8; it takes a quarter of a StringIO's memory."""
    out = io.BytesIO()
    with io.TextIOWrapper(out, "utf-8", newline="", write_through=True) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        rows = zip(*columns.values(), strict=True)
        while part := list(islice(rows, _AT_ONCE)):
            writer.writerows(part)
        return out.getvalue()


def _cells(values: NDArray[Any], spec: Numeric | Category) -> list[Cell]:
    if isinstance(spec, Category):
        names: list[Cell] = [None if name == spec.gap else name for name in spec.categories]
        return [None if value != value else names[int(value)] for value in values.tolist()]
    gaps = spec.gaps(values.astype(np.float64))
    read = date_of if spec.kind == "date" else round if spec.integer else float
    return [None if gap else read(value) for value, gap in zip(values.tolist(), gaps.tolist(), strict=True)]


def _text(cell: Cell) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    return str(int(cell)) if float(cell).is_integer() else f"{cell:.15g}"


def dummy_rows(schema: Schema, rows: int, rng: np.random.Generator) -> Table:
    """Rows whose cells, and labels, are independent and uniform in the public domain."""
    values = schema.decode(rng.random((rows, schema.encoded_width)))
    for place, spec in enumerate(each for each in schema.columns for _ in each.names):
        if isinstance(spec, Category) and spec.gaps_of is not None:
            values[:, place] = np.where(rng.random(rows) < GAP_SHARE, values[:, place], NO_GAP)
    labels = rng.integers(0, len(schema.classes), rows) if schema.classes else None
    return Table(values, labels)


def dummy_columns(schema: Schema, table: Table) -> dict[str, list[str]]:
    """Cells of dummy rows as text; each person has the schema's largest number of rows."""
    columns, rows = text_columns(table, schema), len(table)
    if schema.person is not None:
        most = schema.person.rows
        columns = {schema.person.column: [f"person-{row // most + 1}" for row in range(rows)], **columns}
    return columns
