"""Certificates and requests with some bytes changed: each reader takes them, or refuses in order."""

from __future__ import annotations

import base64
import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from fedkme.errors import FedkmeError
from fedkme.heads import notes
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.pki.files import pem_blocks
from fedkme.pki.identity import Identity
from fedkme.pki.requests import make_request, read_request
from fedkme.pki.show import show
from fedkme.sealed.offers import PartyKeys, certified, offer_keys
from fedkme.secagg.signing import bind, verify_binding
from tests.fedkme.secagg.runs import signing_key
from tests.hostile.fuzz import garble

OURS = Authority()
OWNER = OURS.issue("a", role=Role.OWNER)
RUN = "run-1/1"
BINDING = bind(OWNER, signing_key("a").public_key(), RUN)
OFFER = offer_keys(PartyKeys.fresh("a", RUN), OWNER)
HEAD = notes.Checkpoint(notes.origin_of(Role.OWNER, "a"), 1, bytes(32))
NOTE = f"{HEAD.text}\n{notes.signature_line(HEAD, HEAD.origin, OWNER)}"
CERTIFICATE, REQUEST = OWNER.certificate, make_request("a", OWNER.key).public_bytes(Encoding.PEM)


def garbled(pem: bytes, count: int) -> Iterator[bytes]:
    """PEM that is well-formed, of bytes that are not."""
    label, block = pem_blocks(pem)[0]
    der, rng = base64.b64decode(b"".join(block.splitlines()[1:-1])), random.Random(1)
    odd_version = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01i")
    for changed in (odd_version, *(garble(der, rng) for _ in range(count))):
        body = base64.encodebytes(changed).decode()
        yield f"-----BEGIN {label}-----\n{body}-----END {label}-----\n".encode()


def read_head(pem: bytes, _: Path) -> None:
    notes.chain_of_signer(NOTE, HEAD.origin, [pem])
    notes.check_signature(HEAD, notes.read_note(NOTE)[1], HEAD.origin, notes.chains_of(pem), OURS.pem)


def read_bundle(pem: bytes, path: Path) -> None:
    path.write_bytes(OWNER.key + pem + OURS.pem)
    Identity.load(path)


def read_file(pem: bytes, path: Path) -> None:
    path.write_bytes(pem)
    list(show(path))


def read_asked(pem: bytes, path: Path) -> None:
    path.write_bytes(pem)
    read_request(path)


READERS: dict[str, tuple[bytes, Callable[[bytes, Path], object]]] = {
    # A certificate of an unknown version was an unforeseen error, which ends the sum of all owners.
    "a signing key": (
        CERTIFICATE,
        lambda pem, _: verify_binding(dataclasses.replace(BINDING, chain=pem), OURS.pem, RUN),
    ),
    "keys": (
        CERTIFICATE,
        lambda pem, _: certified(OURS.pem, RUN, [Role.OWNER])(dataclasses.replace(OFFER, chain=pem)),
    ),
    "a head": (CERTIFICATE, read_head),
    "an identity": (CERTIFICATE, read_bundle),
    "a file": (CERTIFICATE, read_file),
    "a file of a request": (REQUEST, read_file),
    "a request": (REQUEST, read_asked),
}


@pytest.mark.filterwarnings("ignore:Parsed a")
@pytest.mark.parametrize("what", READERS)
def test_certificates_of_changed_bytes(what: str, tmp_path: Path) -> None:
    whole, read = READERS[what]
    read(whole, tmp_path / "a.pem")
    refused = 0
    for pem in garbled(whole, 300):
        try:
            read(pem, tmp_path / "a.pem")
        except FedkmeError:
            refused += 1
    assert refused > 100
