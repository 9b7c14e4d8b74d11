"""An event loop whose clock jumps to the next due event: deterministic, and hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import selectors
import time
import types
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from typing_extensions import override

from audit.chaos.process import Process, current
from fedkme.ops.threads import Compute, computes

Result = TypeVar("Result")


class StuckError(Exception):
    """Deadlock: all parties wait for each other, and nothing is due."""


class _Jumping(selectors.SelectSelector):
    """Selector that never sleeps: it advances the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    @override
    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0) if timeout is None else []  # only a signal comes from outside
        if not ready:
            if timeout is None:
                raise StuckError("all parties wait for each other, and nothing is due")
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on a jumping clock that runs executor calls in place; all else is asyncio's own."""

    def __init__(self) -> None:
        """Begin at time 0."""
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.now

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


@types.coroutine
def turn() -> Iterator[None]:
    """Let other tasks run, as `asyncio.sleep(0)` does, but cheaper: a schedule yields hundreds of times."""
    yield


def run_virtual(work: Callable[[], Coroutine[Any, Any, Result]], compute: Compute) -> Result:
    """Run work to its end in virtual time; `compute` takes the place of threads.

    Raises:
        StuckError: the work does not end.
    """
    before = computes.set(compute)
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(work())
    finally:
        computes.reset(before)


@contextlib.contextmanager
def simulated_machine() -> Iterator[None]:
    """Give processes virtual time, a wall clock of their own, and entropy from the world's seed."""
    with contextlib.ExitStack() as stack:
        for module, name in ((os, "urandom"), (random, "_urandom")):  # of both, `secrets` has the second
            stack.enter_context(
                _replaced(module, name, lambda process, size: process.entropy.randbytes(size))
            )
        for name in ("monotonic", "perf_counter"):
            stack.enter_context(_replaced(time, name, lambda process: asyncio.get_running_loop().time()))
        stack.enter_context(_replaced(time, "time", lambda process: process.fate.clock()))
        yield


@contextlib.contextmanager
def _replaced(module: Any, name: str, simulated: Callable[..., Any]) -> Iterator[None]:
    real = getattr(module, name)

    def call(*arguments: Any) -> Any:
        process: Process | None = current.get()
        return real(*arguments) if process is None else simulated(process, *arguments)

    setattr(module, name, call)
    try:
        yield
    finally:
        setattr(module, name, real)
