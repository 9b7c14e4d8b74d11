"""Machine of a simulated process: its clocks and its entropy, in place of the operating system's.

Parties have no switch for simulation: the replaced functions look up the simulated process in whose context
they are called, and call the operating system if there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from audit.chaos.process import Process, current


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
