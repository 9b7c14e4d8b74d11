"""Keys and gifts to messages of the wire and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr

from fedkme.errors import ProtocolError
from fedkme.sealed.group import Gift
from fedkme.sealed.offers import KeyOffer
from fedkme.wire.fields import Field, FieldCodec
from fedkme.wire.v1 import types_pb2

MOST_OFFERED = 2**12
"""Owners of a run whose rows go sealed: an offer has a certificate in it, and one plan holds them all."""
_LONGEST = 2**16  # bytes of a chain, a box or a signature


def _bounded(what: str) -> Field:
    def decode(data: AnyStr) -> AnyStr:
        if len(data) > _LONGEST:
            raise _odd(f"{what} that is too long")
        return data

    return Field(lambda data: data, decode)


_PART = _bounded("an offer of keys")
OFFER = FieldCodec(
    KeyOffer, types_pb2.KeyOffer, name=_PART, box=_PART, signing=_PART, chain=_PART, signature=_PART
)
"""A party's keys, none longer than any is; an `OfferCheck` says whose they are."""
_GIVEN = _bounded("a gift")
GIFT = FieldCodec(
    Gift,
    types_pb2.Gift,
    giver=Field(OFFER.to_wire, OFFER.from_wire),
    taker=_GIVEN,
    commitment=_GIVEN,
    box=_GIVEN,
    signature=_GIVEN,
)
"""The group secret for one taker, no part of it longer than any is."""


def gifts_from_wire(messages: Sequence[types_pb2.Gift]) -> dict[str, Gift]:
    """Gifts by taker.

    Raises:
        ProtocolError: there are more than owners of a run, or two for one.
    """
    if len(messages) > MOST_OFFERED:
        raise _odd("more gifts than a run has owners")
    gifts = {gift.taker: gift for gift in map(GIFT.from_wire, messages)}
    if len(gifts) < len(messages):
        raise _odd("two gifts for one owner")
    return gifts


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the peer sends {what}")
