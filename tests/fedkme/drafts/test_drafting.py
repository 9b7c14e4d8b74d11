"""Drafts of schemas from public rows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedkme.drafts.checking import settings_seen
from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.drafting import draft
from fedkme.drafts.writing import FROM_DATA, text_of
from fedkme.errors import DataError
from fedkme.tables.cells import columns_of
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, load_schema, schema_from

HEADER = "PatNr;Alter;Blutdruck;Raucher;Aufnahme;krank"
ROWS = [
    (
        f"P{n:03}",
        20 + n % 70,
        f"{100 + n % 50},5",
        "ja" if n % 3 else "nein",
        f"{1 + n % 28:02}.05.2021",
        n % 2,
    )
    for n in range(60)
]
LINES = [HEADER, *(";".join(map(str, row)) for row in ROWS)]
LINES[5] = "P004;?;-9;?;03.12.2020;1"
GERMAN = "\r\n".join(LINES).replace("Aufnahme", "Aufnahme für") + "\r\n"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "nord.csv"
    path.write_bytes(GERMAN.encode("cp1252"))
    return path


def test_a_draft_loads_at_once_and_reads_the_file_it_was_made_from(sample: Path, tmp_path: Path) -> None:
    # Draft detects separator, decimal, encoding, NA tokens, dates, ids, categories.
    drafted = draft(sample, label="krank")
    file = tmp_path / "schema.toml"
    file.write_text(text_of(drafted), encoding="utf-8")
    schema = load_schema(file)
    assert schema == drafted.schema()
    assert schema.ignore == ("PatNr",)
    assert [column.name for column in schema.columns] == [
        *("Alter", "Alter_missing", "Blutdruck", "Blutdruck_missing", "Raucher"),
        *("Aufnahme für", "Aufnahme für_missing"),  # three columns have gaps: others may have some
    ]
    assert schema.classes == ("0", "1")
    reading = drafted.files[0]
    assert (reading.sep, reading.decimal, reading.encoding) == (";", ",", "cp1252")
    table = load_table(reading, schema, "north")
    assert len(table) == 60
    assert np.isnan(table.values[4]).tolist() == [True] + [False] * 6
    assert table.values[4, 1:5].tolist() == [1, -9, 1, 2]
    assert schema.encode(table.values).max() <= 1


def test_every_bound_and_name_that_was_seen_in_rows_is_marked(sample: Path) -> None:
    # "bounds that come from these rows are marked `# FROM DATA: replace if private`".
    lines = text_of(draft(sample, label="krank")).splitlines()
    learnt = [line for line in lines if line.startswith(("bounds", "categories", "classes"))]
    assert len(learnt) == 5
    assert all(line.endswith(FROM_DATA) for line in learnt)


def test_a_data_frame_is_drafted_as_its_file_is(tmp_path: Path) -> None:
    # `fk.summarize(frames, schema=s)` with the same schema as files have.
    pandas = pytest.importorskip("pandas", reason="pandas makes the frame")
    frame = pandas.DataFrame(
        {
            "age": [20.0, None, *range(30, 58)],
            "seen": pandas.to_datetime(["2021-03-04"] * 30),
            "smoker": pandas.array([True, False] * 15, dtype="boolean"),
            "sex": pandas.Categorical(["f", "m", "f"] * 10),
        }
    )
    schema = draft(frame[["age", "sex", "smoker"]]).schema()
    assert [column.name for column in schema.columns] == ["age", "age_missing", "sex", "smoker"]
    path = tmp_path / "rows.csv"
    frame[["age", "sex", "smoker"]].to_csv(path, index=False)
    assert draft(path).schema().columns[:3] == schema.columns[:3]
    assert draft(frame).columns[1].spec == {}
    assert draft({"age": [str(n) for n in range(9)]}).schema().names == ("age",)


def test_truth_values_of_a_frame_are_those_of_its_file(tmp_path: Path) -> None:
    # A schema drafted of the file refused the frame that pandas reads of it: False was 0.
    pandas = pytest.importorskip("pandas", reason="pandas makes the frame")
    frame = pandas.DataFrame({"smoker": [True, False] * 20, "age": range(40)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    schema = draft(tmp_path / "rows.csv").schema()
    assert schema == draft(frame).schema()
    again = columns_of(pandas.read_csv(tmp_path / "rows.csv"), "the sample")
    assert table_from_columns(again, schema, "north").values[:2].tolist() == [[1, 0], [0, 1]]
    number = {"kind": "numeric", "name": "smoker", "bounds": [0, 1]}
    coded = {"kind": "category", "name": "smoker", "categories": ["0", "1"]}
    for spec in (number, coded):
        schema = schema_from({"columns": [spec], "ignore": ["age"]})
        assert table_from_columns(again, schema, "north").values[:2, 0].tolist() == [1, 0]


def test_columns_that_tell_rows_apart_are_left_out() -> None:
    # "ids (columns to leave out)": text that differs in every row, numbers so called.
    rows = range(40)
    drafted = draft(
        {
            "patient_id": [str(1000 + n) for n in rows],
            "mail": [f"a{n}@example.org" for n in rows],
            "weight": [str(50 + 1.5 * n) for n in rows],
            "site": ["north"] * 40,
            "bare": [""] * 40,
        }
    )
    assert drafted.schema().names == ("weight",)
    assert drafted.schema().ignore == ("patient_id", "mail", "site", "bare")
    numbered = draft(
        {"receipt": [str(10_000_000 + n * n) for n in rows], "steps": [str(n * n) for n in rows]}
    )
    assert "an identifier?" in numbered.guesses["receipt"]
    assert "steps" not in numbered.guesses


@pytest.mark.parametrize(
    ("seed", "first", "count"),
    [(seed, seed % 2, (20, 99, 100, 1_000, 6_000)[seed % 5]) for seed in range(10)],
)
def test_numbers_of_rows_are_left_out_in_any_order(seed: int, first: int, count: int) -> None:
    # A table that had been sorted or shuffled made them a number of 0 to 600.
    random = np.random.default_rng(seed)
    numbers = np.arange(first, first + count)
    other = random.integers(0, count, count)  # some come twice
    numbers = numbers[::-1] if seed % 3 == 0 else random.permutation(numbers)
    drafted = draft({"v": numbers, "w": other, "week": numbers, "b": numbers * 2})
    assert drafted.left_out == {"v": "numbers of rows?"}


@pytest.mark.parametrize(
    ("rows", "label", "message"),
    [
        ({"a": []}, None, "no rows"),
        ({"a": ["1", "2"]}, "b", "no column 'b'"),
        ({"a": ["1", "2"], "b": ["1", "1"]}, "b", "cannot be the label"),
        ({"a": [f"x{n}" for n in range(30)]}, None, "no column can be used"),
    ],
)
def test_samples_that_cannot_be_drafted_are_refused(
    rows: dict[str, list[str]], label: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        draft(rows, label).schema()


def test_a_label_that_is_a_number_is_cut_in_two(tmp_path: Path) -> None:
    # It was error 12: "can be cut in two by 'positive_above'", which no draft wrote.
    path, schema_file = tmp_path / "stays.csv", tmp_path / "schema.toml"
    lines = [f"{n % 7};{n / 2:.1f}".replace(".", ",") for n in range(200)]
    path.write_text("\n".join(["ward;days", *lines, *["0;99,5"] * 300]) + "\n")
    drafted = draft(path, label="days")
    text = text_of(drafted)
    schema_file.write_text(text, encoding="utf-8")
    schema = load_schema(schema_file)
    assert schema == drafted.schema()
    assert schema.label is not None
    assert schema.label.positive_above == 99.0  # the median is the largest, above which there is none
    assert f"positive_above = 99.0  {FROM_DATA}" in text
    labels = load_table(drafted.files[0], schema, "north").labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [199, 301]


def test_a_dictionary_has_labels_that_are_numbers_too(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.csv"
    path.write_text("name,type,min,max,values\nage,integer,18,100,\ndays,number,0,30,\nout,date,,,\n")
    label = draft_files([path], "days").schema().label
    assert label == Label(name="days", classes=("low", "high"), positive_above=15.0)


def test_a_draft_says_which_columns_it_leaves_out() -> None:
    cells = {"age": [str(n) for n in range(60)], "cost": [f"{n}.{n:03},50" for n in range(10, 70)]}
    drafted = draft({"note": [""] * 60, **cells})
    assert drafted.schema().names == ("age",)
    assert drafted.left_out["note"].startswith("empty")
    assert drafted.left_out["cost"].startswith("numbers with decimal commas")


def test_a_schema_comes_from_plain_values() -> None:
    # For the Python API: a schema as a dictionary.
    schema = schema_from({"columns": [{"kind": "numeric", "name": "age", "bounds": [0, 120]}]})
    assert schema.columns == (Numeric(name="age", bounds=(0, 120)),)
    assert not any(isinstance(column, Category) for column in schema.columns)


def test_a_column_that_has_the_name_of_a_numbers_marks_is_a_column_like_others() -> None:
    # A file with x and x_missing, and gaps in x: the draft was no schema, as its name was used twice.
    cells = {"x": [f"{n}" if n % 7 else "" for n in range(60)], "x_missing": [f"{n % 3}" for n in range(60)]}
    schema = draft(cells).schema()
    assert schema.names == ("x", "x_missing_2", "x_missing")
    assert table_from_columns(cells, schema, "rows").values[:, 1:].tolist()[6:8] == [[0.0, 0.0], [1.0, 1.0]]


def test_every_draft_can_be_read_whatever_the_cells(tmp_path: Path) -> None:
    # A sign that cannot be printed became a category that no schema may have, a number "inf" made the
    # whole column one, and a file that is no text at all was drafted.
    text = 'age,bp,comment,bell\n30,NaN,"two\nlines",\a\n40,inf,plain,b\n50,130.5,plain,b\n60,120,a,b\n'
    (tmp_path / "sample.csv").write_text(text)
    drafted = draft(tmp_path / "sample.csv")
    schema = drafted.schema()
    assert {column.name for column in schema.columns} == {"age", "bp", "bp_missing", "comment"}
    assert "two lines" in str(schema.columns)
    assert isinstance(schema.columns[1], Numeric)
    assert schema.columns[1].na == ("NaN", "inf")
    (tmp_path / "picture.csv").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(DataError, match="not the names of columns"):
        draft(tmp_path / "picture.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match=r"empty\.csv has no header\. "):
        draft(tmp_path / "empty.csv")


def test_rows_beyond_the_sample_fit_its_draft_and_other_units_do_not(tmp_path: Path) -> None:
    # "`fedkme sim run` on a stranger's csv files ends in a verdict": 11 of 12 tables had a
    # few rows beyond what the sample had seen, each an error; but clip must not make a column constant.
    drafted = draft({"degrees": [36.0 + i / 50 for i in range(100)], "of": ["a", "b"] * 50}).schema()
    owner, other = ({"degrees": [*rows, 44.5], "of": ["a"] * 20} for rows in ([37.0] * 19, [98.6] * 19))
    table = table_from_columns({k: np.array(v) for k, v in owner.items()}, drafted, "owner")
    assert len(table) == 20
    with pytest.raises(DataError, match="'degrees': nearly all outside the bounds"):
        table_from_columns({k: np.array(v) for k, v in other.items()}, drafted, "owner")


def test_numbers_of_persons_are_left_out_and_offered_as_the_unit_of_privacy() -> None:
    rows = {"person id": [10_000 + i // 4 for i in range(400)], "pulse": [60 + i % 37 for i in range(400)]}
    drafted = draft(rows)
    assert [column.name for column in drafted.schema().columns] == ["pulse"]
    text = text_of(drafted)
    assert "# [person]" in text
    text = (
        text.replace("# [person] #", "[person] #").replace("# column =", "column =").replace("# rows", "rows")
    )
    schema = schema_from({k: v for k, v in tomllib.loads(text).items() if k != "ignore"}, "the draft")
    assert schema.person is not None
    assert (schema.person.column, schema.person.rows) == ("person id", 4)


@pytest.mark.parametrize(
    ("text", "thousands", "decimal", "pay"),
    [
        ('pay,rate\n"1,234",0.5\n"12,000",0.25\n', ",", ".", 12_000),
        ("pay;rate\n1.234,5;0,5\n12.000;0,25\n", ".", ",", 12_000),
        ("pay;rate\n1.234.567;0\n1.000;1\n", ".", ",", 1_000),
        ("pay;rate\n1,234;0.5\n12,000;0.25\n", ",", ".", 12_000),
        ("pay;rate\n1 234,5;0,5\n12\u202f000;0,25\n", " ", ",", 12_000),
        ("pay,rate\n1'234.5,0.5\n12\u2019000,0.25\n", "'", ".", 12_000),
        ("pay;rate\n1,234;0\n2,500;1\n", "", ",", 2.5),  # decimals as well as thousands: nothing tells
        ("pay;rate\n1,5;1.234\n2,25;1.500\n", ".", ",", 2.25),
        ("pay;day\n1,5;01.02.2024\n2,25;11.12.2024\n", "", ",", 2.25),
    ],
)
def test_signs_between_thousands_are_found_and_read(
    tmp_path: Path, text: str, thousands: str, decimal: str, pay: float
) -> None:
    # A file with "1,234", "1 234" or "1.234,5" could not be read, and its draft left the column out.
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    drafted = draft(path)
    reading = drafted.files[0]
    assert (reading.thousands, reading.decimal) == (thousands, decimal)
    assert ("thousands = " in text_of(drafted)) == bool(thousands)
    assert load_table(reading, drafted.schema(), "north").values[1, 0] == pay
    seen = settings_seen([DataFile(path=path, sep=reading.sep)], drafted.schema())[0]
    assert seen.get("thousands", "") == thousands


def test_units_and_accounts_are_read_as_numbers(tmp_path: Path) -> None:
    # Amounts with a unit differed in every row and were left out as names of rows; shares were categories.
    path = tmp_path / "rents.csv"
    rows = [
        f'"${1000 + 7 * i:,}.5{i % 10}",{40 + i % 50} %,{f"({i}.25)" if i % 2 else f"{i}.75"}'
        for i in range(60)
    ]
    path.write_text("rent,used,left\n" + "\n".join(rows), encoding="utf-8")
    drafted = draft(path)
    reading = drafted.files[0]
    assert reading.units == ("$", "%")
    assert load_table(reading, drafted.schema(), "north").values[1].tolist() == [1007.51, 41.0, -1.25]
    assert settings_seen([DataFile(path=path)], drafted.schema())[0]["units"] == ("$", "%")
    text = 'units = ["$", "%"]'
    assert f"# {text}" in text_of(drafted)


def test_the_only_word_among_numbers_is_a_gap_and_others_may_have_one(tmp_path: Path) -> None:
    # One "ND" in forty made a column of numbers a name of rows, which was left out.
    def text(column: int, row: int) -> str:
        return "ND" if row % 40 == column < 5 else f"{column + row / 7:.3f}"

    path = tmp_path / "lab.csv"
    header = ",".join(f"c{column}" for column in range(6))
    lines = [",".join(text(column, row) for column in range(6)) for row in range(80)]
    path.write_text("\n".join([header, *lines]), encoding="utf-8")
    drafted = draft(path)
    assert [each.spec.get("nullable") for each in drafted.columns] == [True] * 6  # c5 has none here
    assert [each.spec.get("na") for each in drafted.columns] == [["ND"]] * 5 + [None]
    assert settings_seen([DataFile(path=path)], drafted.schema())[0] == {}  # the schema has the word
    states = draft({"state": ["ND", "SD", "MN"] * 20})
    assert states.columns[0].spec["categories"] == ["MN", "ND", "SD"]


def test_no_word_of_a_private_file_is_shown_but_those_that_everybody_uses(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("pay\n" + "\n".join([*map(str, range(0, 80, 2)), "Smith"]), encoding="utf-8")
    schema = draft({"pay": [str(value) for value in range(0, 80, 2)]}).schema()
    assert "na" not in settings_seen([DataFile(path=path)], schema)[0]


def test_times_that_differ_in_every_row_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rows = "\n".join(f"{1 + i % 28:02d}.03.2025 {i % 24:02d}:{i % 60:02d};{i}" for i in range(90))
    path.write_text(f"begun;n\n{rows}", encoding="utf-8")
    drafted = draft(path)
    assert drafted.columns[0].spec["kind"] == "date"
    assert "days alone are read" in drafted.columns[0].why
    load_table(drafted.files[0], drafted.schema(), "north")


@pytest.mark.parametrize(("time", "told"), [("T00:00:00+02:00", False), (" 0:00", False), ("T07:30Z", True)])
def test_a_time_of_day_that_is_not_read_is_said_to_be(tmp_path: Path, time: str, told: bool) -> None:
    # A stranger's hours of admission were gone, and neither draft nor check had said a word.
    path = tmp_path / "visits.csv"
    path.write_text("begun,n\n" + "".join(f"2025-03-{1 + i % 28:02d}{time},{i}\n" for i in range(90)))
    assert ("days alone are read" in draft(path).columns[0].why) is told
