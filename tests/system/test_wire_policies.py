"""An owner's policy over the real wire: refusals are said on both sides, and the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.errors import ApprovalError, MissingOwnersError, PolicyError, QuorumError
from fedkme.privacy.ledger import read_ledger
from fedkme.tables.files import save_table
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from owner.consent.approvals import approve
from owner.settings import PeriodBudget
from tests.system.cell_market import SMALL, record_of
from tests.system.launches import read_json
from tests.system.market import Ear, market, request, rows
from tests.system.test_wire_owners import hello


async def test_a_refusal_is_logged_on_both_sides_and_the_others_go_on(tmp_path: Path) -> None:
    # Issue 4, item 4: "refusals are typed, logged on both sides and shown to the consumer".
    ear = Ear()
    async with market(tmp_path, ["a", "b"]) as at:
        at.owner("a", ear=ear, policy={"consumers": ["hospital"]})
        at.owner("b")
        await at.consumer()
        here = await ear.heard("refused")
        assert here["code"] == PolicyError.code
        assert here["cause"] == "a does not take part in runs for the consumer 'consumer'"
        there = await at.ear.heard("owner_left")
        assert (there["owner"], there["round"], there["run"]) == ("a", 0, here["run"])
        assert here["cause"] in there["line"]
        record = read_json(tmp_path / "runs" / here["run"] / "record.json")
        assert [(fault["owner"], fault["code"]) for fault in record["faults"]] == [("a", PolicyError.code)]
        assert record["status"] == "complete"
        assert record["accessed"] == {"b": record["accessed"]["b"]}
        assert record["accessed"]["b"] > 0


CLOCK = SummarySettings(features=SMALL, protocol="algorithm3")
UNIFORM = SummarySettings(features=SMALL, protocol="uniform")
SEEDS = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="seeds", rho=1.0)
)
MANUAL = {"approval": "manual"}


@pytest.mark.parametrize(
    ("summary", "policy", "words"),
    [
        (CLOCK, {"rows": "none"}, "no more than numbers about all its rows may leave a"),
        (CLOCK, {"most_dimension": 7}, "is asked for h1 of 8 coordinates"),
        (CLOCK, MANUAL, "--protocol clock --rows 4'"),
        (CLOCK, {"budgets": [PeriodBudget(epsilon=0.9, delta=1e-5)]}, "limits and budgets of a do not"),
        (UNIFORM, {"consumers": ["clinic"]}, "does not take part in runs for the consumer"),
        (UNIFORM, MANUAL, "--protocol uniform --rows 4'"),
        (SEEDS, {"protocols": ["sketch"]}, "does not take part in the protocol 'cells'"),
        (SEEDS, MANUAL, "--protocol cells --rows 4'"),
        (SEEDS, {"budgets": [PeriodBudget(epsilon=0.9, delta=1e-5)]}, "limits and budgets of a do not"),
    ],
)
async def test_d_v_pays_nothing_for_a_run_that_every_owner_refuses(
    tmp_path: Path, summary: SummarySettings, policy: dict[str, Any], words: str
) -> None:
    # Without a sketch nobody asked owners before D_v's mean, or its counts, had gone to the curator.
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    ear = Ear()
    async with market(tmp_path, ["a"], summary=summary, seeds=tmp_path / "seeds.npz") as at:
        at.owner("a", policy=policy, approvals=tmp_path / "approvals")
        await at.ear.heard("owner_joined")
        with pytest.raises(QuorumError) as caught:
            await at.consumer(p=4, ear=ear)
        assert words in f"{caught.value.cause} {caught.value.remedy}"
        assert words in (await at.ear.heard("owner_left"))["line"]
    assert not read_ledger(tmp_path / "consumer.db")


@pytest.mark.parametrize("summary", [CLOCK, UNIFORM, SEEDS])
async def test_being_asked_uses_up_no_approval(tmp_path: Path, summary: SummarySettings) -> None:
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    folder = tmp_path / "approvals"
    async with market(tmp_path, ["a"], summary=summary, seeds=tmp_path / "seeds.npz") as at:
        at.owner("a", policy=MANUAL, approvals=folder)
        await at.ear.heard("owner_joined")
        approve(folder, "consumer", summary.row.name, 4, 1)
        await at.consumer(p=4)
        assert record_of(tmp_path)["status"] == "complete"
        with pytest.raises(QuorumError, match="has approved none of 4 rows"):
            await at.consumer(p=4)


async def test_a_consumer_that_did_not_hear_of_the_refusal_hears_it_when_it_asks_again(
    tmp_path: Path,
) -> None:
    asked = request()
    asked.request.request_id = b"r" * 16
    async with market(tmp_path, ["a"], summary=CLOCK) as at:
        at.owner("a", policy={"rows": "none"})
        await at.ear.heard("owner_joined")
        for heard in (["fault"], ["plan", "fault"]):  # with no room for an offer in the plan
            async with at.summarize() as stream:
                await stream.write(asked)
                said = [await stream.read() for _ in heard]
            assert [message.WhichOneof("body") for message in said] == heard
            assert said[-1].fault.code == QuorumError.code
            assert "numbers about all its rows may leave a" in said[-1].fault.cause
        assert said[0].plan.offered


@pytest.mark.parametrize("summary", [CLOCK, UNIFORM, SEEDS])
@pytest.mark.parametrize("first", [[], ["a"]])
async def test_d_v_pays_nothing_for_owners_that_come_later_and_refuse(
    tmp_path: Path, summary: SummarySettings, first: list[str]
) -> None:
    # A request was planned, and D_v drew, as soon as an owner might still come.
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    async with market(tmp_path, ["a", "b"], summary=summary, seeds=tmp_path / "seeds.npz") as at:
        for name in first:
            at.owner(name, policy={"rows": "none"})
        if first:
            await at.ear.heard("owner_joined")
        asking = at.consumer(p=4)
        await at.ear.heard("waiting")
        for name in {"a", "b"}.difference(first):
            at.owner(name, policy={"rows": "none"})
        with pytest.raises(QuorumError, match=r"0 owners may take part and the quorum is 1; [ab], round 0"):
            await asking
    assert not read_ledger(tmp_path / "consumer.db")


@pytest.mark.parametrize("summary", [CLOCK, UNIFORM, SEEDS])
async def test_d_v_pays_nothing_where_nobody_comes(tmp_path: Path, summary: SummarySettings) -> None:
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    seeds = tmp_path / "seeds.npz"
    async with market(tmp_path, ["a"], summary=summary, seeds=seeds, connect_s=0.2) as at:
        with pytest.raises(MissingOwnersError, match="a did not join within"):
            await at.consumer(p=4)
    assert not read_ledger(tmp_path / "consumer.db")


async def test_who_refuses_is_replaced_by_who_comes_later(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CLOCK) as at:
        at.owner("a", policy={"rows": "none"})
        await at.ear.heard("owner_joined")
        asking = at.consumer(p=4)
        await at.ear.heard("waiting")
        at.owner("b")
        await asking
    assert [fault["owner"] for fault in record_of(tmp_path)["faults"]] == ["a"]


async def test_who_comes_while_others_answer_is_asked(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CLOCK) as at, at.attend() as stream:
        await stream.write(hello("a"))
        await stream.read()
        asking = at.consumer(p=4)
        question = await stream.read()
        assert question.HasField("consider")
        at.owner("b")
        await at.ear.heard("owner_joined", 2)
        refusal = codecs.fault_to_wire(PolicyError("a takes part in nothing", "Ask another."))
        await stream.write(pb.OwnerMessage(at=question.at, fault=refusal))
        while (directive := await stream.read()).WhichOneof("body") != "invite":
            pass
        await stream.write(pb.OwnerMessage(at=directive.at, fault=refusal))
        head = await stream.read()  # the curator waits for a cosignature, of whoever is here
        await stream.write(pb.OwnerMessage(at=head.at, fault=refusal))
        await asking
    assert [fault["owner"] for fault in record_of(tmp_path)["faults"]] == ["a"]


async def test_nobody_waits_for_an_owner_that_is_not_here_where_enough_are(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CLOCK) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        asking = at.consumer(p=4)
        await at.ear.heard("queued")
        at.owner("b")
        await asking
    assert record_of(tmp_path)["faults"] == []


SKETCHED = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="sketch", dimension=2, rho=1.0)
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.owners.connection.FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr("consumer.summary.client.QUIET_S", 0.1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("summary", [CLOCK, SEEDS, SKETCHED])
async def test_a_run_waits_until_it_is_approved_by_hand(tmp_path: Path, summary: SummarySettings) -> None:
    # Issue 14, item 7: "Approvals may take days: a run waits, visible on the page, and goes on."
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    folder, ear, seeds = tmp_path / "approvals", Ear(), tmp_path / "seeds.npz"
    async with market(tmp_path, ["a", "b"], summary=summary, seeds=seeds, approval_s=600) as at:
        first = at.owner("a", ear=ear, policy=MANUAL, approvals=folder)
        at.owner("b")
        asking = at.consumer(p=4, ear=(lab := Ear()))
        assert (await ear.heard("refused"))["code"] == ApprovalError.code
        first.cancel()  # its host is started again meanwhile
        await asyncio.gather(first, return_exceptions=True)
        at.owner("a", ear=(again := Ear()), policy=MANUAL, approvals=folder)
        await again.heard("refused")
        assert not asking.done()
        assert "owners" in (await lab.heard("waiting"))["line"]  # it was without a word, for days
        approve(folder, "consumer", summary.row.name, 4, 1)
        await asking
    record = record_of(tmp_path)
    assert (record["status"], record["faults"]) == ("complete", [])
    assert set(record["owner_rows"]) == {"a", "b"}
    assert [event for event, _ in again.said].count("refused") == 1  # asked often, said once


@pytest.mark.usefixtures("impatient")
async def test_a_run_goes_on_without_an_owner_that_is_not_approved_in_time(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CLOCK, approval_s=0.2) as at:
        at.owner("a", policy=MANUAL, approvals=tmp_path / "approvals")
        at.owner("b")
        await at.consumer(p=4)
    record = record_of(tmp_path)
    assert record["status"] == "complete"
    assert [(fault["owner"], fault["code"]) for fault in record["faults"]] == [("a", ApprovalError.code)]
