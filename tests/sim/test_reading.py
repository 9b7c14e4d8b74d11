"""Columns left out and cells moved or guessed are part of a run's outcome, and lower its grade."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkme as fk
from consumer.summary.verdict import doubts_of
from fedkme.tables.files import load_table
from fedkme.tables.numbers import CLIPPED
from fedkme.tables.schema import schema_from
from fedkme.tables.table import CellChange, Reading, Table
from fedkme.verdict import at_most_fair
from sim.api.releases import load_release_result
from sim.formatting import reading_lines
from sim.releases import complete_release
from sim.scenarios.base import LazyTables, Scenario

SCHEMA = {
    "columns": [
        {"kind": "numeric", "name": "age", "bounds": [0, 90], "clip": True, "integer": True},
        {"name": "smoker", "kind": "category", "categories": ["no", "yes", "unknown"], "missing": "unknown"},
    ],
    "ignore": ["id"],
}


def people(far: int, rows: int = 200) -> pd.DataFrame:
    chance = np.random.default_rng(rows)
    ages = chance.integers(20, 80, rows)
    ages[:far] = [91 + place for place in range(far)]
    smokers = pd.Series(chance.choice(["no", "yes"], rows)).where(chance.random(rows) > 0.1)
    return pd.DataFrame({"id": range(rows), "age": ages, "smoker": smokers})


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> fk.ReleaseResult:
    folder = tmp_path_factory.mktemp("release") / "run"
    return fk.release(
        {"north": people(19), "south": people(0)},
        schema=SCHEMA,
        method="marginals",
        mechanism="independent",
        epsilon=10.0,
        out=folder,
        progress=False,
    )


def test_a_release_says_what_was_left_out_moved_and_filled(release: fk.ReleaseResult) -> None:
    left_out, *changes = release.reading
    assert left_out == "Left out: id."
    assert any("age at north (19: 91 to 109)" in line for line in changes)
    assert any("smoker at south (" in line and "taken as" in line for line in changes)
    assert "age at north (19" in release.report


def test_a_grade_is_at_most_fair_where_many_cells_were_moved(release: fk.ReleaseResult) -> None:
    assert release.verdict is not None
    assert "good" not in {release.verdict.grade, *release.verdict.grades.values()}
    assert "fair" in release.verdict.grades.values()
    first, _ = str(release.verdict).splitlines()
    assert "At most fair, because 4.8% of age, most at north, was moved to the bounds" in first


def test_the_reading_survives_a_page_that_is_made_again(release: fk.ReleaseResult) -> None:
    before = release.reading
    complete_release(release.folder, lambda line: None)
    assert load_release_result(release.folder).reading == before


def test_a_good_verdict_without_doubts_stays() -> None:
    verdict = {"grade": "good", "sentence": "close", "advice": ""}
    assert at_most_fair(verdict, []) == verdict
    assert at_most_fair(verdict, ["a reason"])["grade"] == "fair"
    assert at_most_fair({**verdict, "grade": "poor"}, ["a reason"])["grade"] == "poor"
    grades = {"columns": "good", "pairs": "poor", "models": "cannot tell"}
    lowered = at_most_fair({**verdict, "grade": "fair", "grades": grades}, ["a reason"])
    assert lowered["grades"] == grades | {"columns": "fair"}
    assert at_most_fair(lowered, ["a reason"])["doubts"] == ["a reason"]


@pytest.mark.parametrize(("far", "doubtful"), [(0, False), (2, False), (3, True)])
def test_one_cell_in_a_hundred_may_be_moved(tmp_path: Path, far: int, doubtful: bool) -> None:
    people(far).to_csv(tmp_path / "north.csv", index=False)
    table = load_table(tmp_path / "north.csv", schema_from(SCHEMA), "north")
    assert bool(doubts_of({"north": table.reading}, {"north": len(table)})) is doubtful
    assert table.reading is not None
    assert any(change.column == "age" for change in table.reading.changes) is bool(far)


def test_a_file_that_is_given_twice_is_said(tmp_path: Path) -> None:
    for name, rows in (("a", people(0)), ("b", people(1)), ("c", people(0))):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    schema = schema_from(SCHEMA)
    read = {name: load_table(tmp_path / f"{name}.csv", schema, name) for name in "abc"}
    scenario = Scenario("csv", schema, read, read["b"], read["b"], None)
    lines = list(reading_lines(scenario.reading()))
    assert "The same rows, all of them, are given for a, c." in lines
    assert "The same rows, all of them, are given for b, consumer." in lines


def test_labels_that_one_owner_lacks_are_said() -> None:
    # Where one of its rows came, no row had a label, and nothing said so.
    schema = schema_from(SCHEMA | {"label": {"name": "ill", "classes": ["no", "yes"]}})
    rows, label = np.zeros((3, 2)), np.zeros(3, np.int64)
    for labels, said in ((None, True), (label, False)):
        owners = {"north": Table(rows, label), "south": Table(rows, labels)}
        scenario = Scenario("csv", schema, owners, Table(rows), Table(rows), None)
        lines = list(reading_lines(scenario.reading()))
        assert ("No 'ill' in rows of south: where one of them comes, no row has its label." in lines) is said


def test_many_moved_columns_are_one_reason() -> None:
    # A draft of few rows has narrow bounds: the verdict of two lines had 230 of these reasons.
    moved = [CellChange(f"g{n}", CLIPPED, cells=n + 2, share=(n + 2) / 100) for n in range(60)]
    wide = Reading(changes=tuple(moved))
    assert doubts_of({"wide": wide}, {"wide": 100}) == [
        "61.0% of g59 at wide was moved to the bounds, and less of 59 other columns"
    ]
    assert doubts_of({"wide": wide, "narrow": None}, {"wide": 100, "narrow": 3900}) == [
        "1.5% of g59, most at wide, was moved to the bounds, and less of 20 other columns"
    ]


def test_the_only_row_of_a_small_owner_is_no_doubt() -> None:
    # One row of 1,200 was the only one of its owner: "100.0% of bmi at 137", and the grade fell.
    moved = Reading(changes=(CellChange("bmi", CLIPPED, cells=1, share=1.0),))
    assert not doubts_of({"137": moved, "others": Reading()}, {"137": 1, "others": 1199})


def test_a_reading_makes_no_table_that_another_process_has() -> None:
    # On Ray an owner's rows are read where the owner is; the driver read all of them once more at the end.
    made: list[str] = []
    table = Table(np.empty((0, 2)), reading=Reading(("id",)))

    def make(name: str) -> Table:
        made.append(name)
        return table

    owners = LazyTables(["north", "south"], make)
    scenario = Scenario("csv", schema_from(SCHEMA), owners, table, table, None)
    assert scenario.reading()["left_out"] == {"id": ["consumer"]}
    assert made == []
    assert owners["north"] is owners["north"] is table
    assert made == ["north"]
    assert scenario.reading()["left_out"] == {"id": ["north", "consumer"]}
