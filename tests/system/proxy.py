"""Proxies of TCP between parties and the curator: what goes by is kept, changed or broken."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Literal, get_args

from typing_extensions import override

Behaviour = Literal["pass", "close", "reset", "wait", "cut", "garble", "http"]
FAULTS: tuple[Behaviour, ...] = get_args(Behaviour)[1:]
HTTP_503 = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_WHOLE = 61
"""Bytes of a handshake's answer that a cut lets pass; the last of them is garbled."""


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
                writer.write(await self._changed(chunk))
                await writer.drain()
        writer.close()

    async def _changed(self, chunk: bytes) -> bytes:
        """Change a chunk that came into what leaves."""
        return chunk

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


class Forwarder(Proxy):
    """A TCP forwarder before the curator, as docker-proxy, ssh -L or a load balancer is.

    Attributes:
        behaviour: what it does with connections from now on.
        connections: released at each of them.
    """

    def __init__(self, there: str, behaviour: Behaviour = "pass") -> None:
        super().__init__(there)
        self.behaviour = behaviour
        self.connections = asyncio.Semaphore(0)
        self._near: set[asyncio.StreamWriter] = set()

    @override
    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.release()
        self._near.add(writer)
        self._writers.add(writer)
        match self.behaviour:
            case "close":
                writer.close()
            case "reset":
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                writer.transport.abort()
            case "wait":
                pass  # until it is cut
            case "http":
                await reader.read(1)
                writer.write(HTTP_503)
                writer.close()
            case "pass" | "cut" | "garble":
                await super()._accept(reader, writer)

    @override
    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behaviour = self.behaviour if writer in self._near else "pass"
        if behaviour in ("cut", "garble"):
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                start = await reader.readexactly(_WHOLE)
                writer.write(start if behaviour == "cut" else start[:-1] + bytes([start[-1] ^ 1]))
        if behaviour != "cut":
            await super()._pass(reader, writer)
        writer.close()
