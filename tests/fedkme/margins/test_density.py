"""The density by which owners count rows like D_v: each row is in one cell, by its own values and place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.cells.codebook import BEYOND
from fedkme.cells.histogram import SENSITIVITY, counts
from fedkme.errors import ConfigError, DataError
from fedkme.margins.density import DensityBook, density_from_json, even_density
from fedkme.tables.schema import Category, Label, Numeric, Schema

SCHEMA = Schema(
    columns=(Numeric(name="age", bounds=(0, 100)), Category(name="job", categories=("a", "b", "c"))),
    label=Label(name="ill", classes=("no", "yes")),
)
ARRAYS = {
    "along": np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]),
    "edges": np.array([[0.5, 0.9], [0.35, BEYOND]]),
    "factors": np.array([[0.5, 1.0, 4.0], [1.0, 3.0, 1.0]]),
    "own": np.array([1.0, 2.0]),
}
BOOK = DensityBook(ARRAYS, 20.0, 8.0, 7, SCHEMA)


def people(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    values = np.column_stack([random.uniform(0, 100, count), random.integers(0, 3, count)])
    return SCHEMA.encode(values), random.integers(0, 2, count)


def test_a_density_is_the_product_of_its_factors_and_survives_the_wire() -> None:
    rows = SCHEMA.encode(np.array([[20, 0], [60, 1], [95, 2], [95, 2]]))
    labels = np.array([0, 1, 0, 1])
    assert BOOK.density_of(rows, labels).tolist() == [0.5, 6.0, 12.0, 20.0]
    sent = density_from_json(json.loads(json.dumps(BOOK.to_json())), SCHEMA)
    assert sent.density_of(rows, labels).tolist() == [0.5, 6.0, 12.0, 20.0]
    assert sent.to_json() == BOOK.to_json()
    weights = sent.weights_of(rows, labels)
    assert weights == pytest.approx(np.array([0.5, 6.0, 12.0, 20.0]) / 38.5)
    plain = density_from_json(json.loads(json.dumps(even_density(SCHEMA, 3).to_json())), SCHEMA)
    assert plain.cells_of(rows).tolist() == [1, 1, 1, 1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans())
def test_one_row_replaced_moves_two_counts_by_one_at_most(seed: int, size: int, in_order: bool) -> None:
    # Of edges in no order, a row's bin depended on the row before it: one row moved the counts by 28.
    random = np.random.default_rng(seed)
    edges = np.full((2, 40), BEYOND)
    edges[0] = np.linspace(0.02, 0.98, 40) if in_order else random.permutation(np.linspace(0.02, 0.98, 40))
    arrays = {**ARRAYS, "edges": edges, "factors": 2.0 ** random.uniform(-40, 40, (2, 41))}
    most, reference = (2.0 ** random.uniform(-40, 40, 2)).tolist()
    try:
        book = replace(BOOK, arrays=arrays, most=most, reference=reference)
    except ConfigError:
        assert not in_order
        return
    (rows, labels), place = people(size + 1, seed), int(random.integers(size))
    rows[:size] = rows[np.argsort(rows[:size, 0])]
    other, other_labels = rows[:size].copy(), labels[:size].copy()
    other[place], other_labels[place] = rows[size], labels[size]
    here, there = (
        counts(book.cells_of(*each), 2) for each in ((rows[:size], labels[:size]), (other, other_labels))
    )
    assert np.abs(here - there).sum() <= SENSITIVITY


def test_the_number_of_rows_like_d_v_is_nearly_the_sum_of_their_weights() -> None:
    for seed in range(20):
        rows, labels = people(400, seed)
        exact = np.minimum(1.0, BOOK.density_of(rows, labels) / BOOK.reference).sum()
        assert (
            abs(BOOK.cells_of(rows, labels).sum() - exact) < 25
        )  # coins of a fair die: 20 would be a deviation
    same = np.tile(SCHEMA.encode(np.array([[60, 1]])), (1_000, 1))
    assert abs(BOOK.cells_of(same, np.zeros(1_000, np.int64)).sum() - 375) <= 3


HOSTILE: dict[str, dict[str, Any]] = {
    "no number": {"most": float("nan")},
    "text": {"reference": "8"},
    "nothing to divide by": {"reference": 0.0},
    "an infinite factor": {"factors": [[0.5, 1.0, float("inf")], [1.0, 3.0, 1.0]]},
    "a factor of 0": {"factors": [[0.5, 1.0, 0.0], [1.0, 3.0, 1.0]]},
    "edges in no order": {"edges": [[0.9, 0.5], [0.35, BEYOND]]},
    "more columns than D_v picks": {
        "along": [[1.0] * 5] * 4,
        "edges": [[0.5, 0.9]] * 5,
        "factors": [[2.0**-40, 1.0, 4.0]] * 5,
    },
    "a factor too few": {"factors": [[0.5, 1.0], [1.0, 3.0]]},
    "another width": {"along": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]},
    "ragged": {"along": [[1.0, 0.0, 0.0, 0.0], [1.0]]},
    "another number of classes": {"own": [1.0, 2.0, 3.0]},
    "an unknown array": {"beside": [1.0]},
    "half a seed": {"seed": 0.5},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_density_that_a_peer_made_up_is_refused(case: str) -> None:
    plain = BOOK.to_json()
    for name, value in HOSTILE[case].items():
        (plain if name in plain else plain["arrays"])[name] = value
    with pytest.raises(ConfigError):
        density_from_json(plain, SCHEMA)


def test_rows_of_another_schema_are_refused() -> None:
    rows, labels = people(3, 0)
    for wrong in (rows[:, :3], np.full_like(rows, np.inf)):
        with pytest.raises(DataError):
            BOOK.density_of(wrong, labels)
    with pytest.raises(DataError):
        BOOK.density_of(rows, None)
