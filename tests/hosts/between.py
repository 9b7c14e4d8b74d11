"""Process between hosts: a forwarder to THERE, or an HTTP proxy where none is named.

python -m tests.hosts.between LISTEN [THERE]
"""

from __future__ import annotations

import asyncio
import sys

from typing_extensions import override

from tests.system.proxy import ConnectProxy, Proxy


class CountingForwarder(Proxy):
    """A forwarder that prints a line for each connection."""

    @override
    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        print("connection", flush=True)
        await super()._accept(reader, writer)


class CountingConnectProxy(ConnectProxy):
    """A proxy that prints where each connection is led."""

    @override
    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: str) -> None:
        print(there, flush=True)
        await super()._join(reader, writer, there)


async def main(listen: str, there: str = "") -> None:
    """Pass connections on for ever."""
    between = CountingForwarder(there) if there else CountingConnectProxy()
    async with between.open(listen):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
