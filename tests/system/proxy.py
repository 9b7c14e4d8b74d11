"""A proxy of TCP between parties and the curator: it keeps what goes by, and breaks connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Proxy:
    """A proxy of TCP before the curator.

    Attributes:
        seen: every byte that the curator got or sent.
    """

    def __init__(self, there: str) -> None:
        self.seen = bytearray()
        self._there = there
        self._writers: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(2**16):
                self.seen += chunk
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._there.rpartition(":")
        behind = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, behind[1]}
        for pair in ((reader, behind[1]), (behind[0], writer)):
            self._pipes.add(asyncio.create_task(self._pass(*pair)))

    def cut(self) -> None:
        """Break every connection that goes over it; new ones may be made."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """The address of its near end."""
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            try:
                yield f"{host}:{port}"
            finally:
                self.cut()
                await asyncio.gather(*self._pipes)
