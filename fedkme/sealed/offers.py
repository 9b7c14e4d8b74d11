"""Offers of keys: a party's keys of one run, bound to its certificate.

As `fedkme.secagg.signing` binds a signing key, an offer binds two keys: one that others seal boxes for
(X25519 with ML-KEM-768), and an Ed25519 key that signs gifts of the group secret. The certificate's key signs
both together with the run's name. So a curator that passes offers on can neither swap a key nor use it in
another run. In plaintext, on loopback, there are no certificates: offers are unsigned, and nothing proves the
names in them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedkme.pki.certificates import Role, name_of
from fedkme.pki.identity import Identity
from fedkme.sealed.boxes import PUBLIC_BYTES, BoxKey, new_key
from fedkme.secagg.keys import KEY_BYTES, framed
from fedkme.secagg.signing import check_signature, refusal, sign

_LONGEST = 2**16
_LABEL = b"fedkme sealed keys of a run"


@dataclass(frozen=True)
class PartyKeys:
    """A party's private keys in one run.

    Attributes:
        name: name of the party.
        run: name of the run.
        box: private key of sealed boxes (`fedkme.sealed.boxes.new_key`).
        signing: private Ed25519 key, 32 bytes.
    """

    name: str
    run: str
    box: bytes = field(repr=False)
    signing: bytes = field(repr=False)

    @staticmethod
    def fresh(name: str, run: str) -> PartyKeys:
        """Draw keys for one run and no other."""
        return PartyKeys(name, run, new_key(), secrets.token_bytes(KEY_BYTES))

    @cached_property
    def opener(self) -> BoxKey:
        """The key of sealed boxes, loaded."""
        return BoxKey(self.box)

    def sign(self, message: bytes) -> bytes:
        """Sign a message; returns the Ed25519 signature."""
        return Ed25519PrivateKey.from_private_bytes(self.signing).sign(message)


@dataclass(frozen=True)
class KeyOffer:
    """A party's public keys in one run, as they travel.

    Attributes:
        name: name of the party.
        box: public key of sealed boxes, PUBLIC_BYTES.
        signing: public Ed25519 key, 32 bytes.
        chain: PEM, the party's certificate first; empty in plaintext.
        signature: ECDSA with SHA-256 by the certificate's key; empty in plaintext.
    """

    name: str
    box: bytes
    signing: bytes
    chain: bytes = b""
    signature: bytes = b""


OfferCheck = Callable[[KeyOffer], None]
"""Function that raises an IdentityError for an offer that does not come from its party."""


def offer_keys(keys: PartyKeys, identity: Identity | None) -> KeyOffer:
    """Make a party's offer; in plaintext there is no identity, and nothing vouches for the offer.

    Raises:
        IdentityError: the identity belongs to another party, or its key is not from `fedkme pki`.
    """
    signing = Ed25519PrivateKey.from_private_bytes(keys.signing).public_key().public_bytes_raw()
    bare = KeyOffer(keys.name, keys.opener.public, signing)
    if identity is None:
        return bare
    if (name := name_of(identity.leaf.subject)) != keys.name:
        raise refusal(f"the identity is {name!r}'s and the keys are {keys.name!r}'s")
    signature = sign(identity, _offer_bytes(bare, keys.run))
    return KeyOffer(keys.name, bare.box, bare.signing, identity.certificate, signature)


def certified(
    authority: bytes, run: str, roles: Collection[Role], *, check: Callable[[bytes], None] | None = None
) -> OfferCheck:
    """Make a check that accepts offers with a certificate of the authority.

    Args:
        authority: PEM of the authorities that this party trusts.
        run: name of the run.
        roles: roles that the other side may have; the curator's role is never among them. Certificates
            without a role, as in simulations, count as any role.
        check: refuses certificates (PEM) that were revoked, such as Revocation.check.
    """

    def verify(offer: KeyOffer) -> None:
        _check_form(offer)

        def signed(name: str) -> bytes:
            if name != offer.name:
                raise refusal(f"keys in the name of {offer.name!r} come with another party's certificate")
            return _offer_bytes(offer, run)

        check_signature("keys come", offer.chain, authority, roles, offer.signature, signed, check)

    return verify


def taken_at_their_word(offer: KeyOffer) -> None:
    """Accept every well-formed offer: for plaintext on loopback, where a curator could swap all keys.

    Raises:
        IdentityError: the offer is malformed, or has a certificate, which nobody checks here.
    """
    _check_form(offer)
    if offer.chain or offer.signature:
        raise refusal(f"the keys of {offer.name!r} come with a certificate, and this run has none")


def _check_form(offer: KeyOffer) -> None:
    parts = (offer.box, offer.signing, offer.chain, offer.signature)
    if not isinstance(offer.name, str) or not all(isinstance(p, bytes) and len(p) <= _LONGEST for p in parts):
        raise refusal("an offer of keys is malformed")
    if len(offer.box) != PUBLIC_BYTES or len(offer.signing) != KEY_BYTES:
        raise refusal(f"the keys of {offer.name!r} are of another length")


def _offer_bytes(offer: KeyOffer, run: str) -> bytes:
    return framed(_LABEL, run.encode(), offer.name.encode(), offer.box, offer.signing)
