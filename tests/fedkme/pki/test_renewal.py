"""Issue 4, item 1: "renewal before expiry without ending a run", and files that hold an identity."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from fedkme.errors import IdentityError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.pki.expiry import expiries, warn_of_ends
from fedkme.pki.identity import Identity, IdentityFile
from fedkme.wire.tls import peer_names, renewing_server_credentials
from tests.fedkme.pki.servers import call, calling, serving
from tests.fedkme.pki.verbs import pki

DAY = datetime.timedelta(days=1)


def names(context: Any) -> str:
    return " ".join(sorted(peer_names(context) or ()))


async def shown(address: str, authority: bytes) -> int:
    """The serial number of the certificate that a server shows to whoever connects now."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cadata=authority.decode())
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(certificate).serial_number


class Site:
    """An authority on disk, a curator's bundle and an owner's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        pki("init", folder / "ca")
        for name, *more in (("curator", "--role", "curator"), ("a",)):
            pki("issue", name, "--authority", folder / "ca", "--out", folder / f"{name}.pem", *more)
        self.bundle = folder / "curator.pem"

    def renew(self, name: str, *more: str) -> Identity:
        pki("renew", self.folder / f"{name}.pem", "--authority", self.folder / "ca", *more)
        return Identity.load(self.folder / f"{name}.pem")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("more", [(), ("--new-key",)], ids=["same key", "new key"])
async def test_a_server_takes_up_a_renewed_bundle(site: Site, more: tuple[str, ...]) -> None:
    # Without a restart, and a stream that stands goes on.
    heard: list[str] = []
    file = IdentityFile(site.bundle)
    owner = Identity.load(site.folder / "a.pem")
    before = file.identity.leaf.serial_number
    credentials = renewing_server_credentials(file, lambda event, line: heard.append(event))
    async with serving(credentials, names) as address, calling(address, owner) as channel:
        session: Any = channel.stream_stream("/test/talk")()
        await session.write(b"")
        assert await session.read() == b"a"
        assert await shown(address, owner.authority) == before
        assert not heard
        after = site.renew("curator", *more).leaf.serial_number
        assert await shown(address, owner.authority) == after != before
        assert await call(address, owner) == "a"
        assert heard == ["certificate_renewed"]  # once, for two connections
        await session.write(b"")
        assert await session.read() == b"a"
        session.cancel()


async def test_a_bundle_that_is_spoiled_changes_nothing(site: Site) -> None:
    # Half a file, somebody else's key, an expired one: the server goes on as it was and says so once.
    heard: list[tuple[str, str]] = []
    file = IdentityFile(site.bundle)
    owner, before = Identity.load(site.folder / "a.pem"), file.identity
    credentials = renewing_server_credentials(file, lambda event, line: heard.append((event, line)))
    async with serving(credentials, names) as address:
        good = site.bundle.read_bytes()
        swapped = Identity(before.certificate, owner.key, before.authority).bundle()
        old = Authority(datetime.timedelta(minutes=1)).issue("curator", LOOPBACK).bundle()
        spoiled = {"has no": good[:400], "is not its certificate's": swapped, "has expired": old}
        for words, data in spoiled.items():
            site.bundle.write_bytes(data)
            for _ in range(2):
                assert await shown(address, owner.authority) == before.leaf.serial_number
            assert [event for event, line in heard] == ["certificate_not_renewed"]
            assert words in heard.pop()[1]
        site.bundle.write_bytes(good)
        assert await call(address, owner) == "a"
        after = site.renew("curator").leaf.serial_number
        assert await shown(address, owner.authority) == after
        assert heard.pop()[0] == "certificate_renewed"


def test_a_client_reads_its_bundle_at_every_dial(site: Site) -> None:
    file = IdentityFile(site.folder / "a.pem")
    assert not file.renewed()
    first = file.identity
    second = site.renew("a")
    assert file.renewed()
    assert file.identity == second != first
    (site.folder / "a.pem").unlink()
    for _ in range(2):
        with pytest.raises(IdentityError, match="cannot be read"):
            file.renewed()
    assert file.identity == second
    second.save(site.folder / "a")
    folder = IdentityFile(site.folder / "a")
    first.save(site.folder / "a")
    assert folder.renewed()
    assert folder.identity == first


def _warnings(identity: Identity) -> list[str]:
    lines: list[str] = []
    warn_of_ends(lambda event, line: lines.append(line), expiries(identity))
    return lines


def test_a_party_warns_before_its_certificate_expires() -> None:
    # "A party warns (one line) when its certificate expires within 14 days"; of a short life, the last third.
    year = Authority(400 * DAY)
    assert _warnings(year.issue("a", lifetime=15 * DAY)) == []
    assert _warnings(year.issue("a", lifetime=365 * DAY)) == []
    assert _warnings(Authority().issue("a")) == []  # a simulation's: nobody is to be bothered
    for lifetime in (0.5 * DAY, 13 * DAY):
        identity = Authority(400 * DAY).issue("a", lifetime=365 * DAY)
        now = identity.leaf.not_valid_after_utc - lifetime
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedkme.pki.certificates.now", lambda at=now: at)
            (warning,) = _warnings(identity)
        assert warning.startswith("the certificate of a ends on ")
        assert "\n" not in warning


def test_malformed_bundles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Said by the party whose it is, before it calls anybody: a peer would only hang up.
    ours, theirs = Authority(), Authority()
    good, other = ours.issue("a"), theirs.issue("b")
    path = tmp_path / "a.pem"
    cases = {
        "has no key": good.certificate + good.authority,
        "has no authority's certificate": good.key + good.certificate,
        "has no certificate of a party": good.key + good.authority,
        "is not its certificate's": other.key + good.certificate + good.authority,
        "no PEM certificate or key": good.key + good.certificate.replace(b"M", b"!") + good.authority,
    }
    for words, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(IdentityError, match=words):
            Identity.load(path)
    path.write_bytes(ours.key_pem(b"phrase") + good.certificate + good.authority)
    with pytest.raises(IdentityError, match="has a passphrase"):
        Identity.load(path)
    with pytest.raises(IdentityError, match="cannot be read"):
        Identity.load(tmp_path / "missing")
    path.unlink()
    good.save_bundle(path)
    with pytest.raises(FileExistsError):
        other.save_bundle(path)
    assert Identity.load(path) == good
    path.write_bytes(other.authority + path.read_bytes())  # an authority gives way: both are trusted
    assert Identity.load(path).authority == other.authority + good.authority
    monkeypatch.setattr("fedkme.pki.identity.now", lambda: datetime.datetime.now(datetime.UTC) - DAY)
    with pytest.raises(IdentityError, match="is not valid yet"):
        Identity.load(path)


async def test_an_authority_may_have_the_name_of_a_party(tmp_path: Path) -> None:
    # What is whose in a bundle goes by what the certificates may do, not by names that anybody may choose.
    authority = Authority(name="curator")
    for name, hosts, role in (("curator", LOOPBACK, Role.CURATOR), ("a", (), Role.OWNER)):
        authority.issue(name, hosts, role).save_bundle(tmp_path / name)
    async with serving(Identity.load(tmp_path / "curator").server_credentials(), names) as address:
        assert await call(address, Identity.load(tmp_path / "a")) == "a"
