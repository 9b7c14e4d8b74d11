"""Issue 12, item 11: "rows of a person are bounded before anything is counted (at most k rows a person)"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import DataError, SchemaError
from fedkme.tables.files import counted_persons, load_rows, load_table
from fedkme.tables.schema import Numeric, Person, Schema, load_schema
from fedkme.tables.table import within_bound

AGES = Schema(
    columns=(Numeric(name="age", bounds=(0.0, 100.0)),), person=Person(column="patient_id", rows=2, owners=3)
)
LINES = "patient_id,age\np1,10\np2,20\np1,11\np1,12\np2,21\np3,30\n"


@given(persons=st.lists(st.sampled_from("abcde"), max_size=40), most=st.integers(1, 4))
def test_the_first_rows_of_each_person_are_kept(persons: list[str], most: int) -> None:
    mask = within_bound(persons, most)
    for person in set(persons):
        places = [place for place, each in enumerate(persons) if each == person]
        assert [place for place in places if mask[place]] == places[:most]


@given(persons=st.lists(st.sampled_from("abc"), min_size=1, max_size=20), most=st.integers(1, 3))
def test_the_counted_rows_of_a_person_do_not_depend_on_other_persons(persons: list[str], most: int) -> None:
    mine = [place for place, each in enumerate(persons) if each == "a"]
    alone = within_bound(["a"] * len(mine), most)
    assert within_bound(persons, most)[mine].tolist() == alone.tolist()


def test_a_private_file_is_bounded_and_its_person_column_left_out(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(LINES)
    table = load_table(tmp_path / "rows.csv", AGES, "a", of_persons=True)
    assert table.values.ravel().tolist() == [10, 20, 11, 21, 30]
    assert len(load_table(tmp_path / "rows.csv", AGES, "test")) == 6  # public rows are nobody's


def test_the_persons_of_a_bounded_table_are_those_of_its_rows(tmp_path: Path) -> None:
    # Folds of D_v keep a person together: a consumer with too many rows of one had no persons at all.
    (tmp_path / "rows.csv").write_text(LINES)
    examined = load_rows(tmp_path / "rows.csv", AGES, "a", of_persons=True)
    assert len(examined.persons) == 6
    assert list(counted_persons(examined, AGES)) == ["p1", "p2", "p1", "p2", "p3"]
    public = load_rows(tmp_path / "rows.csv", AGES, "test")
    assert list(counted_persons(public, AGES.model_copy(update={"person": None}))) == []


def test_arrays_are_bounded_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=[[1.0], [2.0], [3.0]], y=[0, 1, 0], patient_id=[7, 7, 7])
    labelled = AGES.model_copy(update={"label": None})
    with pytest.raises(DataError, match="labels"):
        load_table(tmp_path / "rows.npz", labelled, "a", of_persons=True)
    np.savez(tmp_path / "rows.npz", x=[[1.0], [2.0], [3.0]], patient_id=[7, 7, 7])
    assert len(load_table(tmp_path / "rows.npz", AGES, "a", of_persons=True)) == 2


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("age\n10\n", "no column 'patient_id'"), ("patient_id,age\np1,10\n,20\n", "whose it is")],
)
def test_rows_without_a_person_are_refused(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError, match=wrong):
        load_table(tmp_path / "rows.csv", AGES, "a", of_persons=True)


def test_a_missing_number_in_the_person_column_is_no_person(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=[[1.0], [2.0]], patient_id=[7.0, np.nan])
    with pytest.raises(DataError, match="whose it is"):
        load_table(tmp_path / "rows.npz", AGES, "a", of_persons=True)


def test_parties_agree_on_the_person_by_the_digest_and_older_digests_stay(tmp_path: Path) -> None:
    nobody = AGES.model_copy(update={"person": None})
    other = AGES.model_copy(update={"person": Person(column="patient_id", rows=3)})
    assert len({nobody.digest(), AGES.digest(), other.digest()}) == 3
    assert nobody.digest() == "24dae39e52cf4d842e391ec318811967ab7ff7a334db1107967ac7ce7abc3163"
    (tmp_path / "schema.toml").write_text(AGES.to_toml())
    assert load_schema(tmp_path / "schema.toml") == AGES


def test_the_person_is_no_column_of_the_model() -> None:
    with pytest.raises(SchemaError):
        _load("[person]\ncolumn = 'age'\nrows = 2\n")


def _load(text: str) -> Schema:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(text + "[[columns]]\nname = 'age'\nbounds = [0, 100]\n")
        return load_schema(path)
