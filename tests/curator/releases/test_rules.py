"""Public rules of a schema: no made row breaks one, whatever owners' rows do."""

from __future__ import annotations

import asyncio
import io
import json
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from audit.in_memory import FreshNoise
from curator.releases.method import Finished
from curator.releases.methods.marginals import MarginalsMethod
from curator.releases.methods.moments import Moments
from fedkme.answers.rules import RowRules
from fedkme.errors import ConfigError, SchemaError
from fedkme.features.binning import Binning
from fedkme.releases.choice import method_for
from fedkme.releases.settings import MarginalsSettings, MomentsSettings
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table
from operate.schema_cli import app

Row = Mapping[str, Any]
Breaks = Callable[[Row], bool]
SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge}
COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "numeric", "name": "age", "bounds": [0, 99], "integer": True},
    "level": {"kind": "numeric", "name": "level", "bounds": [-1.0, 3.0], "atoms": [0.0], "nullable": True},
    "start": {"kind": "date", "name": "start", "bounds": ["2020-01-01", "2020-12-31"]},
    "end": {"kind": "date", "name": "end", "bounds": ["2020-01-01", "2021-06-30"], "nullable": True},
    "married": {"kind": "category", "name": "married", "categories": ["never", "once", "more"]},
    "times": {"kind": "numeric", "name": "times", "bounds": [0, 5], "integer": True},
    "wage": {"kind": "numeric", "name": "wage", "bounds": [0.0, 60.0], "decimals": 1},
    "bonus": {"kind": "numeric", "name": "bonus", "bounds": [0.0, 60.0], "decimals": 1, "scale": "log"},
    "pay": {"kind": "numeric", "name": "pay", "bounds": [0.0, 90.0], "nullable": True},
}
LABEL = {"name": "ill", "classes": ["no", "yes"]}


def comparison(name: str, sign: str, value: Any) -> Breaks:
    """Test of a cell; no comparison with an empty one holds."""
    return lambda row: row[name] is not None and bool(SIGNS[sign](row[name], value))


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Breaks]:
    """Draw a condition on one to three columns, as text and as a function of a row."""
    texts: list[str] = []
    tests: list[Breaks] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(["age", "level", "times", "wage", "married", "ill"]))
        if name in ("married", "ill"):
            sign = draw(st.sampled_from(["=", "!="]))
            value: Any = draw(
                st.sampled_from(LABEL["classes"] if name == "ill" else ["never", "once", "more"])
            )
            shown = f"'{value}'"
        else:
            sign = draw(st.sampled_from(["<", ">="] if name in ("level", "wage") else list(SIGNS)))
            low, high = COLUMNS[name]["bounds"]
            value = draw(st.integers(int(low), int(high)))
            shown = str(value)
        texts.append(f"{name} {sign} {shown}")
        tests.append(comparison(name, sign, value))
    return " and ".join(texts), lambda row: all(test(row) for test in tests)


def drawn_rows(schema: Schema, rows: int, seed: int) -> Table:
    """Draw rows of an owner, who has not heard of the rules."""
    random, binning = np.random.default_rng(seed), Binning(schema, 64)
    codes = np.stack([random.integers(0, size, rows) for size in binning.sizes], axis=1)
    return binning.decode(codes, random)


def made(schema: Schema, table: Table, seed: int, ratio: float = 1.0, **given: Any) -> Finished:
    own = MarginalsSettings.model_validate(
        {"epsilon": 2.0, "iterations": 60, "copies": 1, "seed": seed, **given}
    )
    method = MarginalsMethod(own, schema, None, seed)
    release = asyncio.run(method.ask(FreshNoise(table, schema, seed, ratio)))
    return method.finish(release, lambda *_: None)


def rows_of(schema: Schema, finished: Finished) -> list[Row]:
    """Rows of a finished release as people read them; None is an empty cell."""
    arrays = np.load(io.BytesIO(finished.files["synthetic.npz"]))
    columns: dict[str, list[Any]] = {}
    for column, values in zip(schema.columns, arrays["x"].T, strict=True):
        named = getattr(column, "categories", None)
        columns[column.name] = [named[int(value)] for value in values] if named else values.tolist()
    if schema.label:
        columns[schema.label.name] = [schema.label.classes[int(value)] for value in arrays["y"]]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    gaps = [name for name in columns if f"{name}_missing" in columns]
    return [row | {name: None for name in gaps if row[f"{name}_missing"] == "yes"} for row in rows]


def all_there(row: Row, *names: str) -> bool:
    return all(row[name] is not None for name in names)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    never=st.lists(conditions(), max_size=3),
    more=st.sets(st.sampled_from(["order", "function", "sum"])),
    mechanism=st.sampled_from(["rounds", "aim", "independent"]),
    bins=st.integers(2, 9),
    ratio=st.sampled_from([1.0, 1.5]),
    seed=st.integers(0, 1000),
)
def test_no_made_row_breaks_a_rule(
    never: list[tuple[str, Breaks]], more: set[str], mechanism: str, bins: int, ratio: float, seed: int
) -> None:
    names = ["age", "level", "married"]
    names += ["start", "end"] if "order" in more else []
    names += ["wage", "bonus", "pay"] if "sum" in more else []
    names += ["times"] if "function" in more or any("times" in text for text, _ in never) else []
    names += ["wage"] if "wage" not in names and any("wage" in text for text, _ in never) else []
    times = {"never": 0, "once": 1, "more": 3}
    derived: dict[str, Any] = {}
    if "function" in more:
        derived["times"] = {"function_of": "married", "values": times}
    if "sum" in more:
        derived["pay"] = {"sum_of": ["wage", "bonus"]}
    schema = schema_from(
        {
            "columns": [COLUMNS[name] for name in names],
            "label": LABEL,
            "never": [text for text, _ in never],
            "order": [["start", "end"]] if "order" in more else [],
            "derived": derived,
        }
    )
    ratio = 1.0 if mechanism == "aim" else ratio  # AIM chooses by exact counts
    finished = made(schema, drawn_rows(schema, 40, seed), seed, ratio, mechanism=mechanism, bins=bins, ways=2)
    if "synthetic.npz" not in finished.files:  # rules that no row can obey
        assert any("obeys the schema's rules" in loss.cause for loss in finished.losses)
        return
    for row in rows_of(schema, finished):
        for text, breaks in never:
            assert not breaks(row), text
        if "order" in more and all_there(row, "end"):
            assert row["start"] <= row["end"]
        if "function" in more:
            assert row["times"] == times[row["married"]]
        if "sum" in more and all_there(row, "pay"):
            assert row["pay"] == pytest.approx(row["wage"] + row["bonus"])


SCHOOL = schema_from(
    {
        "columns": [
            {"kind": "category", "name": "degree", "categories": ["none", "school", "college", "doctor"]},
            {"kind": "numeric", "name": "years", "bounds": [0, 20], "integer": True},
            {"kind": "numeric", "name": "age", "bounds": [0, 99], "integer": True},
        ],
        "never": ["age < 20 and degree = 'doctor'"],
        "derived": {
            "years": {
                "function_of": "degree",
                "values": {"none": 0, "school": 10, "college": 14, "doctor": 18},
            }
        },
    }
)


def test_cells_that_no_row_has_are_zeros_of_the_model() -> None:
    method = MarginalsMethod(MarginalsSettings(bins=10), SCHOOL, None, 0)
    assert method._start is not None
    years = method._start.zeros[0, 1]
    assert [int(np.flatnonzero(~row)[0]) for row in years] == [0, 4, 6, 8]  # bins of 2.1 years
    ages = method._start.zeros[0, 2]
    assert ages[3].tolist() == [True] * 2 + [False] * 8
    assert not ages[:3].any()


def test_zeros_make_a_model_no_worse_on_the_cells_that_there_are() -> None:
    random = np.random.default_rng(0)
    degree = random.choice(4, 3000, p=[0.2, 0.5, 0.2, 0.1])
    years = np.array([0, 10, 14, 18])[degree]
    table = Table(np.stack([degree, years, random.integers(20, 99, 3000)], axis=1).astype(np.float64))
    free = SCHOOL.model_copy(update={"never": (), "derived": {}})
    errors = []
    for schema in (free, SCHOOL):
        wrong = RowRules(SCHOOL).counts(_table(made(schema, table, 3, epsilon=0.5, copies=0)))
        errors.append(sum(wrong.values()))
    assert errors[0] > 30
    assert errors[1] == 0


def _table(finished: Finished) -> Table:
    return Table(np.load(io.BytesIO(finished.files["synthetic.npz"]))["x"])


def test_rows_that_break_a_rule_are_counted_by_rule() -> None:
    table = Table(np.array([[3.0, 18.0, 10.0], [0.0, 1.0, 5.0], [1.0, 10.0, 5.0]]))
    counts = RowRules(SCHOOL).counts(table)
    assert counts == {"never age < 20 and degree = 'doctor'": 1, "years = function of degree": 1}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"never": ["age < "]}, "never = "),
        ({"never": ["agee < 3"]}, "no column 'agee'"),
        ({"order": [["degree", "age"]]}, "neither number nor date"),
        ({"derived": {"years": {"function_of": "degree", "values": {"none": 0}}}}, "no value for 'school'"),
        ({"derived": {"years": {"sum_of": ["degree"]}}}, "no number"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_before_any_row(keys: dict[str, Any], says: str) -> None:
    schema = schema_from(SCHOOL.model_dump(include={"columns"}) | keys)
    with pytest.raises(SchemaError, match="error 11") as error:
        MarginalsMethod(MarginalsSettings(), schema, None, 0)
    assert says in error.value.cause


def test_methods_whose_rows_would_break_rules_refuse_them() -> None:
    assert method_for(SCHOOL)[0] == "marginals"
    with pytest.raises(ConfigError, match="do not obey the schema's rules"):
        Moments(MomentsSettings(), SCHOOL, None, 0)


def test_schemas_with_rules_have_a_hash() -> None:
    assert hash(SCHOOL) == hash(schema_from(SCHOOL.model_dump()))
    assert SCHOOL.model_copy(update={"never": ()}) != SCHOOL


def test_a_draft_proposes_functions_and_check_counts_rows_that_break_rules(tmp_path: Path) -> None:
    degrees = {"primary": 4, "school": 10, "college": 14, "doctor": 18}
    rows = [(each, years, 20 + place) for place in range(30) for each, years in degrees.items()]
    (sample := tmp_path / "sample.csv").write_text(_csv(rows), encoding="utf-8")
    drafted = CliRunner().invoke(app, ["draft", str(sample)]).stdout
    begin = drafted.index("# [derived.years]")
    assert "'years' follows from 'degree' in all rows" in drafted
    proposal = drafted[begin:].replace("\n# ", "\n").removeprefix("# ")
    rule = "never = [\"age < 25 and degree = 'doctor'\"]\n"
    (schema := tmp_path / "schema.toml").write_text(rule + drafted[:begin] + proposal, encoding="utf-8")
    (own := tmp_path / "own.csv").write_text(_csv([*rows, ("school", 18, 30)]), encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(schema), str(own)]).stdout
    assert "5 rows break 'never age < 25 and degree = 'doctor''" in checked
    assert "1 rows break 'years = function of degree'" in checked
    as_json = json.loads(CliRunner().invoke(app, ["check", str(schema), str(own), "--json"]).stdout)
    assert [*as_json["rules"].values()] == [
        {"never age < 25 and degree = 'doctor'": 5, "years = function of degree": 1}
    ]


def _csv(rows: list[tuple[str, int, int]]) -> str:
    return "degree,years,age\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
