"""Service for the gRPC stream that each owner opens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import grpc.aio

from curator.owners.members import Members
from curator.peers import CertificateCheck, NameRegister, masks_errors
from fedkme.directives import Hello
from fedkme.errors import ConnectionFailedError, FedkmeError, ProtocolError, StoreError
from fedkme.pki.certificates import Role
from fedkme.wire.channel import receive
from fedkme.wire.directives import end_to_wire, hello_from_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc

Context = grpc.aio.ServicerContext[pb.OwnerMessage, pb.Directive]


class GrpcStream:
    """Curator's end of a gRPC stream; `over` is set when the stream ends or is to end."""

    def __init__(self, context: Context) -> None:
        self.over = asyncio.Event()
        self._context = context
        self._writing = asyncio.Lock()  # runs share the stream, and gRPC takes one message at a time

    async def write(self, directive: pb.Directive) -> None:
        """Write a directive to the stream."""
        try:
            async with self._writing:
                if not self.over.is_set():
                    await self._context.write(directive)
                    return
        except (grpc.aio.BaseError, asyncio.InvalidStateError):
            self.over.set()
        except asyncio.CancelledError:
            self.over.set()  # gRPC still holds the message, and takes no other before this one is sent
            raise
        raise ConnectionFailedError("the stream of an owner ended", "Look at the owner's log.")

    def cut(self) -> None:
        """End the stream."""
        self.over.set()

    async def end(self, error: FedkmeError) -> None:
        """Send an error to the owner and end the stream."""
        with contextlib.suppress(ConnectionFailedError):
            await self.write(end_to_wire(error))
        self.cut()

    async def attend(self, deliver: Callable[[GrpcStream, pb.OwnerMessage], None]) -> None:
        """Deliver the owner's messages until the stream is over.

        This is the stream's only reader: gRPC ends a stream whose read is cancelled.
        """
        reader = asyncio.create_task(self._read(deliver))
        try:
            await self.over.wait()
        finally:
            self.over.set()
            reader.cancel()

    async def _read(self, deliver: Callable[[GrpcStream, pb.OwnerMessage], None]) -> None:
        try:
            while (message := await receive(self._context, pb.OwnerMessage)) is not None:
                deliver(self, message)
        except ProtocolError:
            pass  # treated like a connection that ended
        finally:
            self.over.set()


MOST_SILENT = 256
"""Streams that may be open without a hello; a further stream ends the oldest, as owners say hello at once."""


class OwnerService(owners_pb2_grpc.OwnersServicer):
    """Serves the stream that each owner opens."""

    def __init__(
        self,
        members: Members,
        names: NameRegister,
        hello_s: float,
        certificates: CertificateCheck | None = None,
        say: Callable[..., None] = lambda event, **fields: None,
        admit: Callable[[Hello], None] = lambda hello: None,
    ) -> None:
        """Serve owners whose certificate passes `certificates` and whose hello passes `admit`.

        A stream without a hello is ended after `hello_s` seconds.
        """
        self._admit = admit
        self._members = members
        self._names = names
        self._hello_s = hello_s
        self._certificates = certificates or CertificateCheck()
        self._say = say
        self._silent: dict[GrpcStream, None] = {}  # the oldest first

    @masks_errors
    async def Attend(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """Serve one stream of an owner, from its hello to its end."""
        stream = GrpcStream(context)
        with self._certificates.session(context, stream.end):
            await self._serve(stream, context)

    async def _serve(self, stream: GrpcStream, context: Context) -> None:
        try:
            connection = await self._members.join(stream, await self._hello(stream, context))
        except ConnectionFailedError:
            return  # the owner was gone before it was welcomed
        except FedkmeError as error:
            self._say("refused", code=error.code, cause=error.cause, remedy=error.remedy)
            if not isinstance(error, StoreError):  # the curator's store failed: the owner tries again
                await stream.end(error)
            return
        self._say("owner_joined", owner=connection.name)
        try:
            await self._members.remind(connection)
            await stream.attend(connection.deliver)
        finally:
            connection.detach(stream)
            self._say("owner_gone", owner=connection.name)

    async def _hello(self, stream: GrpcStream, context: Context) -> Hello:
        """Receive a party's hello, and check that its certificate bears the name."""
        message = await self._first(stream, context)
        if message is None or not message.HasField("hello"):
            raise ProtocolError("a party did not say hello first")
        self._certificates.check(context, message.hello.name, Role.OWNER)
        self._names.admit_owner(message.hello.name)
        try:
            hello = hello_from_wire(message.hello)
            self._admit(hello)
        except StoreError:
            raise
        except FedkmeError as error:
            await self._members.refuse(message.hello.name, error)
            raise
        return hello

    async def _first(self, stream: GrpcStream, context: Context) -> pb.OwnerMessage | None:
        """Receive a party's first message; None if it hung up, was slow, or made room for another stream."""
        if len(self._silent) >= MOST_SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.cut()
        self._silent[stream] = None
        reading = asyncio.create_task(receive(context, pb.OwnerMessage))
        waiting = asyncio.create_task(stream.over.wait())
        try:
            finished, _ = await asyncio.wait(
                (reading, waiting), timeout=self._hello_s, return_when=asyncio.FIRST_COMPLETED
            )
            return await reading if reading in finished else None
        finally:
            self._silent.pop(stream, None)
            reading.cancel()
            waiting.cancel()
