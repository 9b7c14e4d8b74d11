"""Keys of pairs of owners, and the keystreams that mask."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedkme.errors import SecureAggregationError
from fedkme.secagg.ring import Words

KEY_BYTES = 32
SELF_MASK = b"fedkme secagg self-mask stream"
PAIR_MASK = b"fedkme secagg pairwise mask stream"
_BLOCK = 2**17
"""Bytes of keystream at a time: such a block of the sum stays in a processor's second-level cache."""
_ZEROS = bytes(_BLOCK)
_ONCE = bytes(12)
"""Nonce of a key that never seals more than one message."""


@dataclass(frozen=True)
class PublicKey:
    """A public X25519 key and its owner."""

    owner: str
    key: bytes


def framed(*parts: bytes) -> bytes:
    """Concatenate parts, each with its length, so that no two lists of parts give the same bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def public_bytes(private: bytes) -> bytes:
    """The public key of a private one, both 32 bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


class KeyPair:
    """An owner's private and public X25519 key; each secret that it shares with a peer is computed once."""

    def __init__(self, private: bytes, mine: PublicKey) -> None:
        """Load a key.

        Args:
            private: the private key of `mine`.
            mine: this owner's public key.
        """
        self.mine = mine
        self._private = X25519PrivateKey.from_private_bytes(private)
        self._agreed: dict[PublicKey, bytes] = {}

    def key(self, peer: PublicKey, context: bytes, label: bytes) -> bytes:
        """A key that two owners share, 32 bytes.

        HKDF-SHA256 over the whole shared secret of X25519. The salt is the aggregation; the information is
        the use, both names and both public keys. So the key is good for one purpose of one aggregation.

        Args:
            peer: the other owner's public key.
            context: context of the aggregation.
            label: the use of the key.

        Raises:
            SecureAggregationError: the peer's key is a point of low order, with which all secrets are equal.
        """
        if peer not in self._agreed:
            try:
                public = X25519PublicKey.from_public_bytes(peer.key)
                self._agreed[peer] = self._private.exchange(public)
            except ValueError:  # a point of low order
                cause = f"the key of {peer.owner!r} is not a valid key"
                raise SecureAggregationError(cause, "Ask that owner to update its software.") from None
        ends = sorted((self.mine, peer), key=lambda end: end.owner)
        info = framed(label, *(part for end in ends for part in (end.owner.encode(), end.key)))
        return expand(self._agreed[peer], context, info)


def expand(secret: bytes, context: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 with the aggregation as salt; 32 bytes."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=context, info=info).derive(secret)


def verified(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    """Check a signature; all parties of a process, which may be thousands, share the result."""
    return verified_once(key.public_bytes_raw(), signature, signed)


@functools.lru_cache(maxsize=2**14)  # signatures of 10,000 owners, below 10 MB
def verified_once(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Check a signature by the bytes of its Ed25519 key; cached, since the result never changes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def seal(key: bytes, plain: bytes, about: bytes) -> bytes:
    """Encrypt with ChaCha20-Poly1305 under a key that seals nothing else."""
    return ChaCha20Poly1305(key).encrypt(_ONCE, plain, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Open a sealed message; None if it was altered or is about something else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, sealed, about)
    except InvalidTag:
        return None


def add_keystreams(words: Words, plus: Sequence[bytes], minus: Sequence[bytes]) -> None:
    """Add and subtract ChaCha20 keystreams in place, as little-endian words modulo 2**64.

    Args:
        words: (length,) uint64, contiguous.
        plus: keys of 32 bytes whose streams are added; no key may serve anything else.
        minus: keys of 32 bytes whose streams are subtracted, likewise.
    """
    streams = [
        (Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor(), combine)
        for keys, combine in ((plus, np.add), (minus, np.subtract))
        for key in keys
    ]
    buffer = bytearray(_BLOCK)
    stream = np.frombuffer(buffer, dtype="<u8")
    for start in range(0, len(words), len(stream)):
        part = words[start : start + len(stream)]
        size = 8 * len(part)
        target = memoryview(buffer)[:size]
        zeros = memoryview(_ZEROS)[:size]
        for encryptor, combine in streams:
            encryptor.update_into(zeros, target)
            combine(part, stream[: len(part)], out=part)
