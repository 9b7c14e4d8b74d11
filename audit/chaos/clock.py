"""An event loop whose time jumps to what is due next: deterministic, and hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
import types
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from typing_extensions import override

from fedkme.ops.threads import Compute, computes

Result = TypeVar("Result")


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
    """A loop on a jumping clock, whose threads compute in place; all else is asyncio's own."""

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
