"""Lost owners: the run goes on without them and says so, and below the quorum the run stops."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence

import pytest

from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import RoundRecord, SummaryRecord
from curator.summary.auctions.base import AskEveryoneSettings
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.run import run_summary
from fedkme.documents import Fault
from fedkme.errors import IdentityError, OwnerFaultError
from fedkme.party import noise_for
from fedkme.protocol import Broadcast, Closing
from tests.curator.summary.fakes import (
    DirectPort,
    Mortal,
    Tardy,
    bidder,
    invitation,
    make_settings,
    make_task,
    owners,
    ports,
    run,
)


def with_mortal(sizes: Sequence[int], last: str, time: int = 1) -> list[DirectPort]:
    """Owners of these sizes; the first is lost when it is asked for `last` for the n-th time."""
    tables = owners(*sizes)
    mortal = Mortal(bidder("a", tables.pop("a")), last, time)
    return [mortal, *ports(tables)]


@pytest.mark.parametrize(
    ("last", "time", "lost_in"), [("invite", 1, 0), ("bid", 1, 1), ("bid", 4, 4), ("reveal", 3, 3)]
)
def test_the_run_goes_on_without_a_lost_owner_and_says_so(last: str, time: int, lost_in: int) -> None:
    record = run(make_task(6), make_settings(AskEveryoneSettings()), with_mortal((9, 9, 9), last, time))
    assert record.status == "complete"
    assert len(record.selected) == len(record.rounds) == 6
    (fault,) = record.faults
    assert (fault.round, fault.owner, fault.code) == (lost_in, "a", 23)
    assert fault.line.startswith("error 23 (owner lost): a:")
    assert record.closings.keys() == {"b", "c"}
    assert [r.owners for r in record.rounds] == [3 if r.round < lost_in else 2 for r in record.rounds]
    assert all(number < lost_in for number, owner, _ in record.accesses if owner == "a")


def test_an_answer_that_fails_here_in_an_unforeseen_way_ends_no_run_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A certificate that a library cannot read did, and would at every start of the curator.
    class Odd(DirectPort):
        async def close(self, last_round: int) -> Closing:
            raise ArithmeticError(last_round)

    tables = owners(9, 9, 9)
    odd, others = ([Odd(bidder(name, rows)) for name, rows in tables.items()] for _ in range(2))
    settings = make_settings(AskEveryoneSettings())
    record = run(make_task(6), settings, [odd[0], *ports(tables)[1:]])
    assert record.status == "complete"
    assert [(fault.owner, fault.code) for fault in record.faults] == [("a", 24)]
    assert record.closings.keys() == {"b", "c"}
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert isinstance(logged.exc_info[1], ArithmeticError)
    with pytest.raises(ArithmeticError):  # the same of all: this program's fault
        run(make_task(6), settings, others)


def test_an_owner_lost_at_the_end_only_leaves_its_own_count_open() -> None:
    record = run(make_task(6), make_settings(), with_mortal((9, 9), "close"))
    assert record.status == "complete"
    assert [(fault.round, fault.owner, fault.code) for fault in record.faults] == [(6, "a", 23)]
    assert record.closings == {"b": 6}
    assert record.accessed_by_owner() == {"a": 6, "b": 6}


def test_what_a_lost_owner_revealed_stays_usable() -> None:
    # Both owners reveal both their rows in rounds 1 and 2; a is lost in round 3, with two rows in the pool.
    record = run(make_task(4), make_settings(), with_mortal((2, 2), "bid", 3))
    assert record.status == "complete"
    assert sorted(row.owner for row in record.selected) == ["a", "a", "b", "b"]
    assert [fault.round for fault in record.faults] == [3]


@pytest.mark.parametrize("protocol", ["algorithm3", "uniform"])
def test_a_run_that_loses_needed_rows_stops_and_keeps_its_rows(protocol: str) -> None:
    # 4 of 6 rows are left after a is gone: not known before round 1, so no error, and nothing is lost.
    last = "bid" if protocol == "algorithm3" else "draw"
    settings = make_settings().model_copy(update={"protocol": protocol})
    record = run(make_task(6), settings, with_mortal((2, 4), last, 1))
    assert record.status == "stopped"
    assert record.reason is not None
    assert "error 20 (not enough rows)" in record.reason
    assert [row.owner for row in record.selected] == ["b"] * 4
    assert record.closings == {"b": 4}


@pytest.mark.parametrize(("last", "rounds"), [("invite", 0), ("bid", 2), ("reveal", 3)])
def test_below_the_quorum_the_run_stops_and_keeps_its_rows(last: str, rounds: int) -> None:
    # Lost in round 3. If only the answer to an ask is lost, that round still ends with the other's row.
    record = run(make_task(6), make_settings(quorum=2), with_mortal((9, 9), last, 3 if rounds else 1))
    assert record.status == "stopped"
    assert record.reason is not None
    assert "error 21 (quorum): 1 owner is left and the quorum is 2" in record.reason
    assert len(record.selected) == len(record.rounds) >= min(rounds, 2)
    assert record.closings.keys() == {"b"}


@pytest.mark.parametrize(
    ("protocol", "last"),
    [("algorithm3", "bid"), ("algorithm3", "reveal"), ("uniform", "invite"), ("uniform", "draw")],
)
def test_when_all_owners_are_gone_the_reason_is_the_quorum(protocol: str, last: str) -> None:
    # Not "out of rows": the rows are there, the owners are not.
    tables = owners(3, 3)
    mortals = [Mortal(bidder(name, rows), last) for name, rows in tables.items()]
    settings = make_settings().model_copy(update={"protocol": protocol})
    record = run(make_task(2), settings, mortals)
    assert record.status == "stopped"
    assert record.reason is not None
    assert "error 21 (quorum): 0 owners are left" in record.reason
    assert [fault.owner for fault in record.faults] == ["a", "b"]
    assert record.closings == {}


class Diary:
    """An observer that writes down what it is shown."""

    def __init__(self) -> None:
        self.pages: list[RoundRecord | Fault] = []

    def round_done(self, record: RoundRecord) -> None:
        self.pages.append(record)

    def owner_left(self, fault: Fault) -> None:
        self.pages.append(fault)


def test_an_observer_sees_rounds_and_losses_as_they_happen() -> None:
    # Live progress: the loss in round 2 comes before the end of round 2.
    diary, record = Diary(), SummaryRecord()
    settings, task = make_settings(), make_task(3)
    owner_ports = with_mortal((9, 9), "bid", 2)
    asyncio.run(
        run_summary(
            task, settings, owner_ports, noise_for(0, "curator"), record, diary, SummaryDisclosures("run-1")
        )
    )
    assert diary.pages == [record.rounds[0], *record.faults, *record.rounds[1:]]


def roster(owner_ports: Sequence[OwnerSession]) -> tuple[Roster[OwnerSession], list[Fault]]:
    faults: list[Fault] = []
    return Roster(owner_ports, 1, lambda fault: None, faults), faults


def test_two_owners_of_one_name_are_refused() -> None:
    # Issue 2, Bad input: duplicate owner names.
    twins = ports(owners(1)) + ports(owners(1))
    with pytest.raises(IdentityError, match="two owners are called 'a'"):
        roster(twins)


def test_answers_come_in_the_order_of_names() -> None:
    tables = owners(3, 3, 3, 3)
    late = [Tardy(bidder(name, rows), seed) for seed, (name, rows) in enumerate(tables.items())]
    everybody, _ = roster(late[::-1])
    assert everybody.names == ["a", "b", "c", "d"]

    async def prepare_and_bid() -> list[str]:
        task = make_task(1)
        for port in late:
            await port.invite(invitation(task))
        broadcast = Broadcast(1, 0, 0 * task.target)
        return list(
            await everybody.ask(
                1, lambda owner, broadcast: owner.bid(broadcast), dict.fromkeys("dbca", broadcast)
            )
        )

    assert asyncio.run(prepare_and_bid()) == ["a", "b", "c", "d"]


async def test_a_run_stopped_before_its_first_question_leaves_no_unawaited_call() -> None:
    # A call that was made and never awaited is a warning on the operator's terminal.
    everybody, _ = roster([Tardy(bidder(name, rows), 0) for name, rows in owners(3, 3).items()])
    asking = asyncio.create_task(everybody.ask(1, lambda owner, n: owner.reveal(1, n), {"a": 0, "b": 0}))
    await asyncio.sleep(0)  # the round has begun; the question to each owner has not
    asking.cancel()
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        pytest.raises(asyncio.CancelledError),
    ):
        await asking
    assert not caught


def test_only_expected_failures_take_an_owner_out() -> None:
    # CONVENTIONS.md, "no broad except": an error of our own is not an owner's fault and ends the run.
    everybody, faults = roster(ports(owners(1, 1)))

    async def fault(owner: OwnerSession, _: None) -> None:
        if owner.name == "a":
            raise OwnerFaultError("a: cannot", "Do not.")

    async def bug(owner: OwnerSession, _: None) -> None:
        raise ZeroDivisionError

    assert asyncio.run(everybody.ask(1, fault, dict.fromkeys("ab"))) == {"b": None}
    assert [(f.owner, f.code) for f in faults] == [("a", 24)]
    assert asyncio.run(everybody.ask(1, fault, dict.fromkeys("a"))) == {}  # it is out: not asked again
    with pytest.raises(ZeroDivisionError):
        asyncio.run(everybody.ask(1, bug, dict.fromkeys("ab")))
    assert everybody.names == ["b"]
