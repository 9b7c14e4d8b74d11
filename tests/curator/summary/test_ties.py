"""Clock on rows of equal gain: it accesses few more rows than on rows that differ."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.engines.inprocess import KeptRecords, open_market, run_in_process

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0), count=3),))


def rows(seed: int, centre: float, count: int, levels: int | None) -> Table:
    """Random rows; with levels each column has so many values, of which a thousand rows are equal."""
    values = np.clip(centre + 0.35 * np.random.default_rng(seed).standard_normal((count, 3)), 0.0, 1.0)
    return Table(values if levels is None else np.round(values * (levels - 1)) / (levels - 1), None)


def accessed(seed: int, levels: int | None, content: str = "rows") -> int:
    """Rows accessed by a whole run of Algorithm 3 over five owners with 2,000 rows each, p = 20."""
    owners = {f"owner-{i}": rows(10 * seed + i, 0.2 + 0.15 * i, 2000, levels) for i in range(5)}
    settings = SummarySettings.model_validate({"protocol": "algorithm3", "content": content})
    records = KeptRecords()
    market = open_market(SCHEMA, owners, None, seed)
    request = RequestSettings.model_validate({"p": 20, "kernel": {"gamma": 1.0}})
    asyncio.run(run_in_process(market, rows(seed, 0.7, 250, levels), settings, request, records))
    assert records.summary is not None
    assert records.summary.status == "complete"
    assert not records.summary.faults
    return len(records.summary.accesses)


@pytest.mark.parametrize("levels", [2, 3])
def test_a_clock_on_discrete_rows_accesses_few_more_than_on_rows_that_differ(levels: int) -> None:
    # "At most 1.5x the rows that the same run accesses on continuous data": 2 columns^3 had 20x. Sums of
    # three seeds: one clock's own coins move what it accesses by a quarter.
    discrete, continuous = (sum(accessed(seed, values) for seed in range(3)) for values in (levels, None))
    assert discrete <= 1.5 * continuous


def test_ties_are_broken_where_the_curator_sees_hashes() -> None:
    assert accessed(0, 2, "hashed") <= 1.5 * accessed(0, None, "hashed")
