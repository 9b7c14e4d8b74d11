"""Descriptions of configurations: JSON Schema for editors agrees with settings; the page is up to date."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.config import models_in, validate
from fedkme.descriptions import meanings_of
from fedkme.errors import ConfigError
from operate.cli import _load
from operate.descriptions import KINDS, json_schema
from sim.shipped import shipped
from tests.fedkme.test_config import CONSUMER, CURATOR, OWNER, SCENARIO, SCHEMA
from tests.places import ROOT
from tools.reference import page

jsonschema = pytest.importorskip("jsonschema", reason="it judges as an editor does")

OWN = ROOT / "examples" / "own-files"
SHIPPED = list(shipped().values())
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("owner", OWNER),
    ("owner", {**OWNER, "data": "rows.csv", "policy": {"budgets": [{"epsilon": 1.0, "delta": 1e-5}]}}),
    ("consumer", CONSUMER),
    ("curator", {**CURATOR, "summary": {"auction": {"kind": "clock"}, "protocol": "cells"}}),
    ("schema", SCHEMA),
    (
        "schema",
        {
            "columns": [
                {"kind": "date", "name": "d", "bounds": ["2020-01-01", "2021-01-01"], "nullable": True}
            ]
        },
    ),
    ("schema", tomllib.loads((OWN / "schema.toml").read_text())),
    ("scenario", SCENARIO),
    ("scenario", tomllib.loads((OWN / "scenario.toml").read_text())),
    *(("scenario", tomllib.loads(path.read_text())) for path in SHIPPED),
]


schema_of = functools.cache(json_schema)
whole_page = functools.cache(page)


def faults(kind: str, values: dict[str, Any]) -> list[str]:
    plain = json.loads(json.dumps(values, default=str))
    return [str(each.message) for each in jsonschema.Draft202012Validator(schema_of(kind)).iter_errors(plain)]


@pytest.mark.parametrize(("kind", "values"), GOOD)
def test_the_json_schema_accepts_valid_settings(kind: str, values: dict[str, Any]) -> None:
    assert not faults(kind, values)
    own = {key: value for key, value in values.items() if key != "release"}
    validate(KINDS[kind][0], own, "file.toml")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("owner", {**OWNER, "polic": {}}),
        ("owner", {**OWNER, "policy": {"rows": "cooked"}}),
        ("owner", {**OWNER, "data": {"sep": ";"}}),
        ("curator", {**CURATOR, "summary": {"auction": {"kind": "clok"}}}),
        ("consumer", {**CONSUMER, "request": {}}),
        ("schema", {"columns": [{"name": "age", "bounds": [0, 120]}]}),
        ("schema", {"columns": [{"kind": "numeric", "name": "age", "bounds": [0]}]}),
        ("scenario", {**SCENARIO, "scenario": {"kind": "csv"}}),
    ],
)
def test_the_json_schema_refuses_invalid_settings(kind: str, values: dict[str, Any]) -> None:
    assert faults(kind, values)
    with pytest.raises(ConfigError):
        validate(KINDS[kind][0], values, "file.toml")


@pytest.mark.parametrize("kind", KINDS)
def test_the_verb_prints_a_json_schema(kind: str) -> None:
    result = CliRunner().invoke(_load("schema"), ["json", kind])
    assert result.exit_code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(result.output))
    assert "Settings" not in json.loads(result.output)["title"]


def test_the_page_of_every_key_is_up_to_date() -> None:
    # docs/reference/configuration.md is generated from the settings.
    assert (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8") == whole_page(), (
        "make reference"
    )


def test_every_key_is_on_the_page_with_its_type_and_meaning() -> None:
    entries = re.findall(r"^- (.+(?:\n  .+)*)", whole_page(), re.MULTILINE)
    untold = [each for each in entries if not re.match(r"`[\w-]+` \(.+\)\.\s+\S", each, re.DOTALL)]
    assert not untold
    names = {each.partition("`")[2].partition("`")[0] for each in entries}
    assert {"most_rows_per_run", "sep", "from", "unknown", "nullable", "dropouts"} <= names
    for model, _ in KINDS.values():
        for name, field in model.model_fields.items():
            assert name in meanings_of(model) or list(models_in(field)), name


def test_links_on_the_page_lead_somewhere() -> None:
    text = whole_page()
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= headings


def test_tables_of_the_same_name_are_the_same() -> None:
    # The page shows a table once.
    tables: dict[str, Any] = {}
    for kind in KINDS:
        for name, table in schema_of(kind).get("$defs", {}).items():
            assert tables.setdefault(name, table) == table, name
