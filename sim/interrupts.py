"""Ctrl-C and SIGTERM while a simulation lasts, and work that runs wherever it is called from."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from fedkme.errors import InterruptedRunError

Result = TypeVar("Result")


class Interrupts:
    """Ctrl-C and SIGTERM while a simulation lasts: what goes on ends in order, what was done is written down.

    One is enough; a second one, in a hurry, does not disturb the order. Python handles signals in the main
    thread alone: in another one nothing is interrupted.
    """

    def __init__(self) -> None:
        self._told = False
        self._cancel: Callable[[], object] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run some work to its end; in a thread of its own where a loop runs in this one, as in notebooks.

        Raises:
            InterruptedRunError: it was told to stop, or somebody said so before.
        """
        if not _loop_runs():
            return asyncio.run(self._main(work))
        context = contextvars.copy_context()  # by which a notebook knows the cell that is printing
        with ThreadPoolExecutor(1, "fedkme") as thread:
            return thread.submit(context.run, asyncio.run, self._main(work)).result()

    async def _main(self, work: Coroutine[Any, Any, Result]) -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._told:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if not self._told:
                raise
            raise InterruptedRunError(
                "the run was interrupted", "What was done so far is kept in the run's folder."
            ) from None
        finally:
            self._cancel = None

    def _hear(self, *_: object) -> None:
        first, self._told = not self._told, True  # before the work, in another thread, can look
        if first and self._cancel is not None:
            self._cancel()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
