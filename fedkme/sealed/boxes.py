"""Sealed boxes: messages that one key opens, and that cannot be altered or used elsewhere.

A curator could store boxes for decades, so their key exchange is a hybrid: a box stays shut as long as X25519
*or* ML-KEM-768 (FIPS 203) is unbroken. A box consists of a fresh X25519 key, a KEM ciphertext and the sealed
payload. Its key comes from HKDF-SHA256 over both shared secrets, bound to the recipient's public key, to the
whole head of the box, to a context, and to a secret that sender and recipient may share beforehand; the key
seals this box and nothing else. RFC 9180 and X-Wing have such combiners over secrets, ciphertexts and keys;
our bytes differ from theirs. ChaCha20-Poly1305 encrypts the payload in numbered chunks, the last one marked
(Hoang, Reyhanitabar, Rogaway, Vizar 2015, STREAM), so that nobody can cut a long payload short or reorder it.

A box without a shared secret says nothing about its sender: anybody who knows the public key can seal for it.
Its length reveals the length of the payload (`box_bytes`): pad a payload whose length is private.
"""

import math
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedkme.errors import SealedBoxError
from fedkme.secagg.keys import KEY_BYTES, expand, framed

PRIVATE_BYTES = KEY_BYTES + 64
"""Length of a private key: an X25519 key, and the seed of an ML-KEM key."""
PUBLIC_BYTES = KEY_BYTES + 1184
"""Length of a public key: an X25519 key and an ML-KEM key."""
_HEAD = KEY_BYTES + 1088  # head of a box: the fresh X25519 key and the KEM ciphertext
_CHUNK = 2**16
_TAG = 16
_LABEL = b"fedkme hybrid sealed box"
_REMEDY = "Compare the keys and the run's name at both parties, and ask again."


def new_key() -> bytes:
    """Draw a private key, PRIVATE_BYTES."""
    return secrets.token_bytes(PRIVATE_BYTES)


class BoxKey:
    """A loaded private key: loading takes longer than opening a box.

    Attributes:
        public: the public key, PUBLIC_BYTES.
    """

    def __init__(self, private: bytes) -> None:
        """Load a key.

        Raises:
            SealedBoxError: the key has another length.
        """
        if len(private) != PRIVATE_BYTES:
            raise shut("a key to open with is of another length")
        self._classical = X25519PrivateKey.from_private_bytes(private[:KEY_BYTES])
        self._kem = MLKEM768PrivateKey.from_seed_bytes(private[KEY_BYTES:])
        halves: tuple[X25519PublicKey | MLKEM768PublicKey, ...]
        halves = self._classical.public_key(), self._kem.public_key()
        self.public = b"".join(half.public_bytes_raw() for half in halves)

    def open(self, box: bytes, context: bytes, shared: bytes = b"") -> bytes:
        """Open a box with the recipient's key; for context and shared secret see `seal`.

        Raises:
            SealedBoxError: the box was sealed for another key, in another context or without the shared
                secret, or it was altered; nobody can tell these cases apart.
        """
        if len(box) < _HEAD + _TAG:
            raise shut("a sealed box is too short to be one")
        head, rest = box[:_HEAD], memoryview(box)[_HEAD:]
        classical = _exchange(self._classical, head[:KEY_BYTES])
        # an altered ciphertext gives another secret (FIPS 203, implicit rejection), which opens nothing
        quantum_safe = self._kem.decapsulate(head[KEY_BYTES:])
        cipher = _cipher(classical, quantum_safe, shared, framed(head, self.public, context))
        step = _CHUNK + _TAG
        chunks = [rest[start : start + step] for start in range(0, len(rest), step)]
        last = len(chunks) - 1
        try:
            return b"".join(
                cipher.decrypt(_nonce(i, i == last), chunk, None) for i, chunk in enumerate(chunks)
            )
        except InvalidTag:
            raise shut("a sealed box does not open: altered, or for another key or purpose") from None


def box_bytes(payload: int) -> int:
    """Length of a box whose payload has so many bytes."""
    return _HEAD + payload + _TAG * max(1, math.ceil(payload / _CHUNK))


def seal(plain: bytes, recipient: bytes, context: bytes, shared: bytes = b"") -> bytes:
    """Put bytes into a box.

    Args:
        plain: the payload.
        recipient: public key, PUBLIC_BYTES.
        context: what the box is about, made of `framed` parts. The box opens under the same context alone.
        shared: a secret that sender and recipient know and the relay does not; empty: anybody may seal.

    Raises:
        SealedBoxError: the recipient's key cannot be sealed for.
    """
    if len(recipient) != PUBLIC_BYTES:
        raise shut("a key to seal for is of another length")
    ephemeral = X25519PrivateKey.from_private_bytes(secrets.token_bytes(KEY_BYTES))
    try:
        kem = MLKEM768PublicKey.from_public_bytes(recipient[KEY_BYTES:])
    except ValueError:  # a number in it is out of range
        raise shut("a key to seal for is not a valid ML-KEM key") from None
    quantum_safe, ciphertext = kem.encapsulate()
    head = ephemeral.public_key().public_bytes_raw() + ciphertext
    classical = _exchange(ephemeral, recipient[:KEY_BYTES])
    cipher = _cipher(classical, quantum_safe, shared, framed(head, recipient, context))
    chunks = [plain[start : start + _CHUNK] for start in range(0, len(plain), _CHUNK)] or [b""]
    last = len(chunks) - 1
    sealed = (cipher.encrypt(_nonce(i, i == last), chunk, None) for i, chunk in enumerate(chunks))
    return b"".join((head, *sealed))


def shut(why: str) -> SealedBoxError:
    """Make the error of sealed boxes and of secrets in them."""
    return SealedBoxError(why, _REMEDY)


def _exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of low order, with which every secret is the same
        raise shut("a key to seal with is not a valid X25519 key") from None


def _cipher(classical: bytes, quantum_safe: bytes, shared: bytes, about: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(expand(framed(classical, quantum_safe, shared), _LABEL, about))


def _nonce(index: int, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])
