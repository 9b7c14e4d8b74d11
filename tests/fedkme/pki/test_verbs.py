"""Issue 4, item 1: every verb of `fedkme pki`, and what each of them refuses."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedkme.errors import FedkmeError, IdentityError, PkiError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role, alternative_names, fingerprint, role_of
from fedkme.pki.files import pem_blocks
from fedkme.pki.folder import AuthorityFolder
from fedkme.pki.identity import Identity
from tests.fedkme.pki.verbs import pki, said
from tests.parties import WAIT_S


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A folder with an authority."""
    pki("init", tmp_path / "ca")
    return tmp_path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def issue(at: Path, name: str, *more: str | Path) -> Identity:
    pki("issue", name, "--authority", at / "ca", "--out", at / f"{name}.pem", *more)
    return Identity.load(at / f"{name}.pem")


def test_init_makes_an_authority(tmp_path: Path) -> None:
    # "`fedkme pki init` (a CA)": P-256, private key, fingerprint as openssl has it, and expiry.
    output = pki("init", tmp_path / "ca", "--name", "north authority", "--days", "100")
    certificate = x509.load_pem_x509_certificate((tmp_path / "ca" / "authority.pem").read_bytes())
    assert isinstance(key := certificate.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert said(output, "authority") == "north authority"
    assert said(output, "fingerprint") == fingerprint(certificate)
    assert re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", fingerprint(certificate))
    assert "100 days left" in said(output, "expires")
    assert mode(tmp_path / "ca" / "key.pem") == 0o600
    assert mode(tmp_path / "ca") == 0o700


def test_an_authority_is_never_replaced(at: Path) -> None:
    before = (at / "ca" / "key.pem").read_bytes()
    with pytest.raises(PkiError, match="is not empty"):
        pki("init", at / "ca")
    assert (at / "ca" / "key.pem").read_bytes() == before
    with pytest.raises(PkiError, match="no authority's folder"):
        pki("issue", "a", "--authority", at, "--out", at / "a.pem")


def test_issue_writes_a_bundle(at: Path) -> None:
    # "`pki issue owner-3` (one bundle file, SANs for the given hosts and localhost, expiry shown)".
    args = ("--role", "curator", "--host", "curator.example.org", "--host", "10.1.2.3", "--days", "30")
    output = pki("issue", "hub", "--authority", at / "ca", "--out", at / "hub.pem", *args)
    assert "30 days left" in said(output, "expires")
    identity = Identity.load(at / "hub.pem")
    hosts = ["curator.example.org", "10.1.2.3", *LOOPBACK]
    assert list(alternative_names(identity.leaf)) == ["hub", *hosts, "fedkme:role:curator"]
    assert said(output, "hosts").split() == hosts
    assert mode(at / "hub.pem") == 0o600
    assert [label for label, _ in pem_blocks((at / "hub.pem").read_bytes())] == [
        "PRIVATE KEY",
        "CERTIFICATE",
        "CERTIFICATE",
    ]


@pytest.mark.parametrize("role", Role)
def test_a_certificate_is_for_its_role_alone(at: Path, role: Role) -> None:
    # An owner's or a consumer's is no server's, and has no host under which it could be called.
    certificate = issue(at, "a", "--role", role).leaf
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    assert list(usage) == [server if role is Role.CURATOR else client]
    assert role_of(certificate) is role
    if role is not Role.CURATOR:
        assert list(alternative_names(certificate)) == ["a", f"fedkme:role:{role}"]
        with pytest.raises(IdentityError, match="has no hosts"):
            issue(at, "b", "--role", role, "--host", "curator.example.org")


def test_nothing_outlives_its_authority(tmp_path: Path) -> None:
    pki("init", tmp_path / "ca", "--days", "20")
    identity = issue(tmp_path, "a", "--days", "365")
    assert (
        identity.leaf.not_valid_after_utc == AuthorityFolder(tmp_path / "ca").certificate.not_valid_after_utc
    )


@pytest.mark.parametrize("name", ["", "Owner", "a b", "localhost", "-a", "a.b", "a\n", "x" * 64, "../a"])
def test_invalid_names_are_refused(at: Path, name: str) -> None:
    with pytest.raises(IdentityError, match="cannot be a party's name"):
        pki("issue", "--authority", at / "ca", "--out", at / "out.pem", "--", name)
    assert not (at / "out.pem").exists()


@pytest.mark.parametrize("host", ["*.example.org", "a:7700", "https://a", "a b", ""])
def test_invalid_hosts_are_refused(at: Path, host: str) -> None:
    with pytest.raises(IdentityError, match="neither a host name nor an address"):
        issue(at, "hub", "--role", "curator", "--host", host)


def test_a_name_belongs_to_one_party(at: Path) -> None:
    # Whoever has a name's certificate is that party: a second one needs a word, another role never gets it.
    first = issue(at, "a")
    for more, words in (
        ((), "with another key"),
        (("--role", "consumer", "--again"), "this authority's owner"),
    ):
        with pytest.raises(PkiError, match=words):
            pki("issue", "a", "--authority", at / "ca", "--out", at / "b.pem", *more)
    assert not (at / "b.pem").exists()
    pki("issue", "a", "--authority", at / "ca", "--out", at / "b.pem", "--again")
    assert Identity.load(at / "b.pem").key != first.key
    with pytest.raises(PkiError, match="exists"):
        pki("issue", "c", "--authority", at / "ca", "--out", at / "a.pem")
    with pytest.raises(PkiError, match="no folder that can be written"):
        pki("issue", "c", "--authority", at / "ca", "--out", at / "missing" / "c.pem")
    assert Identity.load(at / "a.pem") == first
    assert len(AuthorityFolder(at / "ca").issued()) == 2  # what failed left nothing behind


def test_request_and_approve_give_a_certificate_without_moving_the_key(at: Path) -> None:
    # "`pki request` / `pki approve`, CA fingerprint checked out of band".
    output = pki("request", "north", "--out-key", at / "north.key", "--out-request", at / "north.req")
    assert mode(at / "north.key") == 0o600
    approve = ("approve", at / "north.req", "--authority", at / "ca", "--out", at / "north.crt")
    with pytest.raises(IdentityError, match=f"no fingerprint to compare.*{said(output, 'fingerprint')}"):
        pki(*approve)
    with pytest.raises(IdentityError, match="not that of the request of 'north'"):
        pki(*approve, "--fingerprint", fingerprint(AuthorityFolder(at / "ca").certificate))
    assert not (at / "north.crt").exists()
    loose = "sha256 " + said(output, "fingerprint").lower().replace(":", " ")
    pki(*approve, "--fingerprint", loose)
    assert b"PRIVATE" not in (at / "north.req").read_bytes() + (at / "north.crt").read_bytes()

    take = ("accept", at / "north.crt", "--key", at / "north.key", "--out", at / "north.pem")
    ours = said(pki("show", at / "ca"), "fingerprint")
    with pytest.raises(IdentityError, match="no fingerprint to compare"):
        pki(*take)
    with pytest.raises(IdentityError, match="not that of the authority"):
        pki(*take, "--fingerprint", said(output, "fingerprint"))
    assert not (at / "north.pem").exists()
    pki(*take, "--fingerprint", ours)
    identity = Identity.load(at / "north.pem")
    assert identity.key == (at / "north.key").read_bytes()
    assert mode(at / "north.pem") == 0o600

    # and its renewal, with the same key, while the bundle is in use
    pki("request", "north", "--key", at / "north.pem", "--out-request", at / "again.req")
    whose = said(pki("show", at / "again.req"), "fingerprint")
    again = ("--authority", at / "ca", "--out", at / "again.crt", "--fingerprint", whose, "--days", "700")
    pki("approve", at / "again.req", *again)
    with pytest.raises(PkiError, match="exists"):
        pki("accept", at / "again.crt", *take[2:], "--fingerprint", ours)
    pki("accept", at / "again.crt", "--key", at / "north.pem", *take[4:], "--fingerprint", ours, "--over")
    renewed = Identity.load(at / "north.pem")
    assert renewed.key == identity.key
    assert renewed.leaf.not_valid_after_utc > identity.leaf.not_valid_after_utc


def test_an_exchanged_reply_is_refused(at: Path) -> None:
    # Another authority's certificate beside ours, and ours for another key.
    pki("request", "a", "--out-key", at / "a.key", "--out-request", at / "a.req")
    other = Authority().issue("a")
    ours = AuthorityFolder(at / "ca").certificate.public_bytes(serialization.Encoding.PEM)
    seen = said(pki("show", at / "ca"), "fingerprint")
    take = ("--key", at / "a.key", "--fingerprint", seen, "--out", at / "a.pem")
    for reply, words in (
        (other.certificate + ours, "was not issued by the authority beside it"),
        (other.certificate + other.authority, "not that of the authority"),
        (issue(at, "b").certificate + ours, "is for another key"),
        (other.certificate, "does not hold a certificate and its authority's"),
        (b"", "does not hold a certificate and its authority's"),
    ):
        (at / "reply").write_bytes(reply)
        with pytest.raises(IdentityError, match=words):
            pki("accept", at / "reply", *take)
    assert not (at / "a.pem").exists()


def test_weak_forged_and_foreign_requests_are_refused(at: Path) -> None:
    # A weak key, a request that somebody changed, another party's key.
    def request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, name: str = "a") -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)

    good = request(ec.generate_private_key(ec.SECP256R1()))
    cases = {
        "or its key is weak": request(rsa.generate_private_key(65537, 2048)),
        "is not signed by its own key": good[:-1] + bytes([good[-1] ^ 1]),
        "cannot be a party's name": request(ec.generate_private_key(ec.SECP256R1()), "A party"),
    }
    for words, data in cases.items():
        csr = x509.load_der_x509_csr(data)
        (at / "x.req").write_bytes(csr.public_bytes(serialization.Encoding.PEM))
        with pytest.raises(IdentityError, match=words):
            approve(at, "x", fingerprint(csr))
    (at / "x.req").write_bytes(b"nonsense")
    with pytest.raises(IdentityError, match="is no request"):
        approve(at, "x", "")
    issue(at, "a")
    pki("request", "b", "--key", at / "a.pem", "--out-request", at / "b.req")
    with pytest.raises(PkiError, match="another party's, or was revoked"):
        approve(at, "b", said(pki("show", at / "b.req"), "fingerprint"))


def approve(at: Path, name: str, seen: str) -> None:
    files = (at / f"{name}.req", "--authority", at / "ca", "--out", at / f"{name}.crt")
    pki("approve", *files, "--fingerprint", seen)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("folder", [False, True])
def test_renew_issues_the_same_certificate_again(at: Path, fresh: bool, folder: bool) -> None:
    # "(same key or new key, same names)", in place.
    old = issue(at, "hub", "--role", "curator", "--host", "h.example.org", "--days", "3")
    where = at / "hub.pem"
    if folder:
        where = at / "hub"
        old.save(where)
    pki("renew", where, "--authority", at / "ca", *(["--new-key"] if fresh else []))
    new = Identity.load(where)
    assert alternative_names(new.leaf) == alternative_names(old.leaf)
    assert new.leaf.serial_number != old.leaf.serial_number
    assert new.leaf.not_valid_after_utc - old.leaf.not_valid_after_utc > datetime.timedelta(days=300)
    assert (new.key != old.key) is fresh
    assert mode(where / "key.pem" if folder else where) == 0o600
    assert not [path for path in at.rglob("*") if path.name.startswith(".")]  # nothing half-written stays


def test_revoked_and_unknown_certificates_are_not_renewed(at: Path) -> None:
    issue(at, "a")
    Authority().issue("a", role=Role.OWNER).save_bundle(at / "theirs.pem")
    with pytest.raises(PkiError, match="is not this authority's"):
        pki("renew", at / "theirs.pem", "--authority", at / "ca")
    pki("revoke", "a", "--authority", at / "ca")
    with pytest.raises(PkiError, match="was revoked"):
        pki("renew", at / "a.pem", "--authority", at / "ca")
    # a key that may be in wrong hands gets no certificate by another way either
    pki("request", "a", "--key", at / "a.pem", "--out-request", at / "a.req")
    with pytest.raises(PkiError, match="or was revoked"):
        approve(at, "a", said(pki("show", at / "a.req"), "fingerprint"))
    pki("issue", "a", "--authority", at / "ca", "--out", at / "new.pem")  # the party itself may come back


def test_revoke_takes_names_serial_numbers_and_files(at: Path) -> None:
    # "revoke NAME|SERIAL|FILE", each of them, once and for all.
    by_name, by_serial, by_file = (issue(at, name) for name in ("a", "b", "c"))
    folder = AuthorityFolder(at / "ca")
    pki("revoke", "a", f"{by_serial.leaf.serial_number:X}", at / "c.pem", "--authority", at / "ca")
    assert all(folder.is_revoked(each.leaf) for each in (by_name, by_serial, by_file))
    assert not folder.is_revoked(issue(at, "d").leaf)
    pki("revoke", "--authority", at / "ca")  # signed anew: nothing is forgotten
    pki("revoke", "a", "--authority", at / "ca")
    assert len(list(folder.revoked())) == 3
    assert folder.revoked().extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 4
    with pytest.raises(PkiError, match=r"issued no certificate 'aa'\. Did you mean 'a'"):
        pki("revoke", "aa", "--authority", at / "ca")
    Authority().issue("x").save_bundle(at / "theirs.pem")
    with pytest.raises(PkiError, match="issued no certificate"):
        pki("revoke", at / "theirs.pem", "--authority", at / "ca")


def test_a_key_with_a_passphrase_signs_only_with_it(tmp_path: Path) -> None:
    # "optional passphrase from a file or prompt": without it nothing is signed.
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "wrong").write_text("battery staple\n")
    (tmp_path / "empty").write_text("\n")
    ca, given = tmp_path / "ca", ("--passphrase-file", tmp_path / "phrase")
    pki("init", ca, *given)
    assert b"ENCRYPTED" in (ca / "key.pem").read_bytes()
    issued = ("issue", "a", "--authority", ca, "--out", tmp_path / "a.pem")
    for file, words in (
        ("wrong", "Give the right passphrase"),
        ("empty", "is empty"),
        ("none", "No such file"),
    ):
        with pytest.raises(PkiError, match=words):
            pki(*issued, "--passphrase-file", tmp_path / file)
    assert not (tmp_path / "a.pem").exists()
    pki(*issued, *given)
    assert "correct" not in pki("revoke", "a", "--authority", ca, typed="correct horse\n")
    pki("init", tmp_path / "asked", "--ask-passphrase", typed="one two\none two\n")
    pki("revoke", "--authority", tmp_path / "asked", typed="one two\n")


def test_an_expired_authority_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pki("init", tmp_path / "ca", "--days", "1")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    monkeypatch.setattr("fedkme.pki.folder.now", lambda: later)
    with pytest.raises(PkiError, match="has expired"):
        issue(tmp_path, "a")


def test_show_describes_folders_and_files(at: Path) -> None:
    # "names, role, hosts, expiry with days left, fingerprints, serial"
    identity = issue(at, "hub", "--role", "curator", "--host", "h.example.org")
    identity.save(at / "hub")
    for path in (at / "hub.pem", at / "hub"):
        output = pki("show", path)
        assert said(output, "party") == "hub"
        assert said(output, "role") == "curator"
        assert "h.example.org" in said(output, "hosts")
        assert "365 days left" in said(output, "expires")
        assert said(output, "serial") == f"{identity.leaf.serial_number:x}"
        assert said(output, "fingerprint") == fingerprint(identity.leaf)
        assert said(output, "authority") == "fedkme authority"
    issue(at, "a")
    pki("revoke", "a", "--authority", at / "ca")
    output = pki("show", at / "ca")
    assert re.search(r"^a +owner .* revoked$", output, re.MULTILINE)
    assert re.search(r"^hub +curator .*365 days left\)$", output, re.MULTILINE)
    assert said(output, "revocations") == "1 by fedkme authority"
    assert "1 by" in pki("show", at / "ca" / "revoked.pem")
    (at / "text").write_text("nothing\n")
    for path in (at / "text", at / "missing", at):
        with pytest.raises(PkiError):
            pki("show", path)


def test_no_secret_is_shown(at: Path) -> None:
    # "Secrets never appear in logs, errors or process lists": what every verb prints, of keys planted here.
    (at / "phrase").write_text("the planted passphrase\n")
    phrase = ("--passphrase-file", at / "phrase")
    ca, printed = at / "locked", []

    def run(*arguments: str | Path) -> str:
        try:
            printed.append(pki(*arguments))
        except FedkmeError as error:
            printed.append(f"{error!r} {error}")
        return printed[-1]

    run("init", ca, *phrase)
    run("issue", "a", "--authority", ca, "--out", at / "a.pem", *phrase)
    run("issue", "a", "--authority", ca, "--out", at / "b.pem", *phrase)
    output = run("request", "n", "--out-key", at / "n.key", "--out-request", at / "n.req")
    seen = said(output, "fingerprint")
    run("approve", at / "n.req", "--authority", ca, "--out", at / "n.crt", "--fingerprint", seen, *phrase)
    run("accept", at / "n.crt", "--key", at / "n.key", "--out", at / "n.pem", "--fingerprint", seen)
    run("renew", at / "a.pem", "--authority", ca, *phrase)
    run("revoke", "a", "--authority", ca, *phrase)
    for path in (ca, ca / "key.pem", at / "a.pem", at / "n.key", at / "n.crt", at / "phrase"):
        run("show", path)
    identity = Identity.load(at / "a.pem")
    printed += [repr(identity), str(identity)]
    secrets = ["the planted passphrase"]
    for file in (ca / "key.pem", at / "a.pem", at / "n.key"):
        label, block = pem_blocks(file.read_bytes())[0]
        assert label.endswith("PRIVATE KEY")
        secrets += block.decode().splitlines()[1:-1]
    assert len(secrets) > 6
    everything = "\n".join(printed)
    assert "expires" in everything
    assert not [secret for secret in secrets if secret in everything]


def test_the_command_line(tmp_path: Path) -> None:
    # One line and a numbered exit, as every verb.
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from operate.cli import main; main()", "pki", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False
        )

    assert run("init", "ca").returncode == 0
    again = run("init", "ca")
    assert (again.returncode, again.stdout) == (60, "")
    assert again.stderr.startswith("error 60 (pki): ca is not empty. ")
    assert again.stderr.count("\n") == 1
