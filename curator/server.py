"""The curator's process: one port for owners and consumers."""

from __future__ import annotations

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
        ConfigError: the address cannot be listened on.
    """
    settings.check_address(settings.listen)
    settings.directory.mkdir(parents=True, exist_ok=True)
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
    finally:
        await server.stop(GRACE_S)


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
