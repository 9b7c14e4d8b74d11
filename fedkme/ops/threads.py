"""Computing in threads beside the event loop; a stopping party does not wait for these threads.

A process joins the threads of `asyncio.to_thread` before it ends, whatever they compute; the threads here are
abandoned. Their results are dropped, and the store, closed by then, refuses their writes. A few threads stay
idle for further work: a new thread costs more than most answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

turns: contextvars.ContextVar[asyncio.Semaphore | None] = contextvars.ContextVar("turns", default=None)
"""Limits how many of a context's tasks compute at a time; None: any number."""


class Compute(Protocol):
    """Runs work outside the event loop."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run the work, and return its result when awaited."""


computes: contextvars.ContextVar[Compute | None] = contextvars.ContextVar("computes", default=None)
"""Replaces threads in virtual time, where nothing waits for a thread; None: threads compute."""
QUICK_S = 0.002
"""Time of a computation below which a thread costs more than it saves."""
MOST_IDLE = 4
"""Limit of threads that wait for work."""
Work = Callable[[], object]
_under_way: set[Work] = set()
_idle: list[SimpleQueue[Work]] = []
"""Queues of the threads that wait for work."""
os.register_at_fork(after_in_child=_idle.clear)  # a fork has none of its parent's threads


async def in_thread(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Compute in a thread when it is the task's turn; a cancelled caller does not wait for the thread."""
    async with turns.get() or contextlib.nullcontext():
        return await (computes.get() or _run_in_thread)(partial(work, *arguments, **named))


class AdaptiveThreads:
    """Computes questions that were quick last time on the event loop, and all others in threads."""

    def __init__(self) -> None:
        self._took: dict[str, float] = {}

    def quick(self, kind: str) -> bool:
        """Check whether the last computation of a kind was quick, so that the next may run on the loop."""
        return computes.get() is None and self._took.get(kind, math.inf) < QUICK_S

    async def compute(
        self,
        kind: str,
        work: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Compute something of a kind; the first computation of a kind runs in a thread."""

        def timed() -> Result:
            began = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self._took[kind] = time.perf_counter() - began

        return timed() if self.quick(kind) else await in_thread(timed)


async def _run_in_thread(work: Callable[[], Result]) -> Result:
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
        except BaseException as error:  # goes to the caller
            method, value = answer.set_exception, error
        finally:
            _under_way.discard(compute)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, method, value)

    _under_way.add(compute)
    _idle_thread().put(compute)
    return await answer


def _idle_thread() -> SimpleQueue[Work]:
    """Take the queue of an idle thread, or of a new one."""
    if _idle:
        return _idle.pop()
    tasks: SimpleQueue[Work] = SimpleQueue()
    threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    return tasks


def _serve(tasks: SimpleQueue[Work]) -> None:
    """Run tasks until enough other threads are idle."""
    while True:
        tasks.get()()
        if len(_idle) >= MOST_IDLE:
            return
        _idle.append(tasks)


def under_way() -> bool:
    """Check whether a computation is still running in a thread."""
    return bool(_under_way)


_lock = threading.Lock()
_held: list[Any] = []
"""Limit of this process, once for each context that is open; the last one to close lifts it."""


@cache
def _libraries() -> ThreadpoolController:
    """Find the loaded libraries, once: that takes as long as many an owner's answer."""
    import scipy.linalg.lapack  # noqa: F401, takes a fifth of a second, so not at start
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit matrix computations of this process to one thread; contexts may overlap.

    The limit does not hold for libraries that are loaded later, so scipy's is loaded first.
    """
    with _lock:
        _held.append(_held[-1] if _held else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limits = _held.pop()
            if not _held:
                limits.restore_original_limits()


@contextmanager
def one_thread_of_models() -> Iterator[None]:
    """Limit scikit-learn's OpenMP to this thread: others spin where cores are shared; also a decorator."""
    import sklearn.ensemble  # noqa: F401, the limit does not hold for libraries that are loaded later
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="openmp"):
        yield
