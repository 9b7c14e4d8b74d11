"""Limits linear algebra to one thread: with more the last bits of a product or a factor are others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_held: list[Any] = []
"""The limit of this process, once for each who computes under it; the last to end lifts it."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let this process compute matrices in one thread, whoever else computes under the same limit.

    Libraries that are loaded later are not held to it, so scipy's is loaded first.
    """
    import scipy.linalg.lapack  # noqa: F401, a fifth of a second that a start need not wait for
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
