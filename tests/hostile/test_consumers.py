"""A curator whose consumer is hostile: every message and every call of the service for consumers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from curator.runs import MOST_ASKED
from curator.service import MOST_CALLS
from fedkme.errors import CancelledRunError, ConfigError, FedkmeError, ProtocolError, QuotaError
from fedkme.wire import codecs
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import types_pb2
from tests.system.market import DIMENSION, Ear, market, request

from .fuzz import GROWTH, fuzzed, garble, resident
from .services import Call, Services, services

FUZZED = 10_000
TARGET = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * DIMENSION))
ROW = types_pb2.Row(token=0, values=[0.5, 0.5, 0.5])


def asked(number: int = 0, **changes: Any) -> pb.ConsumerMessage:
    message = request()
    message.request.request_id = b"%016d" % number
    for name, value in changes.items():
        setattr(message.request, name, value)
    return message


def d_v(count: int, last: bool = True) -> pb.ConsumerMessage:
    return pb.ConsumerMessage(validation=types_pb2.Rows(rows=[ROW] * count, last=last))


def fault_in(heard: list[pb.CuratorMessage]) -> FedkmeError:
    assert heard[-1].HasField("fault"), heard
    return codecs.fault_from_wire(heard[-1].fault)


async def talk(at: Services, *said: pb.ConsumerMessage | None) -> list[pb.CuratorMessage]:
    """What the curator says to somebody who says this, whatever it answers, and hangs up."""
    call = Call(said)
    await at.summaries.Summarize(None, call)
    assert call.status is None
    return call.heard


@pytest.fixture
def foreseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing happens that nobody foresaw: the guard, and tasks that nobody waits for, write to the log."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.usefixtures("foreseen")
async def test_ten_thousand_fuzzed_messages(tmp_path: Path) -> None:
    # "10,000 fuzzed messages of every type": three to a call, and every call ends in order.
    offers = [TARGET, d_v(2), pb.ConsumerMessage(attach=pb.RunQuery(name="consumer", run="run-1"))]
    queries = [pb.RunQuery(name="consumer"), pb.RunQuery(name="consumer", run="run-1")]
    before, rng = resident(), random.Random(1)
    endings: set[str] = set()
    async with services(tmp_path) as at:
        opening = fuzzed([asked(number) for number in range(500)] + 50 * [offers[2]], FUZZED // 2, seed=1)
        following = fuzzed(offers, FUZZED * 3 // 10, seed=2)
        asking = fuzzed(queries, FUZZED // 5, seed=3)
        for first in opening:
            said = [first, *(next(following) for _ in range(rng.randint(0, 2)))]
            heard = await talk(at, *said)
            assert not any(message.HasField("summary") for message in heard)  # "no answer that carries data"
            endings |= {str(message.WhichOneof("body")) for message in heard}
            if (query := next(asking, None)) is not None:
                verb = rng.choice((at.summaries.ListRuns, at.summaries.CancelRun))
                answer = await asyncio.wait_for(verb(query, Call([])), 60)
                assert all(at.runs.find(state.run).consumer == query.name for state in answer.runs)
            if (next_two := rng.random()) < 0.1:
                await at.runs.idle()
            del next_two
        assert {"plan", "fault"} <= endings
        assert len(at.runs._open) <= 100
    assert resident() - before < GROWTH
