"""Ctrl-C and SIGTERM during a simulation, and a way to run async work from any thread or notebook."""

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
    """Handles Ctrl-C and SIGTERM: the work ends in order and its partial results are written.

    One signal is enough; a second signal does not disturb the order. Python handles signals in the main
    thread alone: in another thread nothing is interrupted.
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
        """Run some work to its end; in a thread of its own if a loop runs in this thread, as in notebooks.

        Raises:
            InterruptedRunError: a signal told the work to stop, before or during it.
        """
        if not _loop_runs():
            return asyncio.run(self._main(work))
        context = contextvars.copy_context()  # tells a notebook which cell prints
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
            cause = "the run was interrupted"
            raise InterruptedRunError(cause, "The partial results are in the run's folder.") from None
        finally:
            self._cancel = None

    def _hear(self, *_: object) -> None:
        first, self._told = not self._told, True  # set before the work, in another thread, can look
        if first and self._cancel is not None:
            self._cancel()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
