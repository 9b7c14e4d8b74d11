"""Masking of unexpected errors: a peer hears that there was one, and nothing of it."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

Servicer = TypeVar("Servicer")
Request = TypeVar("Request")
Context = TypeVar("Context", bound="grpc.aio.ServicerContext[Any, Any]")
Reply = TypeVar("Reply")
Method = Callable[[Servicer, Request, Context], Awaitable[Reply]]

LOG = logging.getLogger("curator")
UNFORESEEN = "the curator failed; its own log says how"


def masks_errors(
    method: Method[Servicer, Request, Context, Reply],
) -> Method[Servicer, Request, Context, Reply]:
    """A servicer's method that keeps the text of unforeseen failures here.

    gRPC would send the exception's text to the peer, and that may hold anything: a row, a path, another
    party's name. The traceback goes to this process's log; the peer gets the status UNKNOWN and no more.
    """

    @functools.wraps(method)
    async def serve(self: Servicer, request: Request, context: Context) -> Reply:
        try:
            return await method(self, request, context)
        except grpc.aio.AbortError:
            raise
        except Exception:
            LOG.exception("%s failed in a way that was not foreseen", method.__name__)
            with contextlib.suppress(grpc.aio.UsageError):  # the call is over already
                await context.abort(grpc.StatusCode.UNKNOWN, UNFORESEEN)
            raise

    return serve
