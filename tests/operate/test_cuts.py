"""Cuts of a schema at the quantiles of a release."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from audit.contracts import OwnersInMemory
from curator.releases.method import make_method
from fedkme.answers.counts import CountEvidence
from fedkme.errors import DataError
from fedkme.features.binning import Binning
from fedkme.releases.counts import StoredCounts, counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from operate.cuts import with_cuts
from tests.fedkme.answers.people import people, schema


def release(fine: int) -> StoredCounts:
    method = make_method(release_settings({"kind": "marginals", "fine": fine}), schema(), None, 1)
    return counts_from_bytes(asyncio.run(method.ask(OwnersInMemory(people(20_000), schema(), 3))))


def test_cuts_at_released_quantiles_divide_the_rows_evenly() -> None:
    cut = with_cuts(CountEvidence(release(16)), 8)
    income = cut.columns[1]
    assert isinstance(income, Numeric)
    assert len(income.cuts) == 7
    counts = np.bincount(Binning(cut).encode(people(), "all")[:, 1], minlength=8) / len(people())
    assert counts.max() < 0.2
    assert counts.min() > 0.06
    assert cut.model_dump() == Schema.model_validate(cut.model_dump()).model_dump()
    with pytest.raises(DataError, match="counted by fine bins"):
        with_cuts(CountEvidence(release(1)), 8)


def test_cuts_of_whole_numbers_are_whole_and_inside_their_bounds() -> None:
    # More whole numbers than fine bins, whose edges lie between them; half of all are at the upper bound.
    wide = Schema(columns=(Numeric(name="seconds", bounds=(0, 260), integer=True),))
    rng = np.random.default_rng(0)
    seconds = np.where(rng.random(4000) < 0.5, 260, rng.integers(0, 261, 4000)).astype(float)
    method = make_method(release_settings({"kind": "marginals"}), wide, None, 1)
    data = asyncio.run(method.ask(OwnersInMemory(Table(seconds[:, None]), wide, 3)))
    (column,) = with_cuts(CountEvidence(counts_from_bytes(data)), 8).columns
    assert isinstance(column, Numeric)
    assert len(column.cuts) >= 3
    assert all(cut.is_integer() and 0 < cut < 260 for cut in column.cuts)
