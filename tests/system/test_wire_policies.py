"""An owner's policy over the real wire: refusals are said on both sides, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from curator.cells.settings import CellsSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import PolicyError, QuorumError
from fedkme.privacy.ledger import read_ledger
from fedkme.tables.files import save_table
from owner.consent.approvals import approve
from owner.settings import PeriodBudget
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
        approve(folder, "consumer", summary.row.name, 4, 1)
        await at.consumer(p=4)
        assert record_of(tmp_path)["status"] == "complete"
        with pytest.raises(QuorumError, match="has approved none of 4 rows"):
            await at.consumer(p=4)
