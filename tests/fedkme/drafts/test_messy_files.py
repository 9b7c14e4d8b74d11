"""Files of hospitals: cells that were read wrongly, with no more than a note, are read rightly or refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.fitting import fit
from fedkme.drafts.reading import RowsToCheck
from fedkme.drafts.words import doubts, in_other_units, names_matched
from fedkme.errors import DataError
from fedkme.tables.cells import day_of
from fedkme.tables.conversion import CODED
from fedkme.tables.data_file import DataFile, FileColumn
from fedkme.tables.files import load_table
from fedkme.tables.schema import schema_from
from tests.fedkme.drafts.own_files import typed

SCORE = {"kind": "numeric", "name": "score", "bounds": [0, 60], "clip": True, "nullable": True}
BORN = {"kind": "date", "name": "born", "bounds": ["1940-01-01", "2005-12-31"], "clip": True}
MALE = {"kind": "category", "name": "male", "categories": ["0", "1"]}
RENT = {"kind": "numeric", "name": "rent", "bounds": [0, 5000]}
WARD = {"kind": "category", "name": "ward", "categories": ["a", "b"]}
OUTCOME = {"name": "outcome", "classes": ["alive", "dead"]}


def written(folder: Path, header: str, cells: Sequence[str]) -> RowsToCheck:
    lines = [f"{header};ward", *(f"{cell};{'ab'[place % 2]}" for place, cell in enumerate(cells)), ""]
    (folder / "north.csv").write_text("\n".join(lines), encoding="utf-8")
    return RowsToCheck("north", DataFile(path=folder / "north.csv", sep=";"), has_section=True)


def test_a_code_near_the_bounds_that_many_rows_have_is_no_value(tmp_path: Path) -> None:
    # 99 for no score of 0 to 60 widened the bounds to 100, and 19 patients had a score of 99.
    scores = [*map(str, range(61)), *map(str, range(61))]
    fitted = fit([written(tmp_path, "score", [*scores, *["99"] * 9])], {"columns": [SCORE, WARD]})
    assert fitted.edit.schema == {}
    assert fitted.edit.files[0]["columns"] == {"score": {"na": ["99"]}}
    assert np.isnan(load_table(fitted.files[0], fitted.schema, "north").values[-9:, 0]).all()
    pressure = {**SCORE, "bounds": [60, 220]}
    fitted = fit(
        [written(tmp_path, "score", [*map(str, range(100, 161)), *["0"] * 5])], {"columns": [pressure, WARD]}
    )
    assert (fitted.edit.schema, fitted.edit.files[0]["columns"]) == ({}, {"score": {"na": ["0"]}})
    # but a few, or one of several numbers beyond, may be scores
    for beyond in (["99"] * 5 + ["94"] * 5, ["98", "99", "97", "96", "99", "95"]):
        fitted = fit([written(tmp_path, "score", [*scores, *beyond])], {"columns": [SCORE, WARD]})
        assert [*fitted.edit.schema] == [("score", "bounds")]


def test_two_digits_of_a_year_are_of_the_bounds_century(tmp_path: Path) -> None:
    # Those born in 1952 were born in 2052, and the bounds ended in 2068.
    days = [
        f"{day:02d}.{month:02d}.{year}" for day in (1, 28) for month in (2, 12) for year in (52, 68, 69, "04")
    ]
    subject = written(tmp_path, "born", days)
    fitted = fit([subject], {"columns": [BORN, WARD]})
    assert fitted.edit.schema == {}
    born = load_table(fitted.files[0], fitted.schema, "north").values[:, 0].tolist()
    assert born[:4] == [day_of(f"{year}-02-01") for year in (1952, 1968, 1969, 2004)]


def test_one_and_two_are_left_to_people_where_the_schema_has_zero_and_one(tmp_path: Path) -> None:
    # "other codes, as 1 and 2 for m and w, need map": the list became 0, 1, 2.
    for codes, edit in ((["1", "2"], []), (["0", "1", "2"], [("male", "categories")])):
        fitted = fit([written(tmp_path, "male", codes * 20)], {"columns": [MALE, WARD]})
        assert [*fitted.edit.schema] == edit


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.057,05", "1289.80", "665,46", "12"], [1057.05, 1289.8, 665.46, 12]),
        (["141,6", "136.6", "0,125", "1,289.5"], [141.6, 136.6, 0.125, 1289.5]),
        (["141,6", "136.6", "1.289"], None),
        (["141,6", "136.6", "1,289"], None),
        (["141,6", "136.6", "1,289.5,3"], None),
    ],
)
def test_a_column_of_both_decimal_signs_is_read_where_no_number_can_be_another(
    tmp_path: Path, cells: list[str], numbers: list[float] | None
) -> None:
    # The other sign was taken for all of its column, by the cells alone that could not be read.
    subject = written(tmp_path, "rent", cells * 5)
    fitted = fit([subject], {"columns": [RENT, WARD]})
    if numbers:
        assert fitted.edit.files[0] == {"columns": {"rent": {"decimal": "either"}}}
        assert load_table(fitted.files[0], fitted.schema, "north").values[:4, 0].tolist() == numbers
    else:
        assert subject.examine(fitted.schema, fitted.files[0]).faults
        file = subject.file.model_copy(update={"columns": {"rent": FileColumn(decimal="either")}})
        assert [len(fault.rows) for fault in subject.examine(fitted.schema, file).faults] == [5]


def test_a_label_of_another_name_is_not_left_out_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.json").write_text(
        json.dumps({"columns": [RENT], "label": OUTCOME, "ignore": ["class", "smoker"]})
    )
    Path("a.csv").write_text("rent,class,smoker\n1,Alive,yes\n2,dead,no\n")
    Path("b.csv").write_text("rent,smoker\n1,yes\n2,no\n")
    output = typed("check", "schema.json", "a.csv", "b.csv")
    note = "note no column 'outcome': these rows have no label"
    assert " ".join(output.split()).count(note) == 2
    assert f"{note}. Is it 'class'? Then say columns.outcome.from = \"class\"" in " ".join(output.split())


def test_births_of_two_digits_are_drafted_in_the_century_in_which_they_are_nearer(tmp_path: Path) -> None:
    # The bounds were 1969 to 2068; those of days to come, which are near each other, stay.
    now = datetime.now(UTC).year
    for years, ends in (((1940, 1975, 2005), (1940, 2005)), ((now - 6, now + 4), (now - 6, now + 4))):
        days = [f"0{day}.12.{year % 100:02d};{day}.5" for year in years for day in range(1, 9)]
        (tmp_path / "a.csv").write_text("\n".join(["born;x", *days, ""]))
        (column, _) = draft_files([tmp_path / "a.csv"], None).columns
        assert column.spec["bounds"] == [f"{ends[0]}-01-01", f"{ends[1]}-12-31"]


def test_the_only_number_among_names_is_doubted() -> None:
    # 9 for no stage stood in the list beside I, II and III without a word.
    assert doubts(["9", "I", "II", "III"]) == "9: no answer? Then list it under 'na'"
    assert doubts(["88", "m", "w"]).startswith("88: no answer?")
    assert not any(map(doubts, (["10", "I", "II"], ["9", "x"], ["7", "8", "x"])))


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize(
    ("bounds", "integer", "numbers"),
    [
        ((0, 500_000), True, [244_761, 326_424, 208_375, 400_903]),  # were 245 to 401, "rounded"
        ((0, 500_000), True, [244_000, 326_000, 208_000, 400_000]),  # were 244 to 400, "tiny"
        ((0, 500_000), False, [244_761, 326_424, 208_375, 400_903]),
        ((0, 5_000), True, [1_406, 2_062, 1_518, 2_233, 667]),  # were 1, 2, 2, 2 and 667
        ((0, 5_000), False, [*range(1_101, 1_141, 2), 667]),
    ],
)
def test_a_sign_between_thousands_is_not_taken_for_that_before_decimals(
    tmp_path: Path, mark: str, bounds: tuple[float, float], integer: bool, numbers: list[int]
) -> None:
    # Platelets of 244.761 had no fault but a note: rounded to 245, and tiny beside the bounds.
    spec = {"kind": "numeric", "name": "n", "bounds": bounds, "integer": integer}
    subject = written(tmp_path, "n", [f"{number:,}".replace(",", mark) for number in numbers])
    values = {"columns": [spec, WARD]}
    if mark == ".":
        with pytest.raises(DataError, match="a number whose sign may stand between thousands"):
            load_table(subject.file, schema_from(values), "north")
    fitted = fit([subject], values)
    assert fitted.edit.schema == {}
    read = load_table(fitted.files[0], fitted.schema, "north").values[:, 0].tolist()
    assert read == numbers


@pytest.mark.parametrize(
    ("bounds", "integer", "cells"),
    [
        ((0, 5), False, ["1.234", "2.345", "3.456", "4.567", "0"]),  # as thousands beyond the bounds
        ((0, 30), True, ["12.000", "7.000", "9.000", "11.000"]),
        ((0, 5_000), True, ["1.406", "2.062", "1.518", "2.23"]),  # a decimal, hence all
        ((0, 5_000), True, ["1.406", "2.062", "1.518"]),  # few
    ],
)
def test_decimals_stay_decimals(
    tmp_path: Path, bounds: tuple[float, float], integer: bool, cells: list[str]
) -> None:
    spec = {"kind": "numeric", "name": "n", "bounds": bounds, "integer": integer}
    subject = written(tmp_path, "n", cells)
    read = load_table(subject.file, schema_from({"columns": [spec, WARD]}), "north").values[:, 0]
    assert read.tolist() == [round(float(cell)) if integer else float(cell) for cell in cells]


def test_a_column_that_names_its_decimal_sign_is_not_doubted(tmp_path: Path) -> None:
    spec = {"kind": "numeric", "name": "n", "bounds": (0, 5_000), "integer": True}
    subject = written(tmp_path, "n", ["1.406", "2.062", "1.518", "2.233"])
    file = subject.file.model_copy(update={"columns": {"n": FileColumn(decimal=".")}})
    assert load_table(file, schema_from({"columns": [spec, WARD]}), "north").values[:, 0].tolist() == [
        1,
        2,
        2,
        2,
    ]


@pytest.mark.parametrize(("code", "times", "counted"), [(99, 9, 9), (-99, 9, 9), (99, 3, 0), (98.5, 9, 0)])
def test_a_frequent_code_inside_the_bounds_is_noted(
    tmp_path: Path, code: float, times: int, counted: int
) -> None:
    # Ten of sixty patients were 99 years old, and no line said so.
    spec = {"kind": "numeric", "name": "n", "bounds": (-100, 120)}
    subject = written(tmp_path, "n", [*map(str, range(20, 70)), *[str(code)] * times])
    examined = subject.examine(schema_from({"columns": [spec, WARD]}), subject.file)
    assert examined.faults == []
    assert examined.swallowed.get(("n", CODED), 0) == counted


def test_files_that_name_different_units_for_a_column_are_not_matched(tmp_path: Path) -> None:
    # "Weight (kg)" of one file and weight_lb, or "154 lb", of another were one column of the schema.
    weight, ward = {"kind": "numeric", "name": "weight", "bounds": [30, 400]}, WARD
    for header, cell in (
        ("weight_lb", "{}"),
        ("Weight (lbs)", "{}"),
        ("weight", "{} lb"),
        ("weightLb", "{}"),
    ):
        for own in ("north", "south"):
            (tmp_path / own).mkdir(exist_ok=True)
        kilograms = written(tmp_path / "north", "Weight (kg)", [f"{50 + n}" for n in range(40)])
        pounds = written(tmp_path / "south", header, [cell.format(110 + 2 * n) for n in range(40)])
        fitted = fit([kilograms, pounds], {"columns": [weight, ward]}, asked=True)
        assert fitted.edit.units["weight"] == {0: "kg", 1: "lb"}
        assert fitted.edit.files == [{}, {}]
        with pytest.raises(DataError):
            load_table(fitted.files[1], fitted.schema, "south")
        again = fit([kilograms], {"columns": [weight, ward]})  # alone, or beside files that name none
        assert again.edit.files == [{"columns": {"weight": {"from": "Weight (kg)"}}}]
    # and a name with a unit is never matched to one with another, but to the same by a synonym
    for name, other, same in (
        ("temperature_c", "temperature_f", False),
        ("age (years)", "Alter (Jahre)", True),
        ("glucose_mg_dl", "glucose_mmol_l", False),
        ("weight (kg)", "weightKg", True),
        ("price_usd", "Price in $", True),
        ("income_sek", "income (DKK)", False),
    ):
        assert in_other_units((name, other)) != same
        second = f"{name.replace('_', ' ')} 2"
        assert same or names_matched([name], [other, second])[0] == {name: second}


def test_days_of_which_a_spreadsheet_swapped_half_are_refused(tmp_path: Path) -> None:
    # 03/04/2021 became 2021-03-04 and 13/04/2021 stayed: a third of all days were read wrongly.
    days = [date(2021, 1, 1) + timedelta(days=3 * n) for n in range(120)]
    born = {**BORN, "bounds": ["2020-01-01", "2022-12-31"]}
    for form in ("%d/%m/%Y", "%m-%d-%Y", "%d.%m.%Y"):
        swapped = [
            f"{day.year}-{day.day:02d}-{day.month:02d}" if day.day <= 12 else day.strftime(form)
            for day in days
        ]
        fitted = fit([written(tmp_path, "born", swapped)], {"columns": [born, WARD]})
        with pytest.raises(DataError, match="a spreadsheet swapped day and month"):
            load_table(fitted.files[0], fitted.schema, "north")
        mixed = [day.isoformat() if place % 3 else day.strftime(form) for place, day in enumerate(days)]
        fitted = fit([written(tmp_path, "born", mixed)], {"columns": [born, WARD]})
        read = load_table(fitted.files[0], fitted.schema, "north").values[:, 0].tolist()
        assert read == [day_of(day.isoformat()) for day in days]


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        (["0-9", "9-11", "10-14"], ["0–9", "11-Sep", "14-Oct"]),
        (["0-9", "9-11", "10-14"], ["0‑9", "9. Nov", "Okt 14"]),
        (["Köln", "Zürich", "Bern"], ["Koeln", "Zuerich", "Bеrn"]),
        (["Köln", "Zürich", "Bern"], ["K\u201dln", "Z\x81rich", "Bern"]),
        (["01067", "10115"], ["1067.0", "10115.0"]),
        (["yes", "no"], ["✓", "✗"]),
        (["m", "f", "x"], ["Herr", "Frau", "x"]),
    ],
)
def test_cells_that_stand_for_names_in_other_writing_are_mapped(
    tmp_path: Path, names: list[str], cells: list[str]
) -> None:
    # The list of names had each place twice, so rows of one place were apart by who had typed them.
    city = {"kind": "category", "name": "city", "categories": names}
    fitted = fit([written(tmp_path, "city", cells * 12)], {"columns": [city, WARD]})
    assert fitted.edit.schema == {}
    read = load_table(fitted.files[0], fitted.schema, "north").values[:, 0].tolist()
    assert read == [*range(len(names))] * 12


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        (["yes", "no"], ["はい", "いいえ"]),
        (["yes", "no"], ["Raucher", "Nichtraucher"]),
        (["yes", "no"], ["x", ""]),
        (["m", "f"], ["D", "H"]),
        (["a+", "b+"], ["a-", "b-"]),
    ],
)
def test_names_of_which_a_file_has_its_own_for_each_are_left_to_people(
    tmp_path: Path, names: list[str], cells: list[str]
) -> None:
    # "yes" and "Raucher" were two names of one column, and an empty box beside x was missing, not no.
    smoker = {"kind": "category", "name": "smoker", "categories": names}
    fitted = fit([written(tmp_path, "smoker", cells * 20)], {"columns": [smoker, WARD]}, asked=True)
    assert fitted.edit.schema == {}
    with pytest.raises(DataError):
        load_table(fitted.files[0], fitted.schema, "north")
