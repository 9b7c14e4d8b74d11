"""Owners and curators that are lost while they make a release over gRPC (issue 5)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from consumer.cli import received_release
from consumer.runs import cancelling
from curator.runs.release_run import ReleaseRun
from curator.sums.session import SumSession
from curator.sums.settings import SecuritySettings
from fedkme.errors import CancelledRunError, QuorumError, SecureAggregationError
from fedkme.privacy.ledger import read_ledger
from fedkme.releases.file import from_bytes
from fedkme.store import open_store
from owner.settings import PolicySettings
from sim.releases import complete_release
from tests.system.launches import read_json
from tests.system.market import Ear
from tests.system.release_market import (
    OWNERS,
    ROWS,
    SECURE,
    TOLERANT,
    Held,
    calm,
    come,
    faults,
    files,
    hold,
    lose,
    release_market,
)


@pytest.mark.parametrize("phase", ["advertise", "mask", "unmask"])
async def test_owners_may_be_lost_up_to_the_stated_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    # "Shamir shares for drop-out (t of n)": in every phase; the record says of whose rows the release is.
    async with release_market(tmp_path, TOLERANT, grace_s=0.05) as at:
        lose(monkeypatch, phase, {"owner-2": come(at)["owner-2"]})
        await at.asks(epsilon=20.0)
    record = read_json(at.run() / "record.json")
    inside = ["owner-1", "owner-3"] if phase != "unmask" else list(OWNERS)
    assert list(record["owner_rows"]) == inside
    assert record["one_owner_moves"] == ROWS * len(inside)  # under masks the total alone is checked
    assert [fault["owner"] for fault in record["faults"]] == ["owner-2"]
    kept = from_bytes(files(tmp_path / "consumer")["release.npz"])
    assert (kept.owners, kept.rows) == (len(inside), ROWS * len(inside))
    assert not faults(tmp_path)


@pytest.mark.parametrize("security", [SECURE, TOLERANT], ids=["none", "one"])
async def test_beyond_that_number_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: SecuritySettings
) -> None:
    # "Drop-outs under the threshold: typed errors, nothing leaks."
    asked = hold(monkeypatch, SumSession, "unmask")
    async with release_market(tmp_path, security, grace_s=0.05) as at:
        owners = come(at)
        lose(monkeypatch, "mask", {name: owners[name] for name in OWNERS[: security.dropouts + 1]})
        with pytest.raises((SecureAggregationError, QuorumError)):
            await at.asks(epsilon=20.0)
    assert asked.calls == 0
    record = read_json(at.run() / "record.json")
    assert (record["status"], record["files"]) == ("failed", [])
    assert not list((tmp_path / "consumer").iterdir())
    assert not faults(tmp_path)


@pytest.mark.parametrize("quorum", [2, 3])
async def test_a_trusted_curator_goes_on_without_an_owner_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quorum: int
) -> None:
    # Decision 006: "A plain total is that of the owners that answered", down to the quorum.
    async with release_market(tmp_path, grace_s=0.05, quorum=quorum) as at:
        lose(monkeypatch, "embed", {"owner-2": come(at)["owner-2"]})
        asking = at.asks()
        if quorum == 3:
            with pytest.raises(QuorumError):
                await asking
        else:
            await asking
            record = read_json(at.run() / "record.json")
            assert list(record["owner_rows"]) == ["owner-1", "owner-3"]
            assert record["one_owner_moves"] == ROWS
    assert read_json(at.run() / "record.json")["code"] == (21 if quorum == 3 else 0)
    # It may have written that its vector left: it is charged in lines that are not certain, of which there
    # may be none in its ledger.
    assert not faults(tmp_path)


@pytest.mark.parametrize("security", [None, SECURE], ids=["trusted", "secure"])
async def test_a_curator_killed_once_the_release_is_kept_asks_nobody_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: SecuritySettings | None
) -> None:
    # Decision 006: "The release is the one durable point": everything after is post-processing of it.
    quiet = await calm(tmp_path / "calm", security)
    async with release_market(tmp_path / "troubled", security) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            held = hold(patch, ReleaseRun, "_finish")
            await held.reached()
            image = at.image()
            await at.crash(image)
        asked = hold(monkeypatch, SumSession, "invite")
        asked.go.set()
        await at.start()
        await asking
    assert asked.calls == 0
    assert files(tmp_path / "troubled" / "consumer") == quiet
    assert not faults(tmp_path / "troubled")


async def test_a_trusted_curator_killed_before_that_asks_again_and_it_costs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "With a trusted curator it asks again, for sums are a function of the rows, until noise is added."
    quiet = await calm(tmp_path / "calm")
    async with release_market(tmp_path / "troubled") as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, "embed").reached()
            image = at.image()
            patch.undo()
            await at.crash(image)
        await at.start()
        await asking
    assert files(tmp_path / "troubled" / "consumer") == quiet
    assert not faults(tmp_path / "troubled")
    assert len(read_ledger(tmp_path / "troubled" / "owner-1.jsonl")) == 2


async def test_a_trusted_curator_that_is_stopped_with_sums_in_hand_writes_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What came counts when a process stops, and is no news when the next one is given the same bits.
    answered, work = asyncio.Event(), SumSession.embed

    async def slow(self: SumSession, *arguments: Any) -> Any:
        answer = await work(self, *arguments)
        if self.name == "owner-1":
            answered.set()
            return answer
        return await asyncio.Event().wait()

    async with release_market(tmp_path) as at:
        come(at)
        with monkeypatch.context() as patch:
            patch.setattr(SumSession, "embed", slow)
            asking = at.asks()
            await answered.wait()
            await asyncio.sleep(0)  # the vector is counted when its owner's task goes on
            await at.stop()
        await at.start()
        await asking
    assert not faults(tmp_path)


@pytest.mark.parametrize("phase", ["advertise", "share"])
async def test_a_curator_killed_before_masked_sums_are_asked_for_asks_under_another_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    # Owners take part in no aggregation of a number twice: the run ended with "0 owners are left".
    async with release_market(tmp_path, SECURE) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, phase).reached()
            image = at.image()
            await at.crash(image)
        await at.start()
        await asking
    assert (tmp_path / "consumer" / "release.npz").exists()
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "owner-2.jsonl")]
    assert [(line.round, line.observer) for line in lines] == [(2, "curator"), (1, "consumer")]


async def test_a_curator_killed_while_a_sum_is_opened_says_that_it_costs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "With secure aggregation the noise is in what owners sent: the run ends with a typed error and asking
    # again costs again"; ledgers agree on what the first attempt cost.
    async with release_market(tmp_path, SECURE) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, "endorse").reached()
            image = at.image()
            await at.crash(image)
        await at.start()
        with pytest.raises(SecureAggregationError, match="it costs again") as caught:
            await asking
        assert caught.value.code == 58
        await at.asks()  # in the same folder: another run
    assert (tmp_path / "consumer" / "release.npz").exists()
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "owner-2.jsonl")]
    assert [(line.run, line.observer) for line in lines] == [
        (run, observer) for run in ("run-1", "run-2") for observer in ("curator", "consumer")
    ]


@pytest.mark.parametrize(("phase", "security"), [("embed", None), ("mask", SecuritySettings())])
async def test_what_may_have_left_counts_where_a_run_is_cancelled_before_it_comes(
    phase: str, security: SecuritySettings | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its lines waited in the store for an attempt that never came; the owner's own looked like cheating.
    async with release_market(tmp_path, security) as at:
        come(at)
        held, work = Held(), getattr(SumSession, phase)

        async def late(self: SumSession, *arguments: Any) -> Any:
            answer = await work(self, *arguments)
            if self.name == "owner-3":
                await held.wait()
            return answer

        monkeypatch.setattr(SumSession, phase, late)
        asking = at.asks()
        await held.reached()
        await cancelling("run-1")(at.caller(), Ear())
        with pytest.raises(CancelledRunError):
            await asking
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "runs" / "journal.db")]
    assert {line.protected for line in lines if not line.certain} >= {"owner-3"}
    with contextlib.closing(open_store(tmp_path / "runs" / "journal.db", "curator")) as store:
        assert [*store.keys("doubtful/"), *store.keys("asked/")] == []


async def test_the_card_and_the_page_of_a_release_name_the_owners_that_were_lost(tmp_path: Path) -> None:
    # Issue 36, item 6: the card of a release of one of three owners said "Good" and nothing of the others.
    ear, line = Ear(), "2 of 3 owners took part to the end; lost: error 54 (policy)"
    async with release_market(tmp_path) as at:
        come(at, "owner-1")
        come(at, "owner-2")
        come(at, "owner-3", policy=PolicySettings(sums="noisy"))
        await at.asks(ear=ear, kind="marginals", epsilon=1e6, rows=60)
        settings = at.caller(kind="marginals", epsilon=1e6, rows=60)
    assert (await ear.heard("received"))["participation"] == line
    card = read_json(tmp_path / "consumer" / "synthetic.card.json")
    assert card["participation"] == {"expected": 3, "took_part": 2, "lost": [54]}
    assert card["verdict"]["grade"] == "fair"  # good but for the lost owner: the next test
    assert card["verdict"]["doubts"] == [line]
    text = (tmp_path / "consumer" / "synthetic.card.md").read_text(encoding="utf-8")
    assert f"\n- Owners of the run: {line}\n\n## Privacy" in text
    assert "\nFair for columns" in text
    assert received_release(settings)["lost"] == line
    complete_release(settings.output, pytest.fail)
    assert line in (settings.output / "report.html").read_text(encoding="utf-8")
    # made again from the released numbers, the card is the same
    for name in ("synthetic.card.json", "synthetic.csv"):
        (settings.output / name).unlink()
    complete_release(settings.output, pytest.fail)
    assert read_json(settings.output / "synthetic.card.json") == card


async def test_the_card_of_a_release_of_all_owners_keeps_its_grade(tmp_path: Path) -> None:
    async with release_market(tmp_path) as at:
        come(at)
        await at.asks(kind="marginals", epsilon=1e6, rows=60)
        settings = at.caller(kind="marginals", epsilon=1e6, rows=60)
    card = read_json(tmp_path / "consumer" / "synthetic.card.json")
    assert card["verdict"]["grade"] == "good"
    assert "participation" not in card
    assert received_release(settings)["lost"] is None
