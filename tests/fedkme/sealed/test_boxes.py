"""Sealed boxes, which a curator may keep for decades and cannot open."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import SealedBoxError
from fedkme.sealed import boxes
from fedkme.sealed.boxes import PRIVATE_BYTES, PUBLIC_BYTES, BoxKey, box_bytes, new_key, seal
from fedkme.secagg.keys import framed

PRIVATE, OTHER = (random.Random(name).randbytes(PRIVATE_BYTES) for name in ("b", "c"))
HEAD = 32 + 1088
GOLDEN = Path(__file__).with_name("golden_box.hex")
KEY = BoxKey(PRIVATE)
PUBLIC = KEY.public
ABOUT = framed(b"use", b"run-1")
LONG = random.Random("long").randbytes(3 * 2**16 + 5)


def _decapsulated(box: bytes) -> bytes:
    return MLKEM768PrivateKey.from_seed_bytes(PRIVATE[32:]).decapsulate(box[32:HEAD])


def _opened(box: bytes, classical: bytes, quantum_safe: bytes, about: bytes) -> bytes:
    cipher = boxes._cipher(classical, quantum_safe, b"", about)
    return cipher.decrypt(boxes._nonce(0, True), box[HEAD:], None)


@given(plain=st.binary(max_size=200), about=st.binary(max_size=40), shared=st.binary(max_size=40))
def test_a_box_opens_to_what_was_sealed(plain: bytes, about: bytes, shared: bytes) -> None:
    box = seal(plain, PUBLIC, about, shared)
    assert KEY.open(box, about, shared) == plain
    assert len(box) == box_bytes(len(plain))


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, 3 * 2**16 + 5])
def test_long_payloads_are_sealed_in_chunks(size: int) -> None:
    box = seal(LONG[:size], PUBLIC, ABOUT)
    assert KEY.open(box, ABOUT) == LONG[:size]
    assert len(box) == box_bytes(size)


def test_two_boxes_of_one_payload_differ_in_every_part() -> None:
    first, second = (seal(b"the same", PUBLIC, ABOUT) for _ in range(2))
    for part in (slice(0, 32), slice(32, HEAD), slice(HEAD, None)):
        assert first[part] != second[part]


@pytest.mark.parametrize(
    ("private", "about", "shared"),
    [
        (OTHER, ABOUT, b"s"),
        (PRIVATE, framed(b"use", b"run-2"), b"s"),
        (PRIVATE, ABOUT, b""),
        (PRIVATE, b"", b"s"),
    ],
)
def test_a_box_opens_for_one_key_one_context_and_one_shared_secret(
    private: bytes, about: bytes, shared: bytes
) -> None:
    with pytest.raises(SealedBoxError, match="does not open"):
        BoxKey(private).open(seal(b"secret", PUBLIC, ABOUT, b"s"), about, shared)


def test_every_byte_of_a_box_is_protected() -> None:
    box = seal(b"secret", PUBLIC, ABOUT)
    for place in (*range(32), *range(32, HEAD, 37), HEAD - 1, *range(HEAD, len(box))):
        for bit in (1, 0x80):
            altered = bytearray(box)
            altered[place] ^= bit
            if place == 31 and bit == 0x80:
                continue  # X25519 ignores the top bit of a public key; the context does not, see below
            with pytest.raises(SealedBoxError):
                KEY.open(bytes(altered), ABOUT)
    altered = bytearray(box)
    altered[31] ^= 0x80
    with pytest.raises(SealedBoxError):  # the same secret, but the key is bound to the bytes
        KEY.open(bytes(altered), ABOUT)


def test_a_long_box_that_is_cut_or_reordered_does_not_open() -> None:
    box = seal(LONG, PUBLIC, ABOUT)
    head, step = box[:HEAD], 2**16 + 16
    chunks = [box[HEAD + i * step : HEAD + (i + 1) * step] for i in range(4)]
    assert head + b"".join(chunks) == box
    for order in ([0, 1, 2], [1, 0, 2, 3], [0, 0, 1, 2, 3], [0, 2, 1, 3], [3], [0, 1, 3], [0, 1, 2, 3, 3]):
        with pytest.raises(SealedBoxError):
            KEY.open(head + b"".join(chunks[i] for i in order), ABOUT)
    for size in (0, 31, 32, HEAD, HEAD + 15, HEAD + 16, len(box) - 1):
        with pytest.raises(SealedBoxError):
            KEY.open(box[:size], ABOUT)


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little")])
def test_a_key_that_makes_every_secret_the_same_is_refused(key: bytes) -> None:
    with pytest.raises(SealedBoxError):
        seal(b"secret", key + PUBLIC[32:], ABOUT)
    with pytest.raises(SealedBoxError):
        KEY.open(key + bytes(HEAD), ABOUT)


@pytest.mark.parametrize("key", [b"", PUBLIC[:32], PUBLIC[:-1], PUBLIC + b"0", PUBLIC[:32] + b"\xff" * 1184])
def test_a_key_of_another_kind_is_refused(key: bytes) -> None:
    with pytest.raises(SealedBoxError):
        seal(b"secret", key, ABOUT)


def test_a_private_key_of_the_previous_format_opens_nothing() -> None:
    with pytest.raises(SealedBoxError):
        BoxKey(PRIVATE[:32])


def test_a_box_stays_shut_if_one_of_the_two_exchanges_is_broken() -> None:
    box = seal(b"secret", PUBLIC, ABOUT)
    assert len(PUBLIC) == PUBLIC_BYTES
    for broken in (PRIVATE[:32] + OTHER[32:], OTHER[:32] + PRIVATE[32:]):
        with pytest.raises(SealedBoxError):  # the key is bound as well: that alone would keep it shut
            BoxKey(broken).open(box, ABOUT)
    classical, quantum_safe = boxes._exchange(KEY._classical, box[:32]), _decapsulated(box)
    about = framed(box[:HEAD], PUBLIC, ABOUT)
    assert _opened(box, classical, quantum_safe, about) == b"secret"
    for secrets in ((classical, bytes(32)), (bytes(32), quantum_safe)):
        with pytest.raises(InvalidTag):
            _opened(box, *secrets, about)


def test_the_format_equals_the_recorded_box() -> None:
    # A golden box: two versions of the software that disagree could not read each other's rows.
    assert (
        BoxKey(bytes(range(PRIVATE_BYTES))).open(bytes.fromhex(GOLDEN.read_text()), ABOUT, b"shared")
        == b"golden"
    )


def test_fresh_keys_are_fresh() -> None:
    assert new_key() != new_key()
