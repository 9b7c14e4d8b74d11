"""Masking of unexpected errors: a peer learns that an error happened, and nothing about the error."""

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
    """Wrap a servicer's method so that the text of an unexpected error stays in this process.

    gRPC would send the exception's text to the peer, and the text may hold anything: a row, a path, another
    party's name. The traceback goes to this process's log; the peer gets the status UNKNOWN alone.
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
