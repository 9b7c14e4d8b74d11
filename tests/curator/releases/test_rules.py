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
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import start_with_zeros
from curator.releases.marginals.tilt import tilted
from curator.releases.method import Finished, make_method
from curator.releases.methods.marginals import MarginalsMethod
from fedkme.answers.rules import RowRules
from fedkme.config import dump_toml
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.features.binning import Binning
from fedkme.releases.choice import method_for
from fedkme.releases.counts import Measurement, counts_from_bytes
from fedkme.releases.settings import MarginalsSettings, release_settings
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


def drawn_rows(schema: Schema, rows: int, seed: int, skewed: bool = False) -> Table:
    """Draw rows of an owner, who has not heard of the rules; skewed ones are mostly small numbers."""
    random, binning = np.random.default_rng(seed), Binning(schema, 64)
    codes = np.stack([random.integers(0, size, rows) for size in binning.sizes], axis=1)
    if skewed:
        few = np.stack([random.geometric(0.2, rows) - 1 for _ in binning.sizes], axis=1)
        codes = np.minimum(few, np.array(binning.sizes) - 1)
    return binning.decode(codes, random)


def made(
    schema: Schema, table: Table, seed: int, ratio: float = 1.0, rows: int = 3000, **given: Any
) -> Table:
    own = MarginalsSettings.model_validate({"epsilon": 2.0, "iterations": 60, "seed": seed, **given})
    method = MarginalsMethod(own, schema, None, seed)
    release = asyncio.run(method.ask(FreshNoise(table, schema, seed, ratio)))
    return method.draw(release, rows, lambda *_: None)


def rows_of(schema: Schema, table: Table) -> list[Row]:
    """Made rows as people read them; None is an empty cell."""
    columns: dict[str, list[Any]] = {}
    for column, values in zip(schema.columns, table.values.T, strict=True):
        named = getattr(column, "categories", None)
        columns[column.name] = [named[int(value)] for value in values] if named else values.tolist()
    if schema.label and table.labels is not None:
        columns[schema.label.name] = [schema.label.classes[int(value)] for value in table.labels]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    gaps = [name for name in columns if f"{name}_missing" in columns]
    return [row | {name: None for name in gaps if row[f"{name}_missing"] == "yes"} for row in rows]


def all_there(row: Row, *names: str) -> bool:
    return all(row[name] is not None for name in names)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    never=st.lists(conditions(), max_size=3),
    more=st.sets(st.sampled_from(["order", "function", "sum"])),
    mechanism=st.sampled_from(["rounds", "independent"]),
    bins=st.integers(2, 9),
    ratio=st.sampled_from([1.0, 1.5]),
    skewed=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_made_row_breaks_a_rule(
    never: list[tuple[str, Breaks]],
    more: set[str],
    mechanism: str,
    bins: int,
    ratio: float,
    skewed: bool,
    seed: int,
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
    keys = {
        "columns": [COLUMNS[name] for name in names],
        "label": LABEL,
        "never": [text for text, _ in never],
        "order": [["start", "end"]] if "order" in more else [],
        "derived": derived,
    }
    schema = schema_from(keys)
    rows, epsilon = (4000, 30.0) if skewed else (40, 2.0)  # skewed ones get merged bins
    table = drawn_rows(schema, rows, seed, skewed)
    given = {"mechanism": mechanism, "bins": bins, "epsilon": epsilon}
    try:
        drawn = made(schema, table, seed, ratio, 300, **given)  # rules hold whatever the fit
    except (SchemaError, DataError) as error:  # the first before owners pay
        if "no row can" not in error.cause:
            raise
        return
    for row in rows_of(schema, drawn):
        for text, breaks in never:
            assert not breaks(row), text
        if "order" in more and all_there(row, "end"):
            assert row["start"] <= row["end"]
        if "function" in more:
            assert row["times"] == times[row["married"]]
        if "sum" in more and all_there(row, "pay"):
            assert row["pay"] == pytest.approx(row["wage"] + row["bonus"])


def test_rules_hold_in_merged_bins_and_the_card_counts_copies() -> None:
    keys: dict[str, Any] = {
        "columns": [
            *(COLUMNS[name] for name in ("age", "wage", "bonus")),
            COLUMNS["pay"] | {"bounds": [0, 0.2], "nullable": False},
            {"kind": "numeric", "name": "unique", "bounds": [0, 1]},
        ],
        "never": ["age >= 12 and wage < 0.4"],
        "derived": {"pay": {"sum_of": ["wage", "bonus"]}},
    }
    schema = schema_from(keys)
    table = drawn_rows(schema, 4000, 1, skewed=True)
    settings = MarginalsSettings(epsilon=30.0, bins=8, copies=0, seed=1, rows=400)
    method = MarginalsMethod(settings, schema, None, 1)
    release = asyncio.run(method.ask(FreshNoise(table, schema, 1)))
    merged = {each.column for each in counts_from_bytes(release).binning.merged}
    assert merged >= {"age", "wage"}
    finished = method.finish(release, lambda *_: None)
    written = Table(np.load(io.BytesIO(finished.files["synthetic.npz"]))["x"])
    rows = [tuple(row.values()) for row in rows_of(schema, written)]
    assert not any(age >= 12 and wage < 0.4 for age, wage, *_ in rows)
    (note,) = (each for each in _notes(finished) if each.startswith("rows copied from others"))
    copied = int(note.rpartition(" ")[2])
    assert copied > 0
    assert len(rows) - len(set(rows)) == copied


def _notes(finished: Finished) -> list[str]:
    return list(json.loads(finished.files["synthetic.card.json"])["notes"])


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
    start, left = start_with_zeros(RowRules(SCHOOL), Binning(SCHOOL, 10), [])
    assert start is not None
    assert not left
    years = start.zeros[0, 1]
    assert [int(np.flatnonzero(~row)[0]) for row in years] == [0, 4, 6, 8]  # bins of 2.1 years
    ages = start.zeros[0, 2]
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
        wrong = RowRules(SCHOOL).counts(made(schema, table, 3, epsilon=0.5))
        errors.append(sum(wrong.values()))
    assert errors[0] > 30
    assert errors[1] == 0


BITS = schema_from(
    {
        "columns": [
            *({"kind": "category", "name": f"x{i}", "categories": ["0", "1"]} for i in range(4)),
            {"kind": "category", "name": "colour", "categories": ["red", "green", "blue"]},
        ],
        "label": {"name": "xor", "classes": ["no", "yes"]},
        "never": ["x0 = '1' and colour = 'red'", "x1 = '0' and colour = 'blue' and xor = 'yes'"],
    }
)


def test_dependences_of_three_columns_stand_beside_zeros() -> None:
    random = np.random.default_rng(1)
    bits, colour = random.integers(0, 2, (6000, 4)), random.integers(0, 3, 6000)
    colour[(bits[:, 0] == 1) & (colour == 0)] = 1
    colour[(bits[:, 1] == 0) & (colour == 2)] = 1
    table = Table(np.column_stack([bits, colour]).astype(float), bits[:, 0] ^ bits[:, 1])
    own = MarginalsSettings.model_validate({"epsilon": 3.0, "copies": 0})
    method = MarginalsMethod(own, BITS, None, 0)
    stored = counts_from_bytes(asyncio.run(method.ask(FreshNoise(table, BITS, 1))))
    assert any({0, 1, 5} <= {*measurement.clique} for measurement in stored.fitted)
    start, _ = start_with_zeros(RowRules(BITS), stored.binning, [])
    model = fit(stored.binning.sizes, stored.fitted, stored.rows, 200, start)
    codes = model.sample(6000, random)
    assert (codes[:, 5] == codes[:, 0] ^ codes[:, 1]).mean() > 0.9
    assert not RowRules(BITS).broken(stored.binning.decode(codes, random)).any()


def test_a_tilt_of_the_label_leaves_zeros_alone() -> None:
    start, _ = start_with_zeros(RowRules(BITS), Binning(BITS), [])
    columns = [Measurement((c,), np.full(n, 6000.0 / n), 1.0) for c, n in enumerate(Binning(BITS).sizes)]
    model = fit(Binning(BITS).sizes, columns, 6000, 50, start)
    wrong = np.zeros((2, 3, 2))
    wrong[0, 2, 1] = wrong[1, 1, 0] = 3000.0  # as noise, or rows that break rules, would have it
    law = tilted(model, 5, [Measurement((1, 4, 5), wrong.ravel(), 1.0)], 6000)
    codes = law.sample(6000, np.random.default_rng(0))
    assert not RowRules(BITS).broken(Binning(BITS).decode(codes, np.random.default_rng(0))).any()
    chosen = (codes[:, 1] == 1) & (codes[:, 4] == 1)
    assert (codes[chosen, 5] == 0).mean() > 0.95


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


@pytest.mark.parametrize("kind", ["moments", "merf", "hermite", "balog1", "balog2"])
def test_methods_whose_rows_would_break_rules_refuse_them(kind: str) -> None:
    assert method_for(SCHOOL)[0] == "marginals"
    with pytest.raises(ConfigError, match="error 10") as error:
        make_method(release_settings({"kind": kind, "epsilon": 1.0}), SCHOOL, None, 0)
    assert f"rows of '{kind}' do not obey the schema's rules" in error.value.cause


def test_schemas_with_rules_have_a_hash() -> None:
    assert hash(SCHOOL) == hash(schema_from(SCHOOL.model_dump()))
    assert SCHOOL.model_copy(update={"never": ()}) != SCHOOL


def test_dummy_rows_obey_rules(tmp_path: Path) -> None:
    (schema := tmp_path / "schema.toml").write_text(
        dump_toml(SCHOOL.model_dump(mode="json")), encoding="utf-8"
    )
    written = CliRunner().invoke(app, ["dummy", str(schema), "--out", str(tmp_path / "own.csv")])
    assert written.exit_code == 0
    checked = CliRunner().invoke(app, ["check", str(schema), str(tmp_path / "own.csv")]).stdout
    assert "rows break" not in checked
