"""Connection to a Ray cluster."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from fedkme.errors import ConnectionFailedError, MissingDependencyError


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
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            first = str(error).partition("\n")[0].rstrip(".")
            where = address or "this machine"
            remedy = "Start it, or correct the address (docs/scaling.md)."
            raise ConnectionFailedError(f"no Ray cluster at {where}: {first}", remedy) from None
        try:
            yield ray
        finally:
            ray.shutdown()
