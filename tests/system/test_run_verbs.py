"""A consumer's verbs about its runs, and the operator's list, against a real curator (issue 4, item 5)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from consumer.runs import cancelling, listing, watching
from curator.cli import app as curator_app
from fedkme.errors import CancelledRunError, ConfigError, QuotaError
from tests.parties import HERE, curator_values, write_config
from tests.system.market import Ear, market


async def test_a_consumer_lists_watches_and_cancels_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # "Several runs at once on one curator, a queue, cancel, list, watch": two runs, of which one can be under
    # way, and no owner yet.
    watched = tmp_path / "watched"
    async with market(tmp_path, ["a"], runs_at_once=1) as at:
        first = at.consumer(output=tmp_path / "first")
        await at.ear.heard("queued", 1)
        second = at.consumer(output=tmp_path / "second", journal=str(tmp_path / "second" / "own.db"))
        await at.ear.heard("queued", 2)
        await listing(as_json=True)(at.asking(output=watched), Ear())
        listed = json.loads(capsys.readouterr().out)
        assert [(run["run"], run["status"], run["rows"]) for run in listed] == [
            ("run-1", "running", 6),
            ("run-2", "queued", 6),
        ]
        await cancelling("run-2")(at.asking(output=watched), Ear())
        with pytest.raises(CancelledRunError):
            await second
        with pytest.raises(CancelledRunError, match="over already"):
            await cancelling("run-2")(at.asking(output=watched), Ear())
        watch = asyncio.ensure_future(watching("run-1")(at.asking(output=watched), Ear()))
        at.owner("a")
        await first
        await watch
        ours, theirs = (np.load(tmp_path / folder / "summary.npz") for folder in ("watched", "first"))
        assert np.array_equal(ours["x"], theirs["x"])
        await listing(as_json=False)(at.asking(output=watched), Ear())
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[:3] for line in lines[1:]] == [
            ["run-1", "complete", "summary"],
            ["run-2", "cancelled", "summary"],
        ]
        with pytest.raises(ConfigError, match="no run"):
            await watching("run-1")(at.asking(output=watched, name="another"), Ear())


async def test_a_quota_is_kept_to_before_anything_is_computed(tmp_path: Path) -> None:
    # "Quotas per consumer", of open runs here: the second request waits for nobody, and is refused.
    async with market(tmp_path, ["a"], quota={"most_open_runs": 1}, quotas={"lab": {"most_rows": 2}}) as at:
        first = at.consumer(output=tmp_path / "first")
        await at.ear.heard("queued", 1)
        with pytest.raises(QuotaError, match="2 open runs and may have 1"):
            await at.consumer(output=tmp_path / "second", journal=str(tmp_path / "second" / "own.db"))
        with pytest.raises(QuotaError, match="rows of one summary"):
            await at.consumer(output=tmp_path / "third", name="lab")
        at.owner("a")
        await first


async def test_an_operator_lists_runs_of_a_curator_that_serves(tmp_path: Path) -> None:
    # Its store is open in one process; reading beside it is allowed.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer()
        config = write_config(tmp_path / "curator.toml", curator_values(HERE))
        shown = CliRunner().invoke(curator_app, ["runs", str(config)])
        assert shown.exit_code == 0
        assert shown.output.splitlines()[1].split()[:5] == ["run-1", "consumer", "complete", "summary", "6"]
