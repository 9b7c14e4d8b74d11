"""Health and reflection: what load balancers, service managers and `fedkme doctor` ask of a curator."""

import json
import time
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio

from curator.peers import CertificateCheck
from fedkme import __version__
from fedkme.errors import IdentityError
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2, summaries_pb2

SERVICES = (
    owners_pb2.DESCRIPTOR.services_by_name["Owners"].full_name,
    summaries_pb2.DESCRIPTOR.services_by_name["Summaries"].full_name,
)
CLOCK, RELEASE, VERSIONS = "fedkme-clock", "fedkme-release", "fedkme-versions"
SCHEMA = "fedkme-schema"
"""Trailers of an answer: the curator's Unix seconds, release, versions of the contract, schema's digest."""
REFUSED = "fedkme-refused"
"""Trailer for a caller whose certificate is revoked: cause and remedy, as JSON."""


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # it has no types
    """Service grpc.health.v1, for any certificate of the authority; it tells nothing about runs or parties.

    An answer's trailers give this host's time, versions and schema's digest, so that a party can compare them
    before it joins, and tell a party with a revoked certificate why it is refused.
    """

    def __init__(self, certificates: CertificateCheck, schema: str) -> None:
        self._states = aio.HealthServicer()
        self._certificates = certificates
        self._schema = schema

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        """Answer whether the curator, or one of its services, takes new work."""
        versions = codecs.VERSIONS
        refusal = []
        try:
            self._certificates.check_revoked(context)
        except IdentityError as error:
            refusal = [(REFUSED, json.dumps([error.cause, error.remedy]))]
        context.set_trailing_metadata(
            (
                (CLOCK, f"{time.time():.6f}"),
                (RELEASE, __version__),
                (VERSIONS, f"{versions.oldest}-{versions.newest}"),
                (SCHEMA, self._schema),
                *refusal,
            )
        )
        return await self._states.Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        """Answer whether the curator takes new work, and answer again on each change."""
        await self._states.Watch(request, context)

    async def serving(self, does: bool) -> None:
        """Set whether the curator takes new work from now on."""
        state = health_pb2.HealthCheckResponse
        for service in ("", *SERVICES):
            await self._states.set(service, state.SERVING if does else state.NOT_SERVING)


async def add_health(
    server: grpc.aio.Server, reflection: bool, certificates: CertificateCheck, schema: str
) -> Health:
    """Add the health service, NOT_SERVING at first, and the reflection service where `reflection` is set."""
    health = Health(certificates, schema)
    await health.serving(False)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    if reflection:
        from grpc_reflection.v1alpha import reflection as reflected

        names = (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflected.enable_server_reflection((*names, reflected.SERVICE_NAME), server)
    return health
