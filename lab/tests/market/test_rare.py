"""Weights of cells for a rare target: what a row moves, and what D_v picks."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.features.counts import Groups
from fedkme.features.sums import Layout
from fedkme.privacy.noise import simulated
from fedkme.sums.values import Marginals, Parities, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Category, Label, Schema
from fedkme.tables.table import Table
from lab.market.rare import STEPS, WeightedOwners, cell_weights

SCHEMA = Schema(
    columns=(
        Category(name="a", categories=("0", "1", "2")),
        Category(name="b", categories=("0", "1", "2", "3")),
    ),
    label=Label(name="y", classes=("0", "1")),
)
TABLES = SumQuery((), Layout(), marginals=Marginals(16, ((0,), (0, 1), (1, 2))))
SIGNS = SumQuery(
    (),
    Layout(),
    parities=Parities(
        16, (Groups(0, (0, 1, 1)), Groups(1, (0, 1, 0, 1)), Groups(2, (0, 1))), (((0, 2), (1, 2)),)
    ),
)


def table(random: np.random.Generator, rows: int) -> Table:
    values = np.stack([random.integers(0, 3, rows), random.integers(0, 4, rows)], axis=1)
    return Table(values, random.integers(0, 2, rows))


@pytest.mark.parametrize(("query", "most"), [(TABLES, np.sqrt(2.0 * 3)), (SIGNS, 2.0 * np.sqrt(2.0))])
def test_a_replaced_row_moves_weighted_sums_no_further_than_unweighted_ones(
    query: SumQuery, most: float
) -> None:
    random, furthest = np.random.default_rng(1), 0.0
    vector = SumVector(query, SCHEMA)
    for trial in range(300):
        rows = table(random, 6)
        cells = random.integers(0, STEPS + 1, (3, 4)) if trial % 2 else np.full((3, 4), STEPS)
        sums = []
        for each in (rows, Table(np.vstack([table(random, 1).values, rows.values[1:]]), rows.labels)):
            steps = cells[each.values[:, 0].astype(int), each.values[:, 1].astype(int)]
            sums.append(WeightedOwners(each, SCHEMA, 0, 1.0, steps, 1)._total(vector))
        furthest = max(furthest, float(np.linalg.norm(sums[1] - sums[0])))
    assert 0.7 * most < furthest <= most + 1e-9


def test_the_second_column_says_something_that_the_first_one_does_not() -> None:
    random = np.random.default_rng(2)
    first = random.integers(0, 4, 20_000)
    pool = np.stack([first, first, random.integers(0, 3, 20_000), random.integers(0, 2, 20_000)], axis=1)
    target = np.stack([np.full(400, 3), np.full(400, 3), random.choice(3, 400, p=(0.6, 0.2, 0.2))], axis=1)
    target = np.column_stack([target, random.integers(0, 2, 400)])
    for seed in range(20):
        weights = cell_weights(pool, (4, 4, 3, 2), target, 20.0, simulated(seed, "lab", "picks"))
        assert weights.columns in ((0, 2), (1, 2))  # the second column is the first once more
        assert weights.steps.min() <= 3
        assert weights.steps.max() == STEPS
        assert weights.of(target).mean() > 2.0 * weights.of(pool).mean()
