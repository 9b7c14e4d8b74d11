"""Signs of life of a command that takes long: a line every few seconds, also where nothing else is said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 10.0


@contextmanager
def alive(say: Callable[[str], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Say every so often how long something has taken, until it is over.

    Args:
        say: shows a line; called from another thread.
        every_s: seconds between lines.
    """
    over, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(every_s):
            say(f"still at it: {time.monotonic() - started:.0f} s so far")

    thread = threading.Thread(target=tell, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
