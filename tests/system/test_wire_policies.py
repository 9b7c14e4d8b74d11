"""An owner's policy over the real wire: refusals are said on both sides, and the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkme.errors import IncompleteSummaryError, PolicyError, QuorumError
from tests.system.launches import read_json
from tests.system.market import Ear, market


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
