"""Sealed boxes: what only the holder of one X25519 key can open, and nobody can alter or use elsewhere.

A box is a fresh public key and a ciphertext. HKDF-SHA256 over the whole shared secret of X25519 (ephemeral
against static), bound to both public keys, to a context and to a secret that sender and recipient may share
beforehand, gives a key that seals this box and nothing else. The ciphertext is ChaCha20-Poly1305 in chunks,
numbered and the last one marked (Hoang, Reyhanitabar, Rogaway, Vizar 2015, STREAM), so that a long payload
cannot be cut short or put together anew either. In the terms of RFC 9180 this is its base mode, or its mode
with a pre-shared key; the bytes are not those of that RFC.

A box says nothing about its sender, unless there is a shared secret: who knows a public key can seal for it.
Its length is that of the payload and `box_bytes` more; pad what must not show.
"""

from __future__ import annotations

import math
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedkme.errors import SealedBoxError
from fedkme.secagg.keys import KEY_BYTES, expand, framed, public_bytes
from fedkme.secagg.shamir import Entropy

_CHUNK = 2**16
_TAG = 16
_LABEL = b"fedkme sealed box"
_REMEDY = "Compare what the parties were told of each other's keys and of the run, and ask again."


def new_key(entropy: Entropy = secrets.token_bytes) -> bytes:
    """A private X25519 key, 32 bytes; `fedkme.secagg.keys.public_bytes` gives the public one."""
    return entropy(KEY_BYTES)


def box_bytes(payload: int) -> int:
    """Length of the box of a payload of so many bytes."""
    return KEY_BYTES + payload + _TAG * max(1, math.ceil(payload / _CHUNK))


def seal(
    plain: bytes,
    recipient: bytes,
    context: bytes,
    shared: bytes = b"",
    *,
    entropy: Entropy = secrets.token_bytes,
) -> bytes:
    """Put bytes into a box.

    Args:
        plain: the payload.
        recipient: public X25519 key, 32 bytes.
        context: what the box is about; make it of `framed` parts. It opens under the same context alone.
        shared: a secret that sender and recipient know and the relay does not; none: anybody may seal.
        entropy: random bytes; anything but the default protects nobody.

    Raises:
        SealedBoxError: the recipient's key cannot be sealed for.
    """
    ephemeral = new_key(entropy)
    ours = public_bytes(ephemeral)
    cipher = _cipher(ephemeral, recipient, framed(ours, recipient, context), shared)
    chunks = [plain[start : start + _CHUNK] for start in range(0, len(plain), _CHUNK)] or [b""]
    last = len(chunks) - 1
    sealed = (cipher.encrypt(_nonce(i, i == last), chunk, None) for i, chunk in enumerate(chunks))
    return b"".join((ours, *sealed))


def open_box(box: bytes, private: bytes, context: bytes, shared: bytes = b"") -> bytes:
    """Open a box.

    Args:
        box: as it came.
        private: the recipient's key.
        context: see `seal`.
        shared: see `seal`.

    Raises:
        SealedBoxError: it was sealed for another key, in another context, by somebody without the
            shared secret, or was altered; which of them cannot be told.
    """
    if len(box) < KEY_BYTES + _TAG:
        raise shut("a sealed box is too short to be one")
    ephemeral, rest = box[:KEY_BYTES], memoryview(box)[KEY_BYTES:]
    about = framed(ephemeral, public_bytes(private), context)
    cipher = _cipher(private, ephemeral, about, shared)
    step = _CHUNK + _TAG
    chunks = [rest[start : start + step] for start in range(0, len(rest), step)]
    last = len(chunks) - 1
    try:
        return b"".join(cipher.decrypt(_nonce(i, i == last), chunk, None) for i, chunk in enumerate(chunks))
    except InvalidTag:
        raise shut("a sealed box does not open: altered, or for another key or purpose") from None


def shut(why: str) -> SealedBoxError:
    """The failure of everything that is sealed."""
    return SealedBoxError(why, _REMEDY)


def _cipher(private: bytes, public: bytes, about: bytes, shared: bytes) -> ChaCha20Poly1305:
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:  # not 32 bytes, or a point of low order, with which every secret is the same
        raise shut("a key to seal with is not a valid X25519 key") from None
    return ChaCha20Poly1305(expand(framed(secret, shared), _LABEL, about))


def _nonce(index: int, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])
