"""A curator whose consumer is hostile: every message and every call of the service for consumers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest

from curator.consumers.admission import MOST_CALLS
from curator.runs.queue import MOST_ASKED
from fedkme.errors import CancelledRunError, ConfigError, FedkmeError, ProtocolError, QuotaError, StoreError
from fedkme.wire import codecs
from fedkme.wire.journals import run_document_to_bytes
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import types_pb2
from tests.hostile.fuzz import GROWTH, at_rest, fuzzed, garble, resident
from tests.hostile.services import Call, Services, services
from tests.parties import WAIT_S
from tests.system.market import DIMENSION, Ear, market, request

FUZZED = 10_000
TARGET = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * DIMENSION))
ROW = np.full(3, 0.5, "<f8").tobytes()


def asked(number: int = 0, **changes: Any) -> pb.ConsumerMessage:
    message = request()
    message.request.request_id = b"%016d" % number
    for name, value in changes.items():
        setattr(message.request, name, value)
    return message


def d_v(count: int, last: bool = True) -> pb.ConsumerMessage:
    return pb.ConsumerMessage(validation=types_pb2.Rows(values=ROW * count, columns=3, last=last))


def fault_in(heard: list[pb.CuratorMessage]) -> FedkmeError:
    assert heard[-1].HasField("fault"), heard
    return codecs.fault_from_wire(heard[-1].fault)


async def talk(at: Services, *messages: pb.ConsumerMessage | None) -> list[pb.CuratorMessage]:
    """Answers of the curator to a caller that says this, whatever it hears, and hangs up."""
    call = Call(messages)
    await at.summaries.Summarize(None, call)
    assert call.status is None
    return call.heard


@pytest.fixture
def foreseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Assert that nothing unexpected happens: masked errors, and tasks that nobody waits for, are logged."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.usefixtures("foreseen")
async def test_ten_thousand_fuzzed_messages(tmp_path: Path) -> None:
    # "10,000 fuzzed messages of every type": every call ends in order, most with a typed refusal; nobody who
    # has no row gets one ("no answer that carries data").
    attach = pb.ConsumerMessage(attach=pb.RunQuery(name="consumer", run="run-1"))
    queries = [pb.RunQuery(name="consumer"), pb.RunQuery(name="consumer", run="run-1")]
    openings = fuzzed([*(asked(number) for number in range(50)), attach], FUZZED * 9 // 20, seed=1)
    following = fuzzed([TARGET, d_v(2), d_v(1, last=False)], FUZZED * 9 // 20, seed=2)
    asking = fuzzed(queries, FUZZED // 10, seed=3)
    before, heard = at_rest(), set[str]()
    async with services(tmp_path) as at:
        for number, messages in enumerate(zip(openings, following, strict=True)):
            answers = await talk(at, *messages)
            assert not any(answer.HasField("summary") for answer in answers)
            heard |= {str(answer.WhichOneof("body")) for answer in answers}
            if number % 5 == 0 and (query := next(asking, None)) is not None:
                verb = at.summaries.ListRuns if number % 2 else at.summaries.CancelRun
                listed = await verb(query, Call([]))
                for state in listed.runs:
                    run = at.runs.find(state.run)
                    assert run is not None
                    assert run.consumer == query.name
        assert {"plan", "fault"} <= heard
    assert resident() - before < GROWTH


@pytest.mark.usefixtures("foreseen")
async def test_hundreds_of_fuzzed_calls_over_a_socket(tmp_path: Path) -> None:
    # The same as bytes on a connection; then an honest consumer gets its summary.
    rng, ear = random.Random(5), Ear()
    async with market(tmp_path, ["a"]) as at:
        at.owner("a", ear=ear)
        await ear.heard("joined")
        async with grpc.aio.insecure_channel(at.address) as channel:
            for number in range(150):
                call: Any = channel.stream_stream("/fedkme.v1.Summaries/Summarize", bytes, bytes)()
                for sample in (asked(number), TARGET):
                    raw = sample.SerializeToString()
                    await call.write(raw if rng.random() < 0.5 else garble(raw, rng))
                await call.done_writing()
                while await call.read() is not grpc.aio.EOF:
                    pass
                assert await call.code() is grpc.StatusCode.OK
        await at.consumer(output=tmp_path / "good")
    assert (tmp_path / "good" / "summary.npz").exists()


HUGE = 2**63
SHARED = pb.ConsumerMessage(target=TARGET.target, with_validation=True)


@pytest.mark.parametrize(
    ("messages", "kind", "words"),
    [
        ([asked(request_id=b"x" * 65)], ProtocolError, "an odd id"),
        ([asked(gamma=float("inf"))], ConfigError, "gamma must be positive and finite"),
        ([asked(gamma=1.7e308)], ConfigError, "gamma must be positive and finite"),
        (
            [asked(validation_rows=HUGE), SHARED, d_v(1, last=False), d_v(0, last=False)],
            ProtocolError,
            "empty parts",
        ),
        ([asked(validation_rows=HUGE), SHARED, d_v(2)], ProtocolError, "another size"),
        (
            [asked(validation_rows=HUGE), SHARED, *[d_v(20_000, last=False)] * 200],
            ProtocolError,
            "67108864 bytes",
        ),
        ([asked(validation_rows=0), d_v(0)], FedkmeError, ""),
    ],
    ids=range(7),
)
@pytest.mark.usefixtures("foreseen")
async def test_what_is_refused(
    tmp_path: Path, messages: list[pb.ConsumerMessage], kind: type[FedkmeError], words: str
) -> None:
    # Before anything is computed or kept, however much of it is on the way; here without a quota.
    before = at_rest()
    async with services(tmp_path, quota={"most_values": None}) as at:
        fault = fault_in(await talk(at, *messages))
    assert isinstance(fault, kind)
    assert words in fault.cause
    assert resident() - before < GROWTH


@pytest.mark.usefixtures("foreseen")
async def test_more_rows_than_there_are(tmp_path: Path) -> None:
    # p is the consumer's to say: what nobody has is refused with the plan, before D_v pays, and the next run
    # is served; also what is more than 20, once the owner has said that it has 20.
    ear = Ear()
    async with market(tmp_path, ["a"]) as at:
        for wanted in (HUGE, 21):
            async with at.summarize() as stream:
                await stream.write(asked(wanted % 97, rows=wanted))
                fault = codecs.fault_from_wire((await stream.read()).fault)
                assert fault.code == 20
            if wanted == HUGE:
                at.owner("a", ear=ear)
                await ear.heard("joined")
        await at.consumer(output=tmp_path / "good")


@pytest.mark.parametrize("run", ["run-1", "", "\0", "../..", "x" * 2**20])
@pytest.mark.usefixtures("foreseen")
async def test_runs_of_others_are_not_there(tmp_path: Path, run: str) -> None:
    # Whoever names another's run hears the same as of a run that never was; cancelling it does nothing.
    async with services(tmp_path) as at:
        await talk(at, asked())
        query = pb.RunQuery(name="mallory", run=run)
        faults = [fault_in(await talk(at, pb.ConsumerMessage(attach=query)))]
        for verb in (at.summaries.ListRuns, at.summaries.CancelRun):
            answer = await verb(query, Call([]))
            assert not any(state.run == "run-1" for state in answer.runs)
            faults += [codecs.fault_from_wire(answer.fault)] if answer.HasField("fault") else []
        for fault in faults:
            assert fault.cause == f"there is no run {run[:64]!r} of yours"
        mine = at.runs.find("run-1")
        assert mine is not None
        assert mine.open


@pytest.mark.usefixtures("foreseen")
async def test_the_request_of_another(tmp_path: Path) -> None:
    # The id of a request is no key to what it began.
    async with services(tmp_path) as at:
        (plan,) = (messages for messages in await talk(at, asked()) if messages.HasField("plan"))
        heard = await talk(at, asked(name="mallory"))
        assert heard[0].plan.run != plan.plan.run
        assert not heard[0].plan.offered


@pytest.mark.usefixtures("foreseen")
async def test_a_consumer_hears_whose_disk_is_full_and_not_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By hand: "the store /srv/.../journal.db could not be written: make room" sent the lab to its own disk.
    def fails(*line: object, **named: object) -> None:
        raise StoreError("the store /srv/journal.db could not be written: the disk is full", "Make room.")

    async with services(tmp_path) as at:
        monkeypatch.setattr(at.store, "open_run", fails)
        fault = fault_in(await talk(at, asked()))
        assert type(fault) is StoreError
        assert fault.cause == "the curator's store failed"
        assert "operator" in fault.remedy
        (messages,) = (fields for event, fields in at.said if event == "refused")
        assert "/srv/journal.db" in messages["cause"]


@pytest.mark.usefixtures("foreseen")
async def test_requests_without_g(tmp_path: Path) -> None:
    # Many that ask and never send g~: a few wait, the oldest gives way and hears so, others are served.
    async with services(tmp_path) as at:
        for number in range(150):
            await talk(at, asked(number))
        assert len(at.runs._open) == MOST_ASKED
        assert isinstance(fault_in(await talk(at, asked(0))), CancelledRunError)
        assert (await talk(at, asked(1, name="other")))[0].HasField("plan")
        assert at.runs.find("run-1") is not None


@pytest.mark.usefixtures("foreseen")
async def test_a_request_cancels_the_unpaid_one_that_it_replaces(tmp_path: Path) -> None:
    async with services(tmp_path) as at:
        for number, name in enumerate(("consumer", "other", "consumer")):
            await talk(at, asked(number, name=name))
        for number, replaced in ((3, 0), (4, 1), (5, 99)):  # its own; another consumer's; nobody's
            assert (await talk(at, asked(number, replaces=b"%016d" % replaced)))[0].HasField("plan")
        assert fault_in(await talk(at, asked(6, replaces=b"x" * 2**16, rows=0))).code
        status = {
            name: run.status for name in map("run-{}".format, range(1, 7)) if (run := at.runs.find(name))
        }
    assert status == {"run-1": "cancelled"} | {f"run-{number}": "asked" for number in range(2, 7)}


@pytest.mark.usefixtures("foreseen")
async def test_g_is_taken_once(tmp_path: Path) -> None:
    # Two calls of one request race: what came first is what the run is a function of, in memory and on disk.
    other = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[1] * DIMENSION))
    async with services(tmp_path, runs_at_once=1) as at:
        at.runs.hold()
        calls = [asyncio.create_task(talk(at, asked(), messages, messages)) for messages in (TARGET, other)]
        async with asyncio.timeout(WAIT_S):
            while (run := at.runs.find("run-1")) is None or run.status == "asked":  # noqa: ASYNC110  # likewise
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
        row = at.store.run("run-1")
        assert row.document == run_document_to_bytes(run.document)
        target = run.document.offered.target
        assert target is not None
        assert target.tolist() == [0] * DIMENSION
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.usefixtures("foreseen")
async def test_calls_of_one_consumer(tmp_path: Path) -> None:
    # Each may hold some of D_v in memory, so that there are few at a time; those of others are not counted.
    async with services(tmp_path) as at:
        calls = []
        async with asyncio.timeout(WAIT_S):
            for number in range(MOST_CALLS):
                call = Call([asked(number)], waits=True)
                calls.append(asyncio.create_task(at.summaries.Summarize(None, call)))
                while not call.heard:  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0)
        assert isinstance(fault_in(await talk(at, asked(99))), QuotaError)
        assert (await talk(at, asked(99, name="other")))[0].HasField("plan")
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert (await talk(at, asked(99)))[0].HasField("plan")
