"""Mutual TLS and the dial: a refused handshake is told apart from nobody there."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest

from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.pki import authority
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role, now
from fedkme.pki.identity import Identity
from fedkme.wire.dial import dial
from fedkme.wire.tls import check_peer
from tests.parties import WAIT_S
from tests.system.lives import PORTS
from tests.system.market import market

OURS, THEIRS = Authority(), Authority()
CURATOR = OURS.issue("curator", LOOPBACK)
FAILING_S = 1.5
"""Seconds to try what cannot succeed: enough for the first failed handshake on a busy machine."""
OWNER, STRANGER = OURS.issue("a"), THEIRS.issue("a")
EXPIRED = OURS.issue("a", lifetime=datetime.timedelta(minutes=-1))


@pytest.mark.parametrize(
    ("server", "client", "kind", "words"),
    [
        (CURATOR, STRANGER, IdentityError, "has no certificate of this party's authority"),
        (
            CURATOR,
            Identity(STRANGER.certificate, STRANGER.key, OWNER.authority),
            IdentityError,
            "it does not accept this party's certificate",
        ),
        # It was "it does not accept this party's certificate" for a party that had run beyond its time.
        (CURATOR, EXPIRED, IdentityError, "hangs up: the certificate of 'a' has expired"),
        (CURATOR, None, ConnectionFailedError, "hangs up on this party, which does not use TLS"),
        (None, OWNER, IdentityError, "does not speak TLS"),
        (OURS.issue("curator", ["curator.example.org"]), OWNER, IdentityError, "for other host names"),
    ],
)
async def test_a_handshake_that_fails(
    tmp_path: Path, server: Identity | None, client: Identity | None, kind: type[FedkmeError], words: str
) -> None:
    # "Certificate of another authority", "plaintext owner at a TLS curator" and the like: noticed at once,
    # an error when the time is up, and the curator goes on.
    changes: dict[str, Any] = {}
    if server is not None:
        server.save(tmp_path / "identity")
        changes["identity"] = tmp_path / "identity"
    async with market(tmp_path, **changes) as at:
        notices: list[FedkmeError] = []
        with pytest.raises(kind, match=words):
            await dial(at.address, client, FAILING_S, notice=notices.append)
        assert words in notices[0].cause
        if server is CURATOR:
            await (await dial(at.address, OWNER, WAIT_S)).close()


async def test_a_clock_that_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # While an owner ran: the curator it had talked to "has no certificate of this party's authority".
    with monkeypatch.context() as patch:
        patch.setattr(authority, "now", lambda: now() + datetime.timedelta(hours=3))
        later = OURS.issue("curator", LOOPBACK)
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", later.server_credentials())
    await server.start()
    with pytest.raises(IdentityError, match="not valid yet by this host's clock"):
        await dial(f"127.0.0.1:{port}", OWNER, FAILING_S)
    await server.stop(None)


async def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    # Said by the party whose it is, before it calls anybody.
    Authority(datetime.timedelta(minutes=1)).issue("a").save(tmp_path)
    with pytest.raises(IdentityError, match="has expired"):
        Identity.load(tmp_path)


def test_files_that_are_no_identity(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="cannot be read"):
        Identity.load(tmp_path)
    Identity(OWNER.certificate, OWNER.key, b"nonsense").save(tmp_path)
    with pytest.raises(IdentityError, match="no PEM certificate or key"):
        Identity.load(tmp_path)
    Identity(OWNER.certificate, STRANGER.key, OWNER.authority).save(tmp_path)
    with pytest.raises(IdentityError, match="is not its certificate's"):
        Identity.load(tmp_path)
    OWNER.save(tmp_path)
    assert Identity.load(tmp_path).key == OWNER.key
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("role", [Role.OWNER, Role.CONSUMER])
async def test_another_partys_certificate_makes_no_curator(tmp_path: Path, role: Role) -> None:
    # Whoever holds an owner's certificate of the same authority cannot take in other owners' bids.
    OURS.issue("a", role=role).save_bundle(tmp_path / "bundle")
    async with market(tmp_path, identity=tmp_path / "bundle") as at:
        with pytest.raises(
            IdentityError, match=f"the curator at {at.address} shows a certificate that is not a curator's"
        ):
            await dial(at.address, OWNER, FAILING_S)


async def test_a_curators_certificate_joins_nobody(tmp_path: Path) -> None:
    # The role is in the certificate: what serves owners cannot be one of them.
    CURATOR.save(tmp_path / "identity")
    OURS.issue("a", role=Role.CURATOR).save_bundle(tmp_path / "a.pem")
    async with market(tmp_path, ["a"], identity=tmp_path / "identity") as at:
        with pytest.raises(IdentityError, match="does not accept this party's certificate"):
            await at.owner("a", identity=tmp_path / "a.pem", connect_s=FAILING_S)


async def test_a_curator_takes_up_a_renewed_certificate(tmp_path: Path) -> None:
    # "Renewal before expiry without ending a run": an owner that joined before serves a run that comes after.
    bundle = tmp_path / "curator.pem"
    OURS.issue("curator", LOOPBACK, Role.CURATOR).save_bundle(bundle)
    OURS.issue("a", role=Role.OWNER).save_bundle(tmp_path / "a.pem")
    OURS.issue("hospital-x", role=Role.CONSUMER).save_bundle(tmp_path / "x.pem")
    async with market(tmp_path, ["a"], identity=bundle) as at:
        joining = at.owner("a", identity=tmp_path / "a.pem")
        asking: dict[str, Any] = {"name": "hospital-x", "identity": tmp_path / "x.pem"}
        await at.consumer(**asking)  # by the end of its run, the owner has joined
        OURS.issue("curator", LOOPBACK, Role.CURATOR).save_bundle(bundle, over=True)
        await at.consumer(**asking, output=tmp_path / "second")
        await at.ear.heard("certificate_renewed")
        assert not joining.done()
    assert (tmp_path / "second" / "summary.npz").exists()


async def test_a_curator_says_when_its_certificate_ends(tmp_path: Path) -> None:
    aging = Authority(datetime.timedelta(minutes=6))  # five of them are over
    aging.issue("curator", LOOPBACK).save_bundle(tmp_path / "curator.pem")
    async with market(tmp_path, identity=tmp_path / "curator.pem") as at:
        assert (await at.ear.heard("warning"))["line"].startswith("the certificate of curator ends on ")


async def test_nobody_there() -> None:
    with pytest.raises(ConnectionFailedError, match=r"no curator answered at 127\.0\.0\.1:1 within 0\.2 s"):
        await dial("127.0.0.1:1", OWNER, 0.2)


async def test_a_curator_that_comes_later(tmp_path: Path) -> None:
    # Owners may start first: nobody there is no failure until connect_s.
    address = f"127.0.0.1:{next(PORTS)}"
    dialling = asyncio.create_task(dial(address, OWNER, WAIT_S))
    done, _ = await asyncio.wait([dialling], timeout=0.3)
    assert not done
    CURATOR.save(tmp_path / "identity")
    async with market(tmp_path, identity=tmp_path / "identity", listen=address):
        await (await dialling).close()


def test_a_certificate_without_names_is_nobodys() -> None:
    # DESIGN, decision 2: identity from the certificate; only plaintext has none.
    class Connection:
        def __init__(self, **properties: list[bytes]) -> None:
            self._properties = properties

        def auth_context(self) -> dict[str, list[bytes]]:
            return self._properties

    def check(connection: Connection) -> None:
        check_peer(cast("grpc.aio.ServicerContext[Any, Any]", connection), "a")

    check(Connection())
    check(Connection(transport_security_type=[b"ssl"], x509_subject_alternative_name=[b"a"]))
    for names in ([], [b"b"]):
        with pytest.raises(IdentityError):
            check(Connection(transport_security_type=[b"ssl"], x509_subject_alternative_name=names))
    with pytest.raises(IdentityError):
        check(Connection(transport_security_type=[b"ssl"], x509_common_name=[b"a"]))


@pytest.mark.parametrize(
    ("name", "consumers", "welcome"),
    [
        ("hospital-x", (), True),
        ("a", (), False),
        ("hospital-x", ("hospital-y",), False),
        ("hospital-y", ("hospital-y",), True),
    ],
)
async def test_who_may_ask_for_rows(
    tmp_path: Path, name: str, consumers: tuple[str, ...], welcome: bool
) -> None:
    # A party is what its certificate says: an owner's is no consumer's, whoever holds it.
    CURATOR.save(tmp_path / "identity")
    OURS.issue(name).save(tmp_path / name)
    OWNER.save(tmp_path / "a")
    changes: dict[str, Any] = {"identity": tmp_path / "identity", "consumers": consumers}
    async with market(tmp_path, ["a"], **changes) as at:
        at.owner("a", identity=tmp_path / "a")
        journal = str(tmp_path / name / "journal.db")
        call = at.consumer(name=name, identity=tmp_path / name, journal=journal)
        if welcome:
            await call
            assert (tmp_path / "consumer" / "summary.npz").exists()
        else:
            with pytest.raises(IdentityError, match="not one of a consumer"):
                await call
