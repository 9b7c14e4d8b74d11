"""Pools: drawn before a run, independently of rows' values (docs/decisions/014)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.errors import BudgetError
from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from owner.consent.pools import PoolSize, RowPools, offered_rows
from owner.settings import PolicySettings
from tests.owner.consent.host import host

ROWS = 60


def pools(store: Store, rows: int = ROWS, file: bytes = b"file", seed: int = 0, **limits: Any) -> RowPools:
    noise = simulated(seed, "owner-1", "pool")
    return RowPools(store, file, rows, noise, PolicySettings.model_validate(limits))


def drawn(of: RowPools, run: str, before: int = 0) -> list[int]:
    """Places of a run's rows; all places without a limit."""
    places = of.draw(run, of.next(before))
    return list(range(ROWS)) if places is None else places.tolist()


def test_a_run_has_no_more_rows_than_one_may_and_all_runs_no_more_than_all_may() -> None:
    of = pools(MemoryStore("owner-1"), most_rows=20, most_rows_per_run=8)
    runs = [drawn(of, f"run-{number}") for number in range(40)]
    assert {len(places) for places in runs} == {8}
    assert len(set(map(tuple, runs))) == 40
    assert len({place for places in runs for place in places}) == 20
    assert all(places == sorted(set(places)) for places in runs)


def test_a_limit_above_all_rows_limits_nothing() -> None:
    limited: tuple[dict[str, Any], ...] = ({}, {"most_rows": ROWS}, {"most_rows_per_run": ROWS})
    for limits in limited:
        of = pools(MemoryStore("owner-1"), **limits)
        assert of.draw("run-1", of.next(0)) is None


def test_every_row_is_as_likely_as_any_other() -> None:
    # 400 secrets: counts of a place have mean 80 and deviation 8; 60 places, false alarm below 1e-4.
    counts = np.zeros(ROWS)
    for seed in range(400):
        counts[drawn(pools(MemoryStore("a"), seed=seed, most_rows=24, most_rows_per_run=12), "run-1")] += 1
    assert 80 - 40 < counts.min() <= counts.max() < 80 + 40


def test_a_run_keeps_its_rows_over_restarts_and_changes_of_the_policy() -> None:
    store = MemoryStore("owner-1")
    of = pools(store, most_rows=20, most_rows_per_run=8)
    agreed = of.next(0)
    first = of.draw("run-1", agreed)
    assert first is not None
    policies: tuple[dict[str, Any], ...] = ({"most_rows": 30, "most_rows_per_run": 9}, {}, {"most_rows": 1})
    for limits in policies:
        later = pools(store, seed=9, **limits)
        again = later.draw("run-1", agreed)
        assert again is not None
        assert again.tolist() == first.tolist()


def test_a_larger_limit_offers_more_and_keeps_what_was_offered() -> None:
    store = MemoryStore("owner-1")
    small = drawn(pools(store, most_rows=20), "run-1")
    large = drawn(pools(store, most_rows=30), "run-2")
    assert set(small) < set(large)
    assert list(offered_rows(store).values()) == [30]


@pytest.mark.parametrize("limits", [{"most_rows": 19}, {"most_rows": 0}])
def test_a_limit_below_what_was_offered_lets_nothing_out(limits: dict[str, Any]) -> None:
    store = MemoryStore("owner-1")
    drawn(pools(store, most_rows=20), "run-1")
    with pytest.raises(BudgetError, match=r"20 of \d+ rows that may leave in all were offered before"):
        pools(store, **limits).next(0)


def test_an_owner_without_a_limit_has_offered_all_its_rows() -> None:
    # The number of sent rows depends on rows, so offered rows count.
    store = MemoryStore("owner-1")
    drawn(pools(store), "run-1")
    assert list(offered_rows(store).values()) == [ROWS]
    with pytest.raises(BudgetError, match="60 of 59 rows"):
        pools(store, most_rows=ROWS - 1).next(0)
    assert len(drawn(pools(store, most_rows_per_run=5), "run-2")) == 5


def test_rows_of_another_file_count_as_they_were_offered() -> None:
    store, limits = MemoryStore("owner-1"), {"most_rows": 50, "most_rows_per_run": 5}
    drawn(pools(store, 30, b"first", **limits), "run-1")
    assert pools(store, 90, b"second", **limits).next(0) == PoolSize(20, 5)
    drawn(pools(store, 90, b"second", **limits), "run-2")
    with pytest.raises(BudgetError, match="50 of 50 rows"):
        pools(store, 90, b"third", **limits).next(0)
    assert pools(store, 30, b"first", **limits).next(0) == PoolSize(30, 5)  # the first one is back


def test_rows_that_left_by_an_earlier_release_count() -> None:
    of = pools(MemoryStore("owner-1"), most_rows=20)
    assert of.next(15) == PoolSize(5, 5)
    with pytest.raises(BudgetError, match="20 of 20 rows"):
        of.next(20)


def test_an_owner_of_no_rows_has_no_pool_to_run_dry() -> None:
    assert pools(MemoryStore("owner-1"), 0, most_rows=3).next(0) == PoolSize(0, 0)


def test_pools_of_real_data_have_no_seed() -> None:
    stores = MemoryStore("owner-1"), MemoryStore("owner-1")
    first, second = (
        RowPools(store, b"file", 1000, SecureNoise(), PolicySettings(most_rows_per_run=20))
        for store in stores
    )
    assert drawn(first, "run-1") != drawn(second, "run-1")
    assert drawn(first, "run-1") == drawn(first, "run-1")


@pytest.mark.parametrize("limits", [{"most_rows": 7}, {"most_rows_per_run": 7}])
def test_no_more_rows_leave_in_a_run_than_may(tmp_path: Path, limits: dict[str, Any]) -> None:
    # The pool is the whole table of the run from its first answer on; a restart draws the same pool.
    with host(tmp_path, **limits) as at:
        at.prepare("r-1", protocol="uniform", planned=())
        first = at.draw("r-1", 4, 2).rows.rows
    with host(tmp_path, **limits) as at:
        second = at.draw("r-1", 9, 3).rows.rows
        assert (len(first), len(second), at.wired.rows_sent) == (4, 3, 7)
        assert len({(*row.values, row.label) for row in (*first, *second)}) == 7
        assert at.prepare("r-2") is None
        assert list(at.bid("r-2").counts.at_least)[-1] == 7
        assert at.refusals == []
