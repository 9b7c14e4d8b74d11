"""Drafts of numbers: bounds, lists of values, atoms, scales, and what is a name or a code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedkme.drafts.checking import check, settings_seen
from fedkme.drafts.drafting import draft
from fedkme.drafts.reading import RowsToCheck
from fedkme.drafts.writing import FROM_DATA, text_of
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Numeric, load_schema


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ({"0": 298, "1": 2}, "category"),
        ({"1": 150, "2": 90, "3": 60}, "category"),
        ({"0": 298, "10": 1, "14": 1}, "numeric"),
        ({"0": 200, "1": 60, "2": 30, "3": 10}, "numeric"),
        ({"0": 100, "1": 4, "2": 100}, "numeric"),
        ({str(code): 40 for code in (4111, 5411, 5541, 5812, 5999, 6011, 7995)}, "category"),
        ({str(code): 40 for code in (10000, 15000, 20000, 30000, 50000, 75000, 100000)}, "numeric"),
        ({str(code): 40 for code in (4111, 5411, 5541, 5812, 5999, 6011, 7995, -9)}, "numeric"),
    ],
    ids=["a flag", "codes", "days", "a count", "rare", "many codes", "round", "gaps"],
)
def test_few_whole_numbers_are_names_unless_others_may_come(seen: dict[str, int], kind: str) -> None:
    # Of 20 strange tables the drafts of six were refused: other files had a fifth visit, or an eleventh day.
    column = [value for value, count in seen.items() for _ in range(count)]
    assert draft({"n": column}).schema().columns[0].kind == kind


@pytest.mark.parametrize(
    ("least", "most", "bounds"), [(1, 12, [1, 12]), (7, 22, [7, 22]), (0, 20, [0, 20]), (1, 31, [1, 31])]
)
def test_few_whole_numbers_end_where_many_rows_do(least: int, most: int, bounds: list[int]) -> None:
    # Months had bounds of 0 and 20: made rows were of months 13 to 19. Ends that few rows have are rounded.
    column = [least + 11 * n % (most + 1 - least) for n in range(600)]
    (even,) = draft({"n": column}).schema().columns
    (tail,) = draft({"n": [*column, most + 2] * 2}).schema().columns
    assert isinstance(even, Numeric)
    assert isinstance(tail, Numeric)
    assert [*even.bounds] == bounds
    assert tail.bounds[0] == bounds[0]
    assert tail.bounds[1] >= most + 2


def test_atoms_and_a_log_scale_are_proposed_of_skewed_columns_alone(tmp_path: Path) -> None:
    # "`schema draft` proposes log/atoms from a public sample, marked as such".
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(2000) < 0.8, 0, np.rint(np.exp(rng.normal(8, 1.5, 2000)))).astype(int)
    drafted = draft({"gain": gain, "age": rng.integers(18, 90, 2000), "few": rng.integers(0, 20, 2000)})
    low = 10 ** int(np.log10(gain[gain > 0].min()))
    gain_spec, age, few = (column.spec for column in drafted.columns)
    assert (gain_spec["scale"], gain_spec["atoms"], gain_spec["bounds"][0]) == ("log", [0], low)
    assert not {"scale", "atoms"} & ({*age} | {*few})
    marked = [line for line in text_of(drafted).splitlines() if line.startswith(("scale", "atoms"))]
    assert len(marked) == 2
    assert all(FROM_DATA in line for line in marked)
    (path := tmp_path / "schema.toml").write_text(text_of(drafted), encoding="utf-8")
    assert load_schema(path) == drafted.schema()


def test_an_atom_is_proposed_where_a_small_sample_has_few_other_values() -> None:
    # Rain at a station: 767 of 800 hours have none, the others 20 amounts. No atom was proposed, and the
    # mean of so skewed a column was known to half of a bin.
    rain = [0.0] * 767 + [0.1 * i for i in range(1, 21)] + [30.0] * 13
    (column,) = draft({"rain": rain}).columns
    assert column.spec["atoms"] == [0.0]
    (grades,) = draft({"grade": [3] * 700 + list(range(1, 10)) * 8}).columns
    assert "atoms" not in grades.spec  # whole numbers of a small range have bins of their own


def test_few_numbers_are_listed_where_all_of_them_are_seen() -> None:
    # Of sizes of firms up to 10,000 and of ratings 4.5, 14.5, .. most made rows had other numbers.
    sizes, ratings = [1, 2, 5, 10, 20, 100, 500, 1000, 5000, 10_000] * 30, [0.5, 4.5, 14.5] * 100
    firms, stars, grades, rare = draft(
        {"size": sizes, "stars": ratings, "grade": [*range(1, 11)] * 30, "rare": [*ratings[:-2], 7.25, 8.125]}
    ).columns
    assert firms.spec["values"] == sizes[:10]
    assert stars.spec["values"] == [0.5, 4.5, 14.5]
    assert "values" not in grades.spec  # whole numbers side by side have bins of their own
    assert "values" not in rare.spec  # there may be more that the sample lacks
    assert not any("values" in column.spec for column in draft({"size": sizes[:99]}).columns)


@pytest.mark.parametrize(
    ("name", "low", "high", "bounds"),
    [
        ("birth_month", 4, 12, [1, 12]),
        ("HourOfDay", 0, 23, [0, 23]),
        ("arr hour", 1, 24, [0, 24]),
        ("Stunde", 6, 21, [0, 23]),
        ("sched.minute", 0, 55, [0, 59]),
        ("week2", 1, 52, [1, 53]),
        ("wage_per_hour", 7, 22, [7, 30]),  # no hour of a day
        ("hours", 7, 22, [7, 30]),
        ("hour", 0, 5, [0, 5]),
        ("month", 1, 48, [0, 50]),
    ],
)
def test_parts_of_dates_and_times_end_where_the_calendar_does(
    name: str, low: int, high: int, bounds: list[int]
) -> None:
    # Of storms, which are rare in December, and flights at 23: made rows had a month 15 and an hour 27.
    cells = [str(low), *(str(low + n % (high - low)) for n in range(300)), str(high)]
    (column,) = draft({name: cells}).columns
    assert column.spec["bounds"] == bounds


COUNTS = st.dictionaries(st.integers(0, 12) | st.integers(-99, 10**6), st.sampled_from([1, 20, 300, 5000]))


@pytest.mark.filterwarnings("ignore::fedkme.errors.FedkmeWarning")
@settings(deadline=None, max_examples=60)
@given(COUNTS.filter(lambda counts: sum(counts.values()) > 2), st.sampled_from([1, 0.5, 1.37]))
@example({0: 8586, 1: 1288, 2: 78, 3: 27, 4: 12, 5: 4, 52: 1}, 1)
def test_every_draft_is_a_schema_whatever_numbers_are_often(counts: dict[int, int], unit: float) -> None:
    # Payments that failed, mostly 0: a logarithm from 1 on beside listed values from 0 on was no schema.
    cells = [f"{value * unit:g}" for value, count in counts.items() for _ in range(count)]
    columns = {"failed": cells, "kind": ["ab"[place % 2] for place in range(len(cells))]}
    table_from_columns(columns, draft(columns).schema(), "rows")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *(("-$5", -5.0), ("$-5", -5.0), ("($1,200.50)", -1200.5), ("45%", 45.0), ("5 $", 5.0)),
        *(("(-5)", None), ("-$-5", None), ("(5", None), ("$", None), ("£5", None), ("5 $ (net)", None)),
    ],
)
def test_numbers_with_units_are_recognised(cell: str, number: float | None) -> None:
    read = DataFile(path=Path(), thousands=",", units=("$", "%")).number_reader()
    if number is None:
        with pytest.raises(ValueError, match="could not convert"):
            read(cell)
    else:
        assert read(cell) == number


def test_codes_are_no_numbers_and_a_count_of_99_is_no_gap(tmp_path: Path) -> None:
    # A stranger's table: a postal code 01067 became the number 1067, a subscriber's number of 15 digits a
    # measurement, and 99 messages a gap that the schema refuses.
    path = tmp_path / "calls.csv"
    zips = ("01067", "04103", "80331", "50667", "10115", "20095", "09111")
    lines = [f"{zips[row % 7]},2620{row:011},{row % 40}" for row in range(80)]
    path.write_text("\n".join(["zip,imsi,sms", *lines]), encoding="utf-8")
    schema = draft(path).schema()
    assert [column.name for column in schema.columns] == ["zip", "sms"]
    assert schema.columns[0] == Category(name="zip", categories=tuple(sorted(zips)))
    path.write_text("\n".join(["zip,imsi,sms", *lines, "01067,262000000000099,99"]), encoding="utf-8")
    assert settings_seen([DataFile(path=path)], schema)[0] == {}
    assert len(load_table(DataFile(path=path), schema, "north")) == 81


NUMBERS = st.lists(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70), min_size=2, max_size=40
)


@given(NUMBERS, NUMBERS)
@example([5e-324, 1e-323], [1.0, 2.0])
@example([1.0, 2.0], [-1e308, 1e308] * 10)
def test_any_numbers_have_a_draft_that_reads_them_and_a_check_that_ends(
    seen: list[float], others: list[float]
) -> None:
    # The least numbers of all were a division by zero, and the largest an overflow.
    own, other = (
        {"x": [*map(repr, each)], "z": [f"{n % 2}" for n in range(len(each))]} for each in (seen, others)
    )
    drafted = draft(own)
    table_from_columns(own, drafted.schema(), "north")
    subject = RowsToCheck("south", DataFile(path=Path("south")), frame=other)
    check([subject], tomllib.loads(text_of(drafted)), drafted.schema())
