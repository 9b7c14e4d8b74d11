"""Uniform sampling p/K: Sarpatwar 2019, Section 4, c)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.run.summary_record import SummaryRecord
from curator.summary.run import shares
from curator.summary.settings import SummarySettings
from fedkme.errors import NotEnoughRowsError
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Row
from tests.curator.summary.fakes import Forger, Listener, Mortal, Tardy, bidder, make_task, owners, ports, run
from tests.record_transcripts import record_transcript

UNIFORM = SummarySettings(protocol="uniform")


@given(
    st.integers(0, 60), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 12), min_size=1, max_size=6)
)
def test_shares_are_as_equal_as_can_be(rows: int, available: dict[str, int]) -> None:
    # uniform.shares: all that is wanted or all there is; nobody more than it has; whoever has less than
    # another gives all it has, but for the remainder, which the first by name give.
    taken = shares(rows, available)
    assert list(taken) == sorted(available)
    assert sum(taken.values()) == min(rows, sum(available.values()))
    assert all(0 <= taken[name] <= available[name] for name in available)
    level = max(taken.values())
    for name, count in taken.items():
        assert count in (level, level - 1) or count == available[name]
    extra = [name for name in taken if taken[name] == level]
    short = [name for name in taken if taken[name] == level - 1 < available[name]]
    assert not short or max(extra) < min(short)


def test_shares_of_the_paper_are_p_over_k() -> None:
    assert shares(100, dict.fromkeys("abcde", 50)) == dict.fromkeys("abcde", 20)
    assert shares(5, {"a": 1, "b": 5, "c": 5}) == {"a": 1, "b": 2, "c": 2}


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), st.data())
def test_one_round_of_draws_makes_the_summary(sizes: list[int], data: st.DataObject) -> None:
    # Every row that is accessed is used; owners are asked once; nobody is told a mean of the summary.
    tables = owners(*sizes)
    p = data.draw(st.integers(1, sum(sizes)))
    listeners = [Listener(bidder(name, rows)) for name, rows in tables.items()]
    record = run(make_task(p), UNIFORM, listeners)
    assert record.status == "complete"
    assert [(r.accessed, r.revealed, r.pool, r.owners) for r in record.rounds] == [(p, p, 0, len(sizes))]
    assert record.closings == record.accessed_by_owner() == shares(p, record.owner_rows)
    selected = [(row.owner, row.token) for row in record.selected]
    assert len(set(selected)) == p
    assert sorted(selected) == sorted((owner, token) for _, owner, token in record.accesses)
    assert not any(listener.broadcasts for listener in listeners)


def test_rows_that_were_drawn_were_not_chosen_by_their_gain() -> None:
    record = run(make_task(4), UNIFORM, ports(owners(3, 3)))
    assert all(math.isnan(row.gain) for row in record.selected)
    assert record.value_by_owner() == {"a": 0.0, "b": 0.0}  # and not NaN, which JSON has not


def test_neither_the_order_of_owners_nor_of_answers_matters() -> None:
    tables = owners(5, 2, 4)
    late = [Tardy(bidder(name, rows), seed) for seed, (name, rows) in enumerate(tables.items())]
    early, later = (record_transcript(run(make_task(7), UNIFORM, p)) for p in (ports(tables), late[::-1]))
    assert early == later


def test_more_rows_than_there_are_is_refused_before_a_draw() -> None:
    record = SummaryRecord()
    with pytest.raises(NotEnoughRowsError):
        run(make_task(6), UNIFORM, ports(owners(2, 3)), record=record)
    assert not record.accesses


def test_others_fill_the_place_of_an_owner_that_is_lost() -> None:
    tables = owners(9, 9, 9)
    mortal = Mortal(bidder("b", tables.pop("b")), "draw")
    record = run(make_task(9), UNIFORM, [*ports(tables), mortal])
    assert record.status == "complete"
    assert record.accessed_by_owner() == {"a": 5, "b": 0, "c": 4}
    assert [r.accessed for r in record.rounds] == [6, 9]
    assert [(fault.round, fault.owner, fault.code) for fault in record.faults] == [(1, "b", 23)]


def too_wide(row: Row) -> Row:
    return replace(row, values=row.values + 1.0)


def test_a_draw_outside_the_schema_is_refused_as_a_whole() -> None:
    # All three rows reached the curator: accessed and wasted.
    tables = owners(9, 9, 9)
    liar = Forger(bidder("b", tables.pop("b")), row=too_wide)
    record = run(make_task(9), UNIFORM, [*ports(tables), liar])
    assert record.status == "complete"
    assert {row.owner for row in record.selected} == {"a", "c"}
    assert [(fault.round, fault.owner, fault.code) for fault in record.faults] == [(1, "b", 12)]
    assert record.accessed_by_owner() == {"a": 5, "b": 3, "c": 4}
    assert record.wasted() == 3
    assert [(r.accessed, r.revealed) for r in record.rounds] == [(9, 6), (12, 3)]


class Stingy(Forger):
    """Sends one row fewer than it was asked for."""

    async def draw(self, round_number: int, count: int) -> list[AnyRow]:
        return list(await super().draw(round_number, count - 1))


def test_a_draw_of_another_size_is_a_fault() -> None:
    tables = owners(9, 9)
    record = run(make_task(4), UNIFORM, [*ports({"a": tables["a"]}), Stingy(bidder("b", tables["b"]))])
    assert record.status == "complete"
    assert [(fault.owner, fault.code) for fault in record.faults] == [("b", 24)]
    assert "b sent 1 rows for 2" in record.faults[0].line
