"""Files with lines that are no rows, in encodings nobody names, with cells kept as text by spreadsheets."""

from __future__ import annotations

import csv
import io
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedkme.drafts.checking import check
from fedkme.drafts.dialect import detect_file
from fedkme.drafts.drafting import draft
from fedkme.drafts.fitting import fit
from fedkme.drafts.reading import RowsToCheck
from fedkme.drafts.writing import text_of
from fedkme.errors import DataError
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table, read_columns
from fedkme.tables.schema import schema_from

HEADER = ["age", "sex", "bmi"]
ROWS = [[str(20 + n % 60), "fm"[n % 2], f"{18 + n % 17}.{n % 10}"] for n in range(80)]


def text(*rows: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def assert_read(path: Path, rows: int = len(ROWS)) -> None:
    drafted = draft(path)
    schema = drafted.schema()
    assert [(spec.kind, *spec.names) for spec in schema.columns] == [
        ("numeric", "age"),
        ("category", "sex"),
        ("numeric", schema.names[2]),
    ]
    table = load_table(drafted.files[0], schema, "north")
    assert len(table) == rows
    np.testing.assert_allclose(table.values[: len(ROWS), 0], [float(row[0]) for row in ROWS])


@given(st.lists(st.integers(1, len(ROWS)), max_size=4))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_header_between_rows_is_no_row(tmp_path: Path, places: list[int]) -> None:
    # `cat a.csv b.csv`: "sex" became a sex, and ages had gaps.
    rows = list(ROWS)
    for place in sorted(places, reverse=True):
        rows.insert(place, HEADER)
    path = tmp_path / "both.csv"
    path.write_text(text(HEADER, *rows), encoding="utf-8")
    assert_read(path)


@pytest.mark.parametrize(
    "line",
    [["years", "", "kg/m2"], ["int", "str", "float"], ["---", "---", "---"], ["in years", "f or m", ""]],
)
def test_units_and_types_below_the_header_are_no_row(tmp_path: Path, line: list[str]) -> None:
    path = tmp_path / "units.csv"
    path.write_text(text(HEADER, line, *ROWS), encoding="utf-8")
    drafted = draft(path)
    assert [spec.name for spec in drafted.schema().columns] == HEADER  # no gaps, no names of types
    assert drafted.remarks == ("units.csv: line 2 is no row: units or types below the header, to remove",)
    with pytest.raises(DataError, match="line 2"):
        load_table(drafted.files[0], drafted.schema(), "north")


@pytest.mark.parametrize("gap", ["", "unknown", "n/a", "-"])
def test_a_first_row_of_gaps_is_a_row(tmp_path: Path, gap: str) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text(text(HEADER, [gap, "f", gap], *ROWS), encoding="utf-8")
    drafted = draft(path)
    assert drafted.remarks == ()
    assert len(load_table(drafted.files[0], drafted.schema(), "north")) == len(ROWS) + 1


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_files_that_do_not_name_their_encoding_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text(HEADER, *ROWS).encode(encoding))
    assert_read(path)


def test_cells_that_a_spreadsheet_keeps_as_text_are_bare(tmp_path: Path) -> None:
    path = tmp_path / "kept.csv"
    path.write_text(text(HEADER, *([f'="{cell}"' for cell in row] for row in ROWS)), encoding="utf-8")
    assert_read(path)


def test_a_name_in_two_lines_is_one_name(tmp_path: Path) -> None:
    path = tmp_path / "wrapped.csv"
    path.write_text(text(["age", "sex", "bmi\n(kg/m2)"], *ROWS), encoding="utf-8")
    assert_read(path)
    assert draft(path).schema().names == ("age", "sex", "bmi (kg/m2)")


def test_a_workbook_with_another_name_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(DataError, match=r"a zip archive or an Excel workbook. Save its table as .csv"):
        draft(path)


@pytest.mark.parametrize("sep", [" ", ";", "\t"])
@pytest.mark.parametrize("names", [[str(n + 1) for n in range(80)], [f"Mazda RX{n}" for n in range(80)]])
def test_rows_with_names_for_which_the_header_has_no_cell_are_read_as_r_writes_them(
    tmp_path: Path, sep: str, names: list[str]
) -> None:
    # It was "not a CSV file, from line 1 on", as no line is as wide as `write.table` makes the header.
    rows = [[f'"{name}"', row[0], f'"{row[1]}"', row[2]] for name, row in zip(names, ROWS, strict=True)]
    rows[3][3] = "NA"
    lines = [[f'"{name}"' for name in HEADER], *rows]
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{sep.join(line)}\n" for line in lines), encoding="utf-8")
    drafted = draft(path)
    assert drafted.schema().names[:3] == ("age", "sex", "bmi")
    assert drafted.schema().ignore == ("column",)
    table = load_table(drafted.files[0], drafted.schema(), "north")
    np.testing.assert_allclose(table.values[:, 0], [float(row[0]) for row in ROWS])


def test_a_cell_more_in_each_row_is_no_name_where_commas_are_decimals(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{line}\n" for line in ["bmi,ill", *(f"{n},{n % 10},no" for n in range(1, 80))]))
    column = {"kind": "numeric", "name": "bmi", "bounds": [0, 99]}
    with pytest.raises(DataError, match="lines with more or fewer cells"):
        load_table(path, schema_from({"ignore": ["ill"], "columns": [column]}), "north")


@pytest.mark.parametrize("first", ["", "all wards", "80"])
@pytest.mark.parametrize("rows", [8, 80, 5000])
def test_sums_below_the_rows_are_no_row_whatever_they_are_called(
    tmp_path: Path, first: str, rows: int
) -> None:
    # "all" became a ward, and its people and cost the bounds; a check proposed a category for other wards.
    cells = [[f"ward {n % 3}", str(n * 7 % 31), f"{n * 13 % 97}.{n % 10}"] for n in range(1, rows + 1)]
    sums = [first, str(sum(int(row[1]) for row in cells)), f"{sum(float(row[2]) for row in cells):.1f}"]
    path, plain = tmp_path / "sums.csv", tmp_path / "plain.csv"
    path.write_text(text(["ward", "people", "cost"], *cells, sums), encoding="utf-8")
    plain.write_text(text(["ward", "people", "cost"], *cells), encoding="utf-8")
    drafted, without = draft(path), draft(plain)
    assert (drafted.files[0].skip_end, without.files[0].skip_end) == (1, 0)
    assert drafted.schema() == without.schema()
    checked = check(
        [RowsToCheck("north", DataFile(path=path))], tomllib.loads(text_of(without)), without.schema()
    )
    assert not checked.changes
    assert checked.fitted.edit.files == [{"skip_end": 1}]


@pytest.mark.parametrize("lines", range(198, 224))
def test_a_note_below_the_rows_is_no_row_however_many_they_are(tmp_path: Path, lines: int) -> None:
    # The 201st line was a row if it was the last one.
    path = tmp_path / "note.csv"
    rows = (ROWS * 3)[: lines - 2]
    path.write_text(text(HEADER, *rows, ["Source: a survey of wards"]), encoding="utf-8")
    assert detect_file(path).skip_end == 1


def test_a_last_column_without_a_name_is_one_where_rows_have_cells(tmp_path: Path) -> None:
    # "there are no rows to draft a schema from"; a check said that each line has more cells than the header.
    path = tmp_path / "north.csv"
    path.write_text(text(["age", "sex", ""], *([*row[:2], f"{n % 4}"] for n, row in enumerate(ROWS))))
    drafted = draft(path)
    assert drafted.schema().names == ("age", "sex", "column")
    assert not check([RowsToCheck("north", DataFile(path=path))], {}, drafted.schema()).reports[0].faults
    path.write_text(text(["age", "sex", ""], *([*row[:2], ""] for row in ROWS)))
    assert draft(path).schema().names == ("age", "sex")


def test_lines_that_are_all_longer_than_the_header_are_said_to_be(tmp_path: Path) -> None:
    # "there are no rows to draft a schema from"
    path = tmp_path / "north.csv"
    path.write_text(text(["age", "sex"], [*ROWS[0], "7"]))
    with pytest.raises(
        DataError, match="nothing but lines with more or fewer cells than the header, from line 2"
    ):
        draft(path)


@pytest.mark.parametrize("nothing", ["-nan", "1.#QNAN", "-1.#IND", "nan(ind)", "1.#INF"])
def test_what_programs_in_c_print_for_no_number_is_none(tmp_path: Path, nothing: str) -> None:
    # 40 numbers became categories, silently.
    path = tmp_path / "north.csv"
    path.write_text(text(["bmi"], *([nothing if n % 5 == 0 else f"{17 + n % 41}.5"] for n in range(80))))
    column = draft(path).schema().columns[0]
    assert column.kind == "numeric"
    assert column.nullable
    assert nothing in column.na


@pytest.mark.parametrize(
    "none", ["unknown", "2021-02-30", "2021-05-00", "00.00.0000", "9999-99-99", "99/99/99"]
)
@pytest.mark.parametrize("form", ["2021-{m:02d}-{d:02d}", "{d}.{m}.2021", "{m}/{d}/21"])
def test_days_with_a_few_cells_that_are_none_are_days(tmp_path: Path, none: str, form: str) -> None:
    # "too many different names"; of fewer rows, made rows had 2021-05-00 and days as names.
    path = tmp_path / "seen.csv"
    days = [form.format(m=1 + n % 12, d=1 + n * 5 % 28) for n in range(120)]
    path.write_text(
        text(
            ["age", "seen"], *([str(20 + n % 60), none if n % 6 == 0 else day] for n, day in enumerate(days))
        )
    )
    drafted = draft(path)
    column = drafted.schema().columns[1]
    assert (column.kind, column.nullable) == ("date", True)
    assert none in column.na
    assert load_table(drafted.files[0], drafted.schema(), "north").values.shape == (120, 3)


WIDE = [[*row, "xyz"[n % 3]] for n, row in enumerate(ROWS)]


@pytest.mark.parametrize("names", [HEADER, HEADER[:2], ["name", "sex", "bmi"]])
@pytest.mark.parametrize("sep", [",", ";"])
def test_a_header_with_too_few_names_is_no_title(tmp_path: Path, names: list[str], sep: str) -> None:
    # The first row became the header, and its names were those of nothing.
    path = tmp_path / "short.csv"
    path.write_text(text(names, *WIDE).replace(",", sep), encoding="utf-8")
    with pytest.raises(DataError, match="nothing but lines with more or fewer cells than the header"):
        draft(path)
    assert detect_file(path).skip == 0


@pytest.mark.parametrize(
    ("above", "header"),
    [
        (["Hospital", "North"], [*HEADER, "ward"]),
        (["Beds", "North"], ["town", "2019", "2020", "2021"]),
        (["Beds 2020"], [*HEADER, "ward"]),
    ],
)
def test_a_title_above_a_header_stays_a_title(tmp_path: Path, above: list[str], header: list[str]) -> None:
    path = tmp_path / "title.csv"
    path.write_text(text(above, header, *WIDE), encoding="utf-8")
    assert detect_file(path).skip == 1


def test_rows_with_names_in_quotes_are_those_of_r_between_commas_too(tmp_path: Path) -> None:
    rows = [f'"{n + 1}",{row[0]},"{row[1]}",{row[2]}' for n, row in enumerate(ROWS)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(['"age","sex","bmi"', *rows]), encoding="utf-8")
    assert_read(path)
    (remark,) = draft(path).remarks
    assert "one cell fewer than the rows, whose first are taken for their names" in remark


@pytest.mark.parametrize("cell", ["1,234,567", "-12,5", "1.234,5"])
def test_a_number_that_is_not_read_is_no_unit(tmp_path: Path, cell: str) -> None:
    # "line 2 is no row: units or types below the header" was said of 1,234,567 among decimal commas.
    rows = [[cell, "f"], *([f"{n},{n % 10}", "fm"[n % 2]] for n in range(40))]
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{';'.join(row)}\n" for row in [["dose", "sex"], *rows]), encoding="utf-8")
    assert not any("is no row" in remark for remark in draft(path).remarks)


@pytest.mark.parametrize("below", ["kg;-", "numeric;string", "---;---", "kg;"])
def test_a_line_of_units_is_no_row_in_an_edit(tmp_path: Path, below: str) -> None:
    # kg became a word for nothing of one file, and the line of units a person without a weight.
    lines = "\n".join(["weight;ward", below, *(f"{50 + n};{'ab'[n % 2]}" for n in range(40)), ""])
    (tmp_path / "north.csv").write_text(lines, encoding="utf-8")
    north = RowsToCheck("north", DataFile(path=tmp_path / "north.csv", sep=";"), has_section=True)
    ward = {"kind": "category", "name": "ward", "categories": ["a", "b"]}
    weight = {"kind": "numeric", "name": "weight", "bounds": [0, 200]}
    fitted = fit([north], {"columns": [weight, ward]}, asked=True)
    with pytest.raises(DataError):
        load_table(fitted.files[0], fitted.schema, "north")


@pytest.mark.parametrize(
    "note", ["Source: our hospital, ward 3, all rights", "* estimated, or imputed", "\nNote: a, b\n(c), d"]
)
def test_a_note_with_separators_below_the_rows_is_no_row(tmp_path: Path, note: str) -> None:
    path = tmp_path / "noted.csv"
    path.write_text(text(HEADER, *ROWS) + note + "\n", encoding="utf-8")
    assert_read(path)


@pytest.mark.parametrize(
    ("at_end", "remedy"), [(True, "Set 'skip_end' = 2 beside"), (False, "put a cell that")]
)
def test_lines_behind_the_rows_get_the_remedy_of_footers(tmp_path: Path, at_end: bool, remedy: str) -> None:
    # A footer was called a cell without quotes.
    path, other = tmp_path / "whole.csv", tmp_path / "other.csv"
    path.write_text(text(HEADER, *ROWS), encoding="utf-8")
    odd = [["20", "f"], ["30", "m"]]
    other.write_text(text(HEADER, *([*ROWS, *odd] if at_end else [*odd, *ROWS])), encoding="utf-8")
    drafted = draft(path)
    schema = drafted.schema()
    for read in (lambda: load_table(other, schema, "north"), lambda: read_columns(other, "north")):
        with pytest.raises(DataError) as refused:
            read()
        assert remedy in refused.value.remedy
        assert ("skip_end" in refused.value.remedy) == at_end
    checked = check([RowsToCheck("north", DataFile(path=other))], tomllib.loads(text_of(drafted)), schema)
    assert remedy in checked.reports[0].faults[0].remedy


@pytest.mark.parametrize(
    ("cell", "others", "none"),
    [
        ("000", range(18, 90), True),
        ("0000", range(100, 9000, 97), True),
        ("000", range(100, 999), False),  # codes of three digits
        ("00", range(1, 24), False),  # hours
    ],
)
def test_zeros_are_no_value_where_no_number_is_padded(
    tmp_path: Path, cell: str, others: range, none: bool
) -> None:
    # They made names of ages, or left a column of pay out.
    numbers = [str(number) for number in others]
    rows = [
        [cell if n % 9 == 0 else numbers[n % len(numbers)], "fm"[n % 2]] for n in range(20 * len(numbers))
    ]
    path = tmp_path / "zeros.csv"
    path.write_text(text(["n", "sex"], *rows), encoding="utf-8")
    drafted = draft(path)
    (spec,) = (column.spec for column in drafted.columns if column.name == "n")
    assert (spec.get("kind") == "numeric") == none
    assert (spec.get("na") == [cell]) == none
    if none:
        values = load_table(drafted.files[0], drafted.schema(), "north").values[:, 0]
        np.testing.assert_array_equal(np.isnan(values), [row[0] == cell for row in rows])
