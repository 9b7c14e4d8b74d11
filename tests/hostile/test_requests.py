"""A consumer whose curator is hostile: what it can learn of D_v, from `fedkme consumer summary` as it is.

A curator that always names the run alike, changes the public seed and drops the call after the
offer had any number of draws for the price of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from fedkme.errors import BudgetError, ConnectionFailedError, ProtocolError, QuorumError, StoreError
from fedkme.exchange import Plan
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from tests.hostile.labs import LOST, Giver, Hostile, Silent, lab, plan


async def test_a_request_draws_once_whatever_the_curator_plans(tmp_path: Path) -> None:
    # One command, which calls again by itself; the same again; and another folder, whose run is called alike.
    curator = Hostile(plan(seed) for seed in itertools.count())
    async with lab(tmp_path, curator) as at:
        for output, calls in (("out", 2), ("out", 3), ("another", 4)):
            status, lines = await at.ask(output)
            assert status == ProtocolError.code
            assert lines[-1].startswith("error 32 (protocol): the curator ")
            assert len(curator.requests) == calls
            assert len(curator.offers) == at.drawn() == 1
    assert len(set(curator.requests)) == 2


OTHERWISE: dict[str, Callable[[], Plan]] = {
    "another run": lambda: plan(0, "run-2-0badf00d"),
    "another seed": lambda: plan(1),
    "g~ in place of counts": lambda: plan(0, cells=False),
    "sealed": lambda: plan(0, sealed=True),
    "offered": lambda: plan(1, offered=True),
}


@pytest.mark.parametrize("how", OTHERWISE)
async def test_another_plan_for_a_request_gets_nothing_and_its_own_the_same_bytes(
    tmp_path: Path, how: str
) -> None:
    curator = Hostile(iter([plan(0), OTHERWISE[how](), plan(0)]))
    async with lab(tmp_path, curator) as at:
        with pytest.raises(ProtocolError):
            await at.ask_here(away_s=60)
        assert len(curator.offers) == 1
        with pytest.raises(ConnectionFailedError):
            await at.ask_here()
    assert len(curator.offers) == 2
    assert len(set(curator.requests)) == len(set(curator.offers)) == at.drawn() == 1


async def test_rows_for_an_offer_that_the_store_does_not_know_are_refused(tmp_path: Path) -> None:
    # A curator that lies, or a consumer's store that was put back: what D_v paid for them is in no ledger.
    curator = Giver(itertools.repeat(plan(0, offered=True)))
    async with lab(tmp_path, curator) as at:
        for _ in range(2):
            status, lines = await at.ask()
            assert status == ProtocolError.code
            assert "says that it has D_v for run-1-0badf00d" in lines[-1]
        assert at.drawn() == 0
    assert len(set(curator.requests)) == 1
    assert not (tmp_path / "out" / "summary.npz").exists()


async def test_each_draw_is_a_line_and_a_budget_ends_them(tmp_path: Path) -> None:
    # A curator that says each time that the run failed gets a draw for each request, at the price of one.
    curator = Hostile((plan(seed, f"run-{seed}-0badf00d") for seed in itertools.count()), LOST)
    budget = {"budget": {"epsilon": 2.0, "delta": 1e-5}}
    async with lab(tmp_path, curator) as at:
        statuses = [(await at.ask(f"out-{number % 2}", **budget))[0] for number in range(3)]
    assert statuses == [QuorumError.code, QuorumError.code, BudgetError.code]
    assert len(set(curator.requests)) == len(set(curator.offers)) == at.drawn() == 2
    costs = statements(read_ledgers([tmp_path / "consumer.db"]), 1e-5)
    assert [each.epsilon for each in costs if each.accountant == "sound"] == pytest.approx([2.0], abs=1e-3)


async def test_a_curator_that_only_lets_calls_fall_ends_no_request(tmp_path: Path) -> None:
    curator = Hostile(itertools.repeat(plan(0)))
    async with lab(tmp_path, curator) as at:
        for _ in range(2):
            assert (await at.ask(away_s=0))[0] == ConnectionFailedError.code
    assert len(set(curator.requests)) == len(set(curator.offers)) == at.drawn() == 1


async def test_two_commands_at_once_are_one_and_a_line(tmp_path: Path) -> None:
    # A4 (a): both sent D_v, with independent noise, and broke the chain.
    curator = Silent(plan(0))
    async with lab(tmp_path, curator) as at:
        first = at.start(away_s=0)
        try:
            await curator.reached.wait()
            status, lines = await at.ask()
            assert status == StoreError.code
            assert [line for line in lines if f"is in use by process {first.process.pid}." in line] == lines
            curator.go.set()
            await first.ended()
        finally:
            if first.process.poll() is None:
                first.process.kill()
                await first.ended()
        assert (await at.ask(away_s=0))[0] == ConnectionFailedError.code
    assert len(set(curator.requests)) == len(set(curator.offers)) == at.drawn() == 1
