"""Budgets over the real wire: refusals are typed, and come before anything is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import BudgetError
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.settings import GaussianSettings
from owner.settings import PolicySettings
from tests.system.launches import read_json
from tests.system.market import DIMENSION, market

SMALL = FeatureSettings(dimension=DIMENSION)


async def test_a_consumer_does_not_spend_more_of_d_v_than_it_may(tmp_path: Path) -> None:
    # Its own ledger counts over requests; the first is paid for, the second would be too much.
    budget = WindowBudget(epsilon=1.2, delta=1e-5)
    async with market(tmp_path, ["a"], summary=SummarySettings(preset="published", features=SMALL)) as at:
        at.owner("a")
        await at.consumer(target=GaussianSettings(), budget=budget)
        with pytest.raises(BudgetError, match=r"D_v of consumer towards owners: epsilon 1 is spent of 1\.2"):
            await at.consumer(target=GaussianSettings(), budget=budget)
        assert at.ear.said[-1][0] != "refused"  # the curator never heard of it


async def test_a_curator_refuses_a_run_that_owners_rows_cannot_pay_for(tmp_path: Path) -> None:
    # Over all runs in its directory, towards other owners.
    summary = SummarySettings(protocol="algorithm3", features=SMALL)
    budget = WindowBudget(epsilon=1.5, delta=1e-5)
    async with market(tmp_path, ["a"], summary=summary, budget=budget) as at:
        at.owner("a", 60)
        await at.consumer()
        with pytest.raises(BudgetError, match=r"owners towards owners: epsilon 0\.9"):
            await at.consumer()
        assert not (tmp_path / "runs" / "run-2").exists()


async def test_what_is_written_down_keeps_to_the_target_or_is_refused(tmp_path: Path) -> None:
    # Issue 12, A5: the target is a bound. At the curator before the run, at the consumer before it draws.
    summary = SummarySettings.model_validate({"features": SMALL, "auction": {"epsilon": 4.0}})
    async with market(tmp_path, ["a"], summary=summary) as at:
        at.owner("a", 60)
        with pytest.raises(
            BudgetError, match=r"owners towards owners: epsilon 8.* is planned .* target is 1\."
        ):
            await at.consumer()
        assert not list((tmp_path / "runs").glob("run-*"))
    loose, other = GaussianSettings(epsilon=3.0), tmp_path / "other"
    other.mkdir()
    async with market(other, ["a"]) as at:
        at.owner("a")
        with pytest.raises(BudgetError, match=r"D_v of consumer towards owners: epsilon 3 is planned"):
            await at.consumer(target=loose)
        await at.consumer(target=loose, privacy={"epsilon": 3.0}, output=other / "again")


async def test_an_owner_that_may_not_send_more_stays_in_the_run(tmp_path: Path) -> None:
    # It takes part with the rows that it may send, and says so at the start: nobody sees where it ends.
    async with market(tmp_path, ["a", "b"]) as at:
        at.owner("a", policy=PolicySettings(most_rows=2))
        at.owner("b")
        await at.consumer(p=8)
        record = read_json(tmp_path / "runs" / "run-1" / "record.json")
        assert record["faults"] == []
        assert record["owner_rows"] == {"a": 2, "b": 20}
        assert record["status"] == "complete"
        assert record["accessed"]["a"] <= 2
