"""The public model of the pool: bins of encoded rows, and what a lying curator may send in its place."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.margins.model import (
    EDGES,
    MOST_BINS,
    MOST_NUMBERS,
    USUAL_ROWS,
    PoolModel,
    make_model,
    model_from_json,
    model_rows,
)
from fedkme.tables.schema import Category, Label, Numeric, Schema

TOWNS = tuple(f"t{place}" for place in range(70))
SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100)),
        Numeric(name="pay", bounds=(0, 10), atoms=(-1.0,)),
        Category(name="town", categories=TOWNS),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)

WIDE = Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=1_000),))


def people(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    pays = np.where(random.random(count) < 0.2, -1.0, random.uniform(0, 10, count))
    towns = 69 - np.minimum(random.geometric(0.06, count) - 1, 69)
    values = np.column_stack([random.uniform(0, 100, count), pays, towns])
    return SCHEMA.encode(values), random.integers(0, 2, count)


def made(labelled: bool = True) -> PoolModel:
    rows, labels = people(5_000, 0)
    return make_model(rows, labels if labelled else None, SCHEMA)


def test_bins_follow_the_rows_of_the_release() -> None:
    model = made()
    # A number, another one with its atom apart, the most frequent towns and the rest, and classes.
    assert model.sizes == [len(EDGES) + 1, model.sizes[1], 2, MOST_BINS, 2]
    rows, labels = people(2_000, 1)
    codes = model.codes_of(rows, labels)
    shares = np.bincount(codes[:, 0], minlength=len(EDGES) + 1) / len(codes)
    assert shares == pytest.approx(np.diff([0.0, *EDGES, 1.0]), abs=0.03)
    towns = rows[:, -70:].argmax(axis=1)
    assert (codes[towns == 69, 3] == 0).all()  # the most frequent one comes first
    assert (codes[:, 3] < MOST_BINS - 1).mean() > 0.95
    assert (codes[:, 2] == (rows[:, 1] == 0.0)).mean() > 0.99
    assert np.array_equal(codes[:, 4], labels)
    assert made(labelled=False).codes_of(rows).shape == (2_000, 4)


def test_a_model_survives_the_wire() -> None:
    model = made()
    sent = model_from_json(json.loads(json.dumps(model.to_json())))
    assert np.array_equal(sent.codes, model.codes)
    rows, labels = people(50, 2)
    assert np.array_equal(sent.codes_of(rows, labels), model.codes_of(rows, labels))
    assert (sent.picks, sent.share, sent.sizes) == (model.picks, model.share, model.sizes)
    assert (model_rows(SCHEMA), model_rows(WIDE)) == (USUAL_ROWS, MOST_NUMBERS // 1_001)


def packed(codes: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(codes.astype(np.uint8).tobytes())).decode("ascii")


HOSTILE: dict[str, dict[str, Any]] = {
    "a bin that a column lacks": {"codes": packed(np.full((5_000, 5), 60))},
    "rows that are not there": {"rows": 5_001},
    "no rows": {"rows": 0},
    "half a row": {"rows": 2.5},
    "more rows than a model has": {"rows": 2**40},
    "more numbers than a model has": {"codes": packed(np.zeros((2**16, 5))), "rows": 2**16},
    "a bomb": {"codes": packed(np.zeros((5_000, 5_000)))},
    "no codes": {"codes": "%%"},
    "edges in no order": {"edges": [[0.9, 0.1], [], [], []]},
    "edges that are no numbers": {"edges": [[float("nan")], [], [], []]},
    "too many edges": {"edges": [[x / 100 for x in range(99)], [], [], []]},
    "a place below 0": {"groups": [[-1], [1], [2, 3], [4, 5]]},
    "a place in two columns": {"groups": [[0], [0], [2, 3], list(range(4, 74))]},
    "a place without end": {"groups": [[0], [1], [2, 3], [4] * 10**6]},
    "a column of nothing": {"groups": [[0], [1], [], [4, 5]]},
    "no columns": {"groups": [], "edges": []},
    "picks of nothing": {"picks": 0},
    "more picks than allowed": {"picks": 5},
    "all of epsilon for picks": {"share": 0.2},
    "a negative share": {"share": -0.1},
    "many classes": {"classes": 10**9},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_model_that_a_curator_made_up_is_refused(case: str) -> None:
    with pytest.raises(ConfigError):
        model_from_json({**made().to_json(), **HOSTILE[case]})


@pytest.mark.parametrize(
    ("change", "labelled"),
    [
        ({"groups": [[10**6], [1], [2, 3], list(range(4, 74))]}, True),
        ({"classes": 1, "codes": packed(np.zeros((5_000, 5)))}, True),  # of which half of D_v has another
        ({"classes": 3}, True),
        ({}, False),
    ],
)
def test_a_model_of_another_schema_is_refused_whatever_the_rows_are(
    change: dict[str, Any], labelled: bool
) -> None:
    model = model_from_json({**made().to_json(), **change})
    with pytest.raises(ConfigError):
        model.check_fit(SCHEMA, labelled)
    made().check_fit(SCHEMA, True)
    made(labelled=False).check_fit(SCHEMA, False)
