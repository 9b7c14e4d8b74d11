"""The port through which a run of sums reaches an owner, over whatever streams.

No answer is kept: sums are not for the curator's disk (docs/decisions/007).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from curator.owners.connection import Connection, Traffic
from curator.owners.session import REFUSALS
from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError, SecureAggregationError
from fedkme.secagg import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyBinding,
    MaskedInput,
    Parameters,
    Roster,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.sums.values import Enrolment, SumQuery
from fedkme.wire import codecs
from fedkme.wire import sums as wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2

Value = TypeVar("Value")


class SumSession:
    """The `SumPort` of a deployment: an owner in one run of sums.

    Attributes:
        name: the owner's name.
        traffic: what went over its streams for the run.
    """

    def __init__(self, connection: Connection, run: str) -> None:
        """Open for one run.

        Args:
            connection: reaches the owner.
            run: the run's name.
        """
        self.name = connection.name
        self.traffic = Traffic()
        self._connection = connection
        self._run = run
        self._seq = 0

    async def enlist(self, enrolment: Enrolment) -> int:
        """See `SumPort`."""
        directive = pb.Directive(enlist=wire.enlist_to_wire(enrolment))
        reply = (await self._messages(0, directive, "enlisted"))[-1]
        return reply.enlisted.rows

    async def embed(self, number: int, query: SumQuery, length: int) -> NDArray[np.int64]:
        """See `SumPort`."""
        directive = pb.Directive(embed=pooling_pb2.Embed(query=wire.query_to_wire(query)))
        parts = await self._messages(number, directive, "words", length)
        return self._read(
            number, lambda: wire.words_from_wire((part.words for part in parts), length).view(np.int64)
        )

    async def propose(self, number: int, parameters: Parameters, query: SumQuery) -> KeyBinding:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(propose=wire.proposal_to_wire(parameters, query))
        reply = await self._step(number, step, "key")
        return self._read(number, lambda: wire.key_from_wire(reply.key))

    async def advertise(self, number: int, keys: Sequence[KeyBinding]) -> Advertisement:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(keys=wire.keys_to_wire(keys))
        reply = await self._step(number, step, "advertisement")
        return self._read(number, lambda: wire.advertisement_from_wire(reply.advertisement))

    async def share(self, number: int, roster: Roster) -> SealedShares:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(roster=wire.roster_to_wire(roster))
        reply = await self._step(number, step, "sealed")
        return self._read(number, lambda: wire.sealed_from_wire(reply.sealed))

    async def mask(self, number: int, delivery: Delivery, length: int) -> MaskedInput:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(delivery=wire.delivery_to_wire(delivery))
        parts = await self._messages(number, pb.Directive(aggregate=step), "words", length)
        return self._read(
            number,
            lambda: wire.masked_from_wire(
                (part.words for part in parts), self.name, delivery.context, length
            ),
        )

    async def endorse(self, number: int, survivors: Survivors) -> Endorsement:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(survivors=wire.survivors_to_wire(survivors))
        reply = await self._step(number, step, "endorsement")
        return self._read(number, lambda: wire.endorsement_from_wire(reply.endorsement))

    async def unmask(self, number: int, endorsements: Endorsements) -> Unmasking:
        """See `SumPort`."""
        step = pooling_pb2.Aggregate(endorsements=wire.endorsements_to_wire(endorsements))
        reply = await self._step(number, step, "unmasked")
        return self._read(number, lambda: wire.unmasking_from_wire(reply.unmasked))

    async def dismiss(self) -> None:
        """Let the owner forget the run."""
        await self._connection.tell(pb.Directive(at=pb.Position(run=self._run), dismiss=pb.Dismiss()))

    async def _step(self, number: int, step: pooling_pb2.Aggregate, expected: str) -> pooling_pb2.Aggregated:
        """The answer to a step of an aggregation, but a vector."""
        reply = (await self._messages(number, pb.Directive(aggregate=step), "aggregated"))[-1].aggregated
        if reply.WhichOneof("body") != expected:
            raise self._odd(number)
        return reply

    async def _messages(
        self, number: int, directive: pb.Directive, expected: str, most_words: int = 0
    ) -> Sequence[pb.OwnerMessage]:
        """The answer to a directive, in one message or in parts."""
        self._seq += 1
        directive.at.run, directive.at.round, directive.at.seq = self._run, number, self._seq
        messages = await self._connection.exchange(directive, 0, self.traffic, most_words=most_words)
        body = messages[-1].WhichOneof("body")
        if body == "fault":
            fault = codecs.fault_from_wire(messages[-1].fault)
            kind = type(fault) if isinstance(fault, REFUSALS) else OwnerFaultError
            raise kind(f"{self._where(number)}: {fault.cause}", fault.remedy)
        if body != expected:
            raise self._odd(number)
        return messages

    def _read(self, number: int, read: Callable[[], Value]) -> Value:
        """What an answer says; who sends what says nothing is cut off."""
        try:
            return read()
        except (ProtocolError, SecureAggregationError) as error:
            self._connection.cut()
            raise OwnerFaultError(f"{self._where(number)}: {error.cause}", error.remedy) from None

    def _odd(self, number: int) -> FedkmeError:
        self._connection.cut()
        return OwnerFaultError(
            f"{self._where(number)}: an answer that was not asked for",
            "Install the same release of fedkme on both sides.",
        )

    def _where(self, number: int) -> str:
        return f"{self.name}, question {number}" if number else self.name
