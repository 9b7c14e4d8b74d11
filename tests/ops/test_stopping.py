"""Issue 4: "Owner on SIGTERM: finishes the answer it is computing, closes"; a second signal does not wait."""

from __future__ import annotations

import asyncio

import pytest

from fedkme.ops.supervision import to_the_end


async def test_work_that_is_cancelled_once_is_finished() -> None:
    gate, done = asyncio.Event(), []

    async def work() -> None:
        await gate.wait()
        done.append(True)

    task = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


async def test_work_that_is_cancelled_twice_is_not() -> None:
    task = asyncio.create_task(to_the_end(asyncio.Event().wait()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
