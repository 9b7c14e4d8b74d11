"""Tables and their files."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.errors import DataError, MissingDependencyError
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table, read_columns, save_table
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.tables.text import csv_text

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 120)),
        Numeric(name="lab", bounds=(0, 10), count=2, missing=5),
        Category(name="colour", categories=("red", "blue", "other"), missing="other"),
        Category(name="code", categories=("1", "2")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
    ignore=("id",),
)
HEADER = "id,colour,age,lab0,lab1,code,ill\n"
TEXT = HEADER + 'a,red,30,1,2,1,no\nb, blue ,40.5,,2,2.0,yes\n\n"c,d",green,50,1e0,NaN,2,yes\n'
VALUES = np.array([[30, 1, 2, 0, 0], [40.5, np.nan, 2, 1, 1], [50, 1, np.nan, 2, 1]])


def written(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lenient(path: Path) -> DataFile:
    """A file that may have names that are in no list."""
    return DataFile(path=path, unknown=1.0)


def test_csv_is_read_through_the_schema(tmp_path: Path) -> None:
    # DESIGN, The house: data.py: npz/csv/parquet -> arrays through the schema: by name, in its order.
    table = load_table(lenient(written(tmp_path, "\ufeff" + TEXT)), SCHEMA, "owner-1")
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1, 1]


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    # Same sentence; gaps, categories and whole numbers look different in Parquet and mean the same.
    pandas = pytest.importorskip("pandas", reason="pandas writes the file")
    pytest.importorskip("pyarrow", reason="pyarrow reads the file")
    frame = pandas.DataFrame(
        {
            "id": ["a", "b", "c"],
            "ill": pandas.Categorical(["no", "yes", "yes"]),
            "code": [1, 2, 2],
            "age": [30, 40.5, 50],
            "lab0": [1.0, None, 1.0],
            "lab1": pandas.array([2, 2, None], dtype="Int64"),
            "colour": ["red", "blue", None],
        }
    )
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    table = load_table(path, SCHEMA, "owner-1")
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1, 1]


def test_the_index_of_a_data_frame_is_no_column_of_its_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"age": [1, 2, 3]}).iloc[[2, 0]].to_parquet(path)
    assert list(read_columns(path, "owner")) == ["age"]


def test_parquet_keeps_narrow_numbers(tmp_path: Path) -> None:
    # Memory of an owner is its rows and its features: uint8 stays uint8. Booleans are "0" and "1".
    pandas = pytest.importorskip("pandas", reason="pandas writes the file")
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 255)), Category(name="b", categories=("0", "1"))))
    path = tmp_path / "rows.parquet"
    pandas.DataFrame({"x": np.array([7, 200], np.uint8), "b": [True, False]}).to_parquet(path)
    table = load_table(path, schema, "owner-1")
    assert table.values.dtype == np.uint8
    assert table.values.tolist() == [[7, 1], [200, 0]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 5])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_saved_table_comes_back(
    tmp_path: Path, dtype: type[np.number[Any]], rows: int, labelled: bool
) -> None:
    # Memory of an owner is its rows: the dtype is kept; an owner may have no rows.
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, (rows, 5)).astype(dtype)
    table = Table(values, rng.integers(0, 2, rows) if labelled else None)
    path = tmp_path / "rows.npz"
    save_table(path, table)
    back = load_table(path, SCHEMA, "owner-1")
    np.testing.assert_array_equal(back.values, values, strict=True)
    assert (back.labels is None) == (table.labels is None)
    if back.labels is not None and table.labels is not None:
        np.testing.assert_array_equal(back.labels, table.labels, strict=True)


@pytest.mark.parametrize("rows", [0, 3])
def test_images_in_an_npz_are_flattened(tmp_path: Path, rows: int) -> None:
    # MNIST comes as (m, 28, 28).
    path = tmp_path / "images.npz"
    images = np.arange(rows * 4, dtype=np.uint8).reshape(rows, 2, 2)
    np.savez(path, x=images, y=np.zeros(rows, np.uint8))
    schema = Schema(
        columns=(Numeric(name="pixel", bounds=(0, 16), count=4),), label=Label(name="y", classes=("a", "b"))
    )
    table = load_table(path, schema, "owner-1")
    np.testing.assert_array_equal(table.values, images.reshape(rows, 4), strict=True)
    assert table.labels is not None
    assert table.labels.dtype == np.int64


def test_take_keeps_rows_and_labels_together() -> None:
    # Table: labels belong to rows.
    table = Table(np.arange(10).reshape(5, 2), np.arange(5))
    taken = table.take(np.array([3, 1]))
    assert len(table) == 5
    assert taken.values.tolist() == [[6, 7], [2, 3]]
    assert taken.labels is not None
    assert taken.labels.tolist() == [3, 1]
    assert Table(table.values).take(np.array([0])).labels is None


def test_a_numeric_label_becomes_two_classes(tmp_path: Path) -> None:
    # Label.positive_above: the second class is every number above this one.
    rule = Label(name="num", classes=("healthy", "ill"), positive_above=0)
    schema = Schema(columns=(Numeric(name="age", bounds=(0, 120)),), label=rule)
    table = load_table(written(tmp_path, "age,num\n50,0\n51,4\n52,1.0\n"), schema, "va")
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1, 1]
    with pytest.raises(DataError, match="column 'num': an empty cell, rows: 1, line 3"):
        load_table(written(tmp_path, "age,num\n50,0\n51,\n"), schema, "va")


def test_a_file_without_the_label_is_a_table_without_labels(tmp_path: Path) -> None:
    # Sarpatwar 2019, section 4: "we remove the labels from this validation set".
    table = load_table(written(tmp_path, "colour,age,lab0,lab1,code\nred,30,1,2,1\n"), SCHEMA, "consumer")
    assert table.labels is None


ROW = "SECRET1,red,30,1,2,1,no\n"
BAD_CSV = {
    "text for a number": (HEADER + ROW.replace("30", "SECRET") + ROW, "'age': text where a number.*rows: 1"),
    "infinity": (HEADER + ROW.replace("30", "inf") * 3, "'age': NaN, infinity or an empty cell, rows: 3"),
    "empty number": (HEADER + ROW.replace("30", ""), "'age': NaN, infinity or an empty cell, rows: 1"),
    "out of bounds": (HEADER + ROW.replace("30", "987654"), "'age': outside the public bounds, rows: 1"),
    "unknown category": (
        HEADER + ROW.replace(",1,no", ",SECRET,no") * 2,
        "'code': .*not in the schema, rows: 2",
    ),
    "unknown class": (HEADER + ROW.replace("no", "SECRET"), "'ill': .*not in the schema, rows: 1"),
    "missing column": ("colour,age,lab0,code\nred,30,1,1\n", "no column 'lab1'"),
    "extra column": ("extra," + HEADER + "SECRET," + ROW, "does not describe column 'extra'"),
    "ragged": (
        HEADER + ROW + "SECRET,1\n" + ROW.strip() + ",SECRET\n",
        "has 2 lines with more or fewer cells",
    ),
    "no header": (ROW.replace("1,2,1", "4,2,1") + ROW, "no column 'age', 'code', 'colour', 'lab0', 'lab1'"),
    "header twice": ("age,age\n1,2\n", "names a column twice"),
    "empty": ("", "has no header"),
    "open quote": (HEADER + '"SECRET', "not a CSV file, from line 2 on"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_bad_csv_names_party_column_and_rows_and_never_a_value(tmp_path: Path, case: str) -> None:
    # One clear line with cause and remedy; errors.py: never a private value.
    text, message = BAD_CSV[case]
    with pytest.raises(DataError, match=message) as caught:
        load_table(written(tmp_path, text), SCHEMA, "owner-2")
    shown = str(caught.value)
    assert "owner-2" in shown
    assert "SECRET" not in shown
    assert "987654" not in shown
    assert "\n" not in shown


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    # One clear line with cause and remedy.
    path = tmp_path / "rows.csv"
    path.write_bytes(HEADER.encode() + "é".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        load_table(path, SCHEMA, "owner-2")


def _objects(path: Path) -> None:
    np.savez(path, x=np.array([[object()]], dtype=object))


def _one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros((2, 5)))


def _half(path: Path) -> None:
    np.savez(path, x=np.zeros((200, 5)))
    path.write_bytes(path.read_bytes()[:500])


BAD_NPZ: dict[str, tuple[Callable[[Path], object], str]] = {
    "objects": (_objects, "not an .npz of plain arrays"),
    "an .npy": (_one_array, "not an .npz of plain arrays"),
    "cut short": (_half, "not an .npz of plain arrays"),
    "empty file": (lambda path: path.write_bytes(b""), "not an .npz of plain arrays"),
    "text": (lambda path: path.write_text("age\n1\n"), "not an .npz of plain arrays"),
    "no x": (lambda path: np.savez(path, rows=np.zeros((2, 5))), "no array 'x'"),
    "more": (lambda path: np.savez(path, x=np.zeros((2, 5)), z=np.zeros(2)), "does not describe array 'z'"),
    "shape": (lambda path: np.savez(path, x=np.zeros((2, 6))), r"shape \(2, 6\)"),
    "label names": (lambda path: np.savez(path, x=np.zeros((1, 5)), y=np.array(["no"])), "labels of shape"),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_a_bad_npz_is_refused(tmp_path: Path, case: str) -> None:
    # Wrong shapes; nothing is unpickled.
    write, message = BAD_NPZ[case]
    path = tmp_path / "rows.npz"
    write(path)
    with pytest.raises(DataError, match=message) as caught:
        load_table(path, SCHEMA, "owner-2")
    assert "owner-2" in str(caught.value)


@pytest.mark.parametrize("name", ["absent.csv", "absent.npz", "absent.parquet", "rows.xlsx"])
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str) -> None:
    # One clear line with cause and remedy, naming the party.
    with pytest.raises(DataError, match="owner-2"):
        load_table(tmp_path / name, SCHEMA, "owner-2")


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    # Same sentence.
    pytest.importorskip("pyarrow", reason="pyarrow reads the file")
    with pytest.raises(DataError, match="not a Parquet file"):
        load_table(written(tmp_path, "age\n", "rows.parquet"), SCHEMA, "owner-2")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # DESIGN, Dependencies: the base has no pyarrow; .csv and .npz work without it.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fedkme\[sim\]'"):
        load_table(written(tmp_path, "", "rows.parquet"), SCHEMA, "owner-2")
    assert len(load_table(lenient(written(tmp_path, TEXT)), SCHEMA, "owner-2")) == 3


def test_equal_cells_of_a_csv_share_one_string(tmp_path: Path) -> None:
    # Memory of an owner is its rows, its features and little else, also while they are read.
    cells = read_columns(written(tmp_path, "a,b\n" + "longer text,longer text\n" * 50), "owner-1")
    assert len({id(cell) for column in cells.values() for cell in column}) == 1


def test_other_threads_have_their_turn_while_a_large_file_is_written() -> None:
    # All rows in one call of the csv module held up a curator's loop: 1.5 s for 150,000 rows, of 10 million.
    columns = {name: [0.1 * n for n in range(100_000)] for name in "abc"}
    began, texts = time.process_time(), list[str]()
    thread = threading.Thread(target=lambda: texts.append(csv_text(columns)))
    thread.start()
    turns = [began]
    while not texts:
        turns.append(time.process_time())
    thread.join()
    waited = max(after - before for before, after in pairwise([*turns, time.process_time()]))
    assert waited < (turns[-1] - began) / 3
    assert texts[0].count("\n") == 100_001
