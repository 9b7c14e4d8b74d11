"""Scenario `csv`: a user's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.config import validate
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.tables.files import save_table
from fedkme.tables.table import Table
from sim.scenarios import build_scenario
from sim.scenarios.base import anchored
from sim.scenarios.tables import Csv
from tests.parties import MIXED

ROWS = "age,smoker,ill\n50,yes,no\n60,no,yes\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(MIXED)
    for name in ("north", "validation", "test"):
        (tmp_path / f"{name}.csv").write_text(ROWS)
    (tmp_path / "empty.csv").write_text("ill,smoker,age\n")
    save_table(tmp_path / "public.npz", Table(np.array([[40, 0]], np.uint8)))
    return tmp_path


def csv_config(**changes: Any) -> Csv:
    values = {
        "kind": "csv",
        "schema_file": "schema.toml",
        "owners": {"south": "empty.csv", "north": "north.csv"},
        "validation": "validation.csv",
        **changes,
    }
    return validate(Csv, values, "file.toml")


def test_own_files(folder: Path) -> None:
    # A user's own files through a public schema with bounds and categories; one is empty.
    scenario = build_scenario(anchored(csv_config(test="test.csv", seeds="public.npz"), folder), 0)
    assert {name: len(owner) for name, owner in scenario.owners.items()} == {"north": 2, "south": 0}
    assert list(scenario.owners) == ["north", "south"]
    assert scenario.validation.labels is not None  # as in a deployment, whose runs count by class
    assert scenario.validation.labels.tolist() == [0, 1]
    assert scenario.test.labels is not None
    assert scenario.test.labels.tolist() == [0, 1]
    assert scenario.seeds is not None
    assert scenario.seeds.values.tolist() == [[40, 0]]


def test_what_own_files_may_leave_out(folder: Path) -> None:
    # Csv: test and seeds are optional; seeds may be drawn from the public domain.
    scenario = build_scenario(anchored(csv_config(), folder), 0)
    assert (len(scenario.test), scenario.seeds) == (0, None)
    drawn = build_scenario(anchored(csv_config(seeds=40), folder), 0).seeds
    assert drawn is not None
    scenario.schema.check(drawn, "seeds")
    assert set(drawn.values[:, 1]) == {0, 1}


def test_owners_as_a_list(folder: Path) -> None:
    # Duplicate owner names.
    owner = {"name": "north", "path": "north.csv"}
    assert list(build_scenario(anchored(csv_config(owners=[owner]), folder), 0).owners) == ["north"]
    with pytest.raises(ConfigError, match="two owners have the name 'north'"):
        csv_config(owners=[owner, owner])


@pytest.mark.parametrize("owners", [{"North": "a.csv"}, {"": "a.csv"}, {"a b": "a.csv"}, {}, [], 3, ["a"]])
def test_owner_names(owners: Any) -> None:
    # Csv: an owner's name is a-z, 0-9 and '-'.
    with pytest.raises(ConfigError, match="owners"):
        csv_config(owners=owners)


BAD_FILES: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "no owner file": (lambda f: (f / "north.csv").unlink(), ConfigError, r"scenario\.owners\.north"),
    "no schema": (lambda f: (f / "schema.toml").unlink(), ConfigError, r"scenario\.schema_file"),
    "schema": (lambda f: (f / "schema.toml").write_text("columns = []"), SchemaError, "schema.toml"),
    "owner": (
        lambda f: (f / "north.csv").write_text(ROWS.replace("50", "")),
        DataError,
        "north: column 'age'",
    ),
    "D_v": (
        lambda f: (f / "validation.csv").write_text(ROWS.replace("50", "x")),
        DataError,
        "consumer: column",
    ),
    "no D_v": (lambda f: (f / "validation.csv").write_text("age,smoker\n"), DataError, "D_v has no rows"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_own_files(folder: Path, case: str) -> None:
    # Each ends in one clear line with cause and remedy, naming the party or the key.
    spoil, error, message = BAD_FILES[case]
    spoil(folder)
    with pytest.raises(error, match=message):
        build_scenario(anchored(csv_config(), folder), 0)
