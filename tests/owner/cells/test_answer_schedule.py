"""Time of an order's answer: a schedule of public numbers, whatever the rows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedkme.directives import Answer, Directive, Dry, FillOrder
from fedkme.embeddings import kernels
from fedkme.embeddings.kernels import rbf
from fedkme.heads.log import Head
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc
from owner.agent import attend
from owner.cells import fill
from owner.cells.answer_schedule import LEAST_S, MARGIN, Pace, measured, wait_s
from owner.cells.fill import ANCHORS, CANDIDATES

ROWS = np.random.default_rng(0).random((60, 3))
CELLS = np.arange(60) % 3


def test_the_schedule_is_a_function_of_public_numbers() -> None:
    pace = Pace(1e-6, 1e-9)
    assert pace.answer_s(0, 0) == LEAST_S
    work = CANDIDATES * (10**5 + ANCHORS) * 1e-6 + 20 * CANDIDATES * (ANCHORS + 20) * 1e-9
    assert pace.answer_s(10**5, 20) == pytest.approx(LEAST_S + MARGIN * (work + 0.04))
    assert pace.answer_s(10, 10**6) > pace.answer_s(10, 10)  # empty boxes take time, too


def test_a_host_is_measured_once() -> None:
    assert measured(7) is measured(7)
    assert min(measured(7).pair, measured(7).product) > 0


def test_a_late_answer_waits_for_the_next_multiple() -> None:
    assert wait_s(2.0, 0.5) == 1.5
    assert wait_s(2.0, 3.5) == 0.5
    assert wait_s(2.0, 2.0) == 0.0
    assert wait_s(0.0, 3.5) == 0.0


def test_every_order_is_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same numbers of kernel values, with or without rows in the ordered cells.
    work: list[tuple[int, int]] = []

    def counted(x: Any, y: Any, gamma: float) -> Any:
        work.append((len(x), len(y)))
        return rbf(x, y, gamma)

    monkeypatch.setattr(kernels, "rbf", counted)
    monkeypatch.setattr(fill, "rbf", counted)
    works = []
    for cell in range(4):
        order = FillOrder(9, np.eye(4)[cell])
        fill.fill_order(ROWS, CELLS, order, np.zeros(0, np.int64), 1.0, 0)
        works.append(list(work))
        work.clear()
    assert sorted(works[0]) == [(60, 1)] * 9 + [(60, 60)] * 2
    assert all(each == works[0] for each in works)


def test_an_answer_leaves_at_its_scheduled_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # The stream waits as long as the handler says, given the time of the computation.
    slept: list[float] = []
    events: list[str] = []

    class Stream:
        def __init__(self) -> None:
            self.left = [
                pb.Directive(at=pb.Position(run="r", round=1, seq=1), close=pb.Close()),
                pb.Directive(farewell=pb.Farewell()),
            ]

        async def write(self, message: pb.OwnerMessage) -> None:
            events.append(str(message.WhichOneof("body")))

        async def read(self) -> pb.Directive:
            return self.left.pop(0)

    class Runs:
        rows = 1
        schema = ""

        def head(self) -> Head:
            return Head("")

        def answer(self, directive: Directive) -> Answer:
            return Dry()

        def wait_s(self, directive: Directive, taken_s: float) -> float:
            assert 0 <= taken_s < 60
            return 7.5

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        events.append("waited")

    stub = SimpleNamespace(Attend=Stream)
    monkeypatch.setattr(owners_pb2_grpc, "OwnersStub", lambda channel: stub)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    runs: Any = Runs()
    channel: Any = None
    asyncio.run(attend(channel, "curator:1", "a", b"i", runs, lambda epoch: None))
    assert slept == [7.5]
    assert events == ["hello", "waited", "dry"]
