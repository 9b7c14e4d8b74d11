"""A consumer's store over real ports: what D_v paid for is neither lost nor paid again (issue 12, A4)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import itertools
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import consumer.results
import consumer.summary.client
from consumer.requests import KeptRequest
from consumer.results import EVALUATION
from consumer.runs import cancelling
from consumer.summary import received
from consumer.summary.forms import REPEATS, WEIGHTED
from fedkme.durable import replace
from fedkme.errors import (
    BudgetError,
    CancelledRunError,
    ConfigError,
    FedkmeError,
    MissingDependencyError,
    NotJudgedError,
    StoreError,
)
from fedkme.exchange import Plan
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.settings import GaussianSettings
from fedkme.store import open_store
from fedkme.tables.files import read_arrays, save_table
from fedkme.tables.schema import Label, Schema
from fedkme.verdict import GRADES
from fedkme.wire import codecs
from fedkme.wire.journals import request_document_from_bytes
from fedkme.wire.v1 import owners_pb2
from fedkme.wire.v1 import summaries_pb2 as pb
from tests.hostile.labs import Hostile, lab, plan
from tests.system.launches import read_json
from tests.system.market import SCHEMA, Ear, market, rows

NOISY = GaussianSettings(epsilon=0.7)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def draws(folder: Path) -> int:
    """Draws of D_v that the consumer's ledger has."""
    lines = [entry.disclosure for entry in read_ledger(folder / "consumer.db")]
    return sum(about.observer == CURATOR for about in lines)


async def test_a_budget_holds_over_all_folders(tmp_path: Path) -> None:
    # (b): a budget held per output folder only.
    asking: dict[str, Any] = {"target": NOISY, "budget": WindowBudget(epsilon=1.1, delta=1e-5)}
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        for folder in ("one", "two"):
            await at.consumer(output=tmp_path / folder, **asking)
        with pytest.raises(BudgetError, match=r"epsilon 1\.0\d+ is spent of 1\.1"):
            await at.consumer(output=tmp_path / "three", **asking)
    assert draws(tmp_path) == 2


@contextlib.contextmanager
def nearly_full(size: int) -> Iterator[None]:
    """A disk on which no file of this process grows over a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kilobytes", [1, 8, 40, 48, 56, 64, 72, 80, 96, 128])
async def test_a_disk_that_is_full_charges_for_nothing_that_did_not_leave(
    tmp_path: Path, kilobytes: int
) -> None:
    # (c): it charged for what did not leave, and deleted the open request.
    curator = Hostile(itertools.repeat(plan(0)))
    async with lab(tmp_path, curator) as at:
        with nearly_full(kilobytes * 2**10), pytest.raises(FedkmeError):
            await at.ask_here()
        if curator.requests:
            assert at.drawn() == len(curator.offers)
        with pytest.raises(FedkmeError, match="34"):
            await at.ask_here()
    assert len(set(curator.requests)) == len(set(curator.offers)) == at.drawn() == 1


class PowerCutError(BaseException):
    """The end of a process at a point that no handler of its own sees."""


async def test_a_power_cut_between_charge_and_offer_loses_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Issue 17, A1: at most one draw, nothing charged that does not leave; where the store's last writes are
    # torn off, at any byte, charge and offer are both there or neither.
    images: list[tuple[bytes, bytes]] = []

    def cut(*_: object) -> None:
        images.append(((tmp_path / "consumer.db").read_bytes(), (tmp_path / "consumer.db-wal").read_bytes()))
        raise PowerCutError

    curator = Hostile(itertools.repeat(plan(0)))
    async with lab(tmp_path, curator) as at:
        with monkeypatch.context() as patch:
            patch.setattr(consumer.summary.client, "offer_to_messages", cut)
            with pytest.raises(PowerCutError):
                await at.ask_here()
        assert (at.drawn(), curator.offers) == (1, [])
        with pytest.raises(FedkmeError, match="34"):
            await at.ask_here()
        assert (at.drawn(), len(curator.offers), len(set(curator.requests))) == (1, 1, 1)
    whole, log = images[0]
    found = {torn_off(tmp_path, whole, log[:size]) for size in [*range(0, len(log), 1999), len(log)]}
    assert found == {(0, 0), (1, 1)}


def torn_off(folder: Path, whole: bytes, log: bytes) -> tuple[int, int]:
    """Draws and offers in a store whose log was cut; its chain must be whole."""
    (folder / "torn.db").write_bytes(whole)
    (folder / "torn.db-wal").write_bytes(log)
    try:
        with contextlib.closing(open_store(folder / "torn.db", "consumer")) as store:
            offers = sum(request_document_from_bytes(row.document).offer is not None for row in store.runs())
        lines = [entry.disclosure for entry in read_ledger(folder / "torn.db")]
        return sum(about.observer == CURATOR for about in lines), offers
    finally:
        for file in folder.glob("torn.db*"):
            file.unlink()


@pytest.mark.parametrize("where", ["the rows", "the end of the request"])
async def test_what_came_and_could_not_be_written_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*_: object) -> None:
        raise FULL if where == "the rows" else StoreError("the disk is full", "Make room.")

    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        with monkeypatch.context() as patch:
            here, name = (consumer.results, "replace") if where == "the rows" else (KeptRequest, "end")
            patch.setattr(here, name, full)
            with pytest.raises((ConfigError, StoreError)):
                await at.consumer(target=NOISY)
        assert (tmp_path / "consumer" / "summary.npz").exists() == (where != "the rows")
        await at.consumer(target=NOISY)
    assert len(read_arrays(tmp_path / "consumer" / "summary.npz", "test")["x"]) == 6
    assert draws(tmp_path) == len([*(tmp_path / "runs").glob("run-*")]) == 1


@pytest.mark.parametrize("written", [True, False])
async def test_an_earlier_summary_stays_whole_beside_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    # Weights of other rows lay beside a new summary until it was judged; here it never is. Then the new rows
    # replaced the earlier ones, for which D_v had paid.

    def full(path: Path, data: bytes, mode: int | None = None) -> None:
        if path.name == "summary.npz" and not written:
            raise FULL
        replace(path, data, mode)

    def fail(*_: object) -> None:
        raise ValueError("odd rows")

    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer(target=NOISY)
        monkeypatch.setattr(consumer.results, "replace", full)
        monkeypatch.setattr(received, "evaluator", fail)
        with pytest.raises(NotJudgedError if written else StoreError):
            await at.consumer(target=NOISY)
    folder = tmp_path / "consumer"
    for name in (WEIGHTED, REPEATS, EVALUATION, "summary.npz"):
        assert (folder / "earlier-1" / name).exists()
        assert (folder / name).exists() == (written and name == "summary.npz")


CLASSED = Schema(columns=SCHEMA.columns, label=Label(name="y", classes=("no", "yes")))


async def test_a_summary_that_cannot_be_judged_is_there_and_is_judged_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # (d): the rows came, judging failed, and the same command made a new run. The log says nothing of mmd2.
    save_table(tmp_path / "test.npz", rows(9, 3, CLASSED))
    asking: dict[str, Any] = {"target": NOISY, "downstream": True, "test": tmp_path / "test.npz"}
    async with market(tmp_path, ["a"], CLASSED) as at:
        at.owner("a", 40)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "sklearn.svm", None)
            with pytest.raises(NotJudgedError, match=r"pip install 'fedkme\[sim\]'"):
                await at.consumer(12, **asking)
    out = tmp_path / "consumer"
    assert len(read_arrays(out / "summary.npz", "test")["x"]) == 12
    ear = Ear()
    await at.consumer(12, ear=ear, **asking)  # the curator has gone: nobody is asked
    assert [event for event, _ in ear.said][-2:] == ["judged", "verdict"]
    verdict = ear.said[-1][1]
    assert verdict.keys() == {"run", "round", "grade", "advice"}
    assert verdict["grade"] in GRADES
    assert not re.search(r"\d\.\d|mmd", str(verdict))
    assert len(read_arrays(out / "weighted.npz", "test")["w"]) <= 12
    assert len(read_arrays(out / "repeats.npz", "test")["x"]) == 12
    assert set(read_json(out / "evaluation.json")["downstream"]) == {"linear_svm", "mlp_32"}
    assert draws(tmp_path) == len([*(tmp_path / "runs").glob("run-*")]) == 1


async def test_what_could_not_be_judged_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without scikit-learn the consumer paid for rows first and heard of the package afterwards.
    save_table(tmp_path / "test.npz", rows(5, 3, CLASSED))
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        async with market(tmp_path, ["a"], CLASSED) as at:
            with pytest.raises(MissingDependencyError, match=r"fedkme\[sim\]"):
                await at.consumer(target=NOISY, downstream=True, test=tmp_path / "test.npz")
    assert draws(tmp_path) == 0


async def test_no_failure_of_judging_is_one_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "It can neither fail nor reopen a request"; a library's error may quote rows, and is named by its type.
    def fail(*_: object) -> None:
        raise ValueError("0.123")

    ear = Ear()
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        with monkeypatch.context() as patch:
            patch.setattr(received, "evaluator", fail)
            for _ in range(2):
                with pytest.raises(NotJudgedError, match="failed with ValueError") as caught:
                    await at.consumer(target=NOISY, ear=ear)
                assert "0.123" not in str(caught.value)
        assert [event for event, _ in ear.said if event in ("received", "judged")] == ["received"]
        await at.consumer(target=NOISY)
        (tmp_path / "consumer" / "summary.npz").unlink()
        await at.consumer(target=NOISY)  # it was done: another request
    assert draws(tmp_path) == 2


async def test_a_request_is_of_one_d_v_and_is_given_up_by_cancelling_it(tmp_path: Path) -> None:
    save_table(tmp_path / "another.npz", rows(15, 2))
    async with market(tmp_path, ["a"]) as at, at.attend() as silent:
        hello = owners_pb2.Hello(name="a", versions=codecs.VERSIONS, instance=b"i" * 16)
        await silent.write(owners_pb2.OwnerMessage(hello=hello))
        assert (await silent.read()).HasField("welcome")
        await at.ear.heard("owner_joined")
        first = at.consumer()
        considered = await silent.read()
        await silent.write(owners_pb2.OwnerMessage(at=considered.at, accepted=owners_pb2.Accepted(rows=20)))
        await at.ear.heard("queued")
        first.cancel()
        await asyncio.wait([first])
        for other in ({"p": 7}, {"validation": tmp_path / "another.npz"}):
            with pytest.raises(ConfigError, match="waits for another summary, run-1, for which D_v has paid"):
                await at.consumer(**other)
        cancelled: asyncio.Future[None] = asyncio.ensure_future(cancelling("run-1")(at.asking(), Ear()))
        while not (await silent.read()).HasField("show_head"):  # the run's last question
            pass
        silent.cancel()
        at.owner("a")
        await cancelled
        await at.consumer(7)
    assert draws(tmp_path) == 2


async def test_a_command_that_asks_otherwise_gives_up_an_unpaid_request_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By hand: after an upgrade the request was dropped without a word, and its run stayed "asked" for good.
    planned, hear_plan = asyncio.Event(), consumer.summary.client._plan

    async def planned_only(*arguments: Any) -> Plan:
        await hear_plan(*arguments)
        planned.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        with monkeypatch.context() as patch:
            patch.setattr(consumer.summary.client, "_plan", planned_only)
            first = at.consumer(5)
            await asyncio.wait([first, asyncio.ensure_future(planned.wait())], return_when="FIRST_COMPLETED")
            first.cancel()
            await asyncio.wait([first])
        ear = Ear()
        await at.consumer(7, ear=ear)
        async with at.summaries() as stub:
            listed = await stub.ListRuns(pb.RunQuery(name="consumer"))
    assert [run.status for run in listed.runs] == ["cancelled", "complete"]
    (line,) = (fields["line"] for event, fields in ear.said if fields.get("code") == CancelledRunError.code)
    assert "earlier request" in line
    assert "another 'output'" in line
