"""Keys and gifts to messages of the wire and back."""

from __future__ import annotations

from collections.abc import Sequence

from fedkme.errors import ProtocolError
from fedkme.sealed.group import Gift
from fedkme.sealed.offers import KeyOffer
from fedkme.wire.v1 import types_pb2

MOST_OFFERED = 2**12
"""Owners of a run whose rows go sealed: an offer has a certificate in it, and one plan holds them all."""
_LONGEST = 2**16  # bytes of a chain, a box or a signature


def offer_to_wire(offer: KeyOffer) -> types_pb2.KeyOffer:
    """A party's keys."""
    return types_pb2.KeyOffer(
        name=offer.name, box=offer.box, signing=offer.signing, chain=offer.chain, signature=offer.signature
    )


def offer_from_wire(message: types_pb2.KeyOffer) -> KeyOffer:
    """Decode an offer of keys; an `OfferCheck` says whose they are.

    Raises:
        ProtocolError: it is longer than any.
    """
    parts = (message.box, message.signing, message.chain, message.signature)
    if any(len(part) > _LONGEST for part in parts) or len(message.name) > _LONGEST:
        raise _odd("an offer of keys that is too long")
    return KeyOffer(message.name, *parts)


def gift_to_wire(gift: Gift) -> types_pb2.Gift:
    """The group secret for one taker."""
    return types_pb2.Gift(
        giver=offer_to_wire(gift.giver),
        taker=gift.taker,
        commitment=gift.commitment,
        box=gift.box,
        signature=gift.signature,
    )


def gift_from_wire(message: types_pb2.Gift) -> Gift:
    """Decode a gift.

    Raises:
        ProtocolError: it is longer than any.
    """
    parts = (message.commitment, message.box, message.signature)
    if any(len(part) > _LONGEST for part in parts) or len(message.taker) > _LONGEST:
        raise _odd("a gift that is too long")
    return Gift(offer_from_wire(message.giver), message.taker, *parts)


def gifts_from_wire(messages: Sequence[types_pb2.Gift]) -> dict[str, Gift]:
    """Gifts by taker.

    Raises:
        ProtocolError: there are more than owners of a run, or two for one.
    """
    if len(messages) > MOST_OFFERED:
        raise _odd("more gifts than a run has owners")
    gifts = {gift.taker: gift for gift in map(gift_from_wire, messages)}
    if len(gifts) < len(messages):
        raise _odd("two gifts for one owner")
    return gifts


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the peer sends {what}", "Install the same release of fedkme on both sides.")
