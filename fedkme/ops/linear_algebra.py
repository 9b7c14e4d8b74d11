"""Limit of linear algebra to one thread: with several threads, the last bits of results differ."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_held: list[Any] = []
"""Limit of this process, once for each context that is open; the last one to close lifts it."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit matrix computations of this process to one thread; contexts may overlap.

    The limit does not hold for libraries that are loaded later, so scipy's is loaded first.
    """
    import scipy.linalg.lapack  # noqa: F401, takes a fifth of a second, so not at start
    from threadpoolctl import threadpool_limits

    with _lock:
        _held.append(_held[-1] if _held else threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limits = _held.pop()
            if not _held:
                limits.restore_original_limits()
