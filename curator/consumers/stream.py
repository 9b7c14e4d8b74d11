"""Messages of one consumer's call, on the curator's side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from curator.peers import CertificateCheck
from fedkme.errors import ConnectionFailedError, IdentityError, ProtocolError
from fedkme.pki.certificates import Role
from fedkme.wire.channel import receive
from fedkme.wire.tls import peer_names
from fedkme.wire.v1 import summaries_pb2 as pb

Context = grpc.aio.ServicerContext[Any, Any]


class ConsumerStream:
    """Stream of one consumer; a time limit on each message keeps a silent one from delaying others."""

    def __init__(self, context: Context, progress_s: float, certificates: CertificateCheck) -> None:
        self._context = context
        self._progress_s = progress_s
        self._certificates = certificates

    def check_caller(self, consumers: Sequence[str], owners: Sequence[str]) -> None:
        """Refuse a caller that is an owner, or that is not among `consumers` where consumers are named.

        Raises:
            IdentityError: the caller's certificate does not allow it.
        """
        names = peer_names(self._context)
        if names is None:
            return  # plaintext, hence loopback
        if (consumers and names.isdisjoint(consumers)) or not names.isdisjoint(owners):
            remedy = "Use a consumer's certificate, or add its name to 'consumers' of the curator."
            raise IdentityError("the caller's certificate is not one of a consumer of this curator", remedy)

    def check_name(self, name: str, consumers: Sequence[str]) -> None:
        """Refuse a name that the caller's certificate does not bear; in plaintext every name is believed.

        Raises:
            IdentityError: the certificate has another name, or `consumers` does not have the name.
        """
        self._certificates.check(self._context, name, Role.CONSUMER)
        if consumers and name not in consumers:
            cause = f"{name[:64]!r} is not one of this curator's consumers"
            raise IdentityError(cause, "Add its name to 'consumers' of the curator.")

    async def hear(self, *expected: str) -> pb.ConsumerMessage:
        """Receive the next message of a consumer that asks for a summary.

        Raises:
            ConnectionFailedError: the consumer hung up or took too long.
            ProtocolError: the message is not of an expected kind.
        """
        async with self._limit():
            message: pb.ConsumerMessage | None = await receive(self._context, pb.ConsumerMessage)
        if message is None:
            raise ConnectionFailedError("the consumer hung up", "Look at its last lines.")
        if message.WhichOneof("body") not in expected:
            raise ProtocolError(f"the consumer did not send its {' or '.join(expected)} when it was due")
        return message

    async def tell(self, message: Message) -> None:
        """Send a message to the consumer.

        Raises:
            ConnectionFailedError: the consumer hung up or does not read.
        """
        try:
            async with self._limit():
                await self._context.write(message)
        except grpc.aio.BaseError:
            raise ConnectionFailedError("the consumer hung up", "Look at its last lines.") from None

    @contextlib.asynccontextmanager
    async def _limit(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._progress_s):
                yield
        except TimeoutError:
            cause = f"the consumer neither spoke nor listened for {self._progress_s:g} s"
            remedy = "Look at its last lines, or raise the curator's 'progress_s'."
            raise ConnectionFailedError(cause, remedy) from None
