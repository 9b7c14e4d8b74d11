"""Issue 12, B12: budgets bound to data: who shares a row or a person with others begins nothing anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import BudgetError, StoreError
from fedkme.ledgers.data_files import GOES_ON, DataFiles, Units, units_of
from fedkme.store.memory import MemoryStore
from fedkme.tables.files import load_rows
from fedkme.tables.schema import Category, Label, Numeric, Person, Schema

AGES = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 120), missing=50.0),
        Category(name="smoker", categories=("no", "yes")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)
PERSONS = AGES.model_copy(update={"person": Person(column="id", rows=1)})


def units(folder: Path, text: str, schema: Schema = AGES) -> Units:
    path = folder / "rows.csv"
    path.write_text(f"{'id,' if schema.person else ''}age,smoker,ill\n{text}")
    return units_of(load_rows(path, schema, "north", of_persons=True), schema)


def units_from(letters: str, kind: str = "letters") -> Units:
    """A file whose units are letters."""
    return Units(letters.encode(), kind, [letter.encode() for letter in letters])


def anew(store: MemoryStore, letters: str, used: set[bytes], goes_on: bool = False) -> int:
    return DataFiles(store).begin_anew("north", units_from(letters), used, goes_on)


def taken(*files: Units) -> tuple[MemoryStore, set[bytes]]:
    """A store of a party whose runs were over files."""
    store, used = MemoryStore("north"), set[bytes]()
    for file in files:
        DataFiles(store).take(file, used)
        used.add(file.data)
    return store, used


@pytest.mark.parametrize(
    ("first", "then", "shared"),
    [
        ("40,no,no\n41,no,no\n", "42,no,no\n43,yes,no\n", False),
        ("40,no,no\n41,no,no\n", "42,no,no\n41,no,no\n", True),
        ("40,no,no\n41,no,no\n", "42.5,no,no\n41,no,yes\n", True),  # floats, and a label that was corrected
        ("40,no,no\n,no,no\n", "42,no,no\n,no,no\n", True),  # of which nothing is known
        ("0,no,no\n", "-0.0,no,no\n", True),
    ],
)
def test_rows_with_equal_numbers_are_one_unit(tmp_path: Path, first: str, then: str, shared: bool) -> None:
    store, used = taken(units(tmp_path, first))
    comparison = DataFiles(store).compare(units(tmp_path, then), used)
    assert (bool(comparison.shared), bool(comparison.apart)) == (shared, not shared)


@pytest.mark.parametrize(("dtype", "scale"), [("f4", 1.0), ("f8", 1.0), ("f8", 1.0 + 1e-12)])
def test_rows_are_the_same_whatever_the_type_of_their_numbers(
    tmp_path: Path, dtype: str, scale: float
) -> None:
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=3),))
    values = np.random.default_rng(0).random((5, 3))
    files = []
    for number, array in enumerate((values, (values[:1] / scale).astype(dtype))):
        np.savez(tmp_path / f"{number}.npz", x=array)
        files.append(units_of(load_rows(tmp_path / f"{number}.npz", schema, "north"), schema))
    store, used = taken(files[0])
    assert DataFiles(store).compare(files[1], used).shared == used


def test_with_a_person_column_the_units_are_persons(tmp_path: Path) -> None:
    # All of the file: rows beyond the bound count for nothing, but their person is there.
    store, used = taken(units(tmp_path, "a,40,no,no\na,41,no,no\nb,42,no,no\n", PERSONS))
    files = DataFiles(store)
    assert files.compare(units(tmp_path, "b,77,yes,yes\nc,40,no,no\n", PERSONS), used).shared == used
    assert files.compare(units(tmp_path, "c,40,no,no\nd,43,no,no\n", PERSONS), used).apart == used


def test_equal_rows_of_other_persons_end_a_declaration(tmp_path: Path) -> None:
    # A run names the rows that count, and they say not whose they are.
    store, used = taken(units(tmp_path, "z,40,no,no\n", PERSONS))
    files, declared = DataFiles(store), units(tmp_path, "a,50,no,no\nb,42,no,no\n", PERSONS)
    assert files.begin_anew("north", declared, used) == 1
    assert files.take(declared, used) == []
    other = units(tmp_path, "z,50,no,no\nb,42,no,no\n", PERSONS)
    assert other.data == declared.data
    assert files.take(other, used) == [GOES_ON]
    assert files.take(declared, used) == [GOES_ON]  # whose runs may have been over either
    assert files.compare(units(tmp_path, "a,7,no,no\n", PERSONS), {declared.data}).shared


def test_a_file_that_cannot_be_compared_gets_no_fresh_budget(tmp_path: Path) -> None:
    store, used = taken(units(tmp_path, "a,40,no,no\n", PERSONS))
    rows = units(tmp_path, "50,no,no\n")
    assert DataFiles(store).compare(rows, used).unknown == used  # another schema
    with pytest.raises(BudgetError, match="cannot compare"):
        DataFiles(store).begin_anew("north", rows, used)
    with pytest.raises(BudgetError, match="cannot compare"):  # an earlier release kept nothing of its file
        anew(MemoryStore("north"), "xy", {b"ab"})
    with pytest.raises(BudgetError, match="was over other data"):
        anew(MemoryStore("north"), "xy", set())


def test_files_are_not_apart_without_a_declaration() -> None:
    store, used = taken(units_from("ab"))
    assert DataFiles(store).take(units_from("xy"), used) == [GOES_ON]
    assert DataFiles(store).apart(b"xy") == frozenset()
    assert anew(store, "xy", used) == 1
    assert DataFiles(store).take(units_from("xy"), used) == []
    assert DataFiles(store).apart(b"xy") == {b"ab"}
    assert DataFiles(store).apart(b"ab") == {b"xy"}  # which comes back
    assert DataFiles(store).take(units_from("xyz"), used | {b"xy"}) == [GOES_ON]  # nor is one that grew


def test_the_refusal_over_a_shared_unit_names_neither_unit_nor_number() -> None:
    store, used = taken(units_from("ab"), units_from("cd"))
    with pytest.raises(BudgetError, match="in common") as refused:
        anew(store, "bcxyz", used)
    assert refused.value.code == 52
    assert not set("0123456789") & set(str(refused.value.cause))
    assert DataFiles(store).apart(b"bcxyz") == frozenset()
    assert anew(store, "dxyz", used, goes_on=True) == 1
    assert DataFiles(store).apart(b"dxyz") == {b"ab"}
    with pytest.raises(BudgetError, match="apart from no data"):
        anew(store, "ad", used, goes_on=True)


def test_hashes_are_keyed_by_the_store_and_deleted_with_files_without_runs() -> None:
    one, two = (taken(units_from("ab"))[0] for _ in range(2))
    assert one.get("units/6162") != two.get("units/6162")
    DataFiles(one).take(units_from("xy"), ())
    assert [key for prefix in ("data/", "units/") for key in one.keys(prefix)] == ["data/7879", "units/7879"]


def test_a_malformed_fact_is_an_error() -> None:
    store = MemoryStore("north")
    store.put("data/6162", b"{}")
    with pytest.raises(StoreError):
        DataFiles(store).apart(b"ab")


Step = tuple[str, bool, bool]
STEPS = st.tuples(st.text("abcdef", min_size=1, max_size=3), st.booleans(), st.booleans())


@given(st.lists(STEPS, min_size=1, max_size=12))
def test_no_unit_costs_more_than_the_budget_checked_before_its_last_run(steps: list[Step]) -> None:
    """The claim at the head of the module: files come, go and come back, some after a declaration."""
    store, runs, counted = MemoryStore("north"), list[str](), dict[str, int]()
    for letters, declares, goes_on in steps:
        used = {run.encode() for run in runs}
        if declares:
            try:
                anew(store, letters, used, goes_on)
            except BudgetError:
                assert not used - {letters.encode()} or any(set(run) & set(letters) for run in runs)
        DataFiles(store).take(units_from(letters), used)
        apart = DataFiles(store).apart(letters.encode())
        runs.append(letters)
        counted.update(dict.fromkeys(letters, sum(run.encode() not in apart for run in runs)))
    cost = Counter(letter for run in runs for letter in set(run))
    assert all(cost[letter] <= counted[letter] for letter in cost)
