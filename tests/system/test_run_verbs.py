"""A consumer's verbs about its runs, and the operator's list, against a real curator (issue 4, item 5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from consumer.runs import cancelling, listing, watching
from curator.cli import app as curator_app
from curator.owners.connection import Connection
from curator.owners.exchanges import HeadExchange
from curator.run.run import Run, Status
from curator.runs.queue import RunQueue
from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.directives import Answer, Directive, Dismiss
from fedkme.documents import RunDocument
from fedkme.errors import CancelledRunError, ConfigError, IncompleteSummaryError, QuotaError, StoreError
from fedkme.exchange import ReleaseRequest
from fedkme.privacy.events import CURATOR
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.store import OPEN
from fedkme.store.memory import MemoryStore
from fedkme.store.reading import read_store
from fedkme.tables.files import load_table
from fedkme.wire.v1 import summaries_pb2
from owner.runs import RunManager
from tests.parties import HERE, WAIT_S, curator_values, write_config
from tests.system.market import SCHEMA, Ear, Market, market


async def test_a_consumer_lists_watches_and_cancels_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # "Several runs at once on one curator, a queue, cancel, list, watch": two runs, of which one can be under
    # way, and waits for an owner.
    watched = tmp_path / "watched"
    async with market(tmp_path, ["a", "b"], runs_at_once=1) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
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
        at.owner("b")
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


async def test_a_run_that_is_watched_ends_as_for_whoever_asked_for_it(tmp_path: Path) -> None:
    # Issue 13, 2: never a silent result. All rows that came are kept, p of them chosen by D_v, and judged.
    cells = SummarySettings(protocol="cells", cells=CellsSettings(bits=2), privacy=PrivacyTarget(epsilon=5.0))
    watched, ear = tmp_path / "watched", Ear()
    async with market(tmp_path, ["a"], summary=cells) as at:
        at.owner("a", 40)
        await at.consumer(target=GaussianSettings())
        await watching("run-1")(at.asking(output=watched), ear)
        for name in ("received.npz", "summary.npz", "weighted.npz", "repeats.npz", "evaluation.json"):
            assert (watched / name).read_bytes() == (tmp_path / "consumer" / name).read_bytes(), name
        assert len(load_table(watched / "received.npz", SCHEMA, "test")) == 12
        assert len(load_table(watched / "summary.npz", SCHEMA, "test")) == 6
        assert [event for event, _ in ear.said if event != "progress"][-3:] == [
            "received",
            "judged",
            "verdict",
        ]
        with pytest.raises(ConfigError, match="with another p"):
            await watching("run-1")(at.asking(p=7, output=watched), Ear())
        alone: dict[str, Any] = {"output": tmp_path / "alone", "journal": str(tmp_path / "other.db")}
        with pytest.raises(IncompleteSummaryError, match="has 12 of 20 rows"):
            await watching("run-1")(at.asking(p=20, **alone), Ear())
        assert (tmp_path / "alone" / "evaluation.json").exists()


async def test_a_quota_is_kept_to_before_anything_is_computed(tmp_path: Path) -> None:
    # "Quotas per consumer", of open runs here: the second request waits for nobody, and is refused.
    quotas: dict[str, Any] = {"quota": {"most_open_runs": 1}, "quotas": {"lab": {"most_rows": 2}}}
    async with market(tmp_path, ["a", "b"], **quotas) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        first = at.consumer(output=tmp_path / "first")
        await at.ear.heard("queued", 1)
        with pytest.raises(QuotaError, match="2 open runs and may have 1"):
            await at.consumer(output=tmp_path / "second", journal=str(tmp_path / "second" / "own.db"))
        with pytest.raises(QuotaError, match="rows of one summary"):
            await at.consumer(output=tmp_path / "third", name="lab")
        at.owner("b")
        await first


async def test_requests_that_wait_together_are_held_to_the_quota_when_they_are_queued(tmp_path: Path) -> None:
    # Each was let in while the others waited for owners, and counted for nothing: all were queued.
    async with market(tmp_path, ["a", "b"], quota={"most_rows_in_all": 7}) as at:
        places = [tmp_path / name for name in ("first", "second")]
        asked = [
            asyncio.ensure_future(at.consumer(output=place, journal=str(place / "own.db")))
            for place in places
        ]
        await at.ear.heard("waiting", 2)
        at.owner("a")
        at.owner("b")
        done = await asyncio.gather(*asked, return_exceptions=True)
        (refused,) = [each for each in done if isinstance(each, BaseException)]
        assert isinstance(refused, QuotaError), refused
        assert "12 rows of all its summaries and may have 7" in str(refused)


async def test_an_operator_lists_runs_of_a_curator_that_serves(tmp_path: Path) -> None:
    # Its store is open in one process; reading beside it is allowed.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer()
        config = write_config(tmp_path / "curator.toml", curator_values(HERE))
        shown = CliRunner().invoke(curator_app, ["runs", str(config)])
        assert shown.exit_code == 0
        assert shown.output.splitlines()[1].split()[:5] == ["run-1", "consumer", "complete", "summary", "6"]


async def cancelled(at: Market) -> str:
    """Cancel run-1; its status afterwards."""
    async with at.summaries() as stub:
        answer = await stub.CancelRun(summaries_pb2.RunQuery(name="consumer", run="run-1"))
    return str(answer.runs[0].status)


@pytest.mark.parametrize("moments", [("running",), ("ending",), ("running", "ending")])
async def test_a_run_that_is_cancelled_as_it_ends_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: tuple[str, ...]
) -> None:
    # A second cancel, or one that came while heads were exchanged, left the run open for the next process.
    after, reached, going = HeadExchange.after, asyncio.Event(), asyncio.Event()
    cancel, heard = RunQueue.cancel, asyncio.Event()

    async def slowly(exchange: HeadExchange, run: str, connections: Sequence[Connection]) -> None:
        reached.set()
        await going.wait()
        await after(exchange, run, connections)

    def noted(queue: RunQueue, run: Run) -> Run:
        heard.set()
        return cancel(queue, run)

    monkeypatch.setattr(HeadExchange, "after", slowly)
    monkeypatch.setattr(RunQueue, "cancel", noted)
    async with market(tmp_path, ["a"]) as at:
        at.owner("a", count=2000)
        ear, answers = Ear(), list[asyncio.Future[str]]()
        asking = at.consumer(p=300 if "running" in moments else 6, ear=ear)
        for moment in moments:
            await (ear.heard("progress") if moment == "running" else reached.wait())
            heard.clear()
            answers.append(asyncio.ensure_future(cancelled(at)))
            await heard.wait()
        going.set()
        status = "cancelled" if "running" in moments else "complete"
        assert await asyncio.gather(*answers) == [status] * len(moments)
        await asyncio.wait([asking])
        events = [event for event, _ in at.ear.said]
        assert (events.count("ended"), events.count("suspended")) == (1, 0)


@pytest.mark.parametrize("busy", [False, True])
async def test_a_run_that_the_curator_suspended_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    # The verb said "running", and the next process went on with the run. Its owners hear of its end, also
    # where the curator carries out as many runs as it may.
    async def failing(exchange: HeadExchange, run: str, connections: Sequence[Connection]) -> None:
        raise StoreError("the disk is full", "Make room.")

    loop, dismissed = asyncio.get_running_loop(), asyncio.Event()

    class Dismissed(RunManager):
        def answer(self, directive: Directive) -> Answer | None:
            answer = super().answer(directive)
            if isinstance(directive.body, Dismiss) and directive.run == "run-1":
                loop.call_soon_threadsafe(dismissed.set)
            return answer

    async with market(tmp_path, ["a"], runs_at_once=1) as at:
        at.owner("a", count=4000, make=Dismissed)
        with monkeypatch.context() as patch:
            patch.setattr(HeadExchange, "after", failing)
            with pytest.raises(StoreError):
                await at.consumer()
        if busy:
            ear = Ear()
            at.consumer(p=2000, ear=ear, output=tmp_path / "long", journal=str(tmp_path / "long" / "own.db"))
            await ear.heard("progress")
        assert await cancelled(at) == "cancelled"
        async with asyncio.timeout(WAIT_S):
            await dismissed.wait()
        with contextlib.closing(read_store(str(tmp_path / "a.db"), "a")) as store:
            assert "run-1" not in [row.run for row in store.runs(OPEN)]


async def test_a_run_that_is_cancelled_before_its_first_step_is_over() -> None:
    # Its task never began, so nothing closed the run: the verb waited for ever, and the run's place was lost.
    async def conduct(run: Run) -> Status | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "cancelled"

    queue = RunQueue(MemoryStore(CURATOR), conduct, 1)
    run = queue.ask("run-1", RunDocument(ReleaseRequest("lab", bytes(16), "digest", "{}")))
    queue.cancel(run)
    async with asyncio.timeout(WAIT_S):
        await run.over.wait()
    assert run.status == "cancelled"
