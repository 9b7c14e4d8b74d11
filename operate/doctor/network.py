"""The way to the curator, one step after the other; and the curator's own port."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.health import CLOCK, REFUSED, RELEASE, VERSIONS
from curator.settings import CuratorSettings
from fedkme import __version__
from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.party import PartySettings
from fedkme.pki.identity import Identity
from fedkme.wire import codecs
from fedkme.wire.channel import explain_rpc_error
from fedkme.wire.dial import dial
from fedkme.wire.v1.types_pb2 import VersionRange
from operate.doctor.findings import Finding, failed, looked
from owner.settings import OwnerSettings

STEP_S = 5.0
"""Time to try each step."""
CLOCK_WARN_S, CLOCK_FAIL_S = 5.0, 300.0
"""Apart by more than the second, a certificate that was just issued may not be valid yet over there."""


def check_network(settings: PartySettings) -> Iterator[Finding]:
    """Check the network between this party and the other side."""
    match settings:
        case CuratorSettings():
            yield from looked("address", lambda: _own_address(settings))
            yield from looked("port", lambda: _own_port(settings))
        case OwnerSettings() | ConsumerSettings() | ReleaseConsumerSettings():
            if settings.curator == "-":
                yield Finding("ok", "address", "the launcher will say the curator's")
                return
            try:
                settings.check_address(settings.curator)
            except FedkmeError as error:
                yield failed("address", error)
                return
            yield from _way(settings, settings.curator)


def _own_address(settings: CuratorSettings) -> str:
    settings.check_address(settings.listen)
    return f"{settings.listen} may be listened on as the settings are"


def _own_port(settings: CuratorSettings) -> Iterator[Finding]:
    host, _, port = settings.listen.rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        line = f"{settings.listen} cannot be listened on: {error.strerror}"
        remedy = "If the curator runs already, this is as it should be; else choose another port or address."
        yield Finding("warn", "port", line, remedy)
    else:
        yield Finding("ok", "port", f"{settings.listen} is free")


def _way(settings: PartySettings, address: str) -> Iterator[Finding]:
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        remedy = "Correct the name in 'curator', or the DNS of this host."
        yield Finding("fail", "dns", f"{host} has no address: {error.strerror}", remedy, 34)
        return
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    yield Finding("ok", "dns", f"{host} is {', '.join(addresses)}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), STEP_S).close()
    except OSError as error:
        line = f"nobody takes a connection at {address}: {error.strerror or 'no answer in time'}"
        remedy = "Check the port, that the curator runs, and that no firewall is between."
        yield Finding("fail", "port", line, remedy, ConnectionFailedError.code)
        return
    yield Finding("ok", "port", f"{address} takes connections")
    try:
        identity = None if settings.identity is None else Identity.load(settings.identity)
    except FedkmeError:
        yield Finding("warn", "tls", "not tried: this party has no certificate that it could show")
        return
    yield from asyncio.run(_talk(address, identity))


async def _talk(address: str, identity: Identity | None) -> list[Finding]:
    """Dial as the party would, and ask the health service, which learns nothing of this party."""
    check = "tls" if identity is not None else "connection"
    try:
        channel = await dial(address, identity, STEP_S)
    except FedkmeError as error:
        return [failed(check, error)]
    how = "accepts this party's certificate, and has one for this name" if identity else "answers"
    findings = [Finding("ok", check, f"the curator {how}")]
    async with channel:
        call = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=STEP_S, wait_for_ready=False
        )
        sent = time.time()
        try:
            answer = await call
            took = time.time() - sent
            said = {key: str(value) for key, value in await call.trailing_metadata()}
        except grpc.aio.AioRpcError as error:
            return [*findings, failed("health", explain_rpc_error(error, address))]
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        findings.append(Finding("ok", "health", "the curator takes new runs"))
    else:
        remedy = "Wait until it is back."
        findings.append(Finding("warn", "health", "the curator takes no new runs at present", remedy))
    return [*findings, *_refused(said), *_version(said), *_clock(said, sent, took)]


def _refused(said: dict[str, str]) -> Iterator[Finding]:
    """Report why the curator refuses a certificate that passed the handshake, as a revoked one does."""
    if REFUSED not in said:
        return
    try:
        cause, remedy = (str(each)[:300] for each in json.loads(said[REFUSED]))
    except ValueError:
        cause, remedy = "the curator refuses this party's certificate", "Ask its operator."
    yield Finding("fail", "admission", cause, remedy, IdentityError.code)


def _version(said: dict[str, str]) -> Iterator[Finding]:
    oldest, _, newest = said.get(VERSIONS, "").partition("-")
    if not oldest.isdecimal() or not newest.isdecimal():
        yield Finding("warn", "version", "the curator does not say which protocol it speaks")
        return
    theirs = VersionRange(oldest=int(oldest), newest=int(newest))

    def look() -> str:
        common = codecs.common_version(theirs, "the curator")
        return (
            f"protocol {common}; this is release {__version__}, the curator's {said.get(RELEASE, '?')[:32]}"
        )

    yield from looked("version", look)


def _clock(said: dict[str, str], sent: float, took: float) -> Iterator[Finding]:
    """Clocks apart, to within the time that the answer took."""
    try:
        apart = abs(float(said.get(CLOCK, "")) - (sent + took / 2)) - took / 2
    except ValueError:
        yield Finding("warn", "clock", "the curator does not say what time it is")
        return
    apart = max(0.0, apart)
    line = f"this host's and the curator's are {apart:.1f} s apart"
    remedy = "Let both hosts follow a time server."
    if apart > CLOCK_FAIL_S:
        yield Finding("fail", "clock", line, remedy, 33)
    elif apart > CLOCK_WARN_S:
        yield Finding("warn", "clock", line, remedy)
    else:
        yield Finding("ok", "clock", line)
