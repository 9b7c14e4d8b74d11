"""`fedkme schema`: check, dummy, draft of dictionaries, as they are typed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.config import toml_text, validate
from fedkme.drafts.checking import spans
from fedkme.drafts.dialect import detect_file
from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.words import meanings
from fedkme.errors import DataError, SchemaError
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table
from fedkme.tables.schema import load_schema, schema_from
from fedkme.tables.table_schema import from_table_schema
from tests.fedkme.drafts.own_files import typed
from tests.places import ROOT

SCHEMA = """
ignore = ["id"]
[[columns]]
name = "age"
kind = "numeric"
bounds = [0, 120]
nullable = true
[[columns]]
name = "smoker"
kind = "category"
categories = ["yes", "no", "unknown"]
missing = "unknown"
[[columns]]
name = "seen"
kind = "date"
bounds = [2020-01-01, 2024-12-31]
[[columns]]
name = "dose"
kind = "numeric"
bounds = [0, 10]
clip = true
[label]
name = "ill"
classes = ["no", "yes"]
"""
SECRET = "SECRET"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    good = "".join(f"{n},{20 + n},yes,2021-01-02,3,no\n" for n in range(50))
    Path("good.csv").write_text("id,age,smoker,seen,dose,ill\n" + good + "51,,,2021-01-02,11,no\n")
    bad = f"51,{SECRET},Y,2021-01-02,3,no\n52,300,Y,2019-01-02,3,maybe\n"
    Path("bad.csv").write_text("id,age,smoker,seen,dose,ill\n" + good + bad)
    return tmp_path


def test_every_fault_of_every_file_is_printed_with_its_lines_and_no_value(folder: Path) -> None:
    # `schema check *.csv` (every fault of every file with line numbers, in one pass;
    # counts what `missing` and `clip` swallowed); nothing private beyond line numbers and column names.
    output = typed("check", "schema.toml", "good.csv", "bad.csv", "nowhere.csv", code=DataError.code)
    assert "good.csv: 51 rows, no faults" in output
    assert "column 'smoker': 1 cell is empty" in output
    assert "column 'dose': 1 cell is beyond the bounds or 'values', moved" in output
    for line in (
        "line 52: column 'age': text where a number belongs",
        "line 53: column 'age': outside the public bounds",
        "lines 52 to 53: column 'smoker': a name not in the schema",
        "line 53: column 'seen': outside the public bounds",
        "line 53: column 'ill': a name not in the schema",
        "nowhere.csv: not read",
    ):
        assert line in output
    for private in (SECRET, "300", "maybe", "'Y'", "2019"):
        assert private not in output


def test_values_are_shown_on_demand_alone(folder: Path) -> None:
    output = typed("check", "schema.toml", "bad.csv", "--show-values", code=DataError.code)
    assert f"['{SECRET}' x 1]" in output
    assert "['Y' x 2]" in output


def test_findings_are_printed_as_json(folder: Path) -> None:
    reports = json.loads(typed("check", "schema.toml", "bad.csv", "--json", code=DataError.code))
    (file,) = reports["files"]
    assert file["rows"] == 52
    assert [(fault["column"], fault["lines"]) for fault in file["faults"]] == [
        *(("age", [52]), ("ill", [53]), ("age", [53]), ("seen", [53]), ("smoker", [52, 53]))
    ]
    assert {fault["code"] for fault in file["faults"]} == {DataError.code}
    assert SECRET not in json.dumps(reports)


def test_a_file_in_another_dialect_gets_the_settings_that_read_it(folder: Path) -> None:
    rows = "".join(f"{n};{n},5;Y;02.01.2021;NA;no\r\n" for n in range(50))
    Path("other.csv").write_bytes(f"id;AGE;smoker;seen;dose;ill\r\n{rows}é".encode("latin-1"))
    output = typed("check", "schema.toml", "other.csv", code=DataError.code)
    hint = output.partition("data = ")[2].splitlines()[0]
    assert 'sep = ";", decimal = ",", encoding = "cp1252", na = ["NA"]' in hint
    columns = 'age = {from = "AGE"}, seen = {format = "%d.%m.%Y"}, smoker = {map = {Y = "yes"}}'
    assert f"columns = {{{columns}}}" in hint
    # "every fault of every file": also those that the edit does not mend
    assert "schema.toml, column 'dose': nullable = true" in output
    assert (
        "line 52: more or fewer cells than the header has" in output.partition("read so, these are left")[2]
    )


def test_the_path_in_a_hint_is_relative_to_the_configuration(folder: Path) -> None:
    # It was that of the folder where `check` ran: pasted into the owner's file, it named no file.
    (folder / "north").mkdir()
    rows = "".join(f"{n};{20 + n};Y;02.01.2021;3;no\n" for n in range(50))
    (folder / "north" / "own.csv").write_text("id;age;smoker;seen;dose;ill\n" + rows)
    owner = 'name = "north"\ncurator = "a:1"\nschema_file = "../schema.toml"\nplaintext = true\n'
    (folder / "north" / "owner.toml").write_text(owner + 'data = "own.csv"\n')
    output = typed("check", "schema.toml", "north/owner.toml", code=DataError.code)
    assert 'data = {path = "own.csv", sep = ";"' in output
    data = output.partition("data = ")[2].splitlines()[0]
    (folder / "north" / "owner.toml").write_text(owner + f"data = {data}\n")
    assert "no faults" in typed("check", "schema.toml", "north/owner.toml")


def test_one_table_of_all_sites_is_checked_too(folder: Path) -> None:
    # It was "no faults" of the validation file alone; the table was read first by the run.
    lines = Path("good.csv").read_text().splitlines()
    table = [f"{line},{'site' if n == 0 else 'ab'[n % 2]}" for n, line in enumerate(lines)]
    Path("all.csv").write_text("\n".join(table) + "\n")
    scenario = '[scenario]\nkind = "csv"\nschema_file = "schema.toml"\nvalidation = "good.csv"\n'
    Path("scenario.toml").write_text(scenario + 'table = "all.csv"\nsite_column = "site"\n[summary]\np = 2\n')
    assert typed("check", "schema.toml", "scenario.toml").count(": 51 rows, no faults") == 2
    Path("all.csv").write_text("\n".join([*table, re.sub(r"[^,]+", "x", table[-1])]) + "\n")
    assert "all.csv" in typed("check", "schema.toml", "scenario.toml", code=DataError.code)


def test_a_scenario_with_settings_gets_better_ones(folder: Path) -> None:
    # It was "error 10: 'name' is not a key": an owner of a scenario has a key that other files have not.
    rows = "".join(f"{n};{20 + n if n % 9 else -9};Y;02.01.2021;3;no;x\r\n" for n in range(50))
    Path("own.csv").write_text("Nr;Alter;smoker;seen;dose;ill;note\r\n" + rows)
    scenario = '[scenario]\nkind = "csv"\nschema_file = "schema.toml"\nvalidation = "good.csv"\n'
    scenario += "[summary]\np = 2\n[scenario.owners]\nnorth = "
    own = {"path": "own.csv", "sep": ";", "columns": {"age": {"from": "Alter"}}}
    Path("scenario.toml").write_text(scenario + toml_text(own))
    output = typed("check", "schema.toml", "scenario.toml", code=DataError.code)
    # -9 is no age, and "Nr" and "note" are columns that this owner alone has
    assert "read so, it has no faults" in output
    hint = output.partition("this may read it: north = ")[2].splitlines()[0]
    assert 'ignore = ["Nr", "note"]' in hint
    assert 'age = {from = "Alter", na = ["-9"]}' in hint
    Path("scenario.toml").write_text(scenario + hint)
    assert output.count("good.csv: 51 rows, no faults") == 1
    assert "own.csv: 50 rows, no faults" in typed("check", "schema.toml", "scenario.toml")


def test_columns_under_other_names_are_not_taken_for_unused_ones(folder: Path) -> None:
    Path("own.csv").write_text("id;Alter;Raucher;Gesehen;Dosis;krank\n1;20;ja;2021-01-02;3;nein\n")
    output = typed("check", "schema.toml", "own.csv", code=DataError.code)
    assert "no column 'age', 'dose', 'seen', 'smoker'" in output
    assert "ignore" not in output.partition("hint")[2].splitlines()[0]


@pytest.mark.parametrize(
    ("cells", "names", "found"),
    [
        ({"Y", "N"}, ("yes", "no"), {"Y": "yes", "N": "no"}),
        ({"1", "0"}, ("no", "yes", "missing"), {"1": "yes", "0": "no"}),
        ({"Ja", "NEIN"}, ("True", "False"), {"Ja": "True", "NEIN": "False"}),
        ({"YES", "F"}, ("yes", "no"), {"YES": "yes", "F": "no"}),
        ({"Female", "m"}, ("female", "male"), {"Female": "female", "m": "male"}),
        ({"1", "2"}, ("yes", "no"), {}),  # any two things
        ({"Y", "perhaps"}, ("yes", "no"), {}),
        ({"Y", "N"}, ("often", "never"), {}),
        ({"T"}, ("yes", "y", "no"), {}),  # which of the two
    ],
)
def test_words_for_yes_and_no_are_mapped_where_nothing_else_is_there(
    cells: set[str], names: tuple[str, ...], found: dict[str, str]
) -> None:
    assert meanings(cells - set(names), names) == found


@pytest.mark.parametrize("names", [("Y", "N"), ("1", "0")])
def test_configurations_are_checked_as_they_are_read(folder: Path, names: tuple[str, str]) -> None:
    # The same settings for owners, consumers and scenarios: here an owner's `map`.
    rows = "".join(f"{n},{20 + n},{names[n % 2]},2021-01-02,3,no\n" for n in range(50))
    Path("own.csv").write_text("id,age,smoker,seen,dose,ill\n" + rows)
    owner = 'name = "north"\ncurator = "-"\nplaintext = true\nschema_file = "schema.toml"\n'
    owner += '[data]\npath = "own.csv"\n'
    Path("owner.toml").write_text(owner)
    assert "lines 2 to 51: column 'smoker'" in typed(
        "check", "schema.toml", "owner.toml", code=DataError.code
    )
    mapped = f'columns.smoker.map = {{{names[0]} = "yes", {names[1]} = "no"}}\n'
    Path("owner.toml").write_text(owner + mapped)
    assert "own.csv: 50 rows, no faults" in typed("check", "schema.toml", "owner.toml")


def test_scenarios_are_checked_file_by_file(folder: Path) -> None:
    own = ROOT / "examples" / "own-files"
    output = typed("check", str(own / "schema.toml"), str(own / "scenario.toml"))
    assert output.count("no faults") == 5


@pytest.mark.parametrize(
    "person", ["", '[person]\ncolumn = "who"\nrows = 2\n', "positive_above = 0.5\n"], ids=len
)
def test_dummy_rows_fit_the_schema_and_are_the_same_for_the_same_seed(folder: Path, person: str) -> None:
    Path("schema.toml").write_text(SCHEMA + person)
    text = typed("dummy", "schema.toml", "--rows", "400", "--seed", "3")
    typed("dummy", "schema.toml", "--rows", "400", "--seed", "3", "--out", "dummy.csv")
    assert Path("dummy.csv").read_text() == text
    table = load_table(Path("dummy.csv"), load_schema(Path("schema.toml")), "north", of_persons=True)
    assert len(table) == 400
    assert table.labels is not None
    assert 0 < np.isnan(table.values[:, 0]).sum() < 60
    assert set(table.values[:, 2]) == {0, 1, 2}


def test_nothing_is_overwritten(folder: Path) -> None:
    typed("dummy", "schema.toml", "--out", "good.csv", code=10)
    assert "2021-01-02" in Path("good.csv").read_text()


def test_a_data_dictionary_is_drafted_without_rows(folder: Path) -> None:
    # A *public* sample or a data dictionary.
    Path("dictionary.csv").write_text(
        "Variable,Type,Min,Max,Choices\nage,integer,0,120,\nweight,number,0.5,300,\n"
        'sex,text,,,"1, male | 2, female"\nseen,date,2020-01-01,2024-12-31,\nnotes,text,,,\n'
    )
    text = typed("draft", "dictionary.csv")
    assert "FROM DATA" not in text
    Path("drafted.toml").write_text(text)
    schema = load_schema(Path("drafted.toml"))
    assert schema.names == ("age", "weight", "sex", "seen")
    assert schema.ignore == ("notes",)
    assert schema.columns[2].model_dump()["categories"] == ("1", "2")
    Path("dictionary.tsv").write_text("Variable\tType\tMin\tMax\nage\tinteger\t0\t120\n")
    assert "FROM DATA" not in typed("draft", "dictionary.tsv")


FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "string"},
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120, "required": True}},
    {"name": "lab", "type": "number", "constraints": {"minimum": 0, "maximum": 9.5}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"], "required": True}},
    {"name": "seen", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2024-12-31"}},
    {"name": "smoker", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
]


def test_a_table_schema_is_read_as_a_schema(folder: Path) -> None:
    # "Table Schema (Frictionless) can be read".
    Path("table.json").write_text(
        json.dumps({"fields": FIELDS, "primaryKey": "id", "missingValues": ["", "-9"]})
    )
    schema = load_schema(Path("table.json"))
    assert schema.names == ("age", "lab", "lab_missing", "sex", "seen", "seen_missing", "smoker")
    assert schema.ignore == ("id",)
    assert schema.columns[1].model_dump()["missing_codes"] == (-9.0,)
    assert schema.columns[6].model_dump()["categories"] == ("no", "yes", "missing")
    Path("drafted.toml").write_text(typed("draft", "table.json"))
    assert load_schema(Path("drafted.toml")) == schema


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("age", "'fields' is wrong: it is no list"),
        ([{"name": "age", "type": "integer"}], "'age' of the Table Schema has no bounds"),
        (
            [{"name": "note", "type": "string"}],
            "'note' of the Table Schema is of type string, without an 'enum'",
        ),
        ([{"name": None}], "'fields.0.name' is missing"),
        ([{"name": "age", "type": ["integer"]}], "'fields.age.type' is wrong: it is no text"),
        ([{"name": "age", "constraints": []}], "'fields.age.constraints' is wrong: it is no table of keys"),
        (
            [{"name": "age", "constraints": {"enum": 5}}],
            "'fields.age.constraints.enum' is wrong: it is no list",
        ),
        ([{"name": "ill", "type": "boolean", "trueValues": "yes"}], "'fields.ill.trueValues' is wrong"),
        (
            [{"name": "age", "type": "integer", "constraints": {"minimum": "x", "maximum": 9}}],
            "'age' of the Table Schema has a bound that is no number",
        ),
    ],
)
def test_a_table_schema_without_a_domain_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_from(from_table_schema({"fields": fields}))


def test_a_dictionary_without_a_domain_is_refused_and_bounds_may_have_decimal_commas(folder: Path) -> None:
    # "error 11: the draft: 'columns' is wrong: it should have at least 1 item"
    for rows, reason in (
        ("age,number,,120,\n", "neither bounds nor values"),
        ("", "no line below the first"),
    ):
        Path("book.csv").write_text("name,type,min,max,values\n" + rows)
        with pytest.raises(DataError, match=f"no column of the dictionary book.csv can be used: .*{reason}"):
            draft_files([Path("book.csv")])
    Path("book.csv").write_text("name;type;min;max;values\nbmi;number;10,5;80,5;\n")
    assert draft_files([Path("book.csv")]).schema().columns[0].model_dump()["bounds"] == (10.5, 80.5)


def test_keys_of_a_table_schema_may_be_null_and_its_numbers_text() -> None:
    # Tracebacks: 'NoneType' object is not iterable; '<=' not supported between instances of 'str' and 'float'
    field = {
        "name": "year",
        "type": "year",
        "constraints": {"minimum": "1990", "maximum": "2020", "enum": None},
    }
    values = {"fields": [field, {**FIELDS[3], "description": None}], "primaryKey": None}
    schema = schema_from(from_table_schema({**values, "missingValues": ["", "-9"]}))
    assert schema.columns[0].model_dump()["bounds"] == (1990.0, 2020.0)
    assert schema.columns[0].model_dump()["missing_codes"] == (-9.0,)
    assert schema == schema_from(from_table_schema({**values, "missingValues": ["-9"]}))


def test_consecutive_line_numbers_are_joined() -> None:
    assert spans([2, 3, 4, 9]) == "2 to 4, 9"
    assert spans(range(1, 40, 2)) == "1, 3, 5, 7, 9, 11, 13, 15 and 12 more"


def test_settings_on_the_page_are_settings(tmp_path: Path) -> None:
    # docs/own-data.md shows all of them.
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    shown = tomllib.loads(page.partition("```toml\n[data]\n")[2].partition("```")[0])
    assert set(shown) == set(DataFile.model_fields)
    file = validate(DataFile, shown, "owner.toml")
    assert file.column("smoker").map == {"Y": "yes", "N": "no"}


def test_a_row_that_is_too_wide_below_the_names_hides_no_header(folder: Path) -> None:
    # The names were taken for a title, and "the file has no column 'age'" was said of a file that has it.
    rows = [f"{30 + n},yes,no" + (",x" if n % 7 == 0 else "") for n in range(40)]
    (folder / "ragged.csv").write_text("\n".join(["age,smoker,ill", *rows]) + "\n", encoding="utf-8")
    assert detect_file(folder / "ragged.csv").skip == 0


@pytest.mark.parametrize("first", ["45.5,yes,no", "PK\0,\0\1,x"])
def test_a_first_line_that_is_no_header_is_called_so(tmp_path: Path, first: str) -> None:
    # It was "the file has no column 'age', 'smoker'. Say with 'from' what the file calls it".
    schema = schema_from({"columns": [{"kind": "numeric", "name": "age", "bounds": [0, 99]}]})
    (tmp_path / "rows.csv").write_text(f"{first}\n46.5,no,no\n", encoding="utf-8")
    with pytest.raises(DataError, match="the first line of the file has no names of columns"):
        load_table(tmp_path / "rows.csv", schema, "north")
