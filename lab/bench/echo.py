"""A bare echo: as many processes and streams as owners, which only read and write bytes.

The echo shares with a real session all foreign code: grpc.aio, the stream's type, the channel's options, TLS.
The additional cost of a round is the cost of this project's code.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fedkme.pki.identity import Identity
from fedkme.wire.dial import dial

_SERVICE = "fedkme.bench.Echo"
_LENGTH = struct.Struct("<I")  # a message begins with the length of the answer that it wants

Context = grpc.aio.ServicerContext[bytes, bytes]
Sizes = tuple[int, int]
"""Bytes of a message and of its answer."""
Phases = Sequence[Mapping[int, Sizes]]
"""One round: for each of its exchanges, the sizes for each participating echo."""
Messages = Sequence[Sequence[tuple[int, bytes]]]


class EchoServer:
    """Server of the echoes."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._streams: list[Context] = []
        self._full = asyncio.Event()
        self._over = asyncio.Event()

    def serve_on(self, server: grpc.aio.Server) -> None:
        """Accept echoes on a server that may have other services as well."""
        attend: Any = grpc.stream_stream_rpc_method_handler(self._attend)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, {"Attend": attend})])

    async def _attend(self, request_iterator: object, context: Context) -> None:
        await context.read()
        self._streams.append(context)
        if len(self._streams) == self._expected:
            self._full.set()
        await self._over.wait()

    async def gather(self) -> None:
        """Wait for all echoes."""
        await self._full.wait()

    async def round(self, messages: Messages) -> None:
        """Run the exchanges of one round, each with all its echoes at the same time."""
        for exchange in messages:
            await asyncio.gather(*(self._exchange(self._streams[i], message) for i, message in exchange))

    async def _exchange(self, stream: Context, message: bytes) -> None:
        await stream.write(message)
        await stream.read()

    def end(self) -> None:
        """End the echoes' streams."""
        self._over.set()


def messages_of(phases: Phases) -> Messages:
    """Make messages of the given sizes; each asks for an answer of its given size."""
    return [
        [
            (echo, _LENGTH.pack(wanted) + bytes(sent - _LENGTH.size))
            for echo, (sent, wanted) in exchange.items()
        ]
        for exchange in phases
    ]


async def _answer(address: str, identity: Identity | None, connect_s: float) -> None:
    async with await dial(address, identity, connect_s) as channel:
        stream: Any = channel.stream_stream(f"/{_SERVICE}/Attend")()
        await stream.write(b"here")
        while isinstance(message := await stream.read(), bytes):
            await stream.write(bytes(_LENGTH.unpack_from(message)[0]))


def main(arguments: Sequence[str]) -> None:
    """Run one echo's process; arguments: seconds to connect, and the folder of its identity if any."""
    connect_s, *folder = (word for word in arguments if word != "--supervised")
    identity = Identity.load(Path(folder[0])) if folder else None
    address = sys.stdin.readline().strip()
    asyncio.run(_answer(address, identity, float(connect_s)))


if __name__ == "__main__":
    main(sys.argv[1:])
