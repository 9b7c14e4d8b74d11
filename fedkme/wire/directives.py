"""Directives and their answers to messages of the wire and back.

What a peer sends is checked here as far as it is whole by itself: ranges, lengths and kinds. What depends on
the state of a run is checked by whoever has it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedkme import directives as said
from fedkme.directives import Answer, Body, Directive, Hello, Refusal, Unreadable
from fedkme.errors import FedkmeError, ProtocolError, SecureAggregationError
from fedkme.protocol import (
    AuctionTerms,
    Bid,
    Broadcast,
    CellTerms,
    Closing,
    Invitation,
    Security,
    SumTerms,
    Terms,
)
from fedkme.sealed import KeyOffer
from fedkme.secagg import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyBinding,
    KeyRoster,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.wire import codecs, sums
from fedkme.wire.rows import any_rows_from_wire, any_rows_to_wire
from fedkme.wire.sealed import gift_from_wire, gift_to_wire, offer_from_wire, offer_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2

_UNKNOWN = Refusal.of(
    ProtocolError("the curator sent a directive that is not known here", "Update this owner.")
)


MOST_PLANNED = {"auction": 32, "cells": 32, "sums": 256}
"""Events that a curator may plan for a run, by its terms."""


def directive_to_wire(directive: Directive) -> pb.Directive:
    """One directive.

    Raises:
        MessageTooLargeError: the channel would not carry it.
    """
    message = pb.Directive(at=_position(directive))
    match directive.body:
        case Invitation() as body:
            message.invite.CopyFrom(invitation_to_wire(body))
        case Broadcast() as body:
            message.broadcast.CopyFrom(_broadcast_to_wire(body))
        case said.Ask(token):
            message.ask.CopyFrom(pb.Ask(token=token))
        case said.Quote(broadcast, prices):
            said_so = _broadcast_to_wire(broadcast)
            message.quote.CopyFrom(pb.Quote(broadcast=said_so, prices=prices.tolist()))
        case said.Sell(price):
            message.sell.CopyFrom(pb.Sell(price=price))
        case said.DrawRows(count):
            message.draw.CopyFrom(pb.Draw(count=count))
        case said.AskHistogram():
            message.histogram.SetInParent()
        case said.FillOrder(count, shares):
            message.fill_order.CopyFrom(pb.FillOrder(count=count, shares=shares.tolist()))
        case said.Embed(query):
            message.embed.CopyFrom(pooling_pb2.Embed(query=sums.query_to_wire(query)))
        case said.Close():
            message.close.SetInParent()
        case said.Dismiss():
            message.dismiss.SetInParent()
        case said.OfferKeys(run):
            message.offer_keys.CopyFrom(pb.OfferKeys(run=run))
        case said.StepTaken(step):
            getattr(message.aggregate, step).SetInParent()
        case Unreadable():
            pass
        case body:
            message.aggregate.CopyFrom(_step_to_wire(body))
    return message


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
    number = message.at.round
    match question:
        case "invite":
            return invitation_from_wire(message.invite, message.at.run)
        case "broadcast":
            return _broadcast(message.broadcast, number)
        case "ask":
            return said.Ask(message.ask.token)
        case "quote":
            prices = np.array(message.quote.prices, dtype=np.float64)
            return said.Quote(_broadcast(message.quote.broadcast, number), prices)
        case "sell":
            return said.Sell(message.sell.price)
        case "draw":
            return said.DrawRows(message.draw.count)
        case "histogram":
            return said.AskHistogram()
        case "fill_order":
            shares = np.array(message.fill_order.shares, dtype=np.float64)
            return said.FillOrder(message.fill_order.count, shares)
        case "embed":
            return said.Embed(sums.query_from_wire(message.embed.query))
        case "aggregate":
            return _step(message.aggregate)
        case "close":
            return said.Close()
        case "dismiss":
            return said.Dismiss()
        case "offer_keys":
            return said.OfferKeys(message.offer_keys.run)
    return Unreadable("", _UNKNOWN)


def invitation_to_wire(invitation: Invitation) -> pb.Invite:
    """An invitation; the name of the run travels in the envelope."""
    message = pb.Invite(
        schema_digest=invitation.schema,
        consumer=invitation.consumer,
        protocol=invitation.protocol,
        planned=map(codecs.event_to_wire, invitation.planned),
        gift=None if invitation.gift is None else gift_to_wire(invitation.gift),
    )
    match invitation.terms:
        case AuctionTerms() as terms:
            message.auction.features.CopyFrom(codecs.features_to_wire(terms.features))
            message.auction.target.CopyFrom(codecs.mean_to_wire(terms.target))
            message.auction.rows = terms.rows
            message.auction.heard.extend(map(codecs.disclosure_to_wire, terms.heard))
        case CellTerms() as terms:
            plan = codecs.cells_to_wire(terms.code_book, terms.gamma, 0.0, terms.classes)
            message.cells.CopyFrom(pb.CellTerms(plan=plan, scale=terms.scale, rows=terms.rows))
        case SumTerms(security):
            message.sums.SetInParent()
            if security is not None:
                message.sums.security.CopyFrom(
                    pooling_pb2.Security(
                        dropouts=security.dropouts,
                        colluders=security.colluders,
                        distributed_noise=security.distributed_noise,
                    )
                )
    return codecs.fitting(message)


def invitation_from_wire(message: pb.Invite, run: str) -> Invitation:
    """An invitation; whether it fits this party's schema is for its reader.

    Raises:
        ProtocolError: it has no terms, plans too much, or something in it cannot be read.
    """
    kind = message.WhichOneof("terms")
    if kind is None:
        raise ProtocolError("the curator invites to a run that is not known here", "Update this owner.")
    return Invitation(
        run,
        message.schema_digest,
        message.consumer,
        message.protocol,
        codecs.events_from_wire(message.planned, MOST_PLANNED[kind]),
        _terms(message, kind),
        gift_from_wire(message.gift) if message.HasField("gift") else None,
    )


def _terms(message: pb.Invite, kind: str) -> Terms:
    if kind == "auction":
        auction = message.auction
        features = codecs.any_features_from_wire(auction.features, auction.features.width)
        target = codecs.mean_from_wire(auction.target, features.dimension)
        heard = codecs.disclosures_from_wire(auction.heard, MOST_PLANNED[kind])
        return AuctionTerms(features, target, auction.rows, tuple(heard))
    if kind == "cells":
        plan = message.cells.plan
        book = codecs.code_book_from_wire(plan)
        return CellTerms(book, plan.gamma, message.cells.scale, message.cells.rows, plan.classes)
    if not message.sums.HasField("security"):
        return SumTerms()
    security = message.sums.security
    return SumTerms(Security(security.dropouts, security.colluders, security.distributed_noise))


def answer_to_wire(answer: Answer, directive: Directive | None = None) -> list[pb.OwnerMessage]:
    """An answer in one message or in parts of a bounded size, addressed where its directive is known."""
    messages = _parts(answer)
    if directive is not None:
        at = _position(directive)
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
    match last.WhichOneof("body"):
        case "accepted":
            return said.Accepted(last.accepted.rows)
        case "bid":
            return Bid(last.bid.value, last.bid.token)
        case "dry":
            return said.Dry()
        case "counts":
            return said.PriceCounts(codecs.counts_from_wire(last.counts.at_least))
        case "histogram":
            return said.NoisyHistogram(codecs.histogram_from_wire(last.histogram))
        case "rows":
            sealed = any(row.box or row.features for part in parts for row in part.rows.rows)
            return said.Rows(any_rows_from_wire((part.rows for part in parts), sealed))
        case "words":
            return said.WordVector(sums.words_from_wire(part.words for part in parts))
        case "aggregated":
            return _aggregated(last.aggregated)
        case "closing":
            return Closing(last.closing.rows_sent)
        case "offer":
            return offer_from_wire(last.offer)
        case "fault":
            return Refusal(last.fault.code, last.fault.cause, last.fault.remedy)
    raise ProtocolError("an answer that is not known here", "Install the same release on both sides.")


def hello_from_wire(message: pb.Hello) -> Hello:
    """Read the first words of an owner's process.

    Raises:
        ProtocolVersionError: it speaks no version that is spoken here.
    """
    version = codecs.common_version(message.versions, message.name or "a nameless party")
    return Hello(message.name, version, message.instance)


def hello_to_wire(name: str, instance: bytes) -> pb.OwnerMessage:
    """Say hello as a process of this release."""
    return pb.OwnerMessage(hello=pb.Hello(name=name, versions=codecs.VERSIONS, instance=instance))


def welcome_to_wire(epoch: int, runs: Iterable[str], version: int) -> pb.Directive:
    """A process is let in.

    Args:
        epoch: its number.
        runs: that its owner is in.
        version: of the contract.
    """
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


def _step_to_wire(step: said.Step) -> pooling_pb2.Aggregate:
    match step:
        case said.Proposal():
            return pooling_pb2.Aggregate(propose=sums.proposal_to_wire(step))
        case said.SigningKeys(keys):
            return pooling_pb2.Aggregate(keys=sums.keys_to_wire(keys))
        case KeyRoster():
            return pooling_pb2.Aggregate(roster=sums.roster_to_wire(step))
        case Delivery():
            return pooling_pb2.Aggregate(delivery=sums.delivery_to_wire(step))
        case Survivors():
            return pooling_pb2.Aggregate(survivors=sums.survivors_to_wire(step))
        case Endorsements():
            return pooling_pb2.Aggregate(endorsements=sums.endorsements_to_wire(step))


_STEPS: dict[str, Callable[[Any], said.Step]] = {
    "propose": sums.proposal_from_wire,
    "keys": lambda message: said.SigningKeys(tuple(sums.keys_from_wire(message))),
    "roster": sums.roster_from_wire,
    "delivery": sums.delivery_from_wire,
    "survivors": sums.survivors_from_wire,
    "endorsements": sums.endorsements_from_wire,
}


def _step(message: pooling_pb2.Aggregate) -> said.Step:
    name = message.WhichOneof("body")
    if name is None:
        raise ProtocolError(
            "the curator takes a step of an aggregation that is not known here", "Update this owner."
        )
    return _STEPS[name](getattr(message, name))


def _parts(answer: Answer) -> list[pb.OwnerMessage]:
    match answer:
        case said.Accepted(rows):
            return [pb.OwnerMessage(accepted=pb.Accepted(rows=rows))]
        case Bid(value, token):
            return [pb.OwnerMessage(bid=pb.Bid(value=value, token=token))]
        case said.Dry():
            return [pb.OwnerMessage(dry=pb.Dry())]
        case said.PriceCounts(at_least):
            return [pb.OwnerMessage(counts=pb.Counts(at_least=at_least.tolist()))]
        case said.NoisyHistogram(cells):
            return [pb.OwnerMessage(histogram=codecs.histogram_to_wire(cells))]
        case said.Rows(sent):
            return [pb.OwnerMessage(rows=part) for part in any_rows_to_wire(sent)]
        case said.WordVector(words):
            return [pb.OwnerMessage(words=part) for part in sums.words_to_wire(words)]
        case Closing(rows_sent):
            return [pb.OwnerMessage(closing=pb.Closing(rows_sent=rows_sent))]
        case KeyOffer():
            return [pb.OwnerMessage(offer=offer_to_wire(answer))]
        case Refusal():
            return [pb.OwnerMessage(fault=codecs.refusal_to_wire(answer))]
        case KeyBinding():
            aggregated = pooling_pb2.Aggregated(key=sums.key_to_wire(answer))
        case Advertisement():
            aggregated = pooling_pb2.Aggregated(advertisement=sums.advertisement_to_wire(answer))
        case SealedShares():
            aggregated = pooling_pb2.Aggregated(sealed=sums.sealed_to_wire(answer))
        case Endorsement():
            aggregated = pooling_pb2.Aggregated(endorsement=sums.endorsement_to_wire(answer))
        case Unmasking():
            aggregated = pooling_pb2.Aggregated(unmasked=sums.unmasking_to_wire(answer))
    return [pb.OwnerMessage(aggregated=aggregated)]


def _aggregated(message: pooling_pb2.Aggregated) -> Answer:
    match message.WhichOneof("body"):
        case "key":
            return sums.key_from_wire(message.key)
        case "advertisement":
            return sums.advertisement_from_wire(message.advertisement)
        case "sealed":
            return sums.sealed_from_wire(message.sealed)
        case "endorsement":
            return sums.endorsement_from_wire(message.endorsement)
        case "unmasked":
            return sums.unmasking_from_wire(message.unmasked)
    raise ProtocolError("a step that is not known here", "Install the same release on both sides.")
