"""A run whose h1 is drawn from the group secret, as the curator knows it: a form, and hashes."""

from __future__ import annotations

from collections.abc import Mapping

from curator.summary.hashed import HashedContent
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer, Plan
from fedkme.features.hashes import fault_of_hashes
from fedkme.sealed.group import Gift
from fedkme.tables.schema import Schema
from fedkme.wire.codecs import secret_draw_of


def content_of(plan: Plan, gifts: Mapping[str, Gift], schema: Schema) -> HashedContent:
    """Content of a row of the run, as it comes to the curator.

    Raises:
        ProtocolError: the consumer gave no secret, or several.
    """
    commitments = {gift.commitment for gift in gifts.values()}
    if len(commitments) != 1:
        raise ProtocolError("the consumer gives no group secret, or more than one")
    return HashedContent(secret_draw_of(plan.features, commitments.pop()), schema.width)


def check_secret_draw(plan: Plan, offer: Offer, schema: Schema) -> None:
    """Refuse an offer with which a run of hashes cannot be made.

    Raises:
        ProtocolError: it has no secret or no reference hashes, or is D_v itself, which is of no use here.
    """
    if offer.validation is not None or offer.reference is None:
        raise ProtocolError("D_v itself came, and the curator has no draw to make g~ with")
    why = fault_of_hashes(offer.reference, content_of(plan, offer.gifts, schema).spec)
    if why:
        raise ProtocolError(f"reference hashes of the consumer: {why}")
