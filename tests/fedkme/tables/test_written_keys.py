"""Keys of a schema and a file that say how cells are written: words for nothing, dates, left out rows."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.config import validate
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import examine, load_table, read_columns
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.text import text_columns

PLAIN: dict[str, Any] = {
    "columns": [
        {"kind": "numeric", "name": "age", "bounds": [0, 120], "nullable": True},
        {"kind": "category", "name": "smoker", "categories": ["no", "yes"], "nullable": True},
        {"kind": "date", "name": "seen", "bounds": ["2020-01-01", "2024-12-31"], "nullable": True},
    ],
    "label": {"name": "ill", "classes": ["no", "yes"]},
}


def schema_with(**keys: dict[str, Any]) -> Schema:
    columns = [{**column, **keys.get(column["name"], {})} for column in PLAIN["columns"]]
    return schema_from({"columns": columns, "label": {**PLAIN["label"], **keys.get("ill", {})}})


def own_file(folder: Path, text: str, name: str = "rows.csv", **settings: Any) -> DataFile:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return validate(DataFile, {"path": path, **settings}, "owner.toml")


def test_words_for_nothing_and_dates_travel_with_the_schema_and_no_digest_has_them(tmp_path: Path) -> None:
    schema = schema_with(
        age={"na": ["NA", "-"]},
        smoker={"na": ["?"]},
        seen={"na": ["NIL"], "format": "%d.%m.%Y"},
        ill={"na": ["unclear"], "drop_unlabelled": True},
    )
    assert schema.digest() == schema_with().digest()
    assert schema.digest() != schema_with(smoker={"other": True}).digest()
    plain = own_file(tmp_path, "age,smoker,seen,ill\n30,yes,2021-01-13,no\n,,,yes\n", "plain.csv")
    own = "age,smoker,seen,ill\n30,yes,13.01.2021,no\nNA,?,NIL,yes\n-,k.A.,,unclear\n"
    wanted = load_table(plain, schema_with(), "north")
    table = load_table(own_file(tmp_path, own, na=["k.A."]), schema, "north")
    np.testing.assert_array_equal(table.values, wanted.values)
    np.testing.assert_array_equal(table.labels, wanted.labels)
    (tmp_path / "schema.toml").write_text(schema.to_toml())
    np.testing.assert_array_equal(load_table(plain, schema, "north").values, wanted.values)


def test_a_files_own_form_of_dates_comes_first_and_the_schemas_last(tmp_path: Path) -> None:
    schema = schema_with(seen={"format": "%d/%m/%Y"})
    for own, cell in ((None, "03/04/2021"), ("%m/%d/%Y", "04/03/2021"), ("%Y-%d-%m", "2021-03-04")):
        columns = {"seen": {"format": own}} if own else {}
        file = own_file(tmp_path, f"age,smoker,seen\n1,no,{cell}\n1,no,2021-04-03\n", columns=columns)
        days = load_table(file, schema, "north").values[:, 3].tolist()
        assert days[0] == 18720.0
        assert days[1] == (18690.0 if own == "%Y-%d-%m" else 18720.0)


def test_other_takes_every_name_that_is_not_listed_and_no_empty_cell(tmp_path: Path) -> None:
    schema = schema_with(smoker={"other": True})
    spec = schema.columns[2]
    assert spec.kind == "category"
    assert spec.categories == ("no", "yes", "missing", "other")
    file = own_file(tmp_path, "age,smoker,seen\n1,yes,\n1,vape,\n1,pipe,\n1,,\n")
    examined = examine(file, schema, "north")
    assert not examined.faults
    assert examined.table.values[:, 2].tolist() == [1.0, 3.0, 3.0, 2.0]
    assert examined.swallowed["smoker", "a name not in the schema, taken as 'other'"] == 2
    assert text_columns(examined.table, schema)["smoker"] == ["yes", "other", "other", ""]
    assert schema_from(schema.model_dump()) == schema
    full = schema_with(smoker={"other": True, "nullable": False})
    with pytest.raises(DataError, match="'smoker': an empty cell, rows: 1, line 5"):
        load_table(file, full, "north")


@pytest.mark.parametrize("where", ["file", "schema"])
def test_rows_without_a_label_are_left_out_where_somebody_says_so(tmp_path: Path, where: str) -> None:
    text = "age,smoker,seen,ill\n1,no,,yes\n2,no,,\n3,no,,no\nx,no,,\n5,bad,,no\n"
    with pytest.raises(DataError, match=r"'ill': an empty cell, rows: 2[^!]*drop_unlabelled"):
        load_table(own_file(tmp_path, text.replace("x", "4").replace("bad", "yes")), schema_with(), "north")
    schema = schema_with(ill={"drop_unlabelled": where == "schema"}, smoker={"nullable": False})
    file = own_file(tmp_path, text, drop_unlabelled=where == "file")
    examined = examine(file, schema, "north")
    assert examined.table.values[:, 0].tolist() == [1.0, 3.0, 5.0]
    assert examined.lines.tolist() == [2, 4, 6]
    assert examined.swallowed["ill", "rows without a label, left out"] == 2
    assert [examined.lines[fault.rows].tolist() for fault in examined.faults] == [[6]]


@pytest.mark.parametrize("threshold", [None, 2.0])
def test_persons_keep_their_rows_where_unlabelled_ones_are_left_out(tmp_path: Path, threshold: Any) -> None:
    label = {"name": "ill", "drop_unlabelled": True, "classes": ["1", "3"], "positive_above": threshold}
    who = {"column": "who", "rows": 1}
    schema = schema_from({"columns": PLAIN["columns"][:1], "label": label, "person": who})
    file = own_file(tmp_path, "age,ill,who\n1,,a\n2,3,a\n3,1,b\n4,3,a\n")
    examined = examine(file, schema, "north", of_persons=True)
    assert examined.table.values[:, 0].tolist() == [2.0, 3.0]
    assert examined.persons == ["a", "b", "a"]


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.txt", "r.csv.gz", "r.tsv.gz", "r.txt.gz", "R.CSV"])
def test_every_file_of_text_is_read_plain_or_packed(tmp_path: Path, name: str) -> None:
    sep = "\t" if ".tsv" in name else ","
    text = "\nage,smoker,seen\n1,no,2021-01-01\n\n2,yes,\n".replace(",", sep)
    examined = examine(own_file(tmp_path, text, name), schema_with(), "north")
    assert examined.table.values[:, 0].tolist() == [1.0, 2.0]
    assert (examined.unit, examined.lines.tolist()) == ("line", [3, 5])
    packed = gzip.compress(text.encode())
    (tmp_path / name).write_bytes(packed)  # whatever the name says
    assert len(load_table(tmp_path / name, schema_with(), "north")) == 2
    (tmp_path / name).write_bytes(packed[:-10])
    with pytest.raises(DataError, match="compressed by gzip, and cut or damaged"):
        load_table(tmp_path / name, schema_with(), "north")


def test_lines_above_the_header_and_totals_below_are_skipped_and_lines_keep_their_numbers(
    tmp_path: Path,
) -> None:
    text = 'Report, "2024\nsep= \n\n a   b\n1   2\n 3 4 \n\n5   6 7\nsum 9\nn 3 3 3\n'
    file = own_file(tmp_path, text, sep=" ", skip=2, skip_end=3)
    assert read_columns(file, "north") == {"a": ["1", "3"], "b": ["2", "4"]}
    schema = schema_from({"columns": [{"kind": "category", "name": n, "categories": ["1"]} for n in "ab"]})
    faulty = examine(file.model_copy(update={"skip_end": 2}), schema, "north")
    assert (faulty.ragged, faulty.lines.tolist()) == ([8], [5, 6])


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,,b", ["a", "column", "b"]),
        (",a,", ["column", "a"]),
        (",a,,b", ["column 1", "a", "column 3", "b"]),
        ("column,,b", ["column", "column 2", "b"]),
    ],
)
def test_a_column_without_a_name_gets_one(tmp_path: Path, header: str, names: list[str]) -> None:
    assert list(read_columns(own_file(tmp_path, header + "\n"), "north")) == names


@pytest.mark.parametrize(
    "keys",
    [
        {"age": {"format": "%d.%m.%Y"}},
        {"seen": {"format": "%Y-%d-%m"}},
        {"seen": {"format": "%d.%m."}},
        {"seen": {"format": "%Q"}},
        {"smoker": {"na": ["no"]}},
        {"smoker": {"other": True, "nullable": False, "missing": "other"}},
        {"ill": {"na": ["yes"]}},
    ],
)
def test_contradictory_keys_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        schema_with(**keys)


@pytest.mark.parametrize("encoding", ["base64", "no such", "a\0"])
def test_an_encoding_that_is_none_of_text_is_refused(encoding: str) -> None:
    with pytest.raises(ConfigError, match="no encoding"):
        validate(DataFile, {"path": "r.csv", "encoding": encoding}, "owner.toml")
