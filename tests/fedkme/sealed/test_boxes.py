"""Issue 6, item 2: "sealed boxes (X25519, HKDF, ChaCha20-Poly1305) that it cannot open"."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import SealedBoxError
from fedkme.sealed import box_bytes, new_key, open_box, seal
from fedkme.secagg.keys import framed, public_bytes

PRIVATE, OTHER = (random.Random(name).randbytes(32) for name in ("b", "c"))
PUBLIC = public_bytes(PRIVATE)
ABOUT = framed(b"use", b"run-1")
LONG = random.Random("long").randbytes(3 * 2**16 + 5)


@given(plain=st.binary(max_size=200), about=st.binary(max_size=40), shared=st.binary(max_size=40))
def test_a_box_opens_to_what_was_sealed(plain: bytes, about: bytes, shared: bytes) -> None:
    box = seal(plain, PUBLIC, about, shared)
    assert open_box(box, PRIVATE, about, shared) == plain
    assert len(box) == box_bytes(len(plain))


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, 3 * 2**16 + 5])
def test_long_payloads_go_in_chunks(size: int) -> None:
    box = seal(LONG[:size], PUBLIC, ABOUT)
    assert open_box(box, PRIVATE, ABOUT) == LONG[:size]
    assert len(box) == box_bytes(size)


def test_two_boxes_of_one_payload_share_nothing() -> None:
    first, second = (seal(b"the same", PUBLIC, ABOUT) for _ in range(2))
    assert first[:32] != second[:32]
    assert first[32:] != second[32:]


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
        open_box(seal(b"secret", PUBLIC, ABOUT, b"s"), private, about, shared)


def test_every_byte_of_a_box_is_protected() -> None:
    box = seal(b"secret", PUBLIC, ABOUT)
    for place in range(len(box)):
        for bit in (1, 0x80):
            altered = bytearray(box)
            altered[place] ^= bit
            if place == 31 and bit == 0x80:
                continue  # X25519 ignores the top bit of a public key; the context does not, see below
            with pytest.raises(SealedBoxError):
                open_box(bytes(altered), PRIVATE, ABOUT)
    altered = bytearray(box)
    altered[31] ^= 0x80
    with pytest.raises(SealedBoxError):  # the same secret, but the key is bound to the bytes
        open_box(bytes(altered), PRIVATE, ABOUT)


def test_a_long_box_cannot_be_cut_or_put_together_anew() -> None:
    box = seal(LONG, PUBLIC, ABOUT)
    head, step = box[:32], 2**16 + 16
    chunks = [box[32 + i * step : 32 + (i + 1) * step] for i in range(4)]
    assert head + b"".join(chunks) == box
    for order in ([0, 1, 2], [1, 0, 2, 3], [0, 0, 1, 2, 3], [0, 2, 1, 3], [3], [0, 1, 3], [0, 1, 2, 3, 3]):
        with pytest.raises(SealedBoxError):
            open_box(head + b"".join(chunks[i] for i in order), PRIVATE, ABOUT)
    for size in (0, 31, 32, 47, 48, len(box) - 1):
        with pytest.raises(SealedBoxError):
            open_box(box[:size], PRIVATE, ABOUT)


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little"), b"", bytes(31), bytes(33)])
def test_a_key_that_makes_every_secret_the_same_is_refused(key: bytes) -> None:
    with pytest.raises(SealedBoxError):
        seal(b"secret", key, ABOUT)
    with pytest.raises(SealedBoxError):
        open_box(key + bytes(64), PRIVATE, ABOUT)


def test_the_format_does_not_change_unseen() -> None:
    # A golden box: two versions of the software that disagree could not read each other's rows.
    box = seal(b"golden", PUBLIC, ABOUT, b"shared", entropy=lambda size: bytes(range(size)))
    assert box.hex() == (
        "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f"
        "c0d718463ee7be28b9245f72717c11f50feb6a4dd907"
    )


def test_fresh_keys_are_fresh() -> None:
    assert new_key() != new_key()
