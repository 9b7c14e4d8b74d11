"""Channel options of client and server, as a pair: each side must permit what the other sends."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from fedkme.errors import ConnectionFailedError, FedkmeError, MessageTooLargeError, ProtocolError

MessageT = TypeVar("MessageT", bound=Message)

MESSAGE_LIMIT = 8 * 2**20
"""Limit of a message's bytes, so that a faulty size fails early."""
MOST_BYTES = MESSAGE_LIMIT - 1024
"""Limit of a message's bytes inside an envelope, which takes the rest."""
CHUNK_BYTES = 2**20
"""Bulk data travels in parts of at most this size."""

_PING_MS = 30_000
_COMMON: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # bytes of TLS records, and so of a buffer of each connection; gRPC's default is 16 KiB
    ("grpc.tsi.max_frame_size", 4096),
    # bit 0 alone, no compression: 1 GiB of zeros in 1 MiB would occupy a thread of the reader for a minute
    ("grpc.compression_enabled_algorithms_bitset", 1),
]

SERVER_OPTIONS: list[tuple[str, Any]] = [
    *_COMMON,
    # by default, gRPC takes pings for abuse and disconnects at the third: those that keep a silent
    # connection, and those by which a client learns how much it may send, if they come late and together
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_concurrent_streams", 100),  # in one connection; a party needs two
    # for connections without a call; an owner always has a call open
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.so_reuseport", 0),  # a second curator on the same port is an error, not a coin toss
]

CLIENT_OPTIONS: list[tuple[str, Any]] = [
    *_COMMON,
    ("grpc.enable_retries", 0),
    # by default, equal channels of one process share a connection
    ("grpc.use_local_subchannel_pool", 1),
    # 'min_reconnect_backoff' stays at 20 s: in spite of its name it limits one attempt to connect
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 400),
]

_SERVER_STOPS = "Cancelling all calls"  # gRPC's message to clients of a stopping server
_WRITE_FAILED = "Internal error from Core"  # gRPC's message to a writer when the other side ends the call


async def receive(context: grpc.aio.ServicerContext[MessageT, Any], kind: type[MessageT]) -> MessageT | None:
    """Receive a client's next message; None when the client hung up.

    Raises:
        ProtocolError: the bytes are no message of this kind.
    """
    try:
        message = await context.read()
    except DecodeError:
        raise _undecodable("a party") from None
    return message if isinstance(message, kind) else None


@contextlib.contextmanager
def explained(target: str) -> Iterator[None]:
    """Turn errors of gRPC in a call to `target` into expected failures."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise explain_rpc_error(error, target) from None
    except asyncio.InvalidStateError:  # gRPC's way to refuse a message on a call that is over
        raise _unheard(target) from None
    except DecodeError:
        raise _undecodable(target) from None


def _unheard(target: str) -> ConnectionFailedError:
    remedy = "Look at the curator's last lines; the answer may have come after its 'progress_s'."
    return ConnectionFailedError(f"{target} ended the call before it heard this party's answer", remedy)


def _undecodable(speaker: str) -> ProtocolError:
    return ProtocolError(f"{speaker} sent bytes that are no message of this protocol")


def explain_rpc_error(error: grpc.aio.AioRpcError, target: str) -> FedkmeError:
    """Turn an error of gRPC in a call to an address into an expected failure."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        cause = f"a message to or from {target} is over {MESSAGE_LIMIT} bytes"
        return MessageTooLargeError(cause, "Use a smaller feature dimension or fewer columns.")
    if code is grpc.StatusCode.CANCELLED or details == _SERVER_STOPS:
        return ConnectionFailedError(f"{target} closed the connection", "Look at the curator's last lines.")
    if details == _WRITE_FAILED:
        return _unheard(target)
    if code is grpc.StatusCode.UNKNOWN:
        cause = f"{target} failed with an error that it did not foresee"
        return ConnectionFailedError(cause, "Look at the curator's last lines.")
    remedy = "Check that the curator runs there and that nothing between blocks the port."
    return ConnectionFailedError(f"the connection to {target} failed ({code.name})", remedy)


def fitting(message: MessageT) -> MessageT:
    """Return the message if it fits the channel.

    Raises:
        MessageTooLargeError: the message is over the limit.
    """
    if message.ByteSize() > MOST_BYTES:
        cause = f"a message of a run has {message.ByteSize()} bytes and {MESSAGE_LIMIT} are the most"
        remedy = "Use fewer points or features in one question, or fewer owners in one aggregation."
        raise MessageTooLargeError(cause, remedy)
    return message
