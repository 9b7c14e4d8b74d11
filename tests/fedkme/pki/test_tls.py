"""Issue 4, "A hostile peer: wrong CA, expired, ... another owner's name", at the TLS of gRPC."""

from __future__ import annotations

import datetime
from typing import Any

import grpc.aio
import pytest
from grpc.experimental.session_cache import ssl_session_cache_lru

from fedkme.errors import IdentityError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role, now
from fedkme.pki.identity import Identity
from fedkme.wire.tls import check_peer, peer_names
from tests.fedkme.pki.servers import call, refusal, serving
from tests.parties import WAIT_S

OURS, THEIRS = Authority(), Authority()
AGO = datetime.timedelta(minutes=-1)
CURATOR = OURS.issue("curator", LOOPBACK, Role.CURATOR)
OWNER = OURS.issue("a", role=Role.OWNER)
CONSUMER = OURS.issue("c", role=Role.CONSUMER)
CLOSED = "Socket closed"
"""Words that a client hears of a server that does not like its certificate."""


def names(context: Any) -> str:
    return " ".join(sorted(peer_names(context) or ()))


@pytest.mark.parametrize(
    "caller",
    [THEIRS.issue("a", role=Role.OWNER), OURS.issue("a", role=Role.OWNER, lifetime=AGO), CURATOR],
    ids=["wrong authority", "expired", "a curator's"],
)
async def test_a_server_refuses_clients_without_a_valid_certificate(caller: Identity) -> None:
    # Before a byte of any message is read. A curator's certificate is not fit to call with.
    caller = Identity(caller.certificate, caller.key, OURS.pem)
    async with serving(CURATOR.server_credentials(), names) as address:
        assert CLOSED in await refusal(address, caller)
        assert await call(address, OWNER) == "a"


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (THEIRS.issue("curator", LOOPBACK, Role.CURATOR), "self-signed|unable to get|CERTIFICATE_VERIFY"),
        (OURS.issue("curator", LOOPBACK, Role.CURATOR, AGO), "certificate has expired"),
        (
            OURS.issue("curator", ["h.example.org"], Role.CURATOR),
            "Hostname Verification|not in peer certificate",
        ),
        (OWNER, "unsupported certificate purpose"),
        (CONSUMER, "unsupported certificate purpose"),
    ],
    ids=["wrong authority", "expired", "another host", "an owner's", "a consumer's"],
)
async def test_a_client_refuses_servers_without_a_valid_certificate(server: Identity, words: str) -> None:
    # An owner's certificate of the same authority does not make a curator.
    server = Identity(server.certificate, server.key, OURS.pem)
    async with serving(server.server_credentials(), names) as address:
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(await refusal(address, OWNER))


async def test_a_resumed_session_with_an_expired_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A ticket of TLS spares the handshake, and with it the look at the date, hours after a certificate's end.
    later = now() + datetime.timedelta(days=3)

    def look(context: Any) -> str:
        resumed = context.auth_context()["ssl_session_reused"][0].decode()
        try:
            check_peer(context, "a")
        except IdentityError as error:
            return f"{resumed}: {error.cause}"
        return f"{resumed}: welcome"

    make_cache: Any = ssl_session_cache_lru
    options = [  # sessions are kept by host name, not by address
        ("grpc.ssl_session_cache", make_cache(1)),
        ("grpc.ssl_target_name_override", "localhost"),
    ]
    heard = []
    async with serving(CURATOR.server_credentials(), look) as address:
        for date in (now(), now(), later):
            monkeypatch.setattr("fedkme.wire.tls.now", lambda at=date: at)
            credentials = OWNER.channel_credentials()
            async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
                asking: Any = channel.unary_unary("/test/look")
                heard.append((await asking(b"", timeout=WAIT_S)).decode())
    assert heard == ["false: welcome", "true: welcome", "true: the certificate of 'a' has expired"]


async def test_roles_are_told_apart() -> None:
    # Name and role as TLS has them, in a real call; a certificate without a role is of a simulation.
    def look(context: Any) -> str:
        outcome = []
        for name, role in (("a", Role.OWNER), ("c", Role.OWNER), ("c", Role.CONSUMER)):
            try:
                check_peer(context, name, role)
            except IdentityError as error:
                outcome.append("role" if "is for the role" in error.cause else "name")
            else:
                outcome.append("yes")
        return " ".join(outcome)

    async with serving(CURATOR.server_credentials(), look) as address:
        assert await call(address, OWNER) == "yes name name"
        assert await call(address, CONSUMER) == "name role yes"
        assert await call(address, OURS.issue("c")) == "name yes yes"
