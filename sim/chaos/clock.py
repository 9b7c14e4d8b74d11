"""An event loop whose time jumps to what is due next: deterministic, and hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import heapq
import selectors
import types
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from typing_extensions import override

from fedkme.ops.threads import Compute, computes

Result = TypeVar("Result")
Given = TypeVarTuple("Given")
_MANY = 100  # timers; half of them cancelled, they are sorted out


class StuckError(Exception):
    """Deadlock: all parties wait for each other, and nothing is due."""


class _Jumping(selectors.SelectSelector):
    """Waits for nobody: where a loop would sleep, its clock moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    @override
    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0) if timeout is None else []  # nothing comes from outside but a signal
        if not ready:
            if timeout is None:
                raise StuckError("everybody waits for somebody, and nothing is due")
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on a jumping clock, whose threads compute in place.

    What is due is done in asyncio's order, but for what asyncio does for real time, sockets and debugging:
    that took a tenth of a schedule.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, Any]]
    _timer_cancelled_count: int
    _stopping: bool
    _clock_resolution: float
    _process_events: Callable[[Any], None]

    def __init__(self) -> None:
        """Begin at time 0."""
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.now

    @override
    def call_soon(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    @override
    def call_at(
        self, when: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        known: Any = (timer := asyncio.TimerHandle(when, callback, args, self, context))
        heapq.heappush(self._scheduled, (when, timer))
        known._scheduled = True
        return timer

    def _run_once(self) -> None:
        ready, timers, clock = self._ready, self._scheduled, self._jumping
        if len(timers) > _MANY and 2 * self._timer_cancelled_count > len(timers):
            timers[:] = [pair for pair in timers if not pair[1]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][1]._cancelled:
            heapq.heappop(timers)[1]._scheduled = False
            self._timer_cancelled_count -= 1
        if not (ready or self._stopping):
            self._process_events(clock.select(timers[0][0] - clock.now if timers else None))
        while timers and timers[0][0] < clock.now + self._clock_resolution:
            _, timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


@types.coroutine
def turn() -> Iterator[None]:
    """Let the others go on: `asyncio.sleep(0)`, of which a schedule has hundreds."""
    yield


def run_virtual(work: Callable[[], Coroutine[Any, Any, Result]], compute: Compute) -> Result:
    """Run to the end in virtual time; `compute` stands for threads.

    Raises:
        StuckError: it does not end.
    """
    before = computes.set(compute)
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(work())
    finally:
        computes.reset(before)
