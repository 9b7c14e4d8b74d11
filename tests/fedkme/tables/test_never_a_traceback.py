"""Faults of files, frames and cells: each is one error of the package, without a value."""

from __future__ import annotations

import decimal
import gzip
import random
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from fedkme.config import load_json, load_toml
from fedkme.drafts.checking import settings_seen
from fedkme.drafts.drafting import draft
from fedkme.errors import ConfigError, DataError, FedkmeError
from fedkme.tables.cells import cells_of, columns_of, texts
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import schema_from

NUMBERS = schema_from(
    {
        "columns": [
            {"kind": "numeric", "name": "a", "bounds": [0, 10]},
            {"kind": "category", "name": "k", "categories": ["p", "q"]},
        ]
    }
)
DAYS = schema_from(
    {"columns": [{"kind": "date", "name": "d", "bounds": ["1600-01-01", "9999-12-31"], "clip": True}]}
)


def npz_with(header: bytes, name: str = "x.npy") -> Callable[[Path], None]:
    content = b"\x93NUMPY\x02\0" + struct.pack("<I", len(header)) + header

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)

    return write


def of_shape(shape: bytes) -> bytes:
    return b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + b",), }\n"


FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "foreign member": ("x.npz", npz_with(b"", "x")),
    "giant header": ("x.npz", npz_with(b"{" + b"(" * 100_000)),
    "giant shape": ("x.npz", npz_with(of_shape(b"1" + b"0" * 15))),
    "shape of many digits": ("x.npz", npz_with(of_shape(b"9" * 5000))),
    "objects": ("x.npz", lambda path: np.savez(path, x=np.array([1, "a", None], dtype=object))),
    "texts": ("x.npz", lambda path: np.savez(path, x=np.array([["a", "b"]]))),
    "no table": ("x.npz", lambda path: np.savez(path, x=np.float64(3.0))),
    "folder as npz": ("x.npz", Path.mkdir),
    "folder as csv": ("x.csv", Path.mkdir),
    "folder as parquet": ("x.parquet", Path.mkdir),
    "NUL": ("x.csv", lambda path: path.write_bytes(b"a,k\nSECRET\0,p\n")),
    "lone quote": ("x.csv", lambda path: path.write_bytes(b'a,k\n1,"p\n2,q\n')),
    "long cell": ("x.csv", lambda path: path.write_bytes(b'a,k\n1,"' + b"x" * 200_000 + b'"\n')),
    "5,000 digits": ("x.csv", lambda path: path.write_bytes(b"a,k\n" + b"1" * 5000 + b",p\n")),
    "beyond float64": ("x.csv", lambda path: path.write_bytes(b"a,k\n1e999,p\n")),
    "digits with a line": ("x.csv", lambda path: path.write_bytes(b"a,k\n1_0,p\n")),
    "no gzip": ("x.csv.gz", lambda path: path.write_bytes(b"\x1f\x8b\x08\0" + b"SECRET" * 9)),
    "cut gzip": ("x.csv.gz", lambda path: path.write_bytes(gzip.compress(b"a,k\n1,p\n" * 999)[:-20])),
    "empty": ("x.csv", lambda path: path.write_bytes(b"")),
    "no columns": ("x.parquet", lambda path: parquet.write_table(pa.table({}), path)),
    "Feather": ("x.parquet", lambda path: feather.write_feather(pa.table({"a": [1], "k": ["p"]}), path)),
    "no arrays": ("x.npz", np.savez),
    "empty parquet": ("x.parquet", lambda path: path.write_bytes(b"")),
    "same name twice": (
        "x.parquet",
        lambda path: parquet.write_table(pa.table([[1], ["p"]], names=["a", "a"]), path),
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_wrong_is_one_error(tmp_path: Path, case: str) -> None:
    name, write = FILES[case]
    write(tmp_path / name)
    with pytest.raises(DataError) as refused:
        load_table(tmp_path / name, NUMBERS, "north")
    assert "north" in str(refused.value)
    assert "SECRET" not in str(refused.value)
    assert "'from'" not in str(refused.value)  # no setting helps a file without columns, or of arrays
    with suppress(FedkmeError):  # EOFError of a cut .gz
        settings_seen([DataFile(path=tmp_path / name)], NUMBERS)[0]
    with suppress(FedkmeError):
        draft(tmp_path / name)


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_a_damaged_file_is_one_error_or_still_a_table(tmp_path: Path, kind: str) -> None:
    path, draw = tmp_path / f"x.{kind}", random.Random(kind)
    if kind == "npz":
        np.savez(path, x=np.zeros((2, 2)))
    else:
        parquet.write_table(pa.table({"a": [1, 2], "k": ["p", "q"]}), path)
    whole = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(whole[: draw.choice([len(whole), draw.randrange(len(whole))])])
        for _ in range(draw.randint(0, 8) if damaged else 0):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        with suppress(FedkmeError):
            load_table(path, NUMBERS, "north")


ROWS: dict[str, tuple[Any, str]] = {
    "a list in a cell": (
        {"a": [[1], 1], "k": ["p", "q"]},
        "'a': a list where a number belongs, rows: 1, row 1",
    ),
    "an object": ({"a": [object(), 1], "k": ["p", "q"]}, "'a': an object where a number belongs"),
    "5,000 digits": ({"a": [10**5000, 1], "k": ["p", "q"]}, "'a': a number of hundreds of digits"),
    "decimal of a million digits": ({"a": [decimal.Decimal("1e999999")], "k": ["p"]}, "hundreds of digits"),
    "a duration": ({"a": [timedelta(1)], "k": ["p"]}, "'a': a duration where a number belongs"),
    "bytes": ({"a": [1], "k": [b"\xff"]}, "'k': bytes that are no text in UTF-8 where a name belongs"),
    "scalars": ({"a": 1, "k": "p"}, "column 'a' cannot be read: it is a int"),
    "a generator": ({"a": (n for n in "1"), "k": ["p"]}, "column 'a' cannot be read: it is a generator"),
    "different lengths": ({"a": [1], "k": ["p", "q"]}, "different numbers of rows"),
    "a row that is none": ([{"a": 1, "k": "p"}, 3], "neither a data frame nor columns by name"),
    "nothing": (None, "neither a data frame nor columns by name"),
    "an array": (np.ones((2, 2)), "neither a data frame nor columns by name"),
    "a name twice": (pd.DataFrame([[1, "p"]], columns=["a", "a"]), "names a column twice, 'a'"),
    "two levels": (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "several levels"),
    "names that are no text": (pd.DataFrame([[1, "p"]]), "the file has no column 'a', 'k'"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_are_wrong_are_one_error(case: str) -> None:
    rows, message = ROWS[case]
    with pytest.raises(DataError) as refused:
        table_from_columns(columns_of(rows, "north"), NUMBERS, "north")
    assert message in str(refused.value)


NESTED = {
    "list": (pa.array([[1], [2]]), "a list"),
    "struct": (pa.array([{"b": 1}, {"b": 2}]), "a record"),
    "map": (pa.array([[("b", 1)], []], pa.map_(pa.string(), pa.int8())), "a list"),
    "duration": (pa.array([1, 2], pa.duration("s")), "a duration"),
    "time": (pa.array([1, 2], pa.time32("s")), "text"),
}


@pytest.mark.parametrize("case", NESTED)
def test_types_of_parquet_that_are_no_cells_are_told_and_may_be_ignored(tmp_path: Path, case: str) -> None:
    cells, kind = NESTED[case]
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": cells, "k": ["p", "q"]}), path)
    with pytest.raises(DataError, match=f"'a': {kind} where a number belongs, rows: 2"):
        load_table(path, NUMBERS, "north")
    ignoring = schema_from(
        {"columns": [{"kind": "category", "name": "k", "categories": ["p", "q"]}], "ignore": ["a"]}
    )
    assert load_table(path, ignoring, "north").values.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (pa.array([datetime(9999, 12, 31, 23)], pa.timestamp("us", "Asia/Tokyo")), "10000-01-01 08:00:00"),
        (pa.array([300_000_000_000], pa.int64()).cast(pa.timestamp("s")), "11476-08-15 05:20:00"),
        (pa.array([-1_000_000], pa.int32()).cast(pa.date32()), "-768-02-04"),
        (pa.array([1], pa.timestamp("us", "No/Where")), "\0an object"),
        (pa.array([[2**62]], pa.list_(pa.timestamp("s"))), "\0an object"),
        (pa.array([decimal.Decimal("2.00")]), "2"),
        (pa.array([2**60 + 1, None]), str(2**60 + 1)),
        (pd.Series([2**60 + 1, None], dtype="Int64"), str(2**60 + 1)),
        (pd.Series([0.1, None], dtype="float32"), "0.1"),
        (np.array([-0.0, 1.0]), "0"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), ""),
        ([True, None], "True"),
    ],
)
def test_cells_have_one_normal_text(cells: Any, text: str) -> None:
    assert texts(cells_of(cells))[0] == text


def test_days_beyond_the_years_are_moved_where_the_schema_says_so_and_never_read_as_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.parquet"
    days = pa.array([-1_000_000, 5_000_000], pa.int32()).cast(pa.date32())
    parquet.write_table(pa.table({"d": days}), path)
    assert load_table(path, DAYS, "north").values.tolist() == [[-1_000_000.0], [5_000_000.0]]
    far = pa.table({"d": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))})
    parquet.write_table(far, path, use_deprecated_int96_timestamps=True)
    assert load_table(path, DAYS, "north").values.tolist() == [[2_932_896.0]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.toml", "a = " + "[" * 100_000, "nests lists or tables too deeply"),
        ("x.toml", "a = " + "1" * 5000, "a number of thousands of digits"),
        ("x.json", '{"a":' * 100_000, "nests lists or tables too deeply"),
        ("x.json", '{"a":' + "1" * 5000 + "}", "a number of thousands of digits"),
    ],
)
def test_configuration_that_is_too_much_is_one_error(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        (load_json if name.endswith("json") else load_toml)(tmp_path / name)
