"""Rules of which no row can obey all are refused before anybody is asked; others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.answers.rules import RowRules
from fedkme.errors import SchemaError
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "kind": "numeric", "bounds": [0, 90], "integer": True},
    {"name": "x", "kind": "numeric", "bounds": [0, 10], "atoms": [99]},
    {"name": "m", "kind": "category", "categories": ["a", "b", "c"]},
    {"name": "gap", "kind": "numeric", "bounds": [0, 4], "nullable": True},
    {"name": "deg", "kind": "category", "categories": ["school", "college"]},
]
IMPOSSIBLE: list[dict[str, Any]] = [
    {"never": ["age >= 0"]},
    {"never": ["age < 45", "age >= 45"]},
    {"never": ["m = 'a'", "m in ('b', 'c')"]},
    {"never": ["x <= 10", "x = 99"]},
    {"never": ["m = 'a' and age < 50", "m = 'a' and age >= 50", "m != 'a'"]},
    {"never": ["m = 'a'", "m = 'b' and deg = 'school'", "m = 'b' and deg != 'school'", "m = 'c'"]},
    {"never": ["m = 'a' and age > 20", "m != 'a'", "age < 30"]},
    {
        "derived": {"age": {"function_of": "deg", "values": {"school": 10, "college": 14}}},
        "never": ["age < 20"],
    },
]


def schema_of(rules: dict[str, Any]) -> Schema:
    return schema_from({"columns": COLUMNS, **rules})


@pytest.mark.parametrize("rules", IMPOSSIBLE, ids=str)
def test_rules_that_no_row_obeys_are_refused(rules: dict[str, Any]) -> None:
    # A release was asked for and paid by owners, and had no rows: "Run: fedkme report", which made none.
    with pytest.raises(SchemaError, match="no row can obey the schema's rules"):
        RowRules(schema_of(rules))


def test_a_sum_beyond_the_bounds_of_its_column_is_refused() -> None:
    total = {"name": "total", "kind": "numeric", "bounds": [1000, 2000]}
    schema = schema_from({"columns": [*COLUMNS, total], "derived": {"total": {"sum_of": ["age", "x"]}}})
    with pytest.raises(SchemaError, match="'total' is never the sum of age and x, which is 0 to 189"):
        RowRules(schema)


CONDITIONS = (
    *("age < 30", "age >= 30", "age = 45", "age > 44.5 and age < 45.5", "x > 5", "x < 99", "m = 'a'"),
    *(
        "not m = 'a'",
        "gap > 2",
        "not gap > 2",
        "gap <= 2",
        "deg = 'school' and x >= 5",
        "m != 'b' or age > 3",
    ),
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4, unique=True))
def test_no_rules_are_refused_that_a_row_obeys(never: list[str]) -> None:
    rows = 4000
    rng = np.random.default_rng(1)
    gaps = rng.random(rows) < 0.3
    values = [
        rng.integers(0, 91, rows),
        np.where(rng.random(rows) < 0.1, 99, rng.uniform(0, 10, rows)),
        rng.integers(0, 3, rows),
        np.where(gaps, 2.0, rng.uniform(0, 4, rows)),
        rng.integers(0, 2, rows),
    ]
    plain = schema_of({})
    names = {"age": 0, "x": 1, "m": 2, "gap": 3, "deg": 4}
    columns = [gaps if name not in names else values[names[name]] for name in plain.names]
    table = Table(np.column_stack(columns).astype(float))
    try:
        rules = RowRules(schema_of({"never": never}))
    except SchemaError:
        with_each = [RowRules(schema_of({"never": [each]})) for each in never]
        assert np.logical_or.reduce([each.broken(table) for each in with_each]).all()
    else:
        assert len(rules.rules) == len(never)
