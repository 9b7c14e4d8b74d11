"""A real gRPC server over TLS that says whom it sees, and one call to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from fedkme.pki.identity import Identity
from tests.parties import WAIT_S

Look = Callable[[Any], str]


@contextlib.asynccontextmanager
async def serving(credentials: grpc.ServerCredentials, look: Look) -> AsyncIterator[str]:
    """Serve on loopback; what `look` says of a call's context is the answer.

    Yields:
        the address.
    """

    async def answer(request: bytes, context: Any) -> bytes:
        return look(context).encode()

    async def talk(context: Any) -> None:
        while await context.read() is not grpc.aio.EOF:
            await context.write(look(context).encode())

    async def stream(requests: Any, context: Any) -> None:
        await talk(context)

    handlers: dict[str, Any] = {
        "look": grpc.unary_unary_rpc_method_handler(answer),
        "talk": grpc.stream_stream_rpc_method_handler(stream),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
    address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


def calling(address: str, identity: Identity) -> grpc.aio.Channel:
    return grpc.aio.secure_channel(address, identity.channel_credentials())


async def call(address: str, identity: Identity) -> str:
    """One call over a connection of its own."""
    async with calling(address, identity) as channel:
        look: Any = channel.unary_unary("/test/look")
        return str((await look(b"", timeout=WAIT_S)).decode())


async def refusal(address: str, identity: Identity) -> str:
    """Reason why a call fails."""
    try:
        answer = await call(address, identity)
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    raise AssertionError(f"the call was answered: {answer}")
