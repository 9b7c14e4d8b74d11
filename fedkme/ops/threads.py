"""Computing beside the event loop, in threads for which nobody waits once the party is told to stop.

A process joins the threads of `asyncio.to_thread` before it ends, whatever they compute; these are left where
they are. What they would have said is not heard, and what a store was to keep of it is refused by the store,
which is closed by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

turns: contextvars.ContextVar[asyncio.Semaphore | None] = contextvars.ContextVar("turns", default=None)
"""Lets so many of a context's tasks compute at a time; None: any number."""
_under_way: set[threading.Thread] = set()


async def beside(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Compute in a thread of its own, when it is the task's turn; one who is cancelled does not wait."""
    async with turns.get() or contextlib.nullcontext():
        return await _beside(partial(work, *arguments, **named))


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
            _under_way.discard(threading.current_thread())
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, method, value)

    thread = threading.Thread(target=compute, daemon=True)
    _under_way.add(thread)
    thread.start()
    return await answer


def under_way() -> bool:
    """Tell whether something is being computed for nobody."""
    return bool(_under_way)
