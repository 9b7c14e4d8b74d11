"""A run whose h1 is drawn from the group secret, as the curator knows it: a form, and hashes."""

from __future__ import annotations

from curator.summary.hashed import HashedContent
from fedkme.errors import ProtocolError
from fedkme.features.fixed_point import Features
from fedkme.features.hashes import REFERENCE_HASHES, fault_of_hashes
from fedkme.tables.schema import Schema
from fedkme.wire import codecs
from fedkme.wire.rows import hashes_from_wire
from fedkme.wire.sealed import gifts_from_wire
from fedkme.wire.v1 import journals_pb2
from fedkme.wire.v1 import summaries_pb2 as pb

_REMEDY = "Install the same release of fedkme on both sides."


def content_of(document: journals_pb2.RunDocument, schema: Schema) -> HashedContent:
    """What rows of a run look like here.

    Raises:
        ProtocolError: the consumer gave no secret, or several.
    """
    commitments = {gift.commitment for gift in gifts_from_wire(document.gifts).values()}
    if len(commitments) != 1:
        raise ProtocolError("the consumer gives no group secret, or more than one", _REMEDY)
    public = codecs.features_from_wire(document.features, schema.encoded_width)
    return HashedContent(codecs.secret_draw_of(public, commitments.pop()), schema.width)


def reference_of(document: journals_pb2.RunDocument) -> Features:
    """Hashes of rows that nobody has, by which auctions set prices, (r, d).

    Raises:
        ProtocolError: there are others than so many.
    """
    return hashes_from_wire(document.reference, REFERENCE_HASHES, document.features.dimension)


def check_secret_draw(document: journals_pb2.RunDocument, schema: Schema, offer: pb.ConsumerMessage) -> None:
    """Refuse an offer with which a run of hashes cannot be made.

    Raises:
        ProtocolError: it has no secret or no reference hashes, or is D_v itself, which is of no use here.
    """
    if not offer.HasField("target"):
        raise ProtocolError("D_v itself came, and the curator has no draw to make g~ with", _REMEDY)
    asked = journals_pb2.RunDocument(features=document.features, gifts=offer.gifts, reference=offer.reference)
    why = fault_of_hashes(reference_of(asked), content_of(asked, schema).spec)
    if why:
        raise ProtocolError(f"reference hashes of the consumer: {why}", _REMEDY)
