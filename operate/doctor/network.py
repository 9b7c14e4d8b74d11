"""A party's certificate, its connection to the curator step by step, and a curator's own port."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import grpc.aio
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.health import CLOCK, REFUSED, RELEASE, SCHEMA, VERSIONS
from curator.settings import CuratorSettings
from fedkme import __version__
from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.party import PartySettings, canonical, host_of, is_loopback
from fedkme.pki.certificates import alternative_names, expiry, hosts_of, is_issued_by, now, role_of
from fedkme.pki.expiry import expiries
from fedkme.pki.identity import Identity
from fedkme.pki.revocation import Revocation
from fedkme.tables.schema import load_schema
from fedkme.wire import codecs
from fedkme.wire.channel import explain_rpc_error
from fedkme.wire.dial import dial, unused_proxy
from fedkme.wire.v1.types_pb2 import VersionRange
from operate.doctor.findings import Finding, failure, run_check
from owner.settings import OwnerSettings

STEP_S = 5.0
"""Seconds to try each step."""
CLOCK_WARN_S, CLOCK_FAIL_S = 5.0, 300.0
"""Differences of clocks that warn, and fail: a new certificate may not be valid yet over there."""


def check_network(settings: PartySettings) -> Iterator[Finding]:
    """Check the connection between this party and the other side."""
    match settings:
        case CuratorSettings():
            yield from run_check("address", lambda: _own_address(settings))
            yield from run_check("port", lambda: _own_port(settings))
        case OwnerSettings() | ConsumerSettings() | ReleaseConsumerSettings():
            if settings.curator == "-":
                yield Finding("ok", "address", "the launcher provides the curator's address")
                return
            try:
                settings.check_address(settings.curator)
            except FedkmeError as error:
                yield failure("address", error)
                return
            yield from _steps_to_curator(settings, settings.curator, settings.schema_file)


def _own_address(settings: CuratorSettings) -> str:
    settings.check_address(settings.listen)
    return f"the settings allow the curator to listen on {settings.listen}"


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
        remedy = "This is normal if the curator runs already; else choose another port or address."
        yield Finding("warn", "port", line, remedy)
    else:
        yield Finding("ok", "port", f"{settings.listen} is free")


def _steps_to_curator(settings: PartySettings, address: str, schema_file: Path) -> Iterator[Finding]:
    through = None if settings.proxy is None or is_loopback(host_of(address)) else settings.proxy
    hop = address if through is None else urlsplit(through).netloc.rpartition("@")[2]
    what = "curator" if through is None else "proxy"
    host, _, port = canonical(hop).rpartition(":")
    try:
        entries = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        remedy = f"Correct the name in '{what}', or the DNS of this host."
        yield Finding("fail", "dns", f"{host} has no address: {error.strerror}", remedy, 34)
        return
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    yield Finding("ok", "dns", f"{host} is {', '.join(addresses)}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), STEP_S).close()
    except OSError as error:
        line = f"no process accepts connections at {hop}: {error.strerror or 'no answer in time'}"
        remedy = f"Check the port, that the {what} runs, and that no firewall is between."
        if through is None:
            remedy += unused_proxy()
        yield Finding("fail", "port", line, remedy, ConnectionFailedError.code)
        return
    yield Finding("ok", "port", f"{hop} accepts connections")
    try:
        identity = None if settings.identity is None else Identity.load(settings.identity)
    except FedkmeError:
        yield Finding("warn", "tls", "not tried: this party has no readable certificate")
        return
    findings, metadata = asyncio.run(_ask_health(address, identity, through))
    yield from findings
    if metadata is not None:
        yield from _schema(metadata, schema_file)


async def _ask_health(
    address: str, identity: Identity | None, proxy: str | None
) -> tuple[list[Finding], dict[str, str] | None]:
    """Dial as the party would, and ask the health service, which learns nothing about this party.

    Returns:
        Findings, and the trailers of the answer; None where there was no answer.
    """
    check = "tls" if identity is not None else "connection"
    try:
        channel = await dial(address, identity, STEP_S, proxy, _fail_at_once)
    except FedkmeError as error:
        return [failure(check, error)], None
    how = "accepts this party's certificate, and shows one for this name" if identity else "answers"
    findings = [Finding("ok", check, f"the curator {how}")]
    async with channel:
        call = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=STEP_S, wait_for_ready=False
        )
        sent = time.time()
        try:
            answer = await call
            took = time.time() - sent
            metadata = {key: str(value) for key, value in await call.trailing_metadata()}
        except grpc.aio.AioRpcError as error:
            return [*findings, failure("health", explain_rpc_error(error, address))], None
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        findings.append(Finding("ok", "health", "the curator accepts new runs"))
    else:
        remedy = "Wait until it is back."
        findings.append(Finding("warn", "health", "the curator accepts no new runs at present", remedy))
    return [*findings, *_refused(metadata), *_version(metadata), *_clock(metadata, sent, took)], metadata


def _fail_at_once(cause: FedkmeError) -> None:
    """End the dial at the first likely cause; a party would try again."""
    raise cause


def _refused(metadata: dict[str, str]) -> Iterator[Finding]:
    """Report why the curator refuses a certificate that passed the handshake, as a revoked one does."""
    if REFUSED not in metadata:
        return
    try:
        cause, remedy = (str(each)[:300] for each in json.loads(metadata[REFUSED]))
    except ValueError:
        cause, remedy = "the curator refuses this party's certificate", "Ask its operator."
    yield Finding("fail", "admission", cause, remedy, IdentityError.code)


def _version(metadata: dict[str, str]) -> Iterator[Finding]:
    oldest, _, newest = metadata.get(VERSIONS, "").partition("-")
    if not oldest.isdecimal() or not newest.isdecimal():
        yield Finding("warn", "version", "the curator does not state its version of the protocol")
        return
    theirs = VersionRange(oldest=int(oldest), newest=int(newest))

    def look() -> str:
        common, release = codecs.common_version(theirs, "the curator"), metadata.get(RELEASE, "?")[:32]
        return f"protocol {common}; this is release {__version__}, the curator's {release}"

    yield from run_check("version", look)


def _schema(metadata: dict[str, str], schema_file: Path) -> Iterator[Finding]:
    """Compare this party's schema with the curator's."""
    if not (theirs := metadata.get(SCHEMA, "")):
        yield Finding("warn", "schemas", "the curator does not state the digest of its schema")
        return

    def compare() -> str:
        schema = load_schema(schema_file)
        schema.check_digest(theirs, "the curator and this party")
        return f"the curator holds the same public schema, digest {schema.digest()[:8]}"

    yield from run_check("schemas", compare)


def _clock(metadata: dict[str, str], sent: float, took: float) -> Iterator[Finding]:
    """Compare clocks, to within the time that the answer took."""
    try:
        apart = abs(float(metadata.get(CLOCK, "")) - (sent + took / 2)) - took / 2
    except ValueError:
        yield Finding("warn", "clock", "the curator does not state its time")
        return
    apart = max(0.0, apart)
    line = f"the clocks of this host and of the curator are {apart:.1f} s apart"
    remedy = "Let both hosts follow a time server."
    if apart > CLOCK_FAIL_S:
        yield Finding("fail", "clock", line, remedy, 33)
    elif apart > CLOCK_WARN_S:
        yield Finding("warn", "clock", line, remedy)
    else:
        yield Finding("ok", "clock", line)


def check_identity(settings: PartySettings, role: str, name: str) -> Iterator[Finding]:
    """Check key, names, role, dates, chain, and the list of revoked certificates."""
    if settings.identity is None:
        if settings.plaintext:
            yield Finding("ok", "certificate", "not needed: plaintext, on loopback alone")
        else:
            lack = "there is neither 'identity' nor 'plaintext'"
            yield Finding("fail", "certificate", lack, "Name a bundle of `fedkme pki`.", 10)
        return
    path = settings.identity
    try:
        identity = Identity.load(path)
    except IdentityError as error:
        yield Finding("fail", "certificate", error.cause, error.remedy, error.code)
        return
    yield from run_check("certificate", lambda: _of_party(identity, role, name))
    yield from run_check("chain", lambda: _chain(identity))
    if isinstance(settings, CuratorSettings):
        if settings.revoked is None:
            line = "no list of revoked certificates: certificates of the authority count until they expire"
            yield Finding("warn", "revocation", line, "Set 'revoked' (docs/pki.md).")
        else:
            revoked = settings.revoked
            yield from run_check(
                "revocation", lambda: _revocation(Revocation(revoked, identity.authority), identity)
            )


def _of_party(identity: Identity, role: str, name: str) -> Iterator[Finding]:
    leaf = identity.leaf
    if role != "curator" and name not in alternative_names(leaf):
        cause = f"the certificate does not name {name!r}, the name of this party"
        raise IdentityError(cause, "Issue one with that name.")
    given = role_of(leaf)
    if given is not None and given != role:
        cause = f"the certificate is for the role {given}, and this is a configuration of the role {role}"
        raise IdentityError(cause, f"Issue one with --role {role}.")
    if role == "curator":
        hosts = hosts_of(leaf)
        if not hosts:
            raise IdentityError("the certificate names no host", "Issue one with --host.")
        yield Finding("ok", "certificate", f"for a curator at {', '.join(hosts)}")
    else:
        yield Finding("ok", "certificate", f"of {name}, {given or 'without a role'}")
    for end in expiries(identity):
        line = f"{end.name} ends on {expiry(end.end)}"
        yield Finding(
            "warn" if end.due else "ok", "expiry", line, f"Renew it ({end.remedy})." if end.due else ""
        )


def _chain(identity: Identity) -> str:
    """Follow the chain from the party's certificate to an authority it trusts itself, as peers' TLS does."""
    leaf, *between = x509.load_pem_x509_certificates(identity.certificate)
    authorities = x509.load_pem_x509_certificates(identity.authority)
    for signer in authorities:
        if signer.not_valid_after_utc < now():
            raise IdentityError("the authority's certificate has expired", "Make another authority.")
    issued = leaf
    for _ in range(len(between) + 1):
        for signer in (*between, *authorities):
            if is_issued_by(issued, signer):
                if signer in authorities:
                    return f"signed by this party's authority {signer.subject.rfc4514_string()}"
                issued = signer
                break
        else:
            break
    cause = "the certificate is not signed by the authority in the same bundle"
    raise IdentityError(cause, "Issue both again.")


def _revocation(revocation: Revocation, identity: Identity) -> Iterator[Finding]:
    warning = revocation.warning()
    revocation.check(identity.certificate)
    if warning is None:
        yield Finding("ok", "revocation", "the list is signed by the authority, and current")
    else:
        yield Finding("warn", "revocation", warning)
