"""Check of every revealed row against its bid (Algorithm 3, step 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.base import AnyAuction, AskEveryoneSettings, WinnerOnlySettings
from curator.summary.task import SummaryTask, verify
from fedkme.features.fixed_point import ScoredFeatures
from fedkme.protocol import Bid, Broadcast
from fedkme.tables.table import Row
from tests.curator.summary.fakes import (
    Forger,
    Mortal,
    bidder,
    make_settings,
    make_task,
    owners,
    ports,
    run,
    table,
)

BidForgery = Callable[[Bid], Bid]
RowForgery = Callable[[Row], Row]
OTHER = table(1, 77)


@dataclass(frozen=True)
class Lie:
    """Lie that owner b tells, and the number of the fault that it gets."""

    code: int
    bid: BidForgery = lambda bid: bid
    row: RowForgery = lambda row: row
    sends: int = 1
    """Rows of it that reach the curator all the same."""


def outside(row: Row) -> Row:
    return replace(row, values=row.values + 5.0)


def not_a_number(row: Row) -> Row:
    return replace(row, values=np.full_like(row.values, math.nan))


LIES = {
    "another row": Lie(25, row=lambda row: replace(row, values=OTHER.values[0])),
    "another token": Lie(25, row=lambda row: replace(row, token=row.token + 1)),
    "an inflated bid": Lie(25, bid=lambda bid: replace(bid, value=bid.value + 2.0)),
    "a bid below its worth": Lie(25, bid=lambda bid: replace(bid, value=bid.value - 0.1)),
    "a row outside the bounds": Lie(12, row=outside),
    "a row of NaN": Lie(12, row=not_a_number),
    "a row too narrow": Lie(12, row=lambda row: replace(row, values=row.values[:1])),
    "an unknown class": Lie(12, row=lambda row: replace(row, label=9)),
    "a bid of NaN": Lie(24, bid=lambda bid: replace(bid, value=math.nan), sends=0),
    "an infinite bid": Lie(24, bid=lambda bid: replace(bid, value=math.inf), sends=0),
}


def run_with(lie: Lie, auction: AnyAuction, p: int = 6) -> SummaryRecord:
    tables = owners(6, 6, 6)
    honest = ports({name: rows for name, rows in tables.items() if name != "b"})
    liar = Forger(bidder("b", tables["b"]), bid=lie.bid, row=lie.row)
    return run(make_task(p), make_settings(auction), [*honest, liar])


@pytest.mark.parametrize("name", LIES)
def test_a_liar_leaves_the_run_and_no_other_owner_does(name: str) -> None:
    # The mismatch is recorded, the row refused, the owner quarantined; the run goes on. The row did
    # reach the curator, so it counts as accessed and wasted (DESIGN.md, Words).
    lie = LIES[name]
    record = run_with(lie, AskEveryoneSettings())
    assert record.status == "complete"
    assert [(fault.round, fault.owner, fault.code) for fault in record.faults] == [(1, "b", lie.code)]
    assert "b" in record.faults[0].line
    assert {row.owner for row in record.selected} == {"a", "c"}
    assert [number for number, owner, _ in record.accesses if owner == "b"] == [1] * lie.sends
    assert record.accessed_by_owner()["b"] == lie.sends
    assert record.closings.keys() == {"a", "c"}
    assert [r.owners for r in record.rounds] == [2] * 6
    assert record.rounds[0].revealed == 2
    assert record.wasted() == record.rounds[-1].pool + lie.sends


def test_a_fault_never_says_a_private_value() -> None:
    # errors.py: the line names party, run, round and remedy; never what the row or the bid was.
    for lie in LIES.values():
        (fault,) = run_with(lie, AskEveryoneSettings()).faults
        assert "0." not in fault.line
        assert "nan" not in fault.line


def test_if_all_asked_owners_fail_the_others_are_asked_in_the_same_round() -> None:
    # RankAuction.hold: a liar at rank 1 does not cost the run a round.
    record = run_with(LIES["an inflated bid"], WinnerOnlySettings())
    first = record.rounds[0]
    assert [(number, owner) for number, owner, _ in record.accesses[:2]] == [(1, "b"), (1, first.owner)]
    assert (first.asked, first.revealed, first.accessed, first.pool) == (2, 1, 2, 0)
    assert [r.asked for r in record.rounds[1:]] == [1] * 5


def test_the_pool_supplies_a_row_in_a_round_where_all_owners_fail() -> None:
    # Round 1 asks everybody; from then on b is gone whenever it is asked, and a has no row left. What b
    # revealed in time was verified then and stays usable.
    tables = owners(1, 3)
    mortal = Mortal(bidder("b", tables["b"]), "reveal", time=2)
    record = run(make_task(2), make_settings(), [*ports({"a": tables["a"]}), mortal])
    assert record.status == "complete"
    assert {row.owner for row in record.selected} == {"a", "b"}
    assert [(fault.round, fault.owner, fault.code) for fault in record.faults] == [(2, "b", 23)]
    assert (record.rounds[1].asked, record.rounds[1].revealed) == (1, 0)


def one_row() -> tuple[SummaryTask, Row, Broadcast, ScoredFeatures]:
    """A row of a run's first round, and its worth."""
    task, row = make_task(1), Row(0, OTHER.values[0], 1)
    scored = ScoredFeatures(task.h1.spec.dimension, task.target)
    scored.append(task.features_of([row]))
    return task, row, Broadcast(1, 0, np.zeros_like(task.target)), scored


def test_a_bid_may_be_off_by_its_tolerance_and_no_more() -> None:
    # fixed_point.tolerance: two hosts may round a cosine to neighbouring units, and that is no lie.
    task, row, broadcast, scored = one_row()
    worth = scored.bids(broadcast.mean, broadcast.size)[0]
    for share, accepted in [(0.0, True), (0.99, True), (-0.99, True), (1.01, False), (-1.01, False)]:
        bid = Bid(worth + share * scored.tolerance(broadcast.size), row.token)
        rows, refused = verify(task, broadcast, {"a": bid}, {"a": row}, frozenset())
        assert (len(rows), len(refused)) == ((1, 0) if accepted else (0, 1))


def test_a_row_enters_once_whatever_its_owner_bids() -> None:
    # Step 16: owners disconsider what they sent. One that does not, with a bid that is right, is refused.
    task, row, broadcast, scored = one_row()
    bids = {"a": Bid(scored.bids(broadcast.mean, broadcast.size)[0], row.token)}
    rows, refused = verify(task, broadcast, bids, {"a": row}, {("b", 0), ("a", 1)})
    assert (len(rows), refused) == (1, {})
    rows, refused = verify(task, broadcast, bids, {"a": row}, {("a", 0)})
    assert (rows, refused["a"].code) == ([], 25)


def test_a_draw_with_a_row_twice_is_refused() -> None:
    # The same for uniform sampling: a row that comes twice counts once, and its owner is out.
    tables = owners(6, 6, 6)
    honest = ports({name: rows for name, rows in tables.items() if name != "b"})
    liar = Forger(bidder("b", tables["b"]), row=lambda row: replace(row, token=0))
    settings = make_settings().model_copy(update={"protocol": "uniform"})
    record = run(make_task(6), settings, [*honest, liar])
    assert record.status == "complete"
    assert [(fault.owner, fault.code) for fault in record.faults] == [("b", 25)]
    assert record.accessed_by_owner()["b"] == 1
    assert {row.owner for row in record.selected} == {"a", "c"}
