"""What an owner answers in one run of sums. Nothing here knows gRPC or disks.

Vectors are not kept: what left in the clear is computed again, bit by bit the same, when it is asked for
again; what left under masks had secrets that die with the process (docs/decisions/007). A curator that was
started again begins with the same `enlist` and counts its directives from 1 again.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError
from fedkme.protocols import foreign
from fedkme.wire import codecs
from fedkme.wire import sums as wire
from fedkme.wire.v1 import journals_pb2, pooling_pb2
from fedkme.wire.v1 import owners_pb2 as pb
from owner.sums.responder import SumResponder


class SumHandler:
    """One run of sums at an owner."""

    def __init__(self, run: str, pooler: SumResponder) -> None:
        """Before its first directive.

        Args:
            run: the run's name.
            pooler: computes; for this run alone.
        """
        self.run = run
        self._pooler = pooler
        self._last = pb.Directive()
        self._replies: list[pb.OwnerMessage] | None = []

    @property
    def begun(self) -> bool:
        """Whether the run was let in."""
        return bool(self._pooler.protocol)

    def known(self, directive: pb.Directive) -> list[pb.OwnerMessage] | None:
        """The answer that a directive got before; none of it for one that is older than the last.

        None when the directive is new.

        Raises:
            SecureAggregationError: the answer had secrets, and another process gave it.
            FedkmeError: the rows cannot be read as they were.
        """
        last = self._last.at.seq
        if directive.at.seq > last or (_is_first(directive) and last > 1):
            return None
        if directive.at.seq < last:
            return []
        if self._replies is None:
            self._replies = self._again()
        return self._replies

    def answer(self, directive: pb.Directive) -> journals_pb2.OwnerEntry:
        """Compute the answer to a new directive, with what must be kept before it leaves: `known` has it."""
        at = directive.at
        try:
            if not _is_first(directive) and at.seq != self._last.at.seq + 1:
                raise OwnerFaultError(
                    f"{self._pooler.name} does not know what {self.run} asked before this",
                    "Its journal was lost; the run goes on without it.",
                )
            replies = list(self._compute(directive))
        except FedkmeError as error:
            replies = [pb.OwnerMessage(fault=codecs.fault_to_wire(error))]
        self._last, self._replies = _kept(directive), _addressed(replies, at)
        plain = replies[0].HasField("fault") or replies[0].HasField("enlisted")
        return journals_pb2.OwnerEntry(directive=self._last, replies=replies if plain else ())

    def restore(self, entry: journals_pb2.OwnerEntry) -> None:
        """Be as after `answer` had returned this entry, but for what it computed."""
        directive = entry.directive
        self._last = directive
        self._replies = list(entry.replies) or None
        if any(reply.HasField("fault") for reply in entry.replies):
            return
        number = directive.at.round
        match directive.WhichOneof("body"):
            case "enlist":
                self._pooler.restore_enrolment(wire.enlist_from_wire(directive.enlist, self.run))
            case "embed":
                self._pooler.restore_embedded(number, wire.query_from_wire(directive.embed.query))
            case "aggregate" if directive.aggregate.HasField("propose"):
                said = directive.aggregate.propose
                query = wire.query_from_wire(said.query)
                parameters = wire.proposal_from_wire(said, self._pooler.length(query))
                self._pooler.restore_proposed(number, parameters, query)
            case "aggregate" if directive.aggregate.HasField("delivery"):
                self._pooler.restore_masked(number)

    def _again(self) -> list[pb.OwnerMessage]:
        """The answer of another process to the last directive."""
        last = self._last
        if not last.HasField("embed"):
            raise self._pooler.lost(last.at.round)
        return _addressed(list(self._embedded(last)), last.at)

    def _compute(self, directive: pb.Directive) -> Iterator[pb.OwnerMessage]:
        question = directive.WhichOneof("body")
        if question != "enlist" and not self.begun:
            raise ProtocolError(f"{self._pooler.name} does not take part in {self.run}", "Restart the run.")
        match question:
            case "enlist" if directive.at.seq == 1:
                rows = self._pooler.enlist(wire.enlist_from_wire(directive.enlist, self.run))
                yield pb.OwnerMessage(enlisted=pooling_pb2.Enlisted(rows=rows))
            case "enlist":
                raise ProtocolError(f"{self.run} has begun already", "Start another run.")
            case "embed":
                yield from self._embedded(directive)
            case "aggregate":
                yield from self._aggregated(directive.at.round, directive.aggregate)
            case str() if foreign(protocol := self._pooler.protocol, question):
                raise ProtocolError(
                    f"{self.run} is of the protocol {protocol!r}, which asks for no {question!r}",
                    "Check the curator's software.",
                )
            case _:
                raise ProtocolError(
                    "the curator sent a directive that is not known here", "Update this owner."
                )

    def _embedded(self, directive: pb.Directive) -> Iterator[pb.OwnerMessage]:
        query = wire.query_from_wire(directive.embed.query)
        vector = self._pooler.embed(directive.at.round, query)
        yield from (pb.OwnerMessage(words=part) for part in wire.words_to_wire(vector))

    def _aggregated(self, number: int, step: pooling_pb2.Aggregate) -> Iterator[pb.OwnerMessage]:
        pooler, answer = self._pooler, pooling_pb2.Aggregated()
        match step.WhichOneof("body"):
            case "propose":
                query = wire.query_from_wire(step.propose.query)
                parameters = wire.proposal_from_wire(step.propose, pooler.length(query))
                answer.key.CopyFrom(wire.key_to_wire(pooler.propose(number, parameters, query)))
            case "keys":
                said = pooler.advertise(number, wire.keys_from_wire(step.keys))
                answer.advertisement.CopyFrom(wire.advertisement_to_wire(said))
            case "roster":
                sealed = pooler.share(number, wire.roster_from_wire(step.roster))
                answer.sealed.CopyFrom(wire.sealed_to_wire(sealed))
            case "delivery":
                masked = pooler.mask(number, wire.delivery_from_wire(step.delivery))
                yield from (pb.OwnerMessage(words=part) for part in wire.masked_to_wire(masked))
                return
            case "survivors":
                endorsed = pooler.endorse(number, wire.survivors_from_wire(step.survivors))
                answer.endorsement.CopyFrom(wire.endorsement_to_wire(endorsed))
            case "endorsements":
                opened = pooler.unmask(number, wire.endorsements_from_wire(step.endorsements))
                answer.unmasked.CopyFrom(wire.unmasking_to_wire(opened))
            case _:
                raise ProtocolError(
                    "the curator takes a step of an aggregation that is not known here", "Update this owner."
                )
        yield pb.OwnerMessage(aggregated=answer)


def _is_first(directive: pb.Directive) -> bool:
    return directive.HasField("enlist") and directive.at.seq == 1


def _kept(directive: pb.Directive) -> pb.Directive:
    """What of a directive is needed later: of an aggregation its proposal, and which steps were taken."""
    kept = pb.Directive()
    kept.CopyFrom(directive)
    step = directive.aggregate.WhichOneof("body") if directive.HasField("aggregate") else None
    if step is not None and step != "propose":
        body = getattr(kept.aggregate, step)
        body.Clear()
        body.SetInParent()
    return kept


def _addressed(replies: list[pb.OwnerMessage], at: pb.Position) -> list[pb.OwnerMessage]:
    for reply in replies:
        reply.at.CopyFrom(at)
    return replies
