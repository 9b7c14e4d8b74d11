"""A secret of owners and consumer, agreed through a curator that must not know it.

One party, the giver (the consumer of a run, or whoever the parties name), draws 32 bytes and seals them for
each taker's key. The curator carries offers and gifts: it cannot open a gift (a sealed box), swap a taker's
key (the taker's certificate signs it with the run's name) or give away a secret of its own (the giver's
certificate signs the key that signs each gift). What it can do is to withhold. All that is hidden from the
curator is derived from the secret, each purpose by an HKDF of its own; the draw of h1 is one of them
(`fedkme.sealed.secret_fourier`).

Who holds the secret can tell the curator. A single owner that does so undoes the protection of everybody's
hashes, not of sealed rows: those open with the consumer's key alone.
"""

from __future__ import annotations

import enum
import hmac
import secrets
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedkme.errors import IdentityError, SealedBoxError
from fedkme.pki.identity import Identity
from fedkme.sealed.boxes import seal, shut
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, offer_keys
from fedkme.secagg.keys import KEY_BYTES, expand, framed, verified
from fedkme.secagg.shamir import Entropy

MOST_OFFERS = 16
"""Keys that one taker may offer in a run: each restart of its process makes new ones."""
_LABEL = b"fedkme group secret"


class GroupSecret:
    """32 bytes that owners and consumer of one run share. Neither printed nor pickled."""

    __slots__ = ("_run", "_secret")

    def __init__(self, run: str, secret: bytes) -> None:
        """Keep it.

        Raises:
            SealedBoxError: it is not 32 bytes.
        """
        if len(secret) != KEY_BYTES:
            raise shut("a group secret is of another length")
        self._run = run
        self._secret = secret

    @staticmethod
    def fresh(run: str, *, entropy: Entropy = secrets.token_bytes) -> GroupSecret:
        """A secret for one run and no other."""
        return GroupSecret(run, entropy(KEY_BYTES))

    @property
    def run(self) -> str:
        """The run's name."""
        return self._run

    def derive(self, purpose: bytes, *about: bytes) -> bytes:
        """A key for one purpose, 32 bytes; keys of other purposes, runs or facts say nothing about it."""
        return expand(self._secret, framed(_LABEL, self._run.encode()), framed(purpose, *about))

    def commitment(self) -> bytes:
        """32 public bytes by which holders see that they hold the same secret."""
        return self.derive(b"commitment")

    def exposed(self) -> bytes:
        """The secret itself: to be sealed, or written where only this party reads."""
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
        giver: the giver's keys.
        taker: whom it is for.
        commitment: to the secret, 32 bytes.
        box: the secret, sealed for the key that the taker offered.
        signature: Ed25519, by the giver's signing key.
    """

    giver: KeyOffer
    taker: str
    commitment: bytes
    box: bytes
    signature: bytes


class SecretGiver:
    """The party that draws the secret; takers may come at any time until it closes."""

    def __init__(
        self,
        keys: PartyKeys,
        identity: Identity | None,
        check: OfferCheck,
        takers: Collection[str] | None,
        *,
        secret: GroupSecret | None = None,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        """Draw the secret.

        Args:
            keys: this party's in the run.
            identity: this party's; None in plaintext.
            check: whether an offer is its party's (`certified` for owners, or `taken_at_their_word`).
            takers: who may have it; None: everybody that `check` lets through, hence whom the authority
                certified as an owner.
            secret: of the same run, from before a restart.
            entropy: random bytes; anything but the default protects nobody.

        Raises:
            IdentityError: the identity is another party's.
        """
        self.secret = secret or GroupSecret.fresh(keys.run, entropy=entropy)
        self._keys = keys
        self._offer = offer_keys(keys, identity)
        self._check = check
        self._takers = None if takers is None else frozenset(takers)
        self._entropy = entropy
        self._gifts: dict[tuple[str, bytes], Gift] = {}
        self._open = True

    @property
    def given(self) -> dict[str, int]:
        """Number of keys of each taker that the secret was given to."""
        return dict(Counter(name for name, _ in self._gifts))

    def give(self, offer: KeyOffer) -> Gift:
        """The secret for a taker, in time or late; the same offer gets the same gift.

        Raises:
            IdentityError: the offer is not its party's, or that party may not have the secret.
            SealedBoxError: this giver has closed, or the taker has offered too many keys.
        """
        if not self._open:
            raise shut(f"{offer.name!r} asks for the group secret after its giver closed")
        self._check(offer)
        allowed = self._takers is None or offer.name in self._takers
        if not allowed or offer.name == self._keys.name:
            raise IdentityError(
                f"{offer.name!r} is not to have the group secret of run {self.secret.run}",
                "Name it among the run's owners, or leave it out.",
            )
        place = (offer.name, offer.box)
        if place not in self._gifts:
            if self.given.get(offer.name, 0) >= MOST_OFFERS:
                raise shut(f"{offer.name!r} has offered {MOST_OFFERS} keys in one run")
            self._gifts[place] = self._gift(offer)
        return self._gifts[place]

    def close(self) -> None:
        """Give no more; the secret stays."""
        self._open = False

    def _gift(self, offer: KeyOffer) -> Gift:
        commitment = self.secret.commitment()
        about = _about(self.secret.run, self._keys.name, offer.name, commitment)
        box = seal(self.secret.exposed(), offer.box, about, entropy=self._entropy)
        signature = self._keys.sign(_signed(about, offer.box, box))
        return Gift(self._offer, offer.name, commitment, box, signature)


class Taking(enum.Enum):
    """Step that a taker takes next."""

    OFFER = "offer"
    TAKE = "take"
    DONE = "be done"
    LEFT = "stay away"


class SecretTaker:
    """A party that receives the secret: an offer out, a gift in.

    The first gift that does not fit ends its part, finally. Its keys live in this object alone: a process
    that restarts is a new taker, with new keys, and the giver gives again.

    Attributes:
        phase: what comes next.
    """

    def __init__(self, keys: PartyKeys, identity: Identity | None, giver: str, check: OfferCheck) -> None:
        """Begin.

        Args:
            keys: this party's in the run.
            identity: this party's; None in plaintext.
            giver: who draws the secret, from this party's own knowledge of the run's consumer.
            check: whether the giver's offer is its own (`certified` for the giver's role).
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
            IdentityError: the identity is another party's.
            SealedBoxError: this part is over.
        """
        if self._keys is None:
            raise shut(f"{self._name!r} has ended its part in the group secret")
        offer = offer_keys(self._keys, self._identity)
        self.phase = Taking.TAKE
        return offer

    def take(self, gift: Gift) -> GroupSecret:
        """The secret.

        Raises:
            IdentityError: the gift is not from the giver.
            SealedBoxError: it was altered, is of another run or for another key or taker, or no gift is
                expected.
        """
        keys, self._keys = self._keys, None
        if self.phase is not Taking.TAKE or keys is None:
            self.phase = Taking.LEFT
            raise shut(f"{self._name!r} is given a group secret that it does not expect")
        self.phase = Taking.LEFT  # unless all of the following holds
        secret = self._opened(gift, keys)
        self.phase = Taking.DONE
        return secret

    def _opened(self, gift: Gift, keys: PartyKeys) -> GroupSecret:
        self._check(gift.giver)
        if gift.taker != self._name:
            raise shut(f"{self._name!r} is given the group secret of {gift.taker!r}")
        about = check_gift(gift, self._run, self._giver, keys.opener.public)
        secret = GroupSecret(self._run, keys.opener.open(gift.box, about))
        if not hmac.compare_digest(secret.commitment(), gift.commitment):
            raise shut("the group secret is not the one that its giver committed to")
        return secret


def check_gift(gift: Gift, run: str, giver: str, key: bytes) -> bytes:
    """Hold a gift to what everybody can: that its giver signed it, for its taker, run and key.

    Args:
        gift: as it travels.
        run: the run's name.
        giver: who should give it; whether its keys are its own is for an `OfferCheck`.
        key: public, that the taker offered.

    Returns:
        What the box in it is sealed about.

    Raises:
        IdentityError: it is another giver's.
        SealedBoxError: it is not signed.
    """
    if gift.giver.name != giver:
        raise IdentityError(
            f"the group secret comes from {gift.giver.name!r}, not from {giver!r}",
            "Ask the curator and the consumer who gives it.",
        )
    about = _about(run, giver, gift.taker, gift.commitment)
    if not _is_signed(gift, about, key):
        raise shut(f"the group secret for {gift.taker!r} is not signed by its giver for this run and key")
    return about


def check_same(secret: GroupSecret, commitment: bytes) -> None:
    """Refuse to go on with a secret that is not the run's.

    Raises:
        SealedBoxError: the run's public facts are about another secret.
    """
    if not hmac.compare_digest(secret.commitment(), commitment):
        raise SealedBoxError(
            f"the group secret of run {secret.run} is not the one that its features are drawn from",
            "Ask the giver for the secret again.",
        )


def _about(run: str, giver: str, taker: str, commitment: bytes) -> bytes:
    return framed(_LABEL, run.encode(), giver.encode(), taker.encode(), commitment)


def _signed(about: bytes, key: bytes, box: bytes) -> bytes:
    return framed(about, key, sha256(box).digest())


def _is_signed(gift: Gift, about: bytes, key: bytes) -> bool:
    try:
        signer = Ed25519PublicKey.from_public_bytes(gift.giver.signing)
    except ValueError:
        return False
    return verified(signer, gift.signature, _signed(about, key, gift.box))
