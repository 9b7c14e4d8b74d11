"""Sealed boxes, and what goes through a curator in them: a group secret, and rows for the consumer.

State machines without any input or output; docs/decisions/009-hashed-curators.md says who is protected
from whom.
"""

from fedkme.sealed.boxes import BoxKey, box_bytes, new_key, seal
from fedkme.sealed.group import (
    MOST_OFFERS,
    Gift,
    GroupSecret,
    SecretGiver,
    SecretTaker,
    Taking,
    check_gift,
    check_same,
)
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, certified, offer_keys, taken_at_their_word
from fedkme.sealed.rows import (
    AnyRow,
    HashedRow,
    mismatched,
    open_rows,
    row_box_bytes,
    seal_empty,
    seal_rows,
    without_hashes,
)

__all__ = [
    "MOST_OFFERS",
    "AnyRow",
    "BoxKey",
    "Gift",
    "GroupSecret",
    "HashedRow",
    "KeyOffer",
    "OfferCheck",
    "PartyKeys",
    "SecretGiver",
    "SecretTaker",
    "Taking",
    "box_bytes",
    "certified",
    "check_gift",
    "check_same",
    "mismatched",
    "new_key",
    "offer_keys",
    "open_rows",
    "row_box_bytes",
    "seal",
    "seal_empty",
    "seal_rows",
    "taken_at_their_word",
    "without_hashes",
]
