"""Computing beside the event loop, in threads for which nobody waits once the party is told to stop.

A process joins the threads of `asyncio.to_thread` before it ends, whatever they compute; these are left where
they are. What they would have said is not heard, and what a store was to keep of it is refused by the store,
which is closed by then. A few threads wait for further work: a new one costs more than most answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

turns: contextvars.ContextVar[asyncio.Semaphore | None] = contextvars.ContextVar("turns", default=None)
"""Lets so many of a context's tasks compute at a time; None: any number."""


class Compute(Protocol):
    """Computes beside the loop."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Give what the work gives, later."""


computes: contextvars.ContextVar[Compute | None] = contextvars.ContextVar("computes", default=None)
"""Computes in place of a thread: in virtual time nothing waits for one. None: threads do."""
QUICK_S = 0.002
"""Time of a computation below which a thread costs more than it spares."""
MOST_IDLE = 4
"""Threads that wait for work, at most."""
Work = Callable[[], object]
_under_way: set[Work] = set()
_idle: list[SimpleQueue[Work]] = []
"""Ways to the threads that wait for work."""
os.register_at_fork(after_in_child=_idle.clear)  # no thread comes along


async def in_thread(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Compute in a thread of its own, when it is the task's turn; one who is cancelled does not wait."""
    async with turns.get() or contextlib.nullcontext():
        return await (computes.get() or _beside)(partial(work, *arguments, **named))


class AdaptiveThreads:
    """Computes on the loop what was quick there or in a thread the last time, and all else beside it."""

    def __init__(self) -> None:
        self._took: dict[str, float] = {}

    def quick(self, kind: str) -> bool:
        """Tell whether the last of a kind was quick, and the next is to be computed on the loop."""
        return computes.get() is None and self._took.get(kind, math.inf) < QUICK_S

    async def compute(
        self,
        kind: str,
        work: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Compute something of a kind, of which the first is computed beside the loop."""

        def timed() -> Result:
            began = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self._took[kind] = time.perf_counter() - began

        return timed() if self.quick(kind) else await in_thread(timed)


async def _beside(work: Callable[[], Result]) -> Result:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(method: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            method(value)

    def compute() -> None:
        method: Callable[[Any], None] = answer.set_result
        value: Any
        try:
            value = context.run(work)
        except BaseException as error:  # whatever it is, it is the caller's
            method, value = answer.set_exception, error
        finally:
            _under_way.discard(compute)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, method, value)

    _under_way.add(compute)
    _idle_thread().put(compute)
    return await answer


def _idle_thread() -> SimpleQueue[Work]:
    """Take the way to a thread that waits for work, or to a new one."""
    if _idle:
        return _idle.pop()
    tasks: SimpleQueue[Work] = SimpleQueue()
    threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    return tasks


def _serve(tasks: SimpleQueue[Work]) -> None:
    """Do what comes, until enough others wait."""
    while True:
        tasks.get()()
        if len(_idle) >= MOST_IDLE:
            return
        _idle.append(tasks)


def under_way() -> bool:
    """Tell whether something is being computed for nobody."""
    return bool(_under_way)
