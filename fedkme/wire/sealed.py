"""Codecs of keys, gifts and heads of ledgers to messages of the wire and back."""

from collections.abc import Sequence
from typing import AnyStr

from fedkme.errors import ProtocolError
from fedkme.heads.log import Cosignature, Head
from fedkme.sealed.group import Gift
from fedkme.sealed.offers import KeyOffer
from fedkme.wire.fields import Field, FieldCodec
from fedkme.wire.v1 import owners_pb2, types_pb2

MOST_OFFERED = 2**12
"""Limit of owners in a run with sealed rows: each offer has a certificate, and one plan holds all offers."""
_LONGEST = 2**16  # bytes of a chain, a box or a signature


def _bounded(what: str) -> Field:
    def decode(data: AnyStr) -> AnyStr:
        if len(data) > _LONGEST:
            raise _violation(f"{what} that is too long")
        return data

    return Field(lambda data: data, decode)


_PART = _bounded("an offer of keys")
OFFER = FieldCodec(
    KeyOffer, types_pb2.KeyOffer, name=_PART, box=_PART, signing=_PART, chain=_PART, signature=_PART
)
"""A party's keys, of bounded length; an `OfferCheck` verifies the party."""
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
"""The group secret for one taker, with parts of bounded length."""


def gifts_from_wire(messages: Sequence[types_pb2.Gift]) -> dict[str, Gift]:
    """Gifts by taker.

    Raises:
        ProtocolError: there are more gifts than a run has owners, or two gifts for one owner.
    """
    if len(messages) > MOST_OFFERED:
        raise _violation("more gifts than a run has owners")
    gifts = {gift.taker: gift for gift in map(GIFT.from_wire, messages)}
    if len(gifts) < len(messages):
        raise _violation("two gifts for one owner")
    return gifts


def _violation(what: str) -> ProtocolError:
    return ProtocolError(f"the peer sends {what}")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a head is not text") from None


HEAD = FieldCodec(Head, types_pb2.Head, note=Field(str.encode, _text))
"""Head that a party shows."""
COSIGNATURE = FieldCodec(Cosignature, owners_pb2.Cosignature, line=Field(str.encode, _text))
"""Signature of another party's head."""
