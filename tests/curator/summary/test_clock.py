"""Descending clock: its law, its proof in numbers, its bookkeeping."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, stats

from audit.attacks.wire import SilentObserver
from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import SummaryRecord
from curator.summary.algorithm3 import algorithm3
from curator.summary.auctions.clock import EXCHANGED_ROWS, Clock, ClockSettings
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.market import Market
from fedkme.party import noise_for
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.means import Cost
from fedkme.privacy.noise import simulated
from fedkme.protocol import Broadcast
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Row
from owner.summary.bidder import Bidder
from tests.curator.summary.fakes import (
    DirectPort,
    bidder,
    invitation,
    make_settings,
    make_task,
    owners,
    ports,
    run,
    table,
)

counts_that_rise = st.lists(st.integers(0, 12), min_size=2, max_size=8).map(np.cumsum)


def law(settings: ClockSettings, counts: NDArray[Any]) -> NDArray[np.float64]:
    """P(stop = k) by integrating over xi, (k,); the last price takes what is left."""
    epsilon = settings.epsilon

    def stops(xi: float) -> NDArray[np.float64]:
        chance = np.exp(-epsilon * np.maximum(0.0, settings.threshold() + xi - counts))
        chance[-1] = 1.0
        survive = np.concatenate([[1.0], np.cumprod(1.0 - chance[:-1])])
        return np.asarray(chance * survive * epsilon * np.exp(-epsilon * xi))

    kinks = sorted({float(c) - settings.threshold() for c in counts if c > settings.threshold()})
    edges = [0.0, *kinks, 60.0 / epsilon]
    pieces = [
        integrate.fixed_quad(lambda x: np.array([stops(v) for v in x]).T, low, high, n=120)[0]
        for low, high in pairwise(edges)
    ]
    return np.asarray(np.sum(pieces, axis=0))


def test_the_clock_stops_by_its_law() -> None:
    # The rule: stop at v with probability min(1, exp(-eps (T + xi - N(v)))), xi ~ Exp(mean 1/eps).
    # Chi-square over 20000 clocks; wrong with probability 1e-6.
    settings = ClockSettings(epsilon=0.5, block=3)
    counts = np.array([2, 6, 9, 11, 13, 14, 18])
    clock = Clock(settings, simulated(1, "curator", "auction"))
    seen = Counter(clock.stop(counts) for _ in range(20_000))
    expected = 20_000 * law(settings, counts)
    observed = np.array([seen[k] for k in range(len(counts))])
    keep = expected > 5
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-6


@given(counts_that_rise, st.integers(0, 7), st.sampled_from([0.1, 0.5, 1.0]), st.integers(1, 6))
def test_one_row_changes_no_stop_by_more_than_e_to_the_epsilon(
    counts: NDArray[Any], first: int, epsilon: float, block: int
) -> None:
    # The proof's one-clock statement, both ways, for a row that is worth the prices from `first` on. A stop
    # above it, and everything after it was sent, is equal in both worlds and costs nothing.
    settings = ClockSettings(epsilon=epsilon, block=block)
    with_row = counts + (np.arange(len(counts)) >= first)
    without_row, stops_with_row = law(settings, counts), law(settings, with_row)
    assert (without_row <= np.exp(epsilon) * stops_with_row + 1e-9).all()
    assert (stops_with_row <= np.exp(epsilon) * without_row + 1e-9).all()
    np.testing.assert_allclose(without_row[:first], stops_with_row[:first], rtol=1e-9, atol=1e-12)


class Scripted(Clock):
    """Clock with given stops: the transcript is fixed, as in the proof."""

    def __init__(self, settings: ClockSettings, stops: Sequence[int]) -> None:
        super().__init__(settings, noise_for(0, "curator")("auction"))
        self._stops = list(stops)
        self.pools: list[list[tuple[str, bytes]]] = []

    def stop(self, counts: NDArray[np.int64]) -> int:
        return self._stops.pop(0)

    async def hold(self, market: Market) -> None:
        await super().hold(market)
        self.pools.append(
            sorted(
                (each.owner, each.row.values.tobytes())
                for place, each in enumerate(market.pool._rows)
                if place not in market.pool._used and isinstance(each.row, Row)
            )
        )


class PublicMean:
    """Broadcast that depends on no row."""

    size = 0
    cost = Cost(ExactStatistic("nothing"), None)

    def __init__(self, means: NDArray[np.float64]) -> None:
        self._means = iter(means)

    def add(self, rows: NDArray[np.float64]) -> None:
        self.size += len(rows)

    def release(self) -> NDArray[np.float64]:
        return next(self._means)


def follow(tables: dict[str, Any], means: NDArray[np.float64], stops: Sequence[int]) -> tuple[Any, Any]:
    """One run under a fixed public transcript: its record, and the pool after each round's auction."""
    task = make_task(12, seeds=20)
    auction = Scripted(ClockSettings(block=4, step=0.5), stops)
    record = SummaryRecord()
    roster: Roster[OwnerSession] = Roster(ports(tables), 1, SilentObserver().owner_left, record.faults)

    async def go() -> None:
        invitations = dict.fromkeys(roster.names, invitation(task))
        record.owner_rows = await roster.ask(0, lambda owner, a: owner.invite(a), invitations)
        await algorithm3(
            task, roster, PublicMean(means), auction, record, SilentObserver(), SummaryDisclosures("run-1")
        )

    asyncio.run(go())
    return record, auction.pools


@given(st.integers(0, 10_000))
def test_with_the_transcript_fixed_one_row_more_exchanges_one_row_at_most(seed: int) -> None:
    # The one-exchange lemma: whatever x is, the others send the same rows at the same time, and at any time
    # the summaries differ in one exchanged row at most, the pools in one.
    rng = np.random.default_rng(seed)
    tables = owners(8, 8, 8, seed=seed % 100)
    more = dict(tables)
    extra = table(1, seed)
    more["b"] = type(extra)(
        np.concatenate([tables["b"].values, extra.values]), np.concatenate([tables["b"].labels, extra.labels])
    )
    means = 0.3 * rng.normal(size=(12, 16))
    stops = rng.integers(4, 22, 3).tolist()
    (one, pools_one), (two, pools_two) = follow(tables, means, stops), follow(more, means, stops)
    x = ("b", extra.values[0].tobytes())
    sent = [{(o, t) for _, o, t in record.accesses if o != "b"} for record in (one, two)]
    assert sent[0] == sent[1]
    rows_one, rows_two = (
        Counter((row.owner, row.values.tobytes()) for row in record.selected) for record in (one, two)
    )
    assert (rows_two - rows_one).total() <= 1
    assert (rows_one - rows_two).total() <= 1
    assert (rows_two - rows_one).keys() <= {x} | set(map(tuple, pools_one[-1]))
    for first, second in zip(pools_one, pools_two, strict=True):
        assert (Counter(second) - Counter(first)).total() <= 1
        assert not Counter(first) - Counter(second)


@given(st.integers(0, 10_000))
def test_one_row_replaced_exchanges_two_at_most(seed: int) -> None:
    # EXCHANGED_ROWS: replacing is removing one and adding one, hence two exchanges, and twice the noise.
    rng = np.random.default_rng(seed)
    tables = owners(8, 8, 8, seed=seed % 100)
    other = dict(tables)
    values = tables["b"].values.copy()
    values[rng.integers(len(values))] = table(1, seed).values[0]
    other["b"] = type(tables["b"])(values, tables["b"].labels)
    means = 0.3 * rng.normal(size=(12, 16))
    stops = rng.integers(4, 22, 3).tolist()
    (one, _), (two, _) = follow(tables, means, stops), follow(other, means, stops)
    selected = [Counter(row.values.tobytes() for row in record.selected) for record in (one, two)]
    assert (selected[0] - selected[1]).total() <= EXCHANGED_ROWS
    assert (selected[1] - selected[0]).total() <= EXCHANGED_ROWS


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 20))
def test_bookkeeping_of_whole_runs(p: int, block: int, size: int) -> None:
    # Exactly p rounds; every row above the price came; counts of curator and gates agree; a summary may be
    # short when a round finds the pool empty, and says so.
    p = min(p, 3 * size)
    settings = make_settings(ClockSettings(block=block, epsilon=1.0))
    record = run(make_task(p, seeds=20), settings, ports(owners(size, size, size)))
    assert len(record.rounds) == p
    assert [r.size for r in record.rounds] == list(range(20, 20 + p))
    assert record.accessed_by_owner() == record.closings
    assert len(record.selected) <= len(record.accesses) <= 3 * size
    assert (record.status == "complete") == (len(record.selected) == p)
    assert not record.faults
    for r in record.rounds:
        assert r.asked == (3 if (r.round - 1) % block == 0 else 0)
        assert (r.owner == "") == (r.token == -1)


class Swindler(DirectPort):
    """An owner that does not sell what it counted."""

    def __init__(self, honest: Bidder, lie: str) -> None:
        super().__init__(honest)
        self._honest = honest
        self._lie = lie

    async def quote(
        self, broadcast: Broadcast, prices: NDArray[np.float64], spread: float
    ) -> NDArray[np.int64]:
        counts = await super().quote(broadcast, prices, spread)
        return counts[:-1] if self._lie == "fewer prices" else counts + (self._lie == "counts more")

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[AnyRow]:
        rows = list(await super().sell(round_number, price, due))
        if self._lie == "twice the same" and len(rows) > 1:
            rows[1] = rows[0]
        if self._lie == "below the price":
            rows = [*self._honest.sell(round_number, -1e9), *rows][:due]
        return rows


@pytest.mark.parametrize(
    ("lie", "code"),
    [("fewer prices", 24), ("counts more", 24), ("twice the same", 25), ("below the price", 25)],
)
def test_an_owner_that_does_not_sell_what_it_counted_is_out(lie: str, code: int) -> None:
    # Sold rows are checked against the owner's own count; the run goes on without the liar.
    tables = owners(20, 20, 20)
    honest = ports({name: rows for name, rows in tables.items() if name != "b"})
    settings = make_settings(ClockSettings(block=5, epsilon=0.5))
    record = run(make_task(8, seeds=20), settings, [*honest, Swindler(bidder("b", tables["b"]), lie)])
    assert {(fault.owner, fault.code) for fault in record.faults} == {("b", code)}
    assert "b" not in {row.owner for row in record.selected}
    assert record.status == "complete"
