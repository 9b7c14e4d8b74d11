"""Forwarder and data base between the parties of a schedule, and what befalls them as bytes go by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from typing_extensions import override

from tests.fedkme.store.server import Server
from tests.system.proxy import FAULTS, Forwarder

Handshakes = Literal["close", "reset", "wait", "cut", "garble", "http"]
Kind = Literal[Handshakes, "truncate", "flip", "hold", "delay", "restart", "kill", "stop"]
KINDS: tuple[Kind, ...] = (
    *get_args(Handshakes),
    "truncate",
    "flip",
    "hold",
    "delay",
    "restart",
    "kill",
    "stop",
)
WORDS: Mapping[Kind, str] = {
    "close": "the forwarder takes calls and closes them for {seconds:g} s",
    "reset": "the forwarder resets calls for {seconds:g} s",
    "wait": "the forwarder takes calls and is silent for {seconds:g} s",
    "cut": "the forwarder cuts handshakes short for {seconds:g} s",
    "garble": "the forwarder changes a byte of handshakes for {seconds:g} s",
    "http": "the forwarder answers HTTP for {seconds:g} s",
    "truncate": "the forwarder breaks all connections in the middle of a record",
    "flip": "the forwarder changes a bit of a record",
    "hold": "the forwarder lets nothing pass for {seconds:g} s",
    "delay": "the forwarder passes on late for {seconds:g} s",
    "restart": "the data base is gone for {seconds:g} s",
    "kill": "is killed",
    "stop": "is told to stop",
}
_LATE_S = 0.01
"""Time by which a slow forwarder delays what it reads at once."""


@dataclass(frozen=True, slots=True, order=True)
class BetweenFault:
    """Fault of the network, the data base or a party, which comes when so many bytes went by.

    Attributes:
        at: bytes that the forwarder has read by then, of all connections.
        kind: what happens.
        seconds: how long.
        party: that is killed or stopped; empty: the network or the data base.
    """

    at: int
    kind: Kind
    seconds: float = 0.0
    party: str = ""

    def __str__(self) -> str:
        return f"{WORDS[self.kind].format(seconds=self.seconds)} at byte {self.at}"


class Between(Forwarder):
    """Forwarder of a schedule, in a thread of its own, that has the data base in its hand.

    Attributes:
        begun: faults that happened, in order.
    """

    def __init__(
        self,
        there: str,
        faults: Sequence[BetweenFault],
        server: Server,
        happens: Callable[[BetweenFault], None],
    ) -> None:
        """Create it.

        Args:
            there: address of the curator.
            faults: that will happen.
            server: PostgreSQL's server.
            happens: told of each fault, in the forwarder's thread; ends the party that a fault names.
        """
        super().__init__(there)
        self.begun: list[BetweenFault] = []
        self._coming = sorted(faults)
        self._server = server
        self._happens = happens
        self._down = False
        self._flips = False
        self._late_until = 0.0
        self._passing = asyncio.Event()
        self._passing.set()
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, listen: str) -> None:
        """Begin to forward what comes to an address."""
        ready = threading.Event()

        async def forward() -> None:
            self._loop = asyncio.get_running_loop()
            async with self.open(listen):
                ready.set()
                await self._over.wait()
                self._passing.set()
            if self._down:
                self._return()

        self._thread = threading.Thread(target=lambda: asyncio.run(forward()))
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Break what stands, and leave the data base as it was."""
        assert self._loop is not None, "it was started"
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    @override
    async def _changed(self, chunk: bytes) -> bytes:
        while self._coming and len(self.seen) >= self._coming[0].at and not self._over.is_set():
            chunk = self._begin(self._coming.pop(0), chunk)
        if self._flips:
            self._flips, chunk = False, chunk[:-1] + bytes([chunk[-1] ^ 1])
        await self._passing.wait()
        if asyncio.get_running_loop().time() < self._late_until:
            await asyncio.sleep(_LATE_S)
        return chunk

    def _begin(self, fault: BetweenFault, chunk: bytes) -> bytes:
        """Let a fault happen; what leaves of the chunk at which it happens."""
        self.begun.append(fault)
        self._happens(fault)
        loop = asyncio.get_running_loop()
        match fault.kind:
            case "restart":
                if not self._down:
                    self._server.stop()
                    self._down = True
                    loop.call_later(fault.seconds, self._return)
            case "truncate":
                loop.call_soon(self.cut)
                return chunk[: len(chunk) // 2]
            case "flip":
                self._flips = True
            case "hold":
                self._passing.clear()
                loop.call_later(fault.seconds, self._passing.set)
            case "delay":
                self._late_until = loop.time() + fault.seconds
            case "close" | "reset" | "wait" | "cut" | "garble" | "http":
                self.behaviour = fault.kind
                self.cut()
                loop.call_later(fault.seconds, self._behave, fault)
        return chunk

    def _behave(self, fault: BetweenFault) -> None:
        """End a fault of handshakes, unless another one has begun meanwhile."""
        if fault is next(late for late in reversed(self.begun) if late.kind in FAULTS):
            self.behaviour = "pass"
            self.cut()  # who was taken and not answered dials again

    def _return(self) -> None:
        if self._down:
            self._server.start()
            self._down = False
