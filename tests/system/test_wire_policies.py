"""An owner's policy over the real wire: refusals are said on both sides, and the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from curator.cells.settings import CellsSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import ApprovalError, IncompleteSummaryError, PolicyError, QuorumError
from fedkme.tables.files import save_table
from owner.consent.approvals import approve
from tests.system.cell_market import SMALL, record_of
from tests.system.launches import read_json
from tests.system.market import Ear, market, rows


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


async def test_a_run_below_its_quorum_for_a_refusal_says_so_to_the_consumer(tmp_path: Path) -> None:
    ear = Ear()
    async with market(tmp_path, ["a"]) as at:
        at.owner("a", policy={"approval": "manual"}, approvals=tmp_path / "approvals")
        with pytest.raises(IncompleteSummaryError, match=r"has 0 of 6 rows\. 'received'"):
            await at.consumer(ear=ear)
        told = await ear.heard("received")
        assert (told["rows"], told["complete"]) == (0, False)
        ended = at.ended()
        assert told["reason"] == ended["reason"]
        assert ended["status"] == "stopped"
        assert f"error {QuorumError.code} " in ended["reason"]
        assert "approves each run by hand" in (await at.ear.heard("owner_left"))["line"]


CLOCK = SummarySettings(features=SMALL, protocol="algorithm3")
SEEDS = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="seeds", rho=1.0)
)
MANUAL = {"approval": "manual"}
SKETCHED = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="sketch", dimension=2, rho=1.0)
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.owners.connection.FIRST_PAUSE_S", 0.02)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("summary", [CLOCK, SEEDS, SKETCHED])
async def test_a_run_waits_until_it_is_approved_by_hand(tmp_path: Path, summary: SummarySettings) -> None:
    # Issue 14, item 7: "Approvals may take days: a run waits, visible on the page, and goes on."
    save_table(tmp_path / "seeds.npz", rows(8, 4))
    folder, ear, seeds = tmp_path / "approvals", Ear(), tmp_path / "seeds.npz"
    async with market(tmp_path, ["a", "b"], summary=summary, seeds=seeds, approval_s=600) as at:
        first = at.owner("a", ear=ear, policy=MANUAL, approvals=folder)
        at.owner("b")
        asking = at.consumer(p=4)
        assert (await ear.heard("refused"))["code"] == ApprovalError.code
        first.cancel()  # its host is started again meanwhile
        await asyncio.gather(first, return_exceptions=True)
        at.owner("a", ear=(again := Ear()), policy=MANUAL, approvals=folder)
        await again.heard("refused")
        assert not asking.done()
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
