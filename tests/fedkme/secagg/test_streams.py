"""The primitives under the masks: known vectors, and exact cancellation."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.errors import SecureAggregationError
from fedkme.secagg.keys import KeyPair, PublicKey, add_keystreams, expand, framed, seal, unseal, verified


def test_the_keystream_is_chacha20() -> None:
    # RFC 7539, appendix A.1, test vector 1: key, nonce and counter zero.
    words = np.zeros(8, dtype=np.uint64)
    add_keystreams(words, [bytes(32)], [])
    expected = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert words.astype("<u8").tobytes().hex() == expected


def test_the_derivation_is_hkdf_sha256() -> None:
    # RFC 5869, appendix A, test case 1, its first 32 bytes.
    okm = expand(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert okm.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


@settings(deadline=None, max_examples=20)
@given(length=st.integers(1, 40_000), count=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_subtracting_keystreams_undoes_adding_them(length: int, count: int, seed: int) -> None:
    # Across blocks of keystream, and whatever else is added between.
    draw = random.Random(seed).randbytes
    keys = [draw(32) for _ in range(count)]
    words = np.random.default_rng(seed).integers(0, 2**64, length, dtype=np.uint64)
    masked = words.copy()
    add_keystreams(masked, keys, [])
    assert not np.array_equal(masked, words)
    add_keystreams(masked, [], keys[::-1])
    np.testing.assert_array_equal(masked, words)


def test_a_stream_does_not_repeat_from_block_to_block() -> None:
    words = np.zeros(3 * 2**14, dtype=np.uint64)
    add_keystreams(words, [b"k" * 32], [])
    assert len(np.unique(words)) == len(words)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_framing_tells_lists_apart(one: list[bytes], other: list[bytes]) -> None:
    assert (framed(*one) == framed(*other)) == (one == other)


def test_a_sealed_share_opens_only_in_its_own_context() -> None:
    sealed = seal(b"k" * 32, b"share", b"from a to b")
    assert unseal(b"k" * 32, sealed, b"from a to b") == b"share"
    assert unseal(b"k" * 32, sealed, b"from b to a") is None
    assert unseal(b"x" * 32, sealed, b"from a to b") is None
    for place in range(len(sealed)):
        altered = sealed[:place] + bytes([sealed[place] ^ 0x80]) + sealed[place + 1 :]
        assert unseal(b"k" * 32, altered, b"from a to b") is None


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
def test_a_key_of_low_order_is_refused(point: bytes) -> None:
    # With it the shared secret would be zero whatever the other key is.
    with pytest.raises(SecureAggregationError, match="the key of 'b' is not a valid key"):
        KeyPair(b"p" * 32, PublicKey("a", b"q" * 32)).key(PublicKey("b", point), b"run", b"use")


def test_a_verified_signature_does_not_verify_other_messages() -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    signature = key.sign(b"said")
    for _ in range(2):  # the second time from memory
        assert verified(key.public_key(), signature, b"said")
        assert not verified(key.public_key(), signature, b"said another")
        assert not verified(key.public_key(), other.sign(b"said"), b"said")
        assert not verified(other.public_key(), signature, b"said")
