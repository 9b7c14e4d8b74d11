"""Archiving beside a party's loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fedkme.errors import StoreError
from fedkme.ops.archiver import Archiver
from tests.parties import WAIT_S

CLOSED = StoreError("the store is closed", "Open it again.")


def archiver_of(answer: StoreError | int) -> tuple[Archiver, threading.Event, threading.Event, list[str]]:
    """One that begins to archive, waits until it is let go, and gives an answer; and what it says."""
    begun, let_go, events = threading.Event(), threading.Event(), list[str]()

    def archive() -> int:
        begun.set()
        assert let_go.wait(WAIT_S)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def say(event: str, **_: Any) -> None:
        events.append(event)

    return Archiver(archive, say), begun, let_go, events


@pytest.mark.parametrize("answer", [CLOSED, 2])
async def test_a_stopping_party_does_not_report_an_unfinished_archive(answer: StoreError | int) -> None:
    # CI of 827f964: an idle party that was told to stop warned of its own store, which it had just closed.
    archiver, begun, let_go, events = archiver_of(answer)
    archiver.go_on()
    await asyncio.to_thread(begun.wait, 20)
    archiver.close()
    let_go.set()
    archiver.go_on()  # a run that is over by then
    await asyncio.sleep(0.2)
    assert events == []


@pytest.mark.parametrize(("answer", "event"), [(CLOSED, "warning"), (2, "archived"), (0, None)])
async def test_a_serving_party_reports_its_archives(answer: StoreError | int, event: str | None) -> None:
    archiver, begun, let_go, events = archiver_of(answer)
    archiver.go_on()
    await asyncio.to_thread(begun.wait, 20)
    let_go.set()
    for _ in range(100):
        await asyncio.sleep(0.01)
        if events:
            break
    assert events == ([] if event is None else [event])
