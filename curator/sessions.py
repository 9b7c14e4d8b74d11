"""Owners that dialled in: one stream each, and the port through which a protocol reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from fedkme.errors import (
    BudgetError,
    FedkmeError,
    IdentityError,
    MissingOwnersError,
    OwnerFaultError,
    OwnerLostError,
    ProtocolError,
)
from fedkme.protocol import Assignment, Bid, Broadcast, Closing, Row
from fedkme.wire import codecs
from fedkme.wire.channel import receive
from fedkme.wire.tls import check_peer
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc

Context = grpc.aio.ServicerContext[pb.OwnerMessage, pb.Directive]


@dataclass(slots=True)
class Traffic:
    """Bytes of protocol messages, without framing and TLS."""

    sent: int = 0
    received: int = 0


class OwnerSession:
    """An owner on the other end of a stream; the `OwnerPort` of a deployment.

    Attributes:
        name: the owner's name.
        traffic: what went over the stream for the present run.
        over: set when the stream is to end, or has.
    """

    def __init__(self, name: str, context: Context, progress_s: float) -> None:
        self.name = name
        self.traffic = Traffic()
        self.over = asyncio.Event()
        self._context = context
        self._progress_s = progress_s
        self._run = ""
        self._round = 0
        self._seq = 0
        self._inbox: asyncio.Queue[pb.OwnerMessage | None] = asyncio.Queue(maxsize=1)

    async def attend(self) -> None:
        """Take in what the owner says until the session is over.

        This is the stream's only reader: gRPC ends a stream whose read is cancelled, and a run that is cut
        short cancels what it waits for, while the session goes on.
        """
        reader = asyncio.create_task(self._read())
        try:
            await self.over.wait()
        finally:
            self.over.set()
            reader.cancel()
            while not self._inbox.empty():
                self._inbox.get_nowait()
            self._inbox.put_nowait(None)  # for whoever waits for an answer

    async def _read(self) -> None:
        try:
            while (message := await receive(self._context, pb.OwnerMessage)) is not None:
                self.traffic.received += message.ByteSize()
                await self._inbox.put(message)
        except ProtocolError:
            pass  # as good as a connection that ended
        finally:
            self.over.set()

    async def prepare(self, assignment: Assignment) -> int:
        """See `OwnerPort`."""
        self._run, self._round = assignment.run, 0
        self.traffic = Traffic()
        prepare = pb.Prepare(
            features=codecs.features_to_wire(assignment.features),
            schema_digest=assignment.schema,
            target=codecs.mean_to_wire(assignment.target),
        )
        reply = await self._exchange(pb.Directive(prepare=prepare), "prepared")
        return reply.prepared.rows

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        """See `OwnerPort`."""
        self._round = broadcast.round
        reply = await self._exchange(pb.Directive(broadcast=_to_wire(broadcast)), "bid", "dry")
        return Bid(reply.bid.value, reply.bid.token) if reply.HasField("bid") else None

    async def reveal(self, round_number: int, token: int) -> Row:
        """See `OwnerPort`."""
        self._round = round_number
        rows = await self._rows(pb.Directive(ask=pb.Ask(token=token)), most=1)
        if not rows:
            raise OwnerFaultError(f"{self.name} answered an ask with no row", "Check its software.")
        return rows[0]

    async def quote(self, broadcast: Broadcast, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """See `OwnerPort`."""
        self._round = broadcast.round
        said = pb.Broadcast(size=broadcast.size, mean=codecs.mean_to_wire(broadcast.mean))
        message = pb.Quote(broadcast=said, prices=prices.tolist())
        reply = await self._exchange(pb.Directive(quote=message), "counts")
        return codecs.counts_from_wire(reply.counts.at_least)

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[Row]:
        """See `OwnerPort`."""
        self._round = round_number
        return await self._rows(pb.Directive(sell=pb.Sell(price=price)), most=due)

    async def draw(self, round_number: int, count: int) -> Sequence[Row]:
        """See `OwnerPort`."""
        self._round = round_number
        return await self._rows(pb.Directive(draw=pb.Draw(count=count)), most=count)

    async def close(self) -> Closing:
        """See `OwnerPort`."""
        reply = await self._exchange(pb.Directive(close=pb.Close()), "closing")
        return Closing(reply.closing.rows_sent)

    async def welcome(self, version: int) -> None:
        """Let the owner in."""
        await self._context.write(pb.Directive(welcome=pb.Welcome(version=version)))

    async def _rows(self, directive: pb.Directive, most: int) -> list[Row]:
        """All parts of an answer; an owner that sends more than it was asked for does not fill our memory."""
        part = (await self._exchange(directive, "rows")).rows
        rows = codecs.rows_from_wire([part])
        while not part.last and len(part.rows) and len(rows) <= most:
            part = (await self._receive("rows")).rows
            rows += codecs.rows_from_wire([part])
        if not part.last or len(rows) > most:
            self.over.set()
            raise OwnerFaultError(
                f"{self.name}, round {self._round}: more rows than it was asked for", "Check its software."
            )
        return rows

    async def _exchange(self, directive: pb.Directive, *expected: str) -> pb.OwnerMessage:
        """Send a directive and wait for its answer."""
        if self.over.is_set():
            raise self._lost()
        self._seq += 1
        directive.at.run, directive.at.round, directive.at.seq = self._run, self._round, self._seq
        self.traffic.sent += directive.ByteSize()
        return await self._receive(*expected, directive=directive)

    async def _receive(self, *expected: str, directive: pb.Directive | None = None) -> pb.OwnerMessage:
        """The next message of an answer, after sending the directive that it answers."""
        try:
            async with asyncio.timeout(self._progress_s):  # one timer for both: two are felt in a round
                if directive is not None:
                    await self._context.write(directive)
                reply = await self._inbox.get()
                while reply is not None and 0 < reply.at.seq < self._seq:
                    reply = await self._inbox.get()  # the rest of an exchange that a run cut short left
        except TimeoutError:
            raise self._late() from None
        except grpc.aio.BaseError:
            raise self._lost() from None
        if reply is None:
            raise self._lost()
        if reply.HasField("fault"):
            fault = codecs.fault_from_wire(reply.fault)
            kind = BudgetError if isinstance(fault, BudgetError) else OwnerFaultError
            raise kind(f"{self.name}, round {self._round}: {fault.cause}", fault.remedy)
        if reply.at.seq != self._seq or reply.WhichOneof("body") not in expected:
            self.over.set()
            raise OwnerFaultError(
                f"{self.name}, round {self._round}: an answer that was not asked for",
                "Install the same release of fedkme on both sides.",
            )
        return reply

    def _late(self) -> OwnerLostError:
        self.over.set()
        return OwnerLostError(
            f"{self.name}, round {self._round}: no answer within {self._progress_s:g} s",
            "Look at the owner's log, or raise 'progress_s'.",
        )

    def _lost(self) -> OwnerLostError:
        self.over.set()
        return OwnerLostError(
            f"{self.name}, round {self._round}: its connection ended",
            "Look at the owner's log; start it again.",
        )


@functools.lru_cache(maxsize=1)
def _to_wire(broadcast: Broadcast) -> pb.Broadcast:
    """Encoded once a round, not once an owner."""
    return pb.Broadcast(size=broadcast.size, mean=codecs.mean_to_wire(broadcast.mean))


class Registry(owners_pb2_grpc.OwnersServicer):
    """Who is here. Serves the stream that each owner opens."""

    def __init__(self, expected: Sequence[str], progress_s: float) -> None:
        self._expected = frozenset(expected)
        self._progress_s = progress_s
        self._taken: set[str] = set()
        self._sessions: dict[str, OwnerSession] = {}
        self._changed = asyncio.Condition()

    async def Attend(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """One owner's session, from hello to the end of the stream."""
        try:
            name, version = await self._admit(context)
        except FedkmeError as error:
            with contextlib.suppress(grpc.aio.BaseError):
                await context.write(pb.Directive(fault=codecs.fault_to_wire(error)))
            return
        session = OwnerSession(name, context, self._progress_s)
        try:
            await session.welcome(version)
            async with self._changed:
                self._sessions[name] = session
                self._changed.notify_all()
            await session.attend()
        except grpc.aio.BaseError:
            pass  # it was gone before it was welcome
        finally:
            self._taken.discard(name)
            self._sessions.pop(name, None)

    async def _admit(self, context: Context) -> tuple[str, int]:
        """The name of whoever says hello, taken from here on, and the version to speak."""
        message = await receive(context, pb.OwnerMessage)
        if message is None or not message.HasField("hello"):
            raise ProtocolError("a party did not say hello first", "Install the same release of fedkme.")
        hello = message.hello
        version = codecs.common_version(hello.versions, hello.name or "a nameless party")
        check_peer(context, hello.name)
        if self._expected and hello.name not in self._expected:
            raise IdentityError(
                f"{hello.name!r} is not one of this curator's owners", "Add it to 'owners' of the curator."
            )
        if hello.name in self._taken:
            raise IdentityError(
                f"an owner called {hello.name!r} is already here",
                "Stop the other process, or rename this one.",
            )
        self._taken.add(hello.name)
        return hello.name, version

    async def gather(self, minimum: int, connect_s: float) -> list[OwnerSession]:
        """Wait for the owners of a run.

        Args:
            minimum: with at least this many the run may begin when time is up.
            connect_s: how long to wait for everybody who is expected.

        Raises:
            MissingOwnersError: too few came in time.
        """
        everybody = max(len(self._expected), minimum)
        async with self._changed:
            try:
                async with asyncio.timeout(connect_s):
                    await self._changed.wait_for(lambda: len(self._sessions) >= everybody)
            except TimeoutError:
                if len(self._sessions) < minimum or not self._sessions:
                    who = ", ".join(self.missing()) or f"{minimum - len(self._sessions)} owners"
                    raise MissingOwnersError(
                        f"{who} did not join within {connect_s:g} s",
                        "Start them, or raise 'connect_s'; their own log says why they could not.",
                    ) from None
            return [self._sessions[name] for name in sorted(self._sessions)]

    def missing(self) -> list[str]:
        """Names of the expected owners that are not here."""
        return sorted(self._expected - self._sessions.keys())

    def end(self) -> None:
        """End every session; owners see the stream close."""
        for session in list(self._sessions.values()):
            session.over.set()
