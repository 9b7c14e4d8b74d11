"""A secret of owners and consumer, agreed through a curator that must not know it.

One party, the giver (the consumer of a run, or a party that all agree on), draws 32 bytes and seals them for
each taker's key. The curator carries offers and gifts. It cannot open a gift (a sealed box), swap a taker's
key (the taker's certificate signs the key with the run's name) or give a secret of its own (the giver's
certificate signs the key that signs each gift). It can only withhold messages. Keys and draws that are hidden
from the curator are derived from the secret, each purpose by an HKDF of its own; an example is the draw of h1
(`fedkme.sealed.secret_fourier`).

Any holder of the secret can tell it to the curator. A single owner that does so undoes the protection of
everybody's hashes, but not of sealed rows: they open with the consumer's key alone.
"""

from __future__ import annotations

import enum
import hmac
import secrets
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedkme.errors import IdentityError, SealedBoxError
from fedkme.pki.identity import Identity
from fedkme.sealed.boxes import seal, shut
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, offer_keys
from fedkme.secagg.keys import KEY_BYTES, expand, framed, verified

MOST_OFFERS = 16
"""Largest number of keys that one taker may offer in a run: each restart of its process makes new keys."""
_LABEL = b"fedkme group secret"


class GroupSecret:
    """32 bytes that owners and consumer of one run share; they can be neither printed nor pickled."""

    __slots__ = ("_run", "_secret")

    def __init__(self, run: str, secret: bytes) -> None:
        """Hold a secret of a run.

        Raises:
            SealedBoxError: the secret does not have 32 bytes.
        """
        if len(secret) != KEY_BYTES:
            raise shut("a group secret is of another length")
        self._run = run
        self._secret = secret

    @staticmethod
    def fresh(run: str) -> GroupSecret:
        """Draw a secret for one run and no other."""
        return GroupSecret(run, secrets.token_bytes(KEY_BYTES))

    @property
    def run(self) -> str:
        """The run's name."""
        return self._run

    def derive(self, purpose: bytes, *about: bytes) -> bytes:
        """Derive a key for one purpose, 32 bytes; keys for other purposes, runs or facts do not help."""
        return expand(self._secret, framed(_LABEL, self._run.encode()), framed(purpose, *about))

    def commitment(self) -> bytes:
        """32 public bytes by which holders see that they have the same secret."""
        return self.derive(b"commitment")

    def exposed(self) -> bytes:
        """The secret itself: seal these bytes, or write them where only this party reads."""
        return self._secret

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GroupSecret)
            and self._run == other._run
            and hmac.compare_digest(self._secret, other._secret)
        )

    def __repr__(self) -> str:
        return f"GroupSecret(run={self._run!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a group secret is not pickled")


@dataclass(frozen=True)
class Gift:
    """The secret for one taker, as it travels.

    Attributes:
        giver: the giver's offer of keys.
        taker: name of the taker.
        commitment: commitment to the secret, 32 bytes.
        box: the secret, sealed for the key that the taker offered.
        signature: Ed25519, by the giver's signing key.
    """

    giver: KeyOffer
    taker: str
    commitment: bytes
    box: bytes
    signature: bytes


class SecretGiver:
    """The party that draws the secret; takers may come at any time until the giver closes."""

    def __init__(
        self,
        keys: PartyKeys,
        identity: Identity | None,
        check: OfferCheck,
        *,
        secret: GroupSecret | None = None,
    ) -> None:
        """Draw the secret.

        Args:
            keys: this party's keys in the run.
            identity: this party's identity; None in plaintext.
            check: checks that an offer comes from its party and that this party may have the secret
                (`certified` for owners, or `taken_at_their_word`).
            secret: the secret of the same run from before a restart; None: a fresh one.

        Raises:
            IdentityError: the identity belongs to another party.
        """
        self.secret = secret or GroupSecret.fresh(keys.run)
        self._keys = keys
        self._offer = offer_keys(keys, identity)
        self._check = check
        self._gifts: dict[tuple[str, bytes], Gift] = {}
        self._open = True

    @property
    def given(self) -> dict[str, int]:
        """Number of keys, by taker, for which the secret was given."""
        return dict(Counter(name for name, _ in self._gifts))

    def give(self, offer: KeyOffer) -> Gift:
        """Give the secret to a taker, in time or late; the same offer gets the same gift.

        Raises:
            IdentityError: the offer does not come from its party, or this party may not have the secret.
            SealedBoxError: this giver has closed, or the taker has offered too many keys.
        """
        if not self._open:
            raise shut(f"{offer.name!r} asks for the group secret after its giver closed")
        self._check(offer)
        if offer.name == self._keys.name:
            cause = f"{offer.name!r} may not have the group secret of run {self.secret.run}"
            raise IdentityError(cause, "It gives the secret: give the owner another name.")
        place = (offer.name, offer.box)
        if place not in self._gifts:
            if self.given.get(offer.name, 0) >= MOST_OFFERS:
                raise shut(f"{offer.name!r} has offered {MOST_OFFERS} keys in one run")
            self._gifts[place] = self._make_gift(offer)
        return self._gifts[place]

    def close(self) -> None:
        """Give the secret to no further taker; this party keeps it."""
        self._open = False

    def _make_gift(self, offer: KeyOffer) -> Gift:
        commitment = self.secret.commitment()
        about = _gift_context(self.secret.run, self._keys.name, offer.name, commitment)
        box = seal(self.secret.exposed(), offer.box, about)
        signature = self._keys.sign(_signed_bytes(about, offer.box, box))
        return Gift(self._offer, offer.name, commitment, box, signature)


class Taking(enum.Enum):
    """Next step of a taker."""

    OFFER = "offer"
    TAKE = "take"
    DONE = "be done"
    LEFT = "stay away"


class SecretTaker:
    """A party that receives the secret: it sends an offer and gets a gift.

    The first gift that does not fit ends the taker's part for good. This object alone holds its keys: a
    process that restarts is a new taker with new keys, and the giver gives again.

    Attributes:
        phase: the next step.
    """

    def __init__(self, keys: PartyKeys, identity: Identity | None, giver: str, check: OfferCheck) -> None:
        """Begin with the offer.

        Args:
            keys: this party's keys in the run.
            identity: this party's identity; None in plaintext.
            giver: name of the giver, from this party's own knowledge of the run's consumer.
            check: checks that an offer comes from the giver (`certified` for the giver's role).
        """
        self.phase = Taking.OFFER
        self._name = keys.name
        self._keys: PartyKeys | None = keys
        self._run = keys.run
        self._identity = identity
        self._giver = giver
        self._check = check

    def offer(self) -> KeyOffer:
        """This party's keys, for the giver.

        Raises:
            IdentityError: the identity belongs to another party.
            SealedBoxError: this taker's part is over.
        """
        if self._keys is None:
            raise shut(f"{self._name!r} has ended its part in the group secret")
        offer = offer_keys(self._keys, self._identity)
        self.phase = Taking.TAKE
        return offer

    def take(self, gift: Gift) -> GroupSecret:
        """Open a gift and return the secret.

        Raises:
            IdentityError: the gift does not come from the giver.
            SealedBoxError: the gift was altered, or belongs to another run, key or taker; or this taker
                expects no gift.
        """
        keys, self._keys = self._keys, None
        if self.phase is not Taking.TAKE or keys is None:
            self.phase = Taking.LEFT
            raise shut(f"{self._name!r} is given a group secret that it does not expect")
        self.phase = Taking.LEFT  # until every check has passed
        secret = self._open_gift(gift, keys)
        self.phase = Taking.DONE
        return secret

    def _open_gift(self, gift: Gift, keys: PartyKeys) -> GroupSecret:
        self._check(gift.giver)
        if gift.taker != self._name:
            raise shut(f"{self._name!r} is given the group secret of {gift.taker!r}")
        about = check_gift(gift, self._run, self._giver, keys.opener.public)
        secret = GroupSecret(self._run, keys.opener.open(gift.box, about))
        if not hmac.compare_digest(secret.commitment(), gift.commitment):
            raise shut("the group secret is not the one that its giver committed to")
        return secret


def check_gift(gift: Gift, run: str, giver: str, key: bytes) -> bytes:
    """Check a gift's public part: the giver signed it, for its taker, run and key.

    Args:
        gift: as it travels.
        run: the run's name.
        giver: name of the expected giver; an `OfferCheck` tells whether the giver's keys are its own.
        key: the public key that the taker offered.

    Returns:
        The context that the gift's box is sealed with.

    Raises:
        IdentityError: another party gave it.
        SealedBoxError: the giver did not sign it.
    """
    if gift.giver.name != giver:
        cause = f"the group secret comes from {gift.giver.name!r}, not from {giver!r}"
        raise IdentityError(cause, "Ask the curator and the consumer which party gives the secret.")
    about = _gift_context(run, giver, gift.taker, gift.commitment)
    if not _is_signed(gift, about, key):
        raise shut(f"the group secret for {gift.taker!r} is not signed by its giver for this run and key")
    return about


def check_same(secret: GroupSecret, commitment: bytes) -> None:
    """Refuse a secret that is not the run's secret.

    Raises:
        SealedBoxError: the run's public commitment is to another secret.
    """
    if not hmac.compare_digest(secret.commitment(), commitment):
        cause = f"the group secret of run {secret.run} is not the one that its features are drawn from"
        raise SealedBoxError(cause, "Ask the giver for the secret again.")


def _gift_context(run: str, giver: str, taker: str, commitment: bytes) -> bytes:
    return framed(_LABEL, run.encode(), giver.encode(), taker.encode(), commitment)


def _signed_bytes(about: bytes, key: bytes, box: bytes) -> bytes:
    return framed(about, key, sha256(box).digest())


def _is_signed(gift: Gift, about: bytes, key: bytes) -> bool:
    try:
        signer = Ed25519PublicKey.from_public_bytes(gift.giver.signing)
    except ValueError:
        return False
    return verified(signer, gift.signature, _signed_bytes(about, key, gift.box))
