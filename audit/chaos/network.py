"""A network with the interface of `grpc.aio`: bytes in order, late, held up or twice, until a call breaks.

gRPC's own promise is kept: of a stream nothing is lost, and nothing is out of order, before it ends. The
stubs and servicers of the wire are the real ones, with their codecs.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Self

import grpc
import grpc.aio

from audit.chaos.clock import turn
from audit.chaos.faults import HOLD_S, MOST_SHAKEN_S, SHAKE_S
from audit.chaos.file_order import FileOrder
from audit.chaos.process import Killed, Process
from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.wire.retry import Absence

DEAD_S = 50.0
"""Time after which keepalive ends a silent connection."""
_DELAY_S = 0.002  # on average
_END = object()  # the other side has said all
_DOUBLED = ("Attend",)  # methods whose messages may come twice: owners and curator know them again
Codec = Callable[[Any], Any]


class Pipe:
    """One direction of a call, with one reader."""

    def __init__(self, chance: random.Random) -> None:
        self._inbox: deque[Any] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._chance = chance
        self._due = 0.0
        self._held = 0.0
        self.broken = False

    def hold(self, seconds: float) -> None:
        """Hold up all later messages of this direction."""
        self._held = asyncio.get_running_loop().time() + seconds

    def send(self, item: Any, times: int = 1) -> None:
        """Deliver a message later, unless the pipe is broken by then."""
        loop = asyncio.get_running_loop()
        for _ in range(times):
            late = max(loop.time() + self._chance.expovariate(1 / _DELAY_S), self._held)
            self._due = max(self._due + 1e-9, late)  # a loop keeps no order among equal times
            loop.call_at(self._due, self._arrive, item)

    def _arrive(self, item: Any) -> None:
        if not self.broken:
            self._put(item)

    def _put(self, item: Any) -> None:
        self._inbox.append(item)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> Any:
        """Take the next message, or wait for it; None once the pipe is broken."""
        while not self._inbox:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._inbox.popleft()

    def cut(self) -> None:
        """Break the pipe: messages under way are lost."""
        self.broken = True
        self._put(None)


class Call:
    """A simulated RPC: request pipe, response pipe, server task."""

    def __init__(self, network: SimulatedNetwork, client: Process, server: Process, method: str) -> None:
        self.up = Pipe(network.chance_of(f"{client.name} {client.life} {client.calls} up"))
        self.down = Pipe(network.chance_of(f"{client.name} {client.life} {client.calls} down"))
        client.calls += 1
        self.method = method
        self.over = False
        self.parties = client, server
        self.task: asyncio.Task[Any] | None = None
        self._network = network

    def cut(self) -> None:
        """End the call for both sides at once; messages under way are lost."""
        if self.over:
            return
        self.over = True
        self._network.calls.pop(self, None)
        for pipe in (self.up, self.down):
            pipe.cut()
        if self.task is not None and self.parties[1].alive:
            self.task.cancel()

    def send(self, pipe: Pipe, process: Process, item: Any) -> None:
        """Send a message, or carry out the fault that is due to the sender."""
        process.tick()
        fate, times = process.fate, 1
        if fate.due:
            if (fault := fate.take("hold")) is not None:
                way = pipe if fault.amount % 2 else (self.up if pipe is self.down else self.down)
                self._network.hold(self, way, fault.amount * HOLD_S)
            if self.method.endswith(_DOUBLED) and fate.take("twice") is not None:
                times = 2
        pipe.send(item, times)
        if fate.due and (fault := fate.take("cut", "shake")) is not None:
            if fault.kind == "shake":
                self._network.shake(process, fault.amount)
            self._network.cut(process)
        process.tick()


class ClientCall:
    """The client's side of a call: the methods of `grpc.aio` that parties use."""

    def __init__(self, call: Call, request: Codec, response: Codec) -> None:
        self._call = call
        self._request = request
        self._response = response
        self._ended: Any = ()

    async def write(self, message: Any) -> None:
        """Send a message."""
        if self._call.over:
            raise asyncio.InvalidStateError("the call is over")
        self._call.send(self._call.up, self._call.parties[0], self._request(message))
        await turn()

    async def read(self) -> Any:
        """Read the next message, or the end of the call."""
        item = self._ended
        if item == ():
            item = await self._call.down.read()
        if isinstance(item, bytes):
            return self._response(item)
        self._ended = item
        if item is _END:
            return grpc.aio.EOF
        code, words = item or (grpc.StatusCode.UNAVAILABLE, "the connection broke")
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), words)


class ServerContext:
    """The server's side of a call."""

    def __init__(self, call: Call, request: Codec, response: Codec) -> None:
        self._call = call
        self._request = request
        self._response = response
        self._over = False

    async def read(self) -> Any:
        """Read the next message, or the end of the call."""
        item = None if self._over else await self._call.up.read()
        if item is None:
            self._over = True
            return grpc.aio.EOF
        return self._request(item)

    async def write(self, message: Any) -> None:
        """Send a message."""
        if self._call.over:
            raise asyncio.InvalidStateError("the call is over")
        self._call.send(self._call.down, self._call.parties[1], self._response(message))
        await turn()

    def auth_context(self) -> dict[str, list[bytes]]:
        """No certificate: names are not checked."""
        return {}

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with a status."""
        self._call.down.send((code, details))
        raise grpc.aio.AbortError


class Channel:
    """A channel of a party to the curator."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        self._network = network
        self._process = process
        self._calls: list[Call] = []

    def stream_stream(self, path: str, request: Codec = bytes, response: Codec = bytes, **how: Any) -> Any:
        """A bidirectional streaming method."""
        codecs = _codecs(request, response, how)
        return lambda: ClientCall(self._open(path), *codecs)

    def unary_stream(self, path: str, request: Codec = bytes, response: Codec = bytes, **how: Any) -> Any:
        """A method with one request and a stream of responses."""
        codecs = _codecs(request, response, how)

        def asked(message: Any) -> ClientCall:
            call = self._open(path)
            call.up.send(codecs[0](message))
            return ClientCall(call, *codecs)

        return asked

    unary_unary = unary_stream

    def _open(self, path: str) -> Call:
        call = self._network.open(self._process, path)
        self._calls.append(call)
        return call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for call in self._calls:
            call.cut()


def _codecs(request: Codec, response: Codec, how: dict[str, Any]) -> tuple[Codec, Codec]:
    return how.get("request_serializer", request), how.get("response_deserializer", response)


class Server:
    """Server of a curator's process: its methods by name."""

    def __init__(self, process: Process) -> None:
        """Create a server without methods."""
        self.process = process
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Do nothing: methods are registered by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Register the methods of a service."""
        self.handlers |= {f"/{service}/{name}": handler for name, handler in handlers.items()}


class SimulatedNetwork:
    """All calls of a world.

    Attributes:
        server: the curator's, while it is up.
        order: checker of the order of the calls that write files.
        let_in: numbers under which owners' processes were let in, by the processes' lives.
        calls: that stand.
    """

    def __init__(self, seed: int, order: FileOrder) -> None:
        """Create a network without processes; the seed is for delays."""
        self._seed = seed
        self.order = order
        self._may_shake_s = MOST_SHAKEN_S
        self.let_in: dict[tuple[str, int, int], set[int]] = {}
        self._called: dict[str, int] = {}  # lives of the curator's processes that parties called last
        self._shaken: dict[str, tuple[float, bool]] = {}  # end of failing handshakes, and their kind
        self.server: Server | None = None
        self.calls: dict[Call, None] = {}

    def chance_of(self, what: str) -> random.Random:
        """Independent randomness for each purpose, so that a story repeats whatever happens elsewhere."""
        return random.Random(f"{self._seed} {what}")

    async def dial(self, process: Process, absence: Absence) -> Channel:
        """Connect to the curator within the time of the absence, as `fedkme.wire.dial` does.

        Raises:
            ConnectionFailedError: nobody is there.
            IdentityError: until the end, handshakes failed.
        """
        end = asyncio.get_running_loop().time() + absence.dial_s
        while True:
            await asyncio.sleep(process.chance.expovariate(1 / _DELAY_S))
            process.tick()
            if (failure := self._failure(process)) is None:
                return Channel(self, process)
            if asyncio.get_running_loop().time() >= end:
                raise failure
            await asyncio.sleep(absence.pause_s())

    def shake(self, process: Process, amount: int) -> None:
        """Let the handshakes of a party fail for a while; the curator's are everybody's."""
        seconds = min(amount * SHAKE_S, self._may_shake_s)
        self._may_shake_s -= seconds
        self._shaken[process.name] = asyncio.get_running_loop().time() + seconds, amount % 2 == 1

    def _failure(self, process: Process) -> FedkmeError | None:
        if asyncio.get_running_loop().time() < process.cut_off_until:
            return ConnectionFailedError("the network is down here", "Wait.")
        for name in (process.name, "curator"):
            until, garbled = self._shaken.get(name, (0.0, False))
            if asyncio.get_running_loop().time() < until:
                kind = ConnectionFailedError if garbled else IdentityError
                return kind("a handshake failed", "Wait.")
        if self.server is None or not self.server.process.alive:
            return ConnectionFailedError("nobody is there", "Wait.")
        return None

    def welcomed(self, process: Process, epoch: int) -> None:
        """Note the number under which the curator's process let an owner's process in.

        That is the process which the owner called: it may live on beside the next one.
        """
        key = process.name, process.life, self._called[process.name]
        self.let_in.setdefault(key, set()).add(epoch)

    def fenced_out(self) -> list[str]:
        """Owners' processes that came back behind a later process, a line each.

        A process keeps its number with a curator's process for as long as no other process comes.
        """
        return [
            f"fenced: {name}'s process {life} was let in again behind a later one"
            for (name, life, _), epochs in self.let_in.items()
            if len(epochs) > 1
        ]

    def open(self, client: Process, path: str) -> Call:
        """Begin a call; it is broken at once if the curator has died meanwhile."""
        server = self.server
        if server is None or not server.process.alive:
            call = Call(self, client, client, path)
            call.cut()
            return call
        call = Call(self, client, server.process, path)
        self._called[client.name] = server.process.life
        self.calls[call] = None
        call.task = server.process.start(self._serve(call, server.handlers[path]))
        return call

    async def _serve(self, call: Call, handler: Any) -> None:
        context = ServerContext(call, handler.request_deserializer, handler.response_serializer)
        end: Any = _END
        try:
            if handler.request_streaming:
                await handler.stream_stream(None, context)
            else:
                await handler.unary_stream(await context.read(), context)
        except (Killed, asyncio.CancelledError):
            raise
        except BaseException:  # gRPC tells the caller no more; the handler's own log has it
            end = (grpc.StatusCode.UNKNOWN, "an error that was not foreseen")
        self.calls.pop(call, None)
        call.down.send(end)

    def cut(self, process: Process) -> None:
        """End all connections of a process."""
        for call in [call for call in self.calls if process in call.parties]:
            call.cut()

    def hold(self, call: Call, pipe: Pipe, seconds: float) -> None:
        """Hold up one direction of a call; keepalive ends the call if this takes too long."""
        pipe.hold(seconds)
        if seconds > DEAD_S:
            asyncio.get_running_loop().call_later(DEAD_S, call.cut)
