"""Directives and their answers to messages of the wire and back.

What a peer sends is checked here as far as it is whole by itself: ranges, lengths and kinds. What depends on
the state of a run is checked by whoever has it.
"""

import functools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
from google.protobuf.message import Message

from fedkme import directives as said
from fedkme.arrays import COORDINATES, Numbers
from fedkme.cells.histogram import HistogramNoise
from fedkme.directives import Answer, Body, Directive, Hello, Refusal, Unreadable, one_line
from fedkme.errors import ConfigError, FedkmeError, ProtocolError, SecureAggregationError
from fedkme.exchange import CellsPlan
from fedkme.protocol import (
    AuctionTerms,
    Bid,
    Broadcast,
    CellTerms,
    Consider,
    IntendedSummary,
    Invitation,
    Security,
    SumTerms,
    Terms,
)
from fedkme.wire import codecs, sums
from fedkme.wire.fields import Field, FieldCodec, maybe, number, numbers
from fedkme.wire.rows import any_rows_from_wire, any_rows_to_wire
from fedkme.wire.sealed import COSIGNATURE, GIFT, HEAD, OFFER
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2

_UNKNOWN = Refusal.of(
    ProtocolError("the curator sent a directive that is not known here", "Update this owner.")
)


Codec = FieldCodec[Any, Any]

MOST_PLANNED = {"auction": 32, "cells": 32, "sums": 256}
"""Events that a curator may plan for a run, by its terms."""


_PRICES, _SPREAD = numbers(COORDINATES, "prices"), number(Numbers(0.0, COORDINATES.high), "a spread")
_SECURITY = FieldCodec(Security, pooling_pb2.Security)


_EVENTS = Field(
    lambda events: map(codecs.event_to_wire, events),
    partial(codecs.events_from_wire, most=MOST_PLANNED["sums"]),
)
_INTENDED = FieldCodec(IntendedSummary, pb.IntendedSummary, planned=_EVENTS)
_SUMS = FieldCodec(SumTerms, pb.SumTerms, security=maybe(_SECURITY), ahead=maybe(_INTENDED))
_INVITE = FieldCodec(
    Invitation,
    pb.Invite,
    ("planned", *MOST_PLANNED),
    schema_digest=Field(str, str, "schema"),
    gift=maybe(GIFT),
    expected=Field(str, one_line),
)
_HELLO = FieldCodec(
    Hello,
    pb.Hello,
    ("versions",),
    rows=Field(int, int, optional=True),
    head=maybe(HEAD),
    schema_digest=Field(str, str, "schema"),
)
_STEPS: dict[str, Codec] = {
    codec.kind.step: codec
    for codec in (sums.PROPOSAL, sums.KEYS, sums.ROSTER, sums.DELIVERY, sums.SURVIVORS, sums.ENDORSEMENTS)
}
_FIELDS: dict[type, dict[str, Field]] = {
    said.Sell: {"price": number(COORDINATES, "a price")},
    said.FillOrder: {"shares": numbers(said.SHARES, "shares of an order")},
    said.AskSums: {"query": Field(sums.query_to_wire, sums.query_from_wire)},
    Consider: {
        "schema_digest": Field(str, str, "schema"),
        "summary": Field(_INTENDED.to_wire, _INTENDED.from_wire),
        "expected": Field(str, said.one_line),
    },
    said.KeepHead: {"head": Field(HEAD.to_wire, HEAD.from_wire)},
    said.Dismiss: {"fault": codecs.FAULT},
    Bid: {"value": number(COORDINATES, "a bid")},
    said.PriceCounts: {"at_least": Field(np.ndarray.tolist, codecs.counts_from_wire)},
    said.NoisyHistogram: {"cells": Field(np.ndarray.tolist, codecs.counts_from_wire)},
}
"""Fields that are not the same in a body or an answer and in its message, by the message's names."""
_BODIES: dict[str, Codec] = {
    kind.question: FieldCodec(kind, type(getattr(pb.Directive(), kind.question)), **_FIELDS.get(kind, {}))
    for kind in get_args(Body)
    if kind not in (Invitation, Broadcast, said.Quote, *get_args(said.Step), said.StepTaken, Unreadable)
}
_ANSWERS: dict[str, Codec] = {
    "offer": OFFER,
    "head": HEAD,
    "cosignature": COSIGNATURE,
    "fault": codecs.REFUSAL,
    **{
        kind.answer: FieldCodec(kind, type(getattr(pb.OwnerMessage(), kind.answer)), **_FIELDS.get(kind, {}))
        for kind in get_args(Answer)
        if "answer" in vars(kind)
    },
}
_AGGREGATED: dict[str, Codec] = {
    "key": sums.KEY,
    "advertisement": sums.ADVERTISEMENT,
    "sealed": sums.SEALED,
    "endorsement": sums.ENDORSEMENT,
    "unmasked": sums.UNMASKING,
}
_ANSWER_OF, _AGGREGATED_OF = (
    {codec.kind: name for name, codec in table.items()} for table in (_ANSWERS, _AGGREGATED)
)
"""Names of answers by their classes."""


def directive_to_wire(directive: Directive) -> pb.Directive:
    """One directive.

    Raises:
        MessageTooLargeError: the channel would not carry it.
    """
    at, body, field = _position(directive), directive.body, directive.question
    match body:
        case Unreadable():
            return pb.Directive(at=at)
        case Invitation():
            return pb.Directive(at=at, invite=invitation_to_wire(body))
        case Broadcast():
            return pb.Directive(at=at, broadcast=_broadcast_to_wire(body))
        case said.Quote(broadcast, prices, spread):
            said_to_all = _broadcast_to_wire(broadcast)
            quote = pb.Quote(broadcast=said_to_all, prices=prices.tolist(), spread=spread)
            return pb.Directive(at=at, quote=quote)
        case said.StepTaken(taken):
            message = pb.Directive(at=at)
            getattr(message.aggregate, taken).SetInParent()
            return message
    if isinstance(body, said.Step):
        aggregate = pooling_pb2.Aggregate(**{body.step: _STEPS[body.step].to_wire(body)})
        return pb.Directive(at=at, aggregate=aggregate)
    return pb.Directive(at=at, **{field: _BODIES[field].to_wire(body)})


def directive_from_wire(message: pb.Directive) -> Directive:
    """One directive; a body that cannot be read becomes `Unreadable`, because it is answered too."""
    question = message.WhichOneof("body") or ""
    body: Body
    try:
        body = _body(message, question)
    except (ProtocolError, SecureAggregationError) as error:
        body = Unreadable(question, Refusal.of(error))
    return Directive(message.at.run, message.at.round, message.at.seq, body)


def _body(message: pb.Directive, question: str) -> Body:
    match question:
        case "invite":
            return invitation_from_wire(message.invite, message.at.run)
        case "broadcast":
            return _broadcast(message.broadcast, message.at.round)
        case "quote":
            prices, spread = _PRICES.decode(message.quote.prices), _SPREAD.decode(message.quote.spread)
            return said.Quote(_broadcast(message.quote.broadcast, message.at.round), prices, spread)
        case "aggregate":
            return _step(message.aggregate)
    if question not in _BODIES:
        return Unreadable("", _UNKNOWN)
    body: Body = _BODIES[question].from_wire(getattr(message, question))
    return body


def invitation_to_wire(invitation: Invitation) -> pb.Invite:
    """An invitation; the name of the run travels in the envelope."""
    planned = map(codecs.event_to_wire, invitation.planned)
    return _INVITE.to_wire(invitation, planned=planned, **_terms_to_wire(invitation.terms))


def _terms_to_wire(terms: Terms) -> dict[str, Message]:
    match terms:
        case AuctionTerms():
            features, target = codecs.features_to_wire(terms.features), codecs.mean_to_wire(terms.target)
            heard = map(codecs.disclosure_to_wire, terms.heard)
            return {
                "auction": pb.AuctionTerms(features=features, target=target, rows=terms.rows, heard=heard)
            }
        case CellTerms():
            plan = CellsPlan(terms.code_book, terms.gamma, 0.0, terms.classes)
            scale = 0.0 if terms.noise is None else terms.noise.scale
            return {"cells": pb.CellTerms(plan=codecs.CELLS.to_wire(plan), scale=scale, rows=terms.rows)}
    return {"sums": _SUMS.to_wire(terms)}


def invitation_from_wire(message: pb.Invite, run: str) -> Invitation:
    """An invitation; whether it fits this party's schema is for its reader.

    Raises:
        ProtocolError: it has no terms, plans too much, or something in it cannot be read.
    """
    kind = message.WhichOneof("terms")
    if kind is None:
        raise ProtocolError("the curator invites to a run that is not known here", "Update this owner.")
    planned = codecs.events_from_wire(message.planned, MOST_PLANNED[kind])
    return _INVITE.from_wire(message, run=run, planned=planned, terms=_terms(message, kind))


def _terms(message: pb.Invite, kind: str) -> Terms:
    if kind == "auction":
        auction = message.auction
        features = codecs.any_features_from_wire(auction.features, auction.features.width)
        target = codecs.mean_from_wire(auction.target, features.dimension)
        heard = codecs.disclosures_from_wire(auction.heard, MOST_PLANNED[kind])
        return AuctionTerms(features, target, auction.rows, heard)
    if kind == "cells":
        plan = codecs.CELLS.from_wire(message.cells.plan)
        noise, rows = _count_noise(message.cells.scale), message.cells.rows
        return CellTerms(plan.code_book, plan.gamma, noise, rows, plan.classes)
    return _SUMS.from_wire(message.sums)


def _count_noise(scale: float) -> HistogramNoise | None:
    """The noise on an owner's counts; None for 0, by which no owner is asked for counts."""
    try:
        return HistogramNoise(scale) if scale else None
    except ConfigError as error:
        raise ProtocolError(f"the curator's plan cannot be used: {error.cause}", error.remedy) from None


def answer_to_wire(answer: Answer, directive: Directive | None = None) -> list[pb.OwnerMessage]:
    """An answer in one message or in parts of a bounded size, addressed where its directive is known."""
    if directive is None:
        return _parts(answer)
    if isinstance(answer, said.WordVector):  # large
        return _addressed.__wrapped__(answer, directive.run, directive.round, directive.seq)
    return _addressed(answer, directive.run, directive.round, directive.seq)


@functools.lru_cache(maxsize=1)
def _addressed(answer: Answer, run: str, number: int, seq: int) -> list[pb.OwnerMessage]:
    """Messages of an answer, encoded once for the journal and for the stream; treat as immutable."""
    messages, at = _parts(answer), pb.Position(run=run, round=number, seq=seq)
    for message in messages:
        message.at.CopyFrom(at)
    return messages


def answer_from_wire(parts: Sequence[pb.OwnerMessage]) -> Answer:
    """The answer that some parts make.

    Raises:
        ProtocolError: it cannot be read.
        SecureAggregationError: a message of an aggregation cannot be.
    """
    last = parts[-1]
    kind = last.WhichOneof("body") or ""
    if kind == "rows":
        sealed = any(row.box or row.features for part in parts for row in part.rows.rows)
        return said.Rows(any_rows_from_wire((part.rows for part in parts), sealed))
    if kind == "words":
        return said.WordVector(sums.words_from_wire(part.words for part in parts))
    answer: Answer
    if kind in _ANSWERS:
        answer = _ANSWERS[kind].from_wire(getattr(last, kind))
    elif (step := last.aggregated.WhichOneof("body")) is not None:
        answer = _AGGREGATED[step].from_wire(getattr(last.aggregated, step))
    else:
        raise ProtocolError("an answer that is not known here")
    return answer


def hello_from_wire(message: pb.Hello) -> Hello:
    """Read the first words of an owner's process.

    Raises:
        ProtocolVersionError: it speaks no version that is spoken here.
    """
    version = codecs.common_version(message.versions, message.name or "a nameless party")
    return _HELLO.from_wire(message, version=version)


def hello_to_wire(hello: Hello) -> pb.OwnerMessage:
    """Say hello as a process of this release."""
    return pb.OwnerMessage(hello=_HELLO.to_wire(hello, versions=codecs.VERSIONS))


def welcome_to_wire(epoch: int, runs: Iterable[str], version: int) -> pb.Directive:
    """A process is let in: its number, and the runs that its owner is in."""
    return pb.Directive(welcome=pb.Welcome(version=version, epoch=epoch, runs=runs))


def farewell_to_wire() -> pb.Directive:
    """The curator ends for good."""
    return pb.Directive(farewell=pb.Farewell())


def end_to_wire(error: FedkmeError) -> pb.Directive:
    """The session is over, for a reason."""
    return pb.Directive(fault=codecs.fault_to_wire(error))


def _position(directive: Directive) -> pb.Position:
    return pb.Position(run=directive.run, round=directive.round, seq=directive.seq)


@functools.lru_cache(maxsize=4)
def _broadcast_to_wire(broadcast: Broadcast) -> pb.Broadcast:
    """One broadcast, encoded once a round, not once an owner."""
    return pb.Broadcast(size=broadcast.size, mean=codecs.mean_to_wire(broadcast.mean))


def _broadcast(message: pb.Broadcast, number: int) -> Broadcast:
    return Broadcast(number, message.size, codecs.mean_from_wire(message.mean))


def _step(message: pooling_pb2.Aggregate) -> said.Step:
    name = message.WhichOneof("body")
    if name is None:
        cause = "the curator takes a step of an aggregation that is not known here"
        raise ProtocolError(cause, "Update this owner.")
    step: said.Step = _STEPS[name].from_wire(getattr(message, name))
    return step


def _parts(answer: Answer) -> list[pb.OwnerMessage]:
    match answer:
        case said.Rows(sent):
            return [pb.OwnerMessage(rows=part) for part in any_rows_to_wire(sent)]
        case said.WordVector(words):
            return [pb.OwnerMessage(words=part) for part in sums.words_to_wire(words)]
    if (step := _AGGREGATED_OF.get(type(answer))) is not None:
        aggregated = pooling_pb2.Aggregated(**{step: _AGGREGATED[step].to_wire(answer)})
        return [pb.OwnerMessage(aggregated=aggregated)]
    field = _ANSWER_OF[type(answer)]
    return [pb.OwnerMessage(**{field: _ANSWERS[field].to_wire(answer)})]
