"""A table is read equal and drafted equal from text of any dialect, Parquet, data frames and lists.

`FEDKME_EXAMPLES=10000` draws more tables than CI does.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import tempfile
import tomllib
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fedkme.answers.grammar import parse
from fedkme.drafts.drafting import draft
from fedkme.errors import FedkmeError, FedkmeWarning, SchemaError
from fedkme.tables.cells import columns_of
from fedkme.tables.conversion import ROUNDED
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_rows, load_table, rows_from_columns, table_from_columns
from fedkme.tables.schema import Schema, schema_from

try:
    polars: Any = import_module("polars")
except ImportError:  # then its frames are not drawn
    polars = None

EXAMPLES = int(os.environ.get("FEDKME_EXAMPLES", "150"))
ROWS = 24
TOKYO, NEWFOUNDLAND = timezone(timedelta(hours=9)), timezone(-timedelta(hours=2, minutes=30))
WORDS = ("NA", "?", "n/a")
NAMES = (
    "Köln",
    "O'Neil",
    'say "x"',
    "a,b;c",
    "tab\there",
    "ß",
    "naïve",
    "日本",
    "no",
    "1a",
    "-",
    "x\ny",
    "TRUE-ish",
)
DIALECTS = [(sep, decimal) for sep in ",;\t|" for decimal in ".," if sep != decimal]


@dataclass(frozen=True)
class Column:
    """A generated column: its Python values, None for gaps, its type in Arrow, and its schema."""

    name: str
    values: list[Any]
    kind: pa.DataType
    spec: dict[str, Any]


def some(draw: st.DrawFn, values: st.SearchStrategy[Any], *, gaps: bool) -> list[Any]:
    cells = draw(st.lists(values, min_size=1, max_size=ROWS))
    listed = [cells[row % len(cells)] for row in range(ROWS)]
    return [None if gaps and row % 5 == 3 else value for row, value in enumerate(listed)]


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    gaps = draw(st.booleans())
    spec: dict[str, Any] = {"name": name, "nullable": True}
    match draw(
        st.sampled_from(["whole", "float", "codes", "truth", "day", "instant", "zoned", "digits", "words"])
    ):
        case "whole":
            most = draw(st.sampled_from([9, 1000, 2**53]))
            values = some(draw, st.integers(-most, most), gaps=gaps)
            spec |= {"kind": "numeric", "bounds": [-most, most], "integer": True}
            return Column(name, values, pa.int64(), spec)
        case "float":
            values = some(draw, st.floats(-1e12, 1e12) | st.just(-0.0), gaps=gaps)
            return Column(name, values, pa.float64(), spec | {"kind": "numeric", "bounds": [-1e12, 1e12]})
        case "codes":  # few whole numbers that are names
            values = some(draw, st.integers(0, 3), gaps=gaps)
            return Column(name, values, pa.int64(), spec | {"kind": "category", "categories": [*"0123"]})
        case "truth":
            values = some(draw, st.booleans(), gaps=gaps)
            names = draw(st.sampled_from([["False", "True"], ["0", "1"], ["true", "false"]]))
            return Column(name, values, pa.bool_(), spec | {"kind": "category", "categories": names})
        case "day":
            values = some(draw, st.dates(date(1600, 1, 1), date(2400, 12, 31)), gaps=gaps)
            return Column(
                name, values, pa.date32(), spec | {"kind": "date", "bounds": ["1600-01-01", "2400-12-31"]}
            )
        case "instant" | "zoned" as kind:
            zone = None if kind == "instant" else draw(st.sampled_from([TOKYO, NEWFOUNDLAND]))
            at = st.datetimes(datetime(1700, 1, 1), datetime(2200, 12, 31), timezones=st.sampled_from([zone]))
            values = some(draw, at, gaps=gaps)
            stamp = pa.timestamp("us", None if zone is None else "+09:00" if zone is TOKYO else "-02:30")
            return Column(
                name, values, stamp, spec | {"kind": "date", "bounds": ["1600-01-01", "2400-12-31"]}
            )
        case "digits":
            values = some(draw, st.sampled_from(["007", "010", "7", "00", "1.10", "1.1", "2E3"]), gaps=gaps)
            names = ["007", "010", "7", "00", "1.10", "1.1", "2E3"]
            return Column(name, values, pa.string(), spec | {"kind": "category", "categories": names})
    values = some(draw, st.sampled_from([*NAMES, *WORDS, " no ", ""]), gaps=gaps)
    names = [name for name in NAMES if name.isprintable()]
    values = ["no" if value in NAMES and value not in names else value for value in values]
    return Column(name, values, pa.string(), spec | {"kind": "category", "categories": names, "na": WORDS})


@st.composite
def tables(draw: st.DrawFn) -> list[Column]:
    names = draw(
        st.lists(
            st.sampled_from(["a", "Größe (cm)", "x y", "0", "a.b", "Ü;,\"'", "id2"]),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    return [draw(columns(name)) for name in names]


def cell_text(value: Any, decimal: str, *, floats: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, float) or (floats and type(value) is int and abs(value) < 10**15):
        return repr(float(value)).replace(".", decimal)
    return str(value)


def csv_file(folder: Path, table: list[Column], draw: st.DataObject) -> DataFile:
    sep, decimal = draw.draw(st.sampled_from(DIALECTS))
    encoding = draw.draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    quoted = draw.draw(st.booleans())
    floats = draw.draw(st.booleans())  # as tools write whole numbers beside a gap
    out = io.StringIO()
    end = draw.draw(st.sampled_from(["\n", "\r\n"]))
    writer = csv.writer(out, delimiter=sep, lineterminator=end, quoting=1 if quoted else 0)
    writer.writerow(column.name for column in table)
    texts = [
        [cell_text(value, decimal, floats=floats and None in column.values) for value in column.values]
        for column in table
    ]
    writer.writerows(zip(*texts, strict=True))
    try:
        content = out.getvalue().encode(encoding)
    except UnicodeEncodeError:
        encoding, content = "utf-8", out.getvalue().encode()
    packed = draw.draw(st.booleans())
    path = folder / ("rows.csv.gz" if packed else "rows.txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    return DataFile(path=path, sep=sep, decimal=decimal, encoding=name)


def carriers(folder: Path, table: list[Column], draw: st.DataObject) -> Iterator[tuple[str, Any]]:
    arrow = pa.table({column.name: pa.array(column.values, column.kind) for column in table})
    lists = {column.name: column.values for column in table}
    yield "text", csv_file(folder, table, draw)
    zoned = any(pa.types.is_timestamp(column.kind) and column.kind.tz for column in table)
    for what in ("plain", "dictionary") if zoned else ("plain", "dictionary", "int96"):  # INT96 has no zones
        names = [c.name for c in table] if what == "dictionary" else False
        written = arrow
        if what == "dictionary":
            encoded = {
                c.name: arrow[c.name].dictionary_encode() if c.kind == pa.string() else arrow[c.name]
                for c in table
            }
            written = pa.table(encoded)
        path = folder / f"{what}.parquet"
        parquet.write_table(
            written, path, use_dictionary=names, use_deprecated_int96_timestamps=what == "int96"
        )
        yield f"Parquet, {what}", path
    yield "pyarrow", arrow
    yield "lists", lists
    yield "rows", arrow.to_pylist()
    yield "pandas", pd.DataFrame(lists)
    yield "pandas, nullable", pd.DataFrame(lists).convert_dtypes()
    yield "pandas, of pyarrow", arrow.to_pandas(types_mapper=pd.ArrowDtype)
    yield "pandas, objects", pd.DataFrame(lists, dtype=object)
    if polars is not None and not zoned:  # it refuses offsets
        yield "polars", polars.from_arrow(arrow)


def read(rows: Any, schema: Schema) -> Any:
    if isinstance(rows, Path | DataFile):
        return load_table(rows, schema, "north").values.astype(np.float64)
    return table_from_columns(columns_of(rows, "north"), schema, "north").values.astype(np.float64)


@settings(max_examples=EXAMPLES, deadline=None)
@given(tables(), st.data())
def test_every_carrier_of_a_table_is_read_equal(table: list[Column], draw: st.DataObject) -> None:
    schema = schema_from({"columns": [column.spec for column in table]})
    with tempfile.TemporaryDirectory() as folder:
        each = {what: read(rows, schema) for what, rows in carriers(Path(folder), table, draw)}
    wanted = each["lists"]
    assert len(wanted) == ROWS or all(value is None for column in table for value in column.values)
    for what, values in each.items():
        np.testing.assert_array_equal(values, wanted[: len(values)], err_msg=what)


@settings(max_examples=EXAMPLES, deadline=None)
@given(tables(), st.data())
def test_every_carrier_of_a_table_gives_the_same_draft(table: list[Column], draw: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FedkmeWarning)  # columns that no draft uses
        each = {what: drafted(rows) for what, rows in carriers(Path(folder), table, draw)}
    del each["text"]  # its dialect is guessed: tests of drafts hold that
    for what, own in each.items():
        assert own == each["lists"], what


@settings(max_examples=60, deadline=None)
@given(st.text("aeoÄéçñ中 ", min_size=1, max_size=8), st.data())
def test_names_that_look_alike_are_one_name(seen: str, draw: st.DataObject) -> None:
    # A Mac writes A and dots for \u00c4: the check proposed a second, equal-looking category. A cell of two
    # lines, or a wide blank between digits, was a name that the schema does not have.
    end = draw.draw(st.sampled_from("x1"))
    seen = f"{end}{seen}{end}"
    written = unicodedata.normalize(draw.draw(st.sampled_from(("NFC", "NFD"))), seen)
    for sign in draw.draw(st.lists(st.sampled_from("\u00ad\u200b\ufeff"), max_size=2)):
        written = written[:-1] + sign + written[-1]
    blanks = [" ", "\u00a0", "\u2009", "\t", *(["\n", "\r\n"] if "  " not in seen else [])]
    written = written.replace(" ", draw.draw(st.sampled_from(blanks)))
    column = {"kind": "category", "name": seen, "categories": [seen, "other name"]}
    schema = schema_from({"columns": [column]})
    assert read({written: [written, "other name"]}, schema).tolist() == [[0], [1]]
    twice = [unicodedata.normalize(form, f"{seen}é") for form in ("NFC", "NFD")]
    with pytest.raises(SchemaError, match="twice"):
        schema_from({"columns": [column | {"categories": twice}]})


@given(st.lists(st.sampled_from([0.5, 3, 48.0, 48.5, -9.5, 12.25, None, 70]), min_size=1, max_size=9))
def test_numbers_that_are_not_whole_are_rounded_in_whole_columns_and_counted(cells: list[Any]) -> None:
    # Ages of 48.5 came back as 48, as rows "seen as they are", and nothing said so.
    keys = {"bounds": [0, 70], "integer": True, "nullable": True, "missing": 0, "missing_codes": [-9.5]}
    schema = schema_from({"columns": [{"kind": "numeric", "name": "a", "atoms": [12.25], **keys}]})
    for kind in (np.float64, np.float32, str):
        rows = {"a": ["" if each is None else str(each) for each in cells]}
        column = rows["a"] if kind is str else pd.Series(cells, dtype=kind)
        found = rows_from_columns(columns_of({"a": column}, "north"), schema, "north")
        kept = [each for each in cells if each not in (None, -9.5)]
        values = found.table.values[:, 0][np.isfinite(found.table.values[:, 0])]
        assert values[values >= 0].tolist() == [each if each == 12.25 else round(each) for each in kept]
        assert found.swallowed["a", ROUNDED] == sum(each in (0.5, 48.5) for each in kept)
        if kind is not str:  # an archive of arrays is read no less
            gaps = pd.Series(cells, dtype=kind).isna()
            with tempfile.TemporaryDirectory() as folder:
                np.savez(path := Path(folder, "north.npz"), x=np.c_[np.asarray(column, kind), gaps])
                archived = load_rows(path, schema, "north")
            np.testing.assert_array_equal(archived.table.values[:, 0], found.table.values[:, 0])
            assert (archived.swallowed, archived.table.reading) == (found.swallowed, found.table.reading)


def test_a_schema_and_a_question_in_either_writing_are_one() -> None:
    text = """
never = ["größe > 9 and ort = 'Köln'"]
order = [["größe", "höhe"]]
ignore = ["Notiz é"]
columns = [
    {kind = "numeric", name = "größe", bounds = [0, 9]},
    {kind = "numeric", name = "höhe", bounds = [0, 9]},
    {kind = "category", name = "ort", categories = ["Köln", "Bonn", "ohne é"], missing = "ohne é"},
    {kind = "category", name = "land", categories = ["é", "è"]},
]
label = {name = "krank é", classes = ["é", "è"]}
[derived.land]
function_of = "ort"
values = {"Köln" = "é", "Bonn" = "è", "ohne é" = "è"}
"""
    composed, split = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert composed != split
    assert schema_from(tomllib.loads(composed)) == schema_from(tomllib.loads(split))
    asked = [parse(unicodedata.normalize(form, "mean(größe) where ort = 'Köln'")) for form in ("NFC", "NFD")]
    assert asked[0] == asked[1]
    own = [
        DataFile(path=Path("x"), columns={unicodedata.normalize(form, "höhe"): {}}) for form in ("NFC", "NFD")
    ]
    assert own[0] == own[1]


def drafted(rows: Any) -> Any:
    try:
        return draft(rows.path if isinstance(rows, DataFile) else rows).schema().model_dump()
    except FedkmeError as error:
        return error.cause.partition(": ")[2]
