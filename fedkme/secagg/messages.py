"""Messages between owners and curator, phase by phase.

A message checks its own shape: a decoder of a peer's bytes returns a well-formed message or raises a
SecureAggregationError. The recipient of a message checks its meaning.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar

import numpy as np

from fedkme.errors import SecureAggregationError
from fedkme.secagg.keys import KEY_BYTES, framed
from fedkme.secagg.parameters import MAX_LENGTH, MAX_OWNERS, is_name
from fedkme.secagg.ring import Words
from fedkme.secagg.shamir import SHARE_BYTES
from fedkme.secagg.signing import KeyBinding

SEALED_BYTES = 2 * SHARE_BYTES + 16
SIGNATURE_BYTES = 64
_CONTEXT_BYTES = 32


@dataclass(frozen=True)
class CheckedMessage:
    """A message, or a part of one, whose fields have the forms of `_FORMS`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            _FORMS[each.name](getattr(self, each.name))


@dataclass(frozen=True)
class Advertisement(CheckedMessage):
    """Phase 1, owner to curator: two public keys for this aggregation and a commitment to the self-mask."""

    sender: str
    context: bytes
    cipher_key: bytes
    """X25519, for sealing shares."""
    mask_key: bytes
    """X25519, for pairwise masks."""
    commitment: bytes
    """SHA-256 of the seed of the self-mask, with context and name."""
    signature: bytes
    """Ed25519, of `signed`."""

    @property
    def signed(self) -> bytes:
        """Bytes that the owner signs."""
        return advertised(self.context, self.sender, self.cipher_key, self.mask_key, self.commitment)

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the advertisement with its signature."""
        return hashlib.sha256(framed(self.signed, self.signature)).digest()


@dataclass(frozen=True)
class KeyRoster(CheckedMessage):
    """Phase 1, curator to owners: all advertisements, or with neighbours the circle's advertisements."""

    question: ClassVar[str] = "aggregate"
    step: ClassVar[str] = "roster"
    context: bytes
    advertisements: tuple[Advertisement, ...]
    fingerprints: tuple[bytes, ...] = ()
    """Fingerprints of all n owners in order of names, b"" for an owner that did not advertise; none without
    neighbours."""
    keys: tuple[KeyBinding, ...] = ()
    """Signing keys of the owner's circle and of the committee; none without neighbours."""


@dataclass(frozen=True)
class SealedShare(CheckedMessage):
    """Shares of the sender's two secrets; the recipient alone can open them."""

    sender: str
    recipient: str
    sealed: bytes


@dataclass(frozen=True)
class SealedShares(CheckedMessage):
    """Phase 2, owner to curator: a sealed share for every other owner of the sender's circle."""

    sender: str
    context: bytes
    shares: tuple[SealedShare, ...]


@dataclass(frozen=True)
class Delivery(CheckedMessage):
    """Phase 2, curator to one owner: the shares that its circle sealed for it."""

    question: ClassVar[str] = "aggregate"
    step: ClassVar[str] = "delivery"
    recipient: str
    context: bytes
    shares: tuple[SealedShare, ...]
    sharing: tuple[str, ...] = ()
    """Owners that shared, in order of names; none without neighbours."""


@dataclass(frozen=True, eq=False, repr=False)
class MaskedInput(CheckedMessage):
    """Phase 3, owner to curator: the vector with noise and masks, (length,) uint64 below 2**k."""

    sender: str
    context: bytes
    words: Words


@dataclass(frozen=True)
class Survivors(CheckedMessage):
    """Phase 3, curator to owners: the owners whose masked vectors arrived, in order of names."""

    question: ClassVar[str] = "aggregate"
    step: ClassVar[str] = "survivors"
    context: bytes
    owners: tuple[str, ...]


@dataclass(frozen=True)
class Endorsement(CheckedMessage):
    """Phase 4, owner to curator: a signature of all that the curator told the owner."""

    sender: str
    context: bytes
    signature: bytes


@dataclass(frozen=True)
class Endorsements(CheckedMessage):
    """Phase 4, curator to owners: the signatures of the owners."""

    question: ClassVar[str] = "aggregate"
    step: ClassVar[str] = "endorsements"
    context: bytes
    endorsements: tuple[Endorsement, ...]


@dataclass(frozen=True, repr=False)
class RevealedShare(CheckedMessage):
    """One owner's share of a secret of the owner `about`."""

    about: str
    share: bytes


@dataclass(frozen=True)
class Unmasking(CheckedMessage):
    """Phase 5, owner to curator: shares of survivors' self-masks and of lost owners' mask keys."""

    sender: str
    context: bytes
    self_masks: tuple[RevealedShare, ...]
    mask_keys: tuple[RevealedShare, ...]


def advertised(context: bytes, sender: str, cipher_key: bytes, mask_key: bytes, commitment: bytes) -> bytes:
    """Bytes that an owner signs in an advertisement."""
    return framed(b"fedkme secagg advertisement", context, sender.encode(), cipher_key, mask_key, commitment)


def committed(context: bytes, owner: str, seed: bytes) -> bytes:
    """The commitment to the seed of a self-mask; it hides the seed, which is uniform in 2**256."""
    return hashlib.sha256(framed(b"fedkme secagg self-mask", context, owner.encode(), seed)).digest()


def sealed_about(context: bytes, sender: str, recipient: str) -> bytes:
    """Context that a sealed share is bound to."""
    return framed(b"fedkme secagg share", context, sender.encode(), recipient.encode())


def endorsed(
    context: bytes, advertisements: Iterable[Advertisement], sharing: Iterable[str], survivors: Iterable[str]
) -> bytes:
    """Bytes that an owner signs in an endorsement: all that the curator must tell every owner alike.

    Args:
        context: context of the aggregation; with neighbours the context of its roster, which binds the
            advertisements.
        advertisements: advertisements of phase 1; with neighbours none.
        sharing: owners that shared, in phase 2.
        survivors: survivors of phase 3.
    """
    keys = [
        part
        for message in sorted(advertisements, key=lambda message: message.sender)
        for part in (message.signed, message.signature)
    ]
    names = (_digest(frozenset(owners)) for owners in (sharing, survivors))
    return framed(b"fedkme secagg survivors", context, hashlib.sha256(framed(*keys)).digest(), *names)


@functools.lru_cache(maxsize=8)
def _digest(names: frozenset[str]) -> bytes:
    """SHA-256 of names in their order; cached for all parties of a process, like `session_of`."""
    return hashlib.sha256(framed(*(name.encode() for name in sorted(names)))).digest()


@functools.lru_cache(maxsize=8)
def session_of(context: bytes, *facts: bytes | tuple[str, ...]) -> bytes:
    """Context of messages that depend on more than the parameters, 32 bytes.

    Args:
        context: context of the aggregation.
        facts: the root of the aggregation's roster; then the owners that shared.
    """
    parts = (part if isinstance(part, bytes) else framed(*(name.encode() for name in part)) for part in facts)
    return hashlib.sha256(framed(b"fedkme secagg session", context, *parts)).digest()


def _check_name(name: object) -> None:
    if not is_name(name):
        raise _malformed("an invalid name")


def _check_names(names: object) -> None:
    _check_tuple(names, str)
    assert isinstance(names, tuple)
    for name in names:
        _check_name(name)
    if list(names) != sorted(set(names)):
        raise _malformed("a list of owners that is not in order")


def _check_bytes(value: object, size: int) -> None:
    if not isinstance(value, bytes) or len(value) != size:
        raise _malformed(f"a field that is not {size} bytes")


def _check_tuple(values: object, kind: type) -> None:
    if not isinstance(values, tuple) or len(values) > MAX_OWNERS:
        raise _malformed("an invalid list")
    if not all(isinstance(value, kind) for value in values):
        raise _malformed(f"a list of something else than {kind.__name__}")


def _check_fingerprints(values: object) -> None:
    _check_tuple(values, bytes)
    assert isinstance(values, tuple)
    for fingerprint in values:
        _check_bytes(fingerprint, _CONTEXT_BYTES if fingerprint else 0)


def _check_words(words: object) -> None:
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
        raise _malformed("a masked vector that is no vector of words")
    if len(words) > MAX_LENGTH:
        raise _malformed("a masked vector that is too long")


def _malformed(what: str) -> SecureAggregationError:
    return SecureAggregationError(f"a message has {what}", "Install the same release on all sides.")


_FORMS: Mapping[str, Callable[[object], None]] = {
    **dict.fromkeys(("sender", "recipient", "about"), _check_name),
    **dict.fromkeys(("sharing", "owners"), _check_names),
    **dict.fromkeys(("cipher_key", "mask_key", "commitment"), partial(_check_bytes, size=KEY_BYTES)),
    **dict.fromkeys(("self_masks", "mask_keys"), partial(_check_tuple, kind=RevealedShare)),
    "context": partial(_check_bytes, size=_CONTEXT_BYTES),
    "signature": partial(_check_bytes, size=SIGNATURE_BYTES),
    "sealed": partial(_check_bytes, size=SEALED_BYTES),
    "share": partial(_check_bytes, size=SHARE_BYTES),
    "advertisements": partial(_check_tuple, kind=Advertisement),
    "keys": partial(_check_tuple, kind=KeyBinding),
    "shares": partial(_check_tuple, kind=SealedShare),
    "endorsements": partial(_check_tuple, kind=Endorsement),
    "fingerprints": _check_fingerprints,
    "words": _check_words,
}
"""Check of every field by its name, which means the same in all messages."""
