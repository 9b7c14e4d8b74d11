"""Issue 4, item 1: "Revocation (a list the curator reloads without a restart)"."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fedkme.errors import IdentityError
from fedkme.inputs import read_bytes
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.pki.folder import AuthorityFolder
from fedkme.pki.identity import Identity
from fedkme.pki.revocation import Revocation
from fedkme.wire.tls import peer_certificate
from tests.fedkme.pki.servers import call, calling, serving
from tests.fedkme.pki.verbs import pki


class Site:
    """An authority and what it issued."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.list = folder / "ca" / "revoked.pem"
        pki("init", folder / "ca")
        self.curator = self.issue("curator", "--role", "curator")

    def issue(self, name: str, *more: str) -> Identity:
        file = self.folder / f"{name}.pem"
        pki("issue", name, "--authority", self.folder / "ca", "--out", file, *more)
        return Identity.load(file)

    def revoke(self, *names: str) -> None:
        pki("revoke", *names, "--authority", self.folder / "ca")

    def sign_list(self, lifetime: datetime.timedelta) -> None:
        with AuthorityFolder(self.folder / "ca").open(lambda: b"") as signing:
            signing.revoke((), lifetime)

    def revocation(self) -> Revocation:
        return Revocation(self.list, self.curator.authority)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_list_is_read_again_without_a_restart(site: Site) -> None:
    # Over real TLS: new connections, and a session that stands when its certificate is revoked.
    a, b = site.issue("a"), site.issue("b")
    revocation = site.revocation()

    def look(context: Any) -> str:
        shown = peer_certificate(context)
        assert shown is not None
        try:
            revocation.check(shown)
        except IdentityError as error:
            return error.cause
        return "welcome"

    async with serving(site.curator.server_credentials(), look) as address, calling(address, a) as channel:
        session: Any = channel.stream_stream("/test/talk")()
        await session.write(b"")
        assert await session.read() == b"welcome"
        assert await call(address, b) == "welcome"
        site.revoke("a")
        serial = f"{a.leaf.serial_number:x}"
        message = f"the certificate of 'a' with serial number {serial} was revoked on "
        assert (await call(address, a)).startswith(message)
        await session.write(b"")  # the session stands: it is the next look that ends it
        assert (await session.read()).decode().startswith(message)
        assert await call(address, b) == "welcome"
        session.cancel()


def test_an_unchanged_list_is_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # "cached by (mtime_ns, size, inode)": a check costs no reading, and no change is missed.
    a = site.issue("a")
    reads: list[Path] = []
    revocation = site.revocation()

    def counted(path: Path, most: int) -> bytes:
        reads.append(path)
        return read_bytes(path, most)

    monkeypatch.setattr("fedkme.pki.revocation.read_bytes", counted)
    for _ in range(3):
        revocation.check(a.certificate)
    assert site.list not in reads
    site.revoke("a")
    with pytest.raises(IdentityError, match="was revoked"):
        revocation.check(a.certificate)
    assert reads.count(site.list) > 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda site: site.sign_list(datetime.timedelta(seconds=-1)), "expired on "),
        (lambda site: site.list.write_bytes(theirs()), "is not signed by this party's authority"),
    ],
    ids=["expired", "theirs"],
)
def test_with_an_invalid_list_every_certificate_is_refused(site: Site, spoil: Any, words: str) -> None:
    # Fails closed, with a clear line, each time, at the start too; and recovers with a good list.
    a = site.issue("a")
    revocation = site.revocation()
    revocation.check(a.certificate)
    good = site.list.read_bytes()
    spoil(site)
    for _ in range(2):
        with pytest.raises(IdentityError, match=words):
            revocation.check(a.certificate)
    with pytest.raises(IdentityError, match=words):
        site.revocation()
    site.list.write_bytes(good)
    if words != "expired on ":  # after that one, the good list is an older one
        revocation.check(a.certificate)
    site.revoke()
    revocation.check(a.certificate)


@pytest.mark.parametrize(
    ("tear", "words"),
    [
        (lambda site: site.list.unlink(), "cannot be read: No such file"),
        (lambda site: site.list.write_bytes(b""), "cut off"),
        (lambda site: site.list.write_bytes(site.list.read_bytes()[:-60]), "cut off"),
        (
            lambda site: site.list.write_bytes(site.list.read_bytes() * 2 + site.list.read_bytes()[:90]),
            "cut off",
        ),
    ],
    ids=["missing", "empty", "cut", "second cut"],
)
def test_the_previous_list_holds_while_a_new_one_is_being_copied(site: Site, tear: Any, words: str) -> None:
    # A torn file refused everybody. The list before holds, and a start needs a whole one.
    a, b = site.issue("a"), site.issue("b")
    site.revoke("b")
    revocation, whole = site.revocation(), site.list.read_bytes()
    tear(site)
    for _ in range(2):
        revocation.check(a.certificate)
        with pytest.raises(IdentityError, match="was revoked"):
            revocation.check(b.certificate)
    assert words in str(revocation.warning())
    with pytest.raises(IdentityError, match=words):
        site.revocation()
    site.list.write_bytes(whole)
    site.revoke("a")
    with pytest.raises(IdentityError, match="was revoked"):
        revocation.check(a.certificate)
    assert words not in str(revocation.warning())


def theirs() -> bytes:
    """A list of another authority that has the same name."""
    other = Authority(name="fedkme authority").sign_list((), 9, datetime.timedelta(days=1))
    return other.public_bytes(serialization.Encoding.PEM)


def test_an_older_list_is_refused(site: Site) -> None:
    # Who can put back yesterday's list would un-revoke.
    a = site.issue("a")
    before = site.list.read_bytes()
    revocation = site.revocation()
    site.revoke("a")
    with pytest.raises(IdentityError, match="was revoked"):
        revocation.check(a.certificate)
    site.list.write_bytes(before)
    with pytest.raises(IdentityError, match="older than the one before"):
        revocation.check(a.certificate)


def test_a_certificate_of_an_unknown_authority_is_refused(site: Site) -> None:
    # A list says nothing of another authority's certificates, not even with the same name and number.
    revocation = site.revocation()
    with pytest.raises(IdentityError, match="no list of the authority that issued the certificate of 'a'"):
        revocation.check(Authority(name="fedkme authority").issue("a").certificate)
    for nonsense in (b"", b"nonsense"):
        with pytest.raises(IdentityError, match="no certificate that can be read"):
            revocation.check(nonsense)


def test_two_authorities_have_two_lists(site: Site) -> None:
    # While one authority gives way to another, both are trusted, and each revokes its own.
    a = site.issue("a")
    other = Authority(name="fedkme authority")
    b = other.issue("b", role=Role.OWNER)
    both = site.curator.authority + other.pem
    with pytest.raises(IdentityError, match="no list of the authority that issued the certificate of 'b'"):
        Revocation(site.list, both).check(b.certificate)
    site.revoke("a")
    file = site.folder / "lists.pem"
    signed = other.sign_list((), 1, datetime.timedelta(days=1))
    file.write_bytes(site.list.read_bytes() + signed.public_bytes(serialization.Encoding.PEM))
    revocation = Revocation(file, both)
    revocation.check(b.certificate)
    with pytest.raises(IdentityError, match="was revoked"):
        revocation.check(a.certificate)


def test_a_list_that_will_expire_is_warned_about(site: Site) -> None:
    revocation = site.revocation()
    assert revocation.warning() is None
    site.sign_list(datetime.timedelta(days=1))
    assert revocation.warning() is None  # a third of a shorter life
    pki("revoke", "--authority", site.folder / "ca", "--days", "80")
    assert revocation.warning() is None
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=70)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedkme.pki.certificates.now", lambda: soon)
        assert "ends on" in str(revocation.warning())
