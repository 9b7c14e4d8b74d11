"""Codes and words for a missing value are no class of a label: neither in a draft nor in an edit."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.drafts.drafting import draft
from fedkme.errors import DataError
from fedkme.tables.cells import days_of
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import examine, load_table
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import load_schema, schema_from
from fedkme.tables.text import text_columns
from tests.fedkme.drafts.own_files import SCHEMA, rows, scenario, typed, write

CODES = (
    "-9",
    "-99",
    "999",
    "9",
    "99",
    "-1",
    "unknown",
    "Unbekannt",
    "NA",
    ".",
    "?",
    "missing",
    "inconnu",
    "",
)
CLASSES = (("no", "yes"), ("0", "1"), ("1", "2"), ("A", "B"), ("mild", "none", "severe"), ("0", "1", "2"))
STATES = (
    ("mild", "none", "severe"),
    ("+", "-"),
    ("-1", "0", "1"),
    ("-1", "1"),
    ("7", "8", "9"),
    ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
    ("1", "2", "3"),
    ("aucune", "forte", "légère"),
    ("ND", "PD", "SD"),
    ("1", "99"),
    ("pending", "rejected", "settled"),
)


def column(names: Sequence[str], code: str = "", every: int = 1, count: int = 120) -> dict[str, list[str]]:
    labels = [names[n % len(names)] for n in range(count)]
    return {
        "x": [str(n % 37 / 10) for n in range(count)],
        "y": [code if every > 1 and n % every == every - 1 else label for n, label in enumerate(labels)],
    }


@given(st.sampled_from(CLASSES), st.sampled_from(CODES), st.integers(11, 30))
def test_a_code_or_a_word_for_nothing_is_no_class_of_a_draft(
    names: tuple[str, ...], code: str, every: int
) -> None:
    # A draft of labels no, yes, -9 had three classes, with the grade "Good": a code became a patient.
    if code == "9" and names == ("0", "1", "2"):
        return  # may be a state
    drafted = draft(column(names, code, every), "y")
    label = drafted.schema().label
    assert label is not None
    assert sorted(label.classes) == sorted(names)
    assert label.drop_unlabelled
    assert not code or code in label.na
    assert not code or code in drafted.guesses["y"]  # and the draft says so


@pytest.mark.parametrize("names", STATES, ids=",".join)
def test_classes_that_look_like_nothing_stay_classes(names: Sequence[str]) -> None:
    # Rows of "none" beside "mild" and "severe" were left out, and + and - were one class.
    label = draft(column(names), "y").schema().label
    assert label is not None
    assert sorted(label.classes) == sorted(names)
    assert not label.na


@pytest.mark.parametrize(
    ("names", "asked"),
    [("1 2 3 8 9", "8, 9"), ("0 1 2 3 4 9", "9"), ("0 1 2 3 4 5 6 7 8 9", ""), ("1 3 9", "")],
)
def test_a_draft_asks_whether_the_last_numbers_of_a_survey_are_answers(names: str, asked: str) -> None:
    columns = column(names.split())
    drafts = draft(columns, "y"), draft({"y": columns["y"], "z": columns["x"]})
    guesses = [each.guesses.get("y", "") for each in drafts]
    assert [f"{asked}: no answer?" in guess for guess in guesses] == [bool(asked)] * 2
    assert asked or not any("no answer?" in guess for guess in guesses)


@pytest.mark.parametrize("code", ["-9", "999", "-99.0", "inf", "9999"])
def test_codes_among_the_numbers_of_a_label_are_on_no_side_of_its_cut(tmp_path: Path, code: str) -> None:
    columns = column([f"{20 + n / 4}" for n in range(60)], code, 6)
    drafted = draft(columns, "y")
    label = drafted.schema().label
    assert label is not None
    assert label.positive_above is not None
    assert float(code) in [float(word) for word in label.na]
    assert label.drop_unlabelled
    path = tmp_path / "north.csv"
    write(str(path), columns)
    assert len(load_table(DataFile(path=path), drafted.schema(), "north")) == 100
    # a file of a schema that does not name the code
    spec = {"columns": [{"name": "x", "kind": "numeric", "bounds": [0, 4]}]}
    label_of = {"name": "y", "classes": ["low", "high"], "positive_above": 27.0}
    found = examine(DataFile(path=path), schema_from({**spec, "label": label_of}), "north")
    if code == "inf":
        assert [fault.column for fault in found.faults] == ["y"]
    else:
        assert sum(n for (name, what), n in found.swallowed.items() if name == "y" and "code" in what) == 20


@pytest.mark.parametrize("code", ["-9", "999", "9", "unknown"])
@pytest.mark.parametrize("name", ["ill", "sex"])
def test_a_code_of_a_file_is_no_new_name_of_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, name: str
) -> None:
    # `schema check --fix` gave the label the classes no, yes, -9 and 999.
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    north, south = rows(), rows()
    north[name] = [code if n % 5 == 0 else cell for n, cell in enumerate(north[name])]
    write("north.csv", north)
    write("south.csv", south)
    scenario(north="north.csv", south="south.csv")
    typed("check", "schema.toml", "scenario.toml", code=DataError.code)
    typed("check", "schema.toml", "scenario.toml", "--fix")
    values = tomllib.loads(Path("schema.toml").read_text(encoding="utf-8"))
    assert values["label"]["classes"] == ["no", "yes"]
    assert code not in next(each for each in values["columns"] if each["name"] == "sex")["categories"]
    own = tomllib.loads(Path("scenario.toml").read_text(encoding="utf-8"))["scenario"]["owners"]["north"]
    assert code in {*own.get("na", ()), *own.get("columns", {}).get(name, {}).get("na", ())}
    typed("check", "schema.toml", "scenario.toml")


@pytest.mark.parametrize("mark", ["x", "+", "yes", "1", "TRUE", "oui"])
@pytest.mark.parametrize("empty", ["", "-", "--", "NA"])
def test_what_is_empty_beside_yes_alone_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, empty: str
) -> None:
    # Of + and -, and of boxes with and without a cross, `--fix` left all that said no out.
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    truth = rows()["ill"]
    write("north.csv", rows() | {"ill": [{"yes": mark, "no": empty}[cell] for cell in truth]})
    scenario(north="north.csv")
    typed("check", "schema.toml", "scenario.toml", "--fix", code=None)
    schema, own = load_schema(Path("schema.toml")), "scenario.toml"
    given = tomllib.loads(Path(own).read_text(encoding="utf-8"))["scenario"]["owners"]["north"]
    given = {"path": given} if isinstance(given, str) else given
    if (mark, empty) == ("+", "-"):
        assert (
            text_columns(load_table(DataFile.model_validate(given), schema, "north"), schema)["ill"] == truth
        )
        return
    assert schema.label == schema_from(tomllib.loads(SCHEMA)).label
    with pytest.raises(DataError, match="map"):
        load_table(DataFile.model_validate(given), schema, "north")
    given["columns"] = {"ill": {"map": {mark: "yes", empty: "no"}}}  # what the remedy says
    assert text_columns(load_table(DataFile.model_validate(given), schema, "north"), schema)["ill"] == truth


@pytest.mark.parametrize("names", [("no", "yes"), ("0", "1"), ("A", "B")])
def test_a_draft_of_names_beside_the_word_missing_can_be_read(names: Sequence[str]) -> None:
    # error 11: 'na' of the draft's own column has 'missing', which is one of its names
    columns = {**column(("no", "yes")), "c": column(names, "missing", 9)["y"]}
    schema = draft(columns).schema()
    (spec,) = (each for each in schema.columns if each.name == "c")
    assert getattr(spec, "missing", None) == "missing"


NUMBERS: dict[str, Callable[[int], float]] = {
    "age": lambda n: n * 7 % 71,
    "amount": lambda n: round(1.02 ** (n % 300), 2),
    "temperature": lambda n: n * 13 % 400 / 10 - 15,
    "share": lambda n: n * 3 % 101 / 100,
}
SURVEYS = st.sampled_from([*range(-9, 0), -66, -77, -88, -97, -98, -99])
FAR_CODES = st.sampled_from(
    [code for digits in range(4, 9) for code in (-int("9" * digits), int("8" * digits), 10**digits - 3)]
    + [9999.9, 9999.99, 32767, -32768, 65535, 2**31 - 1, -(2**31), -(2**63), 1e20, 9.96921e36]
    + [3.4028235e38, -3.4028235e38, 1.7976931348623157e308, -1.7976931348623157e308]
)


@given(st.sampled_from([*NUMBERS]), FAR_CODES, st.integers(2, 60))
def test_a_code_among_numbers_is_no_bound_of_a_draft(name: str, code: float, every: int) -> None:
    # -9999 among degrees and -2147483648 among ages were bounds: each gap was a number, most bins were empty.
    cells = [repr(code) if n % every == every - 1 else str(NUMBERS[name](n)) for n in range(600)]
    drafted = draft({name: cells, "z": ["a", "b"] * 300})
    column = drafted.schema().columns[0]
    assert isinstance(column, Numeric)
    assert column.missing_codes == (code,)
    assert max(map(abs, column.bounds)) < 1000
    assert drafted.guesses[name]


@given(st.sampled_from(["age", "amount"]), st.sets(SURVEYS, min_size=1, max_size=3), st.integers(2, 60))
def test_codes_of_surveys_are_the_only_negative_numbers(name: str, codes: set[int], every: int) -> None:
    refused = sorted(codes)
    cells = [str(NUMBERS[name](n)) for n in range(600)]
    cells[every::every] = [str(refused[n % len(refused)]) for n in range(len(cells[every::every]))]
    column = draft({name: cells, "z": ["a", "b"] * 300}).schema().columns[0]
    assert isinstance(column, Numeric)
    assert column.bounds[0] >= 0 or {-1, -2, -3} <= codes
    assert {*column.missing_codes} == {float(code) for code in codes} or {-1, -2, -3} <= codes


SEVERAL = ((98, 99), (97, 98, 99), (88, 99), (77, 88, 99), (998, 999), (777, 999), (9997, 9998))


@given(st.sampled_from(SEVERAL), st.floats(0.4, 0.65), st.integers(3, 60))
def test_several_codes_at_the_end_are_no_numbers(codes: tuple[float, ...], reach: float, every: int) -> None:
    # Ages up to 60 with 98 and 99 for unknown: the mean was that of patients who are 98 and 99.
    high = reach * codes[0]
    cells = [f"{n * 7 % 71 / 70 * high:.1f}" for n in range(1200)]
    cells[every::every] = [str(codes[n % len(codes)]) for n in range(len(cells[every::every]))]
    drafted = draft({"age": cells, "z": ["a", "b"] * 600}).schema().columns[0]
    assert isinstance(drafted, Numeric)
    assert {*drafted.missing_codes} == {*codes}
    assert drafted.bounds[1] < codes[0]


@pytest.mark.parametrize(
    ("code", "rows", "doubted"),
    [(999, 40, True), (999, 1, False), (300, 120, False), (255, 90, True), (99, 90, False)],
)
def test_a_code_that_may_be_a_number_is_asked_about(code: int, rows: int, doubted: bool) -> None:
    # 99999 among incomes up to 60,000 may be a limit: without a word it was a number.
    cells = [str(n * 7 % 601) for n in range(600)]
    cells[:rows] = [str(code)] * rows
    remark = draft({"cost": cells, "z": ["a", "b"] * 300}).guesses.get("cost", "")
    assert ("missing_codes" in remark) == doubted


@pytest.mark.parametrize(("low", "high"), [(-9, 9), (-5, 9), (-3, 9), (-2, 9), (-9, 200), (-8, 60)])
def test_numbers_that_go_on_below_zero_are_no_codes(low: int, high: int) -> None:
    # Delays of -9 to 200 minutes: half of all flights had no delay, as -9 to -1 were nine codes.
    goals = [str(low + n % (high - low)) for n in range(600)]
    column = draft({"goals": goals, "z": ["a", "b"] * 300}).schema().columns[0]
    assert isinstance(column, Numeric)
    assert not column.missing_codes
    assert column.bounds[0] <= low


NO_DAYS = "0000-00-00 0001-01-01 1899-12-30 1900-01-01 1970-01-01 2099-12-31 2262-04-11 9999-12-31"


@given(
    st.sampled_from(NO_DAYS.split()),
    st.sampled_from([(2015, 3000), (1930, 30000), (2024, 20)]),
    st.booleans(),
    st.integers(11, 40),
)
def test_a_day_on_which_calendars_begin_or_end_is_no_bound_of_a_draft(
    code: str, days: tuple[int, int], time: bool, every: int
) -> None:
    # 1970-01-01 among days of 2015 to 2023 was the lower bound: most bins were empty.
    first, span = date(days[0], 1, 1), days[1]
    written = [str(first + timedelta(days=n * 37 % span)) for n in range(600)]
    cells = [code if n % every == every - 1 else day for n, day in enumerate(written)]
    drafted = draft({"day": [cell + " 00:00:00" * time for cell in cells], "z": ["a", "b"] * 300})
    column = drafted.schema().columns[0]
    assert isinstance(column, Numeric)
    assert column.kind == "date"
    assert column.na == (code + " 00:00:00" * time,)
    assert column.bounds[0] == days_of(first)


def test_birthdays_of_the_first_year_of_a_calendar_stay_days() -> None:
    births = [str(date(1900, 1, 1) + timedelta(days=n * 91 % 36000)) for n in range(600)]
    drafted = draft({"born": births, "z": ["a", "b"] * 300})
    assert "no value" not in drafted.guesses.get("born", "")
    column = drafted.schema().columns[0]
    assert isinstance(column, Numeric)
    assert column.bounds[0] == days_of(date(1900, 1, 1))


FEW = ("0 1", "1 2", "0 1 2 3", "1 2 3 4 5", "10 20 30", "A B C", "yes no", "0 1 2 3 4 5 6 7 8 9 10 11")


@given(st.sampled_from(FEW), st.sampled_from([-9, -99, 99, 999, 98, -8, 9999, -(2**31)]), st.integers(11, 40))
def test_a_code_beside_a_few_names_is_no_name(names: str, code: int, every: int) -> None:
    # 0, 1 and 99 for unknown were drafted as a number of 0 to 100, and A, B and -9 as three names.
    drafted = draft(
        {"x": column([f"{n / 7:.1f}" for n in range(50)])["y"], **column(names.split(), str(code), every)}
    )
    read = drafted.schema().columns[1]
    if isinstance(read, Numeric):
        assert 0 <= read.bounds[0] < read.bounds[1] <= 20
        assert str(code) in read.na or code in read.missing_codes
    else:
        assert sorted(read.categories) == sorted([*names.split(), str(code)])
        assert read.missing == str(code)  # made rows have the code again
    assert "no value" in drafted.guesses["y"]


@pytest.mark.parametrize("names", ["K P 7 8 9", "01 2A 2B 75 77 78 88", "-2 -1 0 1 2", "-1 0 1", "A B 12 77"])
def test_names_that_look_like_codes_stay_names(names: str) -> None:
    read = draft(column(names.split())).schema().columns[-1]
    assert not read.na
