"""The curator's process: one port for owners and consumers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio

from curator.service import SummaryService
from curator.sessions import Registry
from curator.settings import CuratorSettings
from fedkme.errors import ConfigError
from fedkme.supervision import Voice
from fedkme.wire.channel import SERVER_OPTIONS
from fedkme.wire.tls import Identity
from fedkme.wire.v1 import owners_pb2_grpc, summaries_pb2_grpc

GRACE_S = 2.0
"""How long open calls may take to end when the curator stops."""


async def serve(settings: CuratorSettings, voice: Voice) -> None:
    """Serve until told to stop, or until the runs that the settings allow are done.

    Raises:
        ConfigError: the address cannot be listened on, or the directory not be made.
    """
    settings.check_address(settings.listen)
    _make(settings.directory)
    registry = Registry(settings.owners, settings.progress_s)
    service = SummaryService(settings, registry, voice)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    owners_pb2_grpc.add_OwnersServicer_to_server(registry, server)
    summaries_pb2_grpc.add_SummariesServicer_to_server(service, server)
    port = _listen(server, settings)
    await server.start()
    host = settings.listen.rpartition(":")[0]
    voice.say("listening", address=f"{host}:{port}")
    try:
        await service.served.wait()
        registry.end()
        await server.stop(GRACE_S)
    except asyncio.CancelledError:  # told to stop: a run in progress ends here, and is recorded
        await server.stop(None)
        await service.idle()
    voice.say("stopped")


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be made: {error.strerror}", "Correct 'directory'.") from None


def _listen(server: grpc.aio.Server, settings: CuratorSettings) -> int:
    try:
        if settings.identity is None:
            return server.add_insecure_port(settings.listen)
        credentials = Identity.load(settings.identity).server_credentials()
        return server.add_secure_port(settings.listen, credentials)
    except RuntimeError:
        raise ConfigError(
            f"{settings.listen} cannot be listened on", "Choose a free port and an address of this machine."
        ) from None
