"""Connections on which nobody speaks for long: pings keep them, and neither side takes them for abuse."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedkme.wire.dial
from fedkme.wire.channel import CLIENT_OPTIONS, SERVER_OPTIONS
from tests.parties import WAIT_S
from tests.system.market import Ear, market
from tests.system.proxy import Proxy

FASTER = 200
"""Times as many pings of the parties as on hosts."""
LONG = 12
"""Answered pings of two parties: by default, gRPC permits each of them 2 that it holds for abuse."""
_PREFACE, _HEADER = 24, 9
_PING, _ACK = 6, 1

Options = list[tuple[str, Any]]


def faster(options: Options, words: str) -> Options:
    """Options of which those with these words in their names are shorter times."""
    assert any(words in name for name, _ in options)
    return [(name, value // FASTER if words in name else value) for name, value in options]


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, flags and length of the whole frames of HTTP/2 (RFC 9113, section 4.1) that begin here."""
    while len(data) >= _HEADER and len(data) >= (size := _HEADER + int.from_bytes(data[:3], "big")):
        yield data[3], data[4], size
        data = data[size:]


class CountingProxy(Proxy):
    """A proxy that counts answered pings."""

    def __init__(self, there: str) -> None:
        super().__init__(there)
        self.answered = 0
        self._more = asyncio.Condition()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = b""
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(2**16):
                writer.write(chunk)
                await writer.drain()
                rest += chunk
                if rest.startswith(b"PRI") and len(rest) >= _PREFACE:
                    rest = rest[_PREFACE:]
                for kind, flags, size in frames(rest):
                    rest = rest[size:]
                    async with self._more:
                        self.answered += kind == _PING and bool(flags & _ACK)
                        self._more.notify_all()
        writer.close()

    async def silence(self) -> None:
        """Wait for as many answered pings as a long silence has."""
        async with asyncio.timeout(WAIT_S), self._more:
            so_far = self.answered
            await self._more.wait_for(lambda: self.answered >= so_far + LONG)


async def test_a_long_silence_breaks_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A curator that trains, or waits for an owner, says nothing to the others for minutes.
    monkeypatch.setattr(fedkme.wire.dial, "CLIENT_OPTIONS", faster(CLIENT_OPTIONS, "keepalive_time"))
    owner, consumer = Ear(), Ear()
    async with market(tmp_path, ["a", "b"]) as at:
        proxy = CountingProxy(at.address)
        async with proxy.open() as address:
            at.owner("a", ear=owner, curator=address)
            asking = at.consumer(ear=consumer, curator=address)
            await at.ear.heard("owner_joined")
            await consumer.heard("waiting")
            await proxy.silence()
            at.owner("b")
            await asking
            assert at.ended()["status"] == "complete"
            await at.end()
    for ear in (owner, consumer):
        assert "away" not in [event for event, _ in ear.said]


@pytest.mark.parametrize("options", [SERVER_OPTIONS, CLIENT_OPTIONS])
def test_grpc_knows_every_option(options: Options) -> None:
    # It ignores a name that it does not know, without a word.
    spec = importlib.util.find_spec("grpc._cython.cygrpc")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).read_bytes()
    assert b"grpc.no_such_option\0" not in library
    for name, _ in options:
        assert f"{name}\0".encode() in library, name
