"""Owners in the same process, each behind a gRPC stream of its own over a loopback socket.

Sessions and handlers are the code of a deployment, on one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping

import grpc.aio

from curator.owners.members import Members
from curator.owners.owner_service import OwnerService
from curator.peers import NameRegister
from fedkme.wire.channel import SERVER_OPTIONS
from fedkme.wire.dial import dial
from fedkme.wire.v1 import owners_pb2_grpc
from owner.agent import attend
from owner.runs import RunManager

_PATIENCE_S = 60.0  # wait for an answer or a connection; a longer wait is a failed run
_GRACE_S = 1.0  # wait for streams to end


@contextlib.asynccontextmanager
async def over_grpc(owners: Mapping[str, RunManager]) -> AsyncIterator[Members]:
    """Serve owners by name; every owner attends until the end."""
    members = Members(sorted(owners), _PATIENCE_S, 0.0)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    owners_pb2_grpc.add_OwnersServicer_to_server(OwnerService(members, NameRegister(), _PATIENCE_S), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    attending = [asyncio.create_task(_attend(address, name, runs)) for name, runs in owners.items()]
    try:
        await members.gather(len(owners), _PATIENCE_S)
        yield members
    finally:
        await members.end()
        await server.stop(_GRACE_S)
        await asyncio.gather(*attending, return_exceptions=True)  # the curator reports lost owners itself


async def _attend(address: str, name: str, runs: RunManager) -> None:
    async with await dial(address, None, _PATIENCE_S) as channel:
        await attend(channel, address, name, secrets.token_bytes(16), runs, lambda epoch: None)
