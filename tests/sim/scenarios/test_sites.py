"""Scenario `csv` with one table: a column of sites becomes owners."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from fedkme.config import validate
from fedkme.errors import ConfigError, DataError
from fedkme.party import fault_of_name
from fedkme.tables.cells import as_seen
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario, anchored
from sim.scenarios.sites import owner_names_of, rows_by_site
from sim.scenarios.tables import Csv

SCHEMA = """
[[columns]]
name = "age"
kind = "numeric"
bounds = [0, 120]
[label]
name = "ill"
classes = ["no", "yes"]
"""
TABLE = (
    "age,site,ill\n50,Köln Süd,no\n60,koeln,yes\n70,Köln Süd,yes\n80,KÖLN+SÜD,no\n81,KÖLN+SÜD,no\n1,D_v,no\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "all.csv").write_text(TABLE)
    (tmp_path / "validation.csv").write_text("age\n50\n")
    return tmp_path


def built(folder: Path, **changes: Any) -> Scenario:
    files = {"schema_file": "schema.toml", "validation": "validation.csv", "table": "all.csv"}
    config = validate(Csv, files | {"site_column": "site"} | changes, "file.toml")
    return build_scenario(anchored(config, folder), 0)


def ages(scenario: Scenario) -> dict[str, list[float]]:
    return {name: table.values[:, 0].tolist() for name, table in scenario.owners.items()}


def test_each_value_of_the_column_is_an_owner(folder: Path) -> None:
    # "a table with a column of sites becomes owners".
    scenario = built(folder)
    assert ages(scenario) == {"d-v": [1], "koeln": [60], "koln-sud": [80, 81], "koln-sud-2": [50, 70]}
    labels = scenario.owners["koln-sud-2"].labels
    assert labels is not None
    assert labels.tolist() == [0, 1]


@given(st.text("aÄß1.-_ ", min_size=1, max_size=6), st.data())
def test_a_site_in_two_writings_is_never_two_owners(site: str, draw: st.DataObject) -> None:
    # "N" and "n" were two owners, and nothing said so; "1" and "1.0" in a column of text, too.
    site = f"x{site}x" if draw.draw(st.booleans()) else "17"
    written = draw.draw(st.sampled_from((str.upper, str.lower, str.swapcase)))(site)
    written = "".join(draw.draw(st.sampled_from("-_ ")) if sign in "-_ " else sign for sign in written)
    written = unicodedata.normalize(draw.draw(st.sampled_from(("NFC", "NFD"))), written)
    written += ".0" if site == "17" else ""
    columns = {"site": [as_seen(each) for each in (site, written, "other")]}
    with suppress(DataError):  # which is raised for names that look alike
        assert len(rows_by_site(columns, "site")) == 2


def test_small_sites_are_left_out(folder: Path) -> None:
    assert ages(built(folder, least_rows=2)) == {"koln-sud": [80, 81], "koln-sud-2": [50, 70]}


def test_numbers_of_sites_in_a_parquet_file(folder: Path) -> None:
    # A column of whole numbers with a gap elsewhere comes back as 7.0.
    columns = {"age": [1, 2, 3], "site": [7.0, 11.0, 7.0], "ill": ["no", "yes", "no"]}
    parquet.write_table(pa.table(columns), folder / "all.parquet")
    assert ages(built(folder, table="all.parquet")) == {"7": [1, 3], "11": [2]}


def test_the_column_may_be_one_of_the_schema(folder: Path) -> None:
    (folder / "schema.toml").write_text(
        SCHEMA + '[[columns]]\nname = "site"\nkind = "category"\ncategories = ["a", "b"]\n'
    )
    (folder / "all.csv").write_text("age,site,ill\n50,a,no\n60,b,yes\n")
    (folder / "validation.csv").write_text("age,site\n50,a\n")
    assert {name: table.values[0].tolist() for name, table in built(folder).owners.items()} == {
        "a": [50, 0],
        "b": [60, 1],
    }


@pytest.mark.parametrize("site", ["curator", "D_v", "-", "", "é" * 99, "x" * 99, "東京", "a/../b"])
def test_owner_names_are_valid_names_of_parties(site: str) -> None:
    names = list(owner_names_of([site, f"{site} "]).values())
    assert len(set(names)) == 2
    assert not any(fault_of_name(name, "owner") for name in names)


@pytest.mark.parametrize(
    ("changes", "error", "line"),
    [
        ({"site_column": "clinic"}, DataError, r"no column 'clinic'.*Its columns: age, site, ill"),
        ({"least_rows": 9}, DataError, "no site of column 'site' has 9 rows"),
        ({"table": "none.csv"}, ConfigError, r"scenario\.table: there is no file"),
        ({"site_column": None}, ConfigError, "'table' and 'site_column' belong together"),
        ({"owners": {"a": "all.csv"}}, ConfigError, "either 'owners' or 'table'"),
        ({"table": None, "site_column": None}, ConfigError, "either 'owners' or 'table'"),
        ({"table": "rows.npz"}, ConfigError, "whose columns have no names"),
    ],
)
def test_bad_tables_of_sites(
    folder: Path, changes: dict[str, Any], error: type[Exception], line: str
) -> None:
    (folder / "rows.npz").write_bytes(b"")
    with pytest.raises(error) as raised:
        built(folder, **changes)
    assert raised.match(line)


def test_a_row_of_no_site_is_refused(folder: Path) -> None:
    (folder / "all.csv").write_text(TABLE + "9,,no\n")
    with pytest.raises(DataError, match="column 'site' of sites is empty, rows: 1"):
        built(folder)


def test_a_row_that_does_not_fit_names_its_owner(folder: Path) -> None:
    (folder / "all.csv").write_text(TABLE.replace("60", "x"))
    with pytest.raises(DataError, match="koeln: column 'age': text where a number belongs, rows: 1"):
        built(folder)
