"""Connection to a Ray cluster."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fedkme.errors import ConnectionFailedError, MissingDependencyError

STARTS = 3
"""Attempts at starting a node of Ray, which gives up after 30 s: the next one finds its files in memory."""


def started(start: Callable[[], Any]) -> Any:
    """Call what starts a node of Ray, again where the node was not up in time, as on a busy machine.

    Raises:
        TimeoutError: it was not up in any of `STARTS` attempts.
    """
    for _ in range(STARTS):
        try:
            return start()
        except Exception as error:
            if type(error) is not Exception:  # Ray has no type of its own for a node that is late
                raise
            late = error
    raise TimeoutError(str(late))


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to a cluster while inside; usage statistics are not sent unless the environment says so.

    Args:
        address: HOST:PORT, or ray://HOST:PORT; None: the cluster of RAY_ADDRESS or of this machine, else a
            cluster that is started here and ends with this context.

    Yields:
        The module `ray`, connected.

    Raises:
        MissingDependencyError: Ray is not installed.
        ConnectionFailedError: there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingDependencyError("Ray is not installed", "Run: pip install 'fedkme[cluster]'.") from None
    if ray.is_initialized():
        yield ray
        return
    # Ray prints a node's death to standard output, where a command prints its result, such as JSON.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            started(lambda: ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR))
        except (OSError, RuntimeError, ValueError) as error:
            first = str(error).partition("\n")[0].rstrip(".")
            where = address or "this machine"
            remedy = "Start it, or correct the address (docs/scaling.md)."
            raise ConnectionFailedError(f"no Ray cluster at {where}: {first}", remedy) from None
        try:
            yield ray
        finally:
            ray.shutdown()
