"""Calling the curator."""

from __future__ import annotations

import asyncio

import grpc.aio

from fedkme.errors import ConnectionFailedError
from fedkme.wire.channel import CLIENT_OPTIONS
from fedkme.wire.tls import Identity


async def dial(address: str, identity: Identity | None, connect_s: float) -> grpc.aio.Channel:
    """An open channel to the curator.

    Args:
        address: host:port.
        identity: this party's; None for plaintext.
        connect_s: how long to try.

    Raises:
        ConnectionFailedError: nobody answered there in time, or TLS failed.
    """
    if identity is None:
        channel = grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(address, identity.channel_credentials(), options=CLIENT_OPTIONS)
    try:
        async with asyncio.timeout(connect_s):
            await channel.channel_ready()
    except TimeoutError:
        await channel.close()
        raise ConnectionFailedError(
            f"no curator answered at {address} within {connect_s:g} s",
            "Check the address, that the curator runs, that no firewall is between, and that both use TLS "
            "with certificates of the same authority.",
        ) from None
    return channel
