"""An owner's process loads its rows before it dials anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError, DataError
from fedkme.tables.data_file import DataFile
from owner.agent import join
from owner.settings import OwnerSettings
from tests.parties import Transcript

SCHEMA = """
[[columns]]
kind = "category"
name = "smoker"
categories = ["yes", "no", "unknown"]
missing = "unknown"
"""


async def loaded(folder: Path, cells: list[str], **settings: Any) -> list[tuple[str, dict[str, Any]]]:
    """Collect an owner's lines until it refuses its curator's address."""
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "rows.csv").write_text("\n".join(["smoker", *cells, ""]))
    ear = Transcript("north")
    owner = OwnerSettings(
        name="north",
        curator="nowhere",
        plaintext=True,
        schema_file=folder / "schema.toml",
        data=DataFile.model_validate({"path": folder / "rows.csv", **settings}),
        journal=":memory:",
    )
    with pytest.raises(ConfigError, match="'nowhere' is not host:port"):
        await join(owner, ear)
    return ear.said


async def test_categories_outside_the_schema_stop_the_owner_before_it_dials(tmp_path: Path) -> None:
    # An owner whose file has Y and N for yes and no joined once, and every smoker counted as "unknown".
    with pytest.raises(DataError, match="a name not in the schema, taken as 'unknown', rows: 100, the first"):
        await loaded(tmp_path, ["Y", "N"] * 50)
    words = {"smoker": {"map": {"Y": "yes", "N": "no"}}}
    assert await loaded(tmp_path, ["Y", "N"] * 50, columns=words) == [("loaded", {"rows": 100})]


async def test_a_few_unlisted_categories_are_counted_in_the_owners_log(tmp_path: Path) -> None:
    assert await loaded(tmp_path, ["yes"] * 99 + ["Y"]) == [
        ("loaded", {"rows": 100}),
        (
            "unlisted",
            {"column": "smoker", "cells": 1, "what": "a name not in the schema, taken as 'unknown'"},
        ),
    ]
