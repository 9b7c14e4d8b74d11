"""One consumer at its legal maximum holds up nobody else: rows of D_v itself, by the million (issue 17)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.peers import Quota
from curator.run.run import Run
from curator.runs.queue import RunQueue, next_run
from fedkme.documents import RunDocument
from fedkme.errors import QuotaError
from fedkme.exchange import Offer, Plan, SummaryRequest
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.events import CURATOR
from fedkme.store import RunRow, Store, open_store
from fedkme.tables.files import save_table
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.journals import run_document_from_bytes
from fedkme.wire.v1 import summaries_pb2 as pb
from tests.parties import WAIT_S
from tests.system.market import DIMENSION, SCHEMA, market, request, rows
from tests.system.test_wire_consumers import TARGET

WITH_ROWS = pb.ConsumerMessage(target=TARGET.target, with_validation=True)
PLAN = Plan("run-1", FourierSpec("paired", DIMENSION, 1.0, SCHEMA.encoded_width, 5))


async def test_rows_of_d_v_are_read_beside_the_loop_of_the_curator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    read = codecs.values_from_wire

    def reading(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return read(*arguments)

    monkeypatch.setattr(codecs, "values_from_wire", reading)
    values = rows(5, 1).values
    parts = list(codecs.values_to_wire(values))
    asked = request()
    asked.request.validation_rows = len(values)
    async with market(tmp_path, ["a", "b"]) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        async with at.summarize() as stream:
            await stream.write(asked)
            assert (await stream.read()).HasField("plan")
            await stream.write(WITH_ROWS)
            for part in parts:
                await stream.write(pb.ConsumerMessage(validation=part))
            await at.ear.heard("queued")
            assert len(threads) == len(parts)
            assert threading.main_thread() not in threads
        at.owner("b")
        await at.ear.heard("ended")
        assert at.ended()["status"] == "complete"


async def test_a_consumer_sends_no_more_of_d_v_than_its_quota_over_all_open_runs(tmp_path: Path) -> None:
    quota = {"most_values": 60}
    async with market(tmp_path, ["a", "b"], quota=quota) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        asking: dict[str, Any] = {"share": "rows", "journal": str(tmp_path / "b.store")}
        waiting = at.consumer(share="rows", output=tmp_path / "first")  # 15 rows of 3 columns
        await at.ear.heard("queued")
        with pytest.raises(QuotaError, match="D_v of 90 numbers in all and may send 60"):
            await at.consumer(output=tmp_path / "second", **asking)
        at.owner("b")  # for which the run waits
        await waiting
        await at.consumer(output=tmp_path / "second", **asking)  # there is room, and the same request goes on


async def test_a_consumer_hears_why_rows_are_refused_that_it_still_sends(tmp_path: Path) -> None:
    # 38.6 MB over the quota: the stream broke as it wrote, and it dialled and sent again and again.
    async with market(tmp_path, ["a"], quota={"most_values": 60}) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        save_table(tmp_path / "large.npz", rows(400_000, 1))
        with pytest.raises(QuotaError, match="D_v of 1200000 numbers in all and may send 60"):
            async with asyncio.timeout(WAIT_S):
                await at.consumer(share="rows", validation=tmp_path / "large.npz")
        assert [event for event, _ in at.ear.said].count("refused") == 1


async def test_rows_of_d_v_count_while_they_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three times 38.6 MB that came one after another were over the default quota, and all taken.
    begun, go_on = threading.Event(), threading.Event()
    keep = RunQueue.keep_rows

    def slowly(queue: RunQueue, run: Run, validation: Table) -> None:
        if not begun.is_set():  # the first of them
            begun.set()
            assert go_on.wait(WAIT_S)
        keep(queue, run, validation)

    monkeypatch.setattr(RunQueue, "keep_rows", slowly)
    async with market(tmp_path, ["a"], quota={"most_values": 60}) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        first = asyncio.ensure_future(at.consumer(share="rows", output=tmp_path / "first"))
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        try:
            with pytest.raises(QuotaError, match="D_v of 90 numbers in all and may send 60"):
                await at.consumer(share="rows", output=tmp_path / "second", journal=str(tmp_path / "b.store"))
        finally:
            go_on.set()
        await first


def test_open_runs_of_a_consumer_are_limited_unless_a_curator_says_otherwise() -> None:
    runs = [Run(f"run-{number}", asked(number), "queued", 0.0) for number in range(16)]
    Quota().check("consumer", 3, runs[1:])
    Quota(most_open_runs=None).check("consumer", 3, runs)
    with pytest.raises(QuotaError, match="would have 17 open runs and may have 16"):
        Quota().check("consumer", 3, runs)


def document(store: Store) -> int:
    """Bytes of the documents that a list of runs reads."""
    return sum(len(row.document) for row in store.runs())


def asked(number: int, consumer: str = "consumer") -> RunDocument:
    wanted = SummaryRequest(consumer, b"%016d" % number, SCHEMA.digest(), 3, 1000, 1.0)
    return RunDocument(wanted, PLAN)


async def carried_out(_: object) -> None:
    raise AssertionError("no run begins here")


async def test_lists_of_runs_read_no_rows_and_a_restart_has_them(tmp_path: Path) -> None:
    values, classes = rows(1000, 1).values, np.arange(1000) % 2
    offer = Offer(np.zeros(DIMENSION, dtype=np.int32), None, values)
    with contextlib.closing(open_store(tmp_path / "journal.db", CURATOR, "process")) as store:
        runs = RunQueue(store, carried_out, 1)
        runs.hold()
        run = runs.ask("run-1", asked(1))
        run.document = RunDocument(run.document.request, PLAN, offer)
        runs.keep_rows(run, Table(values, classes))
        runs.enqueue(run)
        assert document(store) < 1000
        again = RunQueue(store, carried_out, 1)
        (left,) = again.left_open()
        assert left.document.offered.validation is not None
        assert np.array_equal(left.document.offered.validation, values)
        assert left.document.offered.validation_classes is not None
        assert np.array_equal(left.document.offered.validation_classes, classes)
        again.cancel(left)
        assert store.keys("d_v/") == [], "rows of D_v go with the run"


async def test_a_request_that_comes_again_is_found_without_reading_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(open_store(tmp_path / "journal.db", CURATOR, "process")) as store:
        before = RunQueue(store, carried_out, 1)
        for number in range(3):
            before.close(before.ask(f"run-{number}", asked(number)), "failed")
        runs = RunQueue(store, carried_out, 1)
        runs.ask("run-3", asked(3))
        read: list[bytes] = []
        decode = run_document_from_bytes

        def decoded(data: bytes) -> RunDocument:
            read.append(data)
            return decode(data)

        monkeypatch.setattr("curator.runs.queue.run_document_from_bytes", decoded)
        for number in range(4):
            found = runs.asked_before("consumer", b"%016d" % number)
            assert found is not None
            assert found.name == f"run-{number}"
        assert len(read) == 3, "each of the three that are over, once; the fourth is in memory"
        assert runs.asked_before("consumer", b"unknown") is None
        assert runs.asked_before("another", b"%016d" % 1) is None


async def test_a_run_is_named_and_a_consumer_s_runs_are_listed_without_reading_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Issue 17, A8: each request read every document that there was.
    with contextlib.closing(open_store(tmp_path / "journal.db", CURATOR, "process")) as store:
        runs = RunQueue(store, carried_out, 1)
        runs.ask("run-1", asked(1, "another"))
        runs.ask(next_run(store, True, str), asked(2))
        listed = store.runs

        def some(status: str | None = None, peer: str | None = None) -> list[RunRow]:
            assert status or peer, "every run is read"
            return listed(status, peer)

        monkeypatch.setattr(store, "runs", some)
        assert next_run(store, True, str) == "run-3"
        runs.ask("run-3", asked(3))
        assert next_run(store, True, str) == "run-4"
        assert [run.name for run in runs.of("consumer")] == ["run-2", "run-3"]
