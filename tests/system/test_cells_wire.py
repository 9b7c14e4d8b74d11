"""Summaries by cells over the wire: sketches, budgets, approvals, retries, ledgers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from curator.run.run import Run
from curator.runs.cells_agreement import Agreement
from curator.summary.settings import CellsSettings, SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.errors import BudgetError, CancelledRunError, ConfigError, FedkmeError, QuorumError
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.tables.files import save_table
from fedkme.wire.v1 import summaries_pb2 as pb
from owner.consent.approvals import approve
from owner.settings import PeriodBudget, PolicySettings
from tests.parties import WAIT_S
from tests.system.cell_market import CELLS, SMALL, faults_in, record_of, town
from tests.system.market import Ear, Market, market, rows

SEEDS = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="seeds", rho=1.0)
)


async def test_the_sketch_under_secure_aggregation(tmp_path: Path) -> None:
    # "noise once by secure sum where the curator is not trusted with the exact sketch": no owner's sums are
    # in anybody's ledger, and not even the exact total.
    async with town(tmp_path, "abc", release=SumSettings(security=SecuritySettings(), quorum=3)) as at:
        await at.consumer()
    assert record_of(tmp_path)["status"] == "complete"
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "runs" / "ledger.jsonl")]
    sums = [line.event.kind for line in lines if line.nonce.startswith("sums 1 ")]
    assert sums == ["gaussian"] * 3
    assert {line.run for line in lines if line.nonce == "release 0"} == {"run-1/cells"}


async def asked_and_gone(at: Market) -> None:
    """A consumer whose request the curator has, and which leaves while owners are gathered for the sketch."""
    first = at.consumer()
    async with asyncio.timeout(WAIT_S), at.summaries() as stub:
        while not (await stub.ListRuns(pb.RunQuery(name="consumer"))).runs:
            pass
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_consumer_goes_on_where_it_was(tmp_path: Path) -> None:
    # It is gone while the owners are gathered for the sketch, and again while the run waits: the sketch is
    # asked for once, and the histogram drawn once.
    async with market(tmp_path, ["a", "b"], summary=CELLS) as at:
        await asked_and_gone(at)
        at.owner("a")
        at.owner("b")
        ear = Ear()
        await at.consumer(ear=ear)
        assert [event for event, _ in ear.said if event == "resumed"]
        await at.consumer(output=tmp_path / "another")
    for name in "ab":
        lines = [entry.disclosure for entry in read_ledger(tmp_path / f"{name}.jsonl")]
        assert sum(line.nonce.startswith("sums 1 ") for line in lines) == 2  # one a request
    assert record_of(tmp_path)["status"] == record_of(tmp_path, "run-2")["status"] == "complete"
    assert faults_in(tmp_path) == []


async def test_too_few_seeds(tmp_path: Path) -> None:
    save_table(tmp_path / "seeds.npz", rows(3, 4))
    async with town(tmp_path, summary=SEEDS, seeds=tmp_path / "seeds.npz") as at:
        with pytest.raises(ConfigError, match="4 cells is made of public seed rows, and there are 3"):
            await at.consumer()


async def test_a_failure_that_the_consumer_did_not_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The run is over before it began; asked again, the consumer hears so, and does not wait for ever.
    written, note = asyncio.Event(), Agreement._note

    def noted(self: Agreement, run: Run, **what: Any) -> None:
        note(self, run, **what)
        if "fault" in what:
            written.set()

    monkeypatch.setattr(Agreement, "_note", noted)
    together = SumSettings(quorum=2)  # for the sketch; the plan itself is content with one owner
    async with market(tmp_path, ["a", "b"], summary=CELLS, release=together, connect_s=0.3) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        first = at.consumer()
        await at.ear.heard("planned")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        async with asyncio.timeout(WAIT_S):
            await written.wait()
        with pytest.raises(FedkmeError) as caught:
            await at.consumer()
        assert not isinstance(caught.value, CancelledRunError)
        assert "b did not join" in caught.value.cause


async def test_an_owner_s_budget_covers_sketch_and_histogram_together(tmp_path: Path) -> None:
    # (1, 1e-5) of both takes exactly one run of (1, 1e-5); the sketch of the second is refused already.
    budget = PeriodBudget(epsilon=1.0, delta=1e-5)
    async with market(tmp_path, ["a"], summary=CELLS) as at:
        at.owner("a", policy=PolicySettings(budgets=(budget,)))
        await at.consumer()
        assert record_of(tmp_path)["status"] == "complete"
        with pytest.raises(QuorumError, match="limits and budgets of a do not allow"):
            await at.consumer()


async def test_an_owner_takes_part_with_the_rows_that_may_leave(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CELLS) as at:
        at.owner("a", policy=PolicySettings(most_rows_per_run=1))
        at.owner("b")
        await at.consumer(p=10)
    record = record_of(tmp_path)
    assert record["faults"] == []
    assert record["accessed"]["a"] <= 1 == record["owner_rows"]["a"]


async def test_a_curator_s_budget_counts_what_orders_tell_of_each_owner(tmp_path: Path) -> None:
    async with town(tmp_path, budget=WindowBudget(epsilon=1.5, delta=1e-5)) as at:
        await at.consumer()
        with pytest.raises(BudgetError, match="owners towards owners: epsilon 1 is spent"):
            await at.consumer(output=tmp_path / "another")


async def test_a_consumer_spends_no_more_of_d_v_than_it_may(tmp_path: Path) -> None:
    # The plan says what is asked of D_v: a histogram that costs more than is left is not computed, though
    # g~ of the other protocol could have been paid for.
    budget = WindowBudget(epsilon=1.5, delta=1e-5)
    async with town(tmp_path) as at:
        good: dict[str, Any] = {"p": 4, "budget": budget, "target": GaussianSettings()}
        with pytest.raises(BudgetError, match="D_v of consumer towards owners: epsilon 0 is spent"):
            await at.consumer(**good, privacy=PrivacyTarget(epsilon=2.0))
        ledger = tmp_path / "consumer.db"
        assert not [e for e in read_ledger(ledger) if e.disclosure.nonce.startswith("histogram")]
        await at.consumer(**good)
        with pytest.raises(BudgetError, match="epsilon 1 is spent of 1"):
            await at.consumer(**good)


async def test_one_approval_covers_a_run_and_its_sketch(tmp_path: Path) -> None:
    # And not a run of more rows, nor a second one.
    policy = PolicySettings(approval="manual", protocols=("cells",))
    folder = tmp_path / "approvals"
    async with market(tmp_path, ["a"], summary=CELLS) as at:
        at.owner("a", policy=policy, approvals=folder)
        with pytest.raises(QuorumError, match="has approved none"):
            await at.consumer(p=4)
        approve(folder, "consumer", "cells", 8, 1)
        await at.consumer(p=4)
        assert record_of(tmp_path, "run-2")["status"] == "complete"
        with pytest.raises(QuorumError, match="has approved none"):
            await at.consumer(p=4)
        approve(folder, "consumer", "cells", 7, 1)
        with pytest.raises(QuorumError, match="has approved none of 8 rows"):
            await at.consumer(p=4)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (PolicySettings(rows="none"), "no more than numbers about all its rows may leave a"),
        (PolicySettings(protocols=("sketch",)), "does not take part in the protocol 'cells'"),
        (PolicySettings(approval="manual"), "--protocol cells --rows 8'"),
        (PolicySettings(budgets=(PeriodBudget(epsilon=0.9, delta=1e-5),)), "limits and budgets of a do not"),
        (
            PolicySettings(budgets=(PeriodBudget(observer="curator", epsilon=5, delta=1e-5),)),
            "limits and bud",
        ),
    ],
)
async def test_d_v_pays_nothing_for_a_run_that_every_owner_refuses(
    tmp_path: Path, policy: PolicySettings, words: str
) -> None:
    # Owners let the sketch in, and refused the run after D_v's counts had gone to the curator.
    async with market(tmp_path, ["a"], summary=CELLS) as at:
        at.owner("a", policy=policy, approvals=tmp_path / "approvals")
        with pytest.raises(QuorumError) as caught:
            await at.consumer(p=4)
    assert words in f"{caught.value.cause} {caught.value.remedy}"
    assert not read_ledger(tmp_path / "consumer.db")
