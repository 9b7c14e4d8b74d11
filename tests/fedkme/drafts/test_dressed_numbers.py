"""Numbers that people write with units, signs and words around them: drafted as numbers, and read as such."""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fedkme.drafts.checking import settings_seen
from fedkme.drafts.drafting import draft
from fedkme.drafts.writing import text_of
from fedkme.errors import DataError
from fedkme.tables.cells import plain_number
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table
from fedkme.tables.names import Category
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import schema_from
from fedkme.tables.text import text_columns

UNITS = (
    "kg",
    "mg/dl",
    "years",
    "Jahre",
    "mmHg",
    "°C",
    "€",
    "%",
    "km/h",
    "PLN",
    "h",
    "m",
    "mg/l",
    "Stück",
    "Betten",
)
SIGNS = ((".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", "'"))
NUMBERS = [-1250.75, -40.5, -3.25, *(round(1.37 * n**2.1, 2) for n in range(1, 60))]


def written(number: float, decimal: str, thousands: str, minus: str = "-") -> str:
    text = f"{number:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    return text.replace("-", minus)


def write(path: Path, sep: str = ",", **columns: Sequence[object]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=sep)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


def drafted_as(path: Path, cells: Sequence[str]) -> tuple[Numeric | Category | None, str]:
    """Drafted column, and why it is left out if it is."""
    write(path, v=cells, score=[n % 90 + 0.5 for n in range(len(cells))])
    drafted = draft(path)
    (column,) = (each for each in drafted.columns if each.name == "v")
    specs = {spec.name: spec for spec in drafted.schema().columns}
    spec = specs.get("v")
    assert spec is None or isinstance(spec, Numeric | Category)
    return spec, column.why


@given(
    signs=st.sampled_from(SIGNS),
    others=st.sampled_from(SIGNS),
    sep=st.sampled_from((",", ";", "\t")),
    unit=st.sampled_from(("", *UNITS)),
    blank=st.sampled_from(("", " ", "\u00a0")),
    before=st.booleans(),
    minus=st.sampled_from(("-", "\u2212")),
)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_column_has_its_own_signs_and_unit(
    tmp_path: Path,
    signs: tuple[str, str],
    others: tuple[str, str],
    sep: str,
    unit: str,
    blank: str,
    before: bool,
    minus: str,
) -> None:
    # "1.234,56 €" between commas, "12,5" beside 0.5, "70 kg" and a printed minus were names of rows.
    path = tmp_path / "rows.csv"
    numbers = NUMBERS if unit not in ("€", "%") else [abs(number) for number in NUMBERS]
    bare = [written(number, *signs, minus) for number in numbers]
    before = before and unit not in ("mg/l", "Stück", "Betten")  # unknown, or behind numbers alone
    cells = [f"{unit}{blank}{cell}" if before else f"{cell}{blank}{unit}" for cell in bare] if unit else bare
    beside = [n / 4 + 3 for n in range(len(cells))]
    write(path, sep, v=cells, score=[written(number, *others) for number in beside])
    drafted = draft(path)
    (reading,) = drafted.files
    values = load_table(reading, drafted.schema(), "north").values
    np.testing.assert_allclose(values[:, 0], numbers, atol=1e-9)
    np.testing.assert_allclose(values[:, 1], beside, atol=1e-9)
    for name, own in reading.columns.items():
        assert f"# columns.{name}.decimal = " in text_of(drafted), own


@pytest.mark.parametrize("cells", [[f"s{n:02d}" for n in range(35)], [f"h{n}" for n in range(10, 45)]])
def test_a_letter_right_before_whole_numbers_makes_codes(tmp_path: Path, cells: list[str]) -> None:
    # Codes s00 to s34 were drafted as seconds; owners whose codes all began with s1 could not be read.
    spec, why = drafted_as(tmp_path / "rows.csv", cells * 12)
    assert not isinstance(spec, Numeric), why


def test_check_says_how_to_read_decimal_commas_between_commas(tmp_path: Path) -> None:
    # The only setting was the whole file's, which cannot have commas between cells and in numbers.
    plain, own = tmp_path / "plain.csv", tmp_path / "own.csv"
    write(plain, v=[f"{number:.2f}" for number in NUMBERS], score=[n / 2 for n in range(len(NUMBERS))])
    write(own, v=[f"{written(n, ',', '.')} kg" for n in NUMBERS], score=[n / 2 for n in range(len(NUMBERS))])
    schema = draft(plain).schema()
    seen = settings_seen([DataFile(path=own)], schema)[0]
    assert seen == {"units": ["kg"], "columns": {"v": {"decimal": ",", "thousands": "."}}}
    reading = DataFile.model_validate({"path": own, **seen})
    np.testing.assert_allclose(load_table(reading, schema, "north").values[:, 0], NUMBERS)


@given(
    scale=st.sampled_from(["k", "K", " M", " Mio", " Tsd.", " lakh", "%", " \u2030", "\u00bd"]),
    bare=st.sets(st.integers(0, 59), min_size=1, max_size=59),
)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_in_thousands_are_not_read_as_those_beside_them(
    tmp_path: Path, scale: str, bare: set[int]
) -> None:
    # Of 900 and 1.2k the hint made 900 and 1.2; 75 and a half was 75 with a unit; $ and \u20ac were one.
    plain, own = tmp_path / "plain.csv", tmp_path / "own.csv"
    numbers = [float(2 * n + 1) for n in range(60)]
    write(plain, v=numbers, score=[n + 0.5 for n in range(60)])
    schema = draft(plain).schema()
    for form, other in (("{}", f"{{}}{scale}"), ("${}", "{} \u20ac")):
        cells = [(form if place in bare else other).format(n) for place, n in enumerate(numbers)]
        write(own, v=cells, score=[n + 0.5 for n in range(60)])
        assert "units" not in settings_seen([DataFile(path=own)], schema)[0]
        spec, _ = drafted_as(own, cells)
        assert not isinstance(spec, Numeric)


@pytest.mark.parametrize("digits", ["0123456789", "０１２３４５６７８９", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"])
def test_digits_of_any_script_are_numbers(tmp_path: Path, digits: str) -> None:
    script = str.maketrans("0123456789", digits)
    spec, _ = drafted_as(tmp_path / "rows.csv", [str(20 + n % 60).translate(script) for n in range(120)])
    assert isinstance(spec, Numeric)
    assert plain_number("\u221212.5".translate(script)) == -12.5


@pytest.mark.parametrize(
    "words",
    [
        *(["refused", "see notes"], ["verweigert"], ["unknown", "don't know", "refused"], ["90+"], [">90"]),
        *(["90 and over"], ["85 or older"], ["ab 90"], ["<5"], ["x"]),
    ],
)
def test_a_few_answers_without_a_number_are_gaps_of_a_number(tmp_path: Path, words: list[str]) -> None:
    # 60 ages with "refused" and "90+" became 60 names.
    answers = itertools.cycle(words)
    cells = [next(answers) if n % 6 == 0 else str(18 + n % 70) for n in range(300)]
    spec, why = drafted_as(tmp_path / "rows.csv", cells)
    assert isinstance(spec, Numeric)
    assert set(spec.na) == set(words)
    assert all(word in why for word in words)


@pytest.mark.parametrize(
    "cells",
    [
        ["0", "1", "2", "3+"],
        [f"{n}A" for n in range(1, 8)],
        [
            *(f"{n}" for n in range(1, 15)),
            *("surgery", "icu", "er", "lab", "maternity", "radiology", "urology"),
        ],
        ["12a", "12b", "14a"],
        ["1 day", "2 weeks", "3 months"],
        ["A4", "B5", "C6"],
        [f"P{n:03}" for n in range(21)],
        [f"{n} {('Ost', 'West')[n % 2]}" for n in range(20)],
        ["Q1", "Q2", "Q3", "Q4"],
    ],
)
def test_names_with_digits_stay_names(tmp_path: Path, cells: list[str]) -> None:
    spec, _ = drafted_as(tmp_path / "rows.csv", [cells[n * 11 % len(cells)] for n in range(420)])
    assert isinstance(spec, Category)
    assert {*cells} == {*spec.categories}


@pytest.mark.parametrize(
    ("write_one", "says"),
    [
        (lambda n: f"{100 + n % 70}/{60 + n % 37}", "two numbers in a cell"),
        (lambda n: f"{100 + n}/80", "two numbers in a cell"),
        (lambda n: f"{40 + n / 7:.4f}, {n / 13:.4f}", "two numbers in a cell"),
        (lambda n: f"{n % 24}:{n * 7 % 60:02d}", "times or durations"),
        (lambda n: f"{n % 19}h {n * 7 % 59}m", "times or durations"),
        (lambda n: f"{n % 9} days {n % 24:02d}:{n * 7 % 60:02d}:00", "times or durations"),
        (lambda n: f"{n * 3} Personen im Haushalt", "text behind them"),
        (lambda n: (f"{n % 28 + 1}/{n % 9 + 1}/2019", f"{n % 28 + 1}.1.2020")[n % 2], "days in several"),
    ],
)
def test_what_is_left_out_is_called_what_it_is(
    tmp_path: Path, write_one: Callable[[int], str], says: str
) -> None:
    # 120/80, 6:30 and days in two forms had "too many different names", or were identifiers.
    spec, why = drafted_as(tmp_path / "rows.csv", [write_one(n) for n in range(300)])
    assert spec is None
    assert says in why


def test_an_own_sign_is_written_and_read_again() -> None:
    own = DataFile.model_validate({"path": "a.csv", "columns": {"v": {"decimal": ",", "thousands": "."}}})
    assert own.written("v").number_reader()("1.234,5") == 1234.5
    assert own.written("w").number_reader()("1234.5") == 1234.5


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (np.arange(60, dtype="timedelta64[D]"), "a duration in its cells, which no schema holds"),
        (np.arange(60) * 1j, "in its cells, which no schema holds"),
        ([[n] for n in range(60)], "a list in its cells, which no schema holds"),
    ],
)
def test_what_no_cell_can_hold_is_called_what_it_is(cells: object, says: str) -> None:
    # They were "the same in every row".
    drafted = draft({"v": cells, "score": np.arange(60) + 0.5})
    assert drafted.left_out["v"].endswith(says)


def test_small_floats_are_read_without_a_warning() -> None:
    # numpy warned of an overflow at each number: 2^53 is beyond float16.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drafted = draft({"v": np.array([0.1, 2.5, -3.0, 7.25] * 20, np.float16)})
    assert drafted.columns[0].spec["decimals"] == 2


@pytest.mark.parametrize("word", ["none", "NA", "n/a", "?", "-9"])
def test_the_only_word_for_nothing_beside_names_comes_back_as_it_was(tmp_path: Path, word: str) -> None:
    # Education "none" came back as an empty cell.
    cells = [(word, "school", "college")[n % 3] for n in range(90)]
    write(tmp_path / "rows.csv", v=cells, score=[n / 4 for n in range(90)])
    drafted = draft(tmp_path / "rows.csv")
    schema = drafted.schema()
    spec = schema.columns[0]
    assert isinstance(spec, Category)
    assert (spec.missing, spec.na, spec.nullable) == (word, (), True)
    table = load_table(drafted.files[0], schema, "north")
    assert text_columns(table, schema)["v"] == cells
    (tmp_path / "gaps.csv").write_text(f"v,score\n,1\n{word},2\n", encoding="utf-8")
    assert text_columns(load_table(tmp_path / "gaps.csv", schema, "south"), schema)["v"] == [word, word]


@given(
    st.lists(st.integers(1, 99), min_size=6, max_size=30),
    st.lists(st.integers(1, 99), min_size=6, max_size=30),
    st.sampled_from((1, 2.5, 1000.0, 0.001)),
    st.sampled_from((["km"], ["km", "m"])),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_of_two_units_in_a_column_are_never_read_as_one(
    tmp_path: Path, dressed: list[int], others: list[int], factor: float, units: list[str]
) -> None:
    # "5 km" beside 5000, or beside "5000 m" where both units were left away, were 5 and 5000.
    cells = [f"{each} km" for each in dressed] + [f"{each * factor:.4f} {units[-1]}" for each in others]
    if len(units) == 1:
        cells[len(dressed) :] = [f"{each * factor:.4f}" for each in others]
    write(tmp_path / "a.csv", x=cells)
    schema = schema_from({"columns": [{"kind": "numeric", "name": "x", "bounds": [0, 1e6]}]})
    file = DataFile(path=tmp_path / "a.csv", units=tuple(units))
    ratio = np.median(dressed) / (np.median(others) * factor)
    assume(abs(max(ratio, 1 / ratio) - 20) > 1e-9)  # a median of two decimals is rounded
    if max(ratio, 1 / ratio) < 20:
        assert len(load_table(file, schema, "north")) == len(cells)
    else:
        with pytest.raises(DataError, match="far apart, as in two units, rows: "):
            load_table(file, schema, "north")


@pytest.mark.parametrize(("sep", "cell"), [(",", "54,700,217"), (",", "19,700,217"), (";", "19.700.217")])
def test_a_few_numbers_with_signs_between_thousands_are_no_days(tmp_path: Path, sep: str, cell: str) -> None:
    # A sample of one row was drafted as days of the year 5470, which the file's own settings refused.
    path = tmp_path / "rows.csv"
    write(path, sep, v=[cell], w=[3])
    drafted = draft(path)
    assert drafted.schema().columns[0].kind == "numeric"
    table = load_table(drafted.files[0], drafted.schema(), "north")
    assert table.values[0, 0] == float(cell.replace(",", "").replace(".", ""))


def test_days_without_signs_stay_days(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write(path, v=["19700217"], w=[3])
    assert draft(path).schema().columns[0].kind == "date"


def test_a_column_with_signs_between_millions_is_read_beside_decimal_commas(tmp_path: Path) -> None:
    # It was left out: "numbers with decimal commas, or signs between thousands".
    path, numbers = tmp_path / "rows.csv", [1_000_000 + 7919 * n * n for n in range(40)]
    write(path, ";", v=[f"{number:,}" for number in numbers], w=[f"{n},5" for n in range(40)])
    drafted = draft(path)
    table = load_table(drafted.files[0], drafted.schema(), "north")
    np.testing.assert_array_equal(table.values[:, 0], numbers)
