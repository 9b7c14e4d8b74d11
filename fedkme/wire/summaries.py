"""Codecs of a consumer's call for a summary: values to messages of the wire and back."""

from collections.abc import Sequence

import numpy as np

from fedkme.arrays import COORDINATES, Numbers
from fedkme.directives import one_line
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer, Outcome, Plan, RoundProgress, SummaryChoice, SummaryRequest
from fedkme.features.hashes import REFERENCE_HASHES
from fedkme.wire import codecs
from fedkme.wire.fields import Field, FieldCodec, maybe, number, numbers
from fedkme.wire.rows import hashes_from_wire, hashes_to_wire
from fedkme.wire.sealed import GIFT, MOST_OFFERED, OFFER, gifts_from_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import types_pb2


def _some(rows: int) -> int:
    if rows < 1:
        raise ProtocolError("a request has no rows or no kernel")
    return rows


def _deviation(value: float) -> float:
    if value and not 2.0**-20 <= value <= COORDINATES.high:
        raise ProtocolError("a request names noise on counts that is none")
    return value


_REQUEST = FieldCodec(
    SummaryRequest,
    pb.SummaryRequest,
    ("versions", "gamma_from_seeds", "stages"),
    name=Field(str, str, "consumer"),
    schema_digest=Field(str, str, "schema"),
    rows=Field(int, _some),
    gamma=Field(float, float, optional=True),
    count_deviation=Field(float, _deviation),
    replaces=Field(bytes, lambda request_id: request_id[:64]),
)


def request_to_wire(request: SummaryRequest) -> pb.SummaryRequest:
    """Encode a request."""
    from_seeds = True if request.gamma is None else None
    return _REQUEST.to_wire(request, versions=codecs.VERSIONS, gamma_from_seeds=from_seeds, stages=True)


def request_from_wire(message: pb.SummaryRequest) -> SummaryRequest:
    """Decode a request.

    Raises:
        ProtocolError: the request has no rows or no kernel, or its noise is out of range.
    """
    if message.WhichOneof("kernel") is None:
        raise ProtocolError("a request has no rows or no kernel")
    return _REQUEST.from_wire(message)


_RELATIVE = numbers(Numbers(0.0, COORDINATES.high), "what is expected of a summary")
CHOICE = FieldCodec(
    SummaryChoice,
    pb.SummaryChoice,
    ratio=number(Numbers(0.0, codecs.MOST_RHO), "rows of owners for each of a summary"),
    relative_mmd2=Field(tuple, lambda values: tuple(_RELATIVE.decode(values[:1]).tolist())),
    line=Field(str, one_line),
    disagrees=Field(str, one_line),
)
"""Choice of a protocol; its lines are shown on terminals."""
_PLAN = FieldCodec(
    Plan,
    pb.Plan,
    ("version", "features"),
    cells=maybe(codecs.CELLS),
    hashed=Field(bool, bool, "sealed"),
    offers=Field(
        lambda offers: [*map(OFFER.to_wire, offers)],
        lambda messages: tuple(map(OFFER.from_wire, messages[:MOST_OFFERED])),
    ),
    choice=maybe(CHOICE),
)


def plan_to_wire(plan: Plan, version: int) -> pb.Plan:
    """Encode a plan in a version of the wire contract that the consumer understands."""
    return _PLAN.to_wire(plan, version=version, features=codecs.features_to_wire(plan.features))


def plan_from_wire(message: pb.Plan, width: int) -> Plan:
    """Decode a plan, for a party whose encoded rows have `width` columns.

    Raises:
        ProtocolError: the plan's features or cells are malformed or unknown.
    """
    return _PLAN.from_wire(message, features=codecs.features_from_wire(message.features, width))


def offer_to_messages(offer: Offer) -> list[pb.ConsumerMessage]:
    """Encode an offer; D_v is sent in packed parts."""
    first = pb.ConsumerMessage(with_validation=offer.validation is not None)
    if offer.target is not None:
        first.target.CopyFrom(codecs.mean_to_wire(offer.target))
    elif offer.histogram is not None:
        first.histogram.CopyFrom(types_pb2.Histogram(cells=offer.histogram.tolist()))
        first.picks.extend(offer.picks)
    first.disclosures.extend(codecs.disclosure_to_wire(about) for about in offer.disclosures)
    first.gifts.extend(GIFT.to_wire(gift) for gift in offer.gifts.values())
    if offer.reference is not None:
        first.reference = hashes_to_wire(offer.reference)
    if offer.validation is None:
        return [first]
    if offer.validation_classes is not None:
        first.validation_classes.extend(offer.validation_classes.tolist())
    parts = codecs.values_to_wire(offer.validation)
    return [first, *(pb.ConsumerMessage(validation=part) for part in parts)]


def offer_from_messages(
    messages: Sequence[pb.ConsumerMessage], plan: Plan, columns: int | None = None
) -> Offer:
    """Decode an offer for a plan from one message or more; rows of D_v have `columns` columns, if given.

    Raises:
        ProtocolError: the offer does not have the form that the plan requires.
    """
    first, target, histogram, validation, reference = messages[0], None, None, None, None
    picks: tuple[int, ...] = ()
    disclosures = codecs.disclosures_from_wire(first.disclosures, codecs.MOST_DECLARED)
    gifts = gifts_from_wire(first.gifts)
    if first.HasField("target"):
        target = codecs.mean_from_wire(first.target, plan.features.dimension)
        if plan.secret_draw:
            reference = hashes_from_wire(first.reference, REFERENCE_HASHES, plan.features.dimension)
    elif first.HasField("histogram"):
        histogram, picks = codecs.counts_from_wire(first.histogram.cells), tuple(first.picks)
    classes = np.array(first.validation_classes, np.int64) if first.validation_classes else None
    parts = [message.validation for message in messages if message.HasField("validation")]
    if parts:
        validation = np.concatenate([codecs.values_from_wire(part, columns) for part in parts])
    gifts = gifts if plan.sealed else {}
    return Offer(target, histogram, validation, disclosures, gifts, reference, picks, classes)


PROGRESS = FieldCodec(RoundProgress, pb.Progress, points_accessed=Field(int, int, "accessed"))
"""Progress of a run."""
OPENED = number(Numbers(0.0, 2.0**36), "the time of a run")
"""Unix seconds at which a run was opened, before the year 4147."""
OUTCOME = FieldCodec(
    Outcome,
    pb.Outcome,
    status=Field(
        lambda complete: pb.Outcome.STATUS_COMPLETE if complete else pb.Outcome.STATUS_STOPPED,
        lambda status: status == pb.Outcome.STATUS_COMPLETE,
        "complete",
    ),
    participation=codecs.PARTICIPATION,
)
"""End of a run."""
