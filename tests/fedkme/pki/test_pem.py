"""PEM as editors, mails and other tools leave it: every reader takes it, and gives gRPC the plain form."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedkme.errors import IdentityError, PkiError
from fedkme.pki.files import pem_blocks
from fedkme.pki.identity import Identity
from fedkme.pki.requests import make_request, read_request
from fedkme.pki.show import show
from tests.fedkme.pki.verbs import pki

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "as it was": lambda pem: pem,
    "CRLF": lambda pem: pem.replace(b"\n", b"\r\n"),
    "blanks behind": lambda pem: pem.replace(b"\n", b"  \t\n"),
    "blanks before": lambda pem: pem.replace(b"\n", b"\n   "),
    "empty lines": lambda pem: pem.replace(b"\n", b"\n\n"),
    "byte order mark": lambda pem: b"\xef\xbb\xbf" + pem,
    "UTF-16": lambda pem: pem.decode().encode("utf-16"),
    "text before": lambda pem: b"subject=north\nissuer=ca\n\n" + pem,
    "in one line": lambda pem: pem.replace(b"\n", b" "),
    "quoted by a mail": lambda pem: re.sub(rb"(?m)^", b"> ", pem),
    "no end of line": lambda pem: pem.rstrip(),
}


def plain_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.mark.parametrize("change", CHANGES)
def test_an_identity_is_read_as_it_was_written(tmp_path: Path, change: str) -> None:
    # A key with a blank behind "-----BEGIN PRIVATE KEY-----" was "no key".
    pki("init", tmp_path / "ca")
    pki("issue", "north", "--authority", tmp_path / "ca", "--out", tmp_path / "north.pem")
    pem = (tmp_path / "north.pem").read_bytes()
    before = Identity.load(tmp_path / "north.pem")
    before.save(tmp_path / "three")
    (tmp_path / "north.pem").write_bytes(CHANGES[change](pem))
    for name in ("certificate.pem", "key.pem", "authority.pem"):
        file = tmp_path / "three" / name
        file.write_bytes(CHANGES[change](file.read_bytes()))
    for path in (tmp_path / "north.pem", tmp_path / "three"):
        assert Identity.load(path) == before  # byte by byte: gRPC's own reader takes less
    assert next(iter(show(tmp_path / "north.pem"))) == {"private key": "(not shown)"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("label", [b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST"])
def test_a_request_is_read_as_it_was_written(tmp_path: Path, change: str, label: bytes) -> None:
    request = make_request("north", plain_key())
    pem = request.public_bytes(serialization.Encoding.PEM).replace(b"CERTIFICATE REQUEST", label)
    path = tmp_path / "north.csr"
    path.write_bytes(CHANGES[change](pem))
    assert read_request(path) == request
    assert next(iter(show(path)))["request of"] == "north"


def test_an_old_encrypted_key_keeps_its_head() -> None:
    form, secret = serialization.PrivateFormat.TraditionalOpenSSL, serialization.BestAvailableEncryption(b"x")
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(serialization.Encoding.PEM, form, secret)
    ((label, block),) = pem_blocks(pem)
    assert (label, block) == ("EC PRIVATE KEY", pem)
    assert serialization.load_pem_private_key(block, b"x")


def test_a_key_with_a_passphrase_is_called_one(tmp_path: Path) -> None:
    # It was "holds a file that is no PEM certificate or key", although openssl reads it.
    pki("init", tmp_path / "ca")
    pki("issue", "north", "--authority", tmp_path / "ca", "--out", tmp_path / "north.pem")
    identity = Identity.load(tmp_path / "north.pem")
    key = serialization.load_pem_private_key(identity.key, None)
    form, secret = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    locked = key.private_bytes(serialization.Encoding.PEM, form, secret)
    (tmp_path / "north.pem").write_bytes(locked + identity.certificate + identity.authority)
    with pytest.raises(IdentityError, match="has a passphrase"):
        Identity.load(tmp_path / "north.pem")


def test_a_file_without_anything_to_show_says_so(tmp_path: Path) -> None:
    # `fedkme pki show` of a public key printed nothing, and ended with status 0.
    key = serialization.load_pem_private_key(plain_key(), None).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "key.pub").write_bytes(key.public_bytes(serialization.Encoding.PEM, form))
    with pytest.raises(PkiError, match="holds no PEM that can be read"):
        [*show(tmp_path / "key.pub")]
