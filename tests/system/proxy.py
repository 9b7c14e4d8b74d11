"""A proxy of TCP between parties and the curator: it keeps what goes by, and breaks connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from typing_extensions import override


class Proxy:
    """A proxy of TCP before what is at `there`: HOST:PORT, or the path of a socket.

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
        await self._join(reader, writer, self._there)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: str) -> None:
        host, _, port = there.rpartition(":")
        to_socket = asyncio.open_unix_connection(there) if "/" in there else None
        try:
            behind = await (to_socket or asyncio.open_connection(host, int(port)))
        except OSError:  # nobody is there
            writer.close()
            return
        self._writers |= {writer, behind[1]}
        for pair in ((reader, behind[1]), (behind[0], writer)):
            self._pipes.add(asyncio.create_task(self._pass(*pair)))

    def cut(self) -> None:
        """Break every connection that goes over it; new ones may be made."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    @contextlib.asynccontextmanager
    async def open(self, listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
        """The address of its near end."""
        host, _, port = listen.rpartition(":")
        async with await asyncio.start_server(self._accept, host, int(port)) as server:
            host, port = server.sockets[0].getsockname()
            try:
                yield f"{host}:{port}"
            finally:
                self.cut()
                await asyncio.gather(*self._pipes)


class ConnectProxy(Proxy):
    """An HTTP proxy that knows CONNECT alone; `requests` are the first lines that it got."""

    def __init__(self, there: str = "") -> None:
        """Lead everybody `there`; without it, where each asks to be led."""
        super().__init__(there)
        self.requests: list[bytes] = []

    @override
    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # somebody looked whether this port is open
            writer.close()
            return
        self.requests.append(request.split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._join(reader, writer, self._there or request.split()[1].decode())
