"""Files of rows that say things in words of their own, dates, gaps, and names that nobody knows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.config import validate
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.tables.csv_rows import PART_ROWS
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import examine, load_rows, load_table, read_columns
from fedkme.tables.schema import Category, Numeric, Schema, load_schema, schema_from
from tests.places import ROOT

PATIENTS = schema_from(
    {
        "columns": [
            {"kind": "numeric", "name": "age", "bounds": [0, 120], "nullable": True},
            {
                "kind": "category",
                "name": "smoker",
                "categories": ["yes", "no", "unknown"],
                "missing": "unknown",
            },
            {"kind": "date", "name": "seen", "bounds": ["2020-01-01", "2024-12-31"]},
        ],
        "label": {"name": "ill", "classes": ["no", "yes"]},
        "ignore": ["id"],
    }
)
SECRET = "SECRET"


def own_file(folder: Path, content: str, written: str = "utf-8", **settings: Any) -> DataFile:
    path = folder / "rows.csv"
    path.write_bytes(content.encode(written))
    return validate(DataFile, {"path": path, **settings}, "owner.toml")


def test_a_file_in_its_own_words_becomes_the_same_rows(tmp_path: Path) -> None:
    # from, map, na, sep, decimal, encoding in each owner's own file; here with a byte order
    # mark, a quoted line end, separators at the ends of lines and an empty line.
    plain = "id,age,smoker,seen,ill\n1,30.5,yes,2021-03-04,no\n2,,unknown,2022-12-31,yes\n"
    ugly = 'Alter;Raucher;Aufnahme;krank;id;\r\n30,5;Y;"04.03.2021";N;"a\nb";\r\n\r\n-9;?;31.12.2022;J;c;\r\n'
    wanted = load_table(own_file(tmp_path, plain), PATIENTS, "north")
    settings = {
        "sep": ";",
        "decimal": ",",
        "encoding": "utf-16",
        "na": ["?"],
        "columns": {
            "age": {"from": "Alter", "na": ["-9"]},
            "smoker": {"from": "Raucher", "map": {"Y": "yes", "N": "no"}},
            "seen": {"from": "Aufnahme", "format": "%d.%m.%Y"},
            "ill": {"from": "krank", "map": {"J": "yes", "N": "no"}},
        },
    }
    examined = load_rows(own_file(tmp_path, ugly, "utf-16", **settings), PATIENTS, "north")
    np.testing.assert_array_equal(examined.table.values, wanted.values)
    assert examined.table.labels is not None
    assert examined.table.labels.tolist() == [0, 1]
    assert examined.lines.tolist() == [2, 5]


def test_dates_are_days_and_gaps_stand_beside_the_number(tmp_path: Path) -> None:
    # `kind = "date"` (encoded as days; bounds as dates), nullable.
    text = "id,age,smoker,seen,ill\n1,60,yes,2020-01-01T08:00,no\n2,,no,2024-12-31,yes\n"
    table = load_table(own_file(tmp_path, text), PATIENTS, "north")
    assert PATIENTS.names == ("age", "age_missing", "smoker", "seen")
    np.testing.assert_array_equal(table.values, [[60, 0, 0, 18262], [np.nan, 1, 1, 20088]])
    encoded = PATIENTS.encode(table.values)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        encoded, [[0.5, half, 0, half, 0, 0, 0], [0.5, 0, half, 0, half, 0, 1]], atol=1e-6
    )
    assert PATIENTS.decode(encoded)[:, 3].tolist() == [18262, 20088]
    with pytest.raises(DataError, match="'seen': outside the public bounds, rows: 1, line 2"):
        load_table(own_file(tmp_path, "age,smoker,seen\n1,yes,2019-12-31\n"), PATIENTS, "north")
    with pytest.raises(DataError, match="'seen': text where a date belongs, rows: 1, line 2"):
        load_table(own_file(tmp_path, f"age,smoker,seen\n1,yes,{SECRET}\n"), PATIENTS, "north")


@pytest.mark.parametrize(
    "cell", ["02021-01-01", "2021-01-01 24:30", "2021-01-01 25:00", "2021-01-01T10:00+99:99", "2021-01-01T"]
)
def test_what_no_clock_shows_is_no_date(tmp_path: Path, cell: str) -> None:
    with pytest.raises(DataError, match="'seen': text where a date belongs"):
        load_table(own_file(tmp_path, f"age,smoker,seen\n1,yes,{cell}\n"), PATIENTS, "north")
    read = own_file(tmp_path, "age,smoker,seen\n1,yes,2021-01-01T24:00:00+14:00\n1,no,2021-1-1 9:05:60Z\n")
    assert load_table(read, PATIENTS, "north").values[:, 3].tolist() == [18628, 18628]


def test_a_schema_with_dates_and_gaps_goes_through_its_file() -> None:
    assert "2020-01-01" in PATIENTS.to_toml()
    again = schema_from(tomllib.loads(PATIENTS.to_toml()))
    assert again == PATIENTS
    assert again.digest() == PATIENTS.digest()


def test_digests_of_schemas_without_the_new_keys_stay() -> None:
    # Two parties of different releases compare digests: this one was computed before the keys were there.
    schema = load_schema(ROOT / "examples" / "own-files" / "schema.toml")
    assert schema.digest() == "7d8681adaca3b3de267fbf2dffe125ed0ae95c27e856d905bac07ac5acff6a85"


@pytest.mark.parametrize("answers", [("Y", "N"), ("1", "0"), ("Ja", "Nein")])
def test_an_owner_with_unlisted_names_is_refused_before_it_joins(
    tmp_path: Path, answers: tuple[str, str]
) -> None:
    # An owner whose yes and no are Y and N was accepted, every smoker "unknown".
    rows = "".join(f"40,{answers[n % 2]},2021-01-01\n" for n in range(100))
    with pytest.raises(DataError, match="'smoker': a name not in the schema, taken as 'unknown', rows: 100"):
        load_table(own_file(tmp_path, "age,smoker,seen\n" + rows), PATIENTS, "north")


@pytest.mark.parametrize(
    ("strange", "unknown", "refused"), [(1, 0.01, False), (2, 0.01, True), (1, 0.0, True)]
)
def test_few_unknown_names_are_counted_and_more_are_refused(
    tmp_path: Path, strange: int, unknown: float, refused: bool
) -> None:
    # "never mapped to the missing category in silence: counted, refused above a threshold".
    rows = "".join(f"40,{SECRET if n < strange else ''},2021-01-01\n" for n in range(100))
    file = own_file(tmp_path, "age,smoker,seen\n" + rows, unknown=unknown)
    examined = examine(file, PATIENTS, "north")
    kind = ("smoker", "a name not in the schema, taken as 'unknown'")
    assert bool(examined.faults) == refused
    assert examined.swallowed[kind] == (0 if refused else strange)
    assert examined.swallowed["smoker", "empty, taken as the public 'missing'"] == 100 - strange
    assert SECRET not in str(examined.faults)


def test_a_whole_number_with_decimals_is_the_name_and_nothing_else_is(tmp_path: Path) -> None:
    # A tool writes 1 as 1.0 once the column has a gap; 01, 1e0 and 1_0 are other names than 1 and 10.
    schema = Schema(columns=(Category(name="ward", categories=("1", "10")),))
    path = tmp_path / "wards.csv"
    path.write_text("ward\n1\n1.0\n10.00\n")
    assert load_table(path, schema, "north").values.tolist() == [[0], [0], [1]]
    for other in ("01", "1e0", "1_0", "+1", "1.5"):
        path.write_text(f"ward\n1\n{other}\n")
        with pytest.raises(DataError, match="line 3"):
            load_table(path, schema, "north")


def test_every_fault_of_a_file_is_found_in_one_pass(tmp_path: Path) -> None:
    # Every fault with line numbers, over parts, quoted line ends and empty lines.
    good = '40,no,2021-01-01,no,"a\nb"\n'
    bad = f"{SECRET},no,2021-01-01,no,\n500,no,x,maybe,\n\n1,2\n"
    file = own_file(tmp_path, "age,smoker,seen,ill,id\n" + good * PART_ROWS + bad + good + bad)
    examined = examine(file, PATIENTS, "north")
    first = 2 + 2 * PART_ROWS
    second = first + 6
    assert examined.ragged == [first + 3, second + 3]
    assert {(fault.column, fault.what): examined.lines[fault.rows].tolist() for fault in examined.faults} == {
        ("age", "text where a number belongs"): [first, second],
        ("age", "outside the public bounds"): [first + 1, second + 1],
        ("seen", "text where a date belongs"): [first + 1, second + 1],
        ("ill", "a name not in the schema"): [first + 1, second + 1],
    }


UGLY: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "latin-1": ("age,smoker,seen\n1,yes,2021-01-01\n2,für,".encode("latin-1"), {}, "in UTF-8, line 3"),
    "duplicate header": (b"age,smoker,seen,age\n", {}, "names a column twice, 'age'"),
    "open quote": (b'age,smoker,seen\n1,yes,2021-01-01\n"2,yes,2021-01-01\n', {}, "from line 3 on"),
    "decimal comma": (b"age;smoker;seen\n1,5;yes;2021-01-01\n", {"sep": ";"}, "'age': text.*line 2"),
    "thousands": (b"age;smoker;seen\n1.500;yes;2021-01-01\n", {"sep": ";", "decimal": ","}, "'age': text"),
    "thousands of two digits": (
        b"age;smoker;seen\n1.50;yes;2021-01-01\n",
        {"sep": ";", "decimal": ",", "thousands": "."},
        "'age': text",
    ),
    "separator": (b"age;smoker;seen\n1;yes;2021-01-01\n", {}, "no column 'age', 'seen', 'smoker'"),
    "from nowhere": (b"age,smoker,seen\n", {"columns": {"Age": {"from": "age"}}}, "no column 'Age'"),
    "two of a name": (b"age,A,smoker,seen\n", {"columns": {"age": {"from": "A"}}}, "two columns.*'age'"),
}


@pytest.mark.parametrize("case", UGLY)
def test_an_ugly_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    content, settings, message = UGLY[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_table(DataFile.model_validate({"path": path, **settings}), PATIENTS, "north")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"sep": ";;"},
        {"sep": ",", "decimal": ","},
        {"thousands": ".", "decimal": "."},
        {"encoding": "utf-9"},
        {"unknown": 2},
        {"columns": {"a": {"from": "x"}, "b": {"from": "x"}}},
        {"colums": {}},
    ],
)
def test_contradictory_settings_of_a_file_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        own_file(tmp_path, "", **settings)


BAD_SCHEMAS: dict[str, tuple[Callable[[], Schema], str]] = {
    "no date": (
        lambda: schema_from({"columns": [{"kind": "date", "name": "d", "bounds": ["2020", "2021"]}]}),
        "is no date",
    ),
    "block": (
        lambda: schema_from(
            {"columns": [{"kind": "numeric", "name": "x", "bounds": [0, 1], "count": 2, "nullable": True}]}
        ),
        "stands by itself",
    ),
    "gaps of nobody": (
        lambda: schema_from(
            {"columns": [{"kind": "category", "name": "x", "categories": ["no", "yes"], "gaps_of": "y"}]}
        ),
        "no nullable number",
    ),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_contradictory_schemas_are_refused(case: str) -> None:
    make, message = BAD_SCHEMAS[case]
    with pytest.raises(SchemaError, match=message):
        make()


def test_a_nullable_category_has_one_more() -> None:
    column = Category.model_validate({"name": "c", "categories": ["a", "b"], "nullable": True})
    assert column.categories == ("a", "b", "missing")
    assert column.missing == "missing"
    assert (
        Numeric.model_validate({"name": "n", "bounds": [0, 5], "integer": True, "nullable": True}).missing
        == 2
    )


def test_columns_are_read_unchanged(tmp_path: Path) -> None:
    file = own_file(tmp_path, "Alter;Ort\n1,5;Köln\n", "cp1252", sep=";", encoding="cp1252")
    assert read_columns(file, "north") == {"Alter": ["1,5"], "Ort": ["Köln"]}
    with pytest.raises(DataError, match=re.escape("the first is line 3")):
        read_columns(own_file(tmp_path, "a,b\n1,2\n1\n"), "north")
