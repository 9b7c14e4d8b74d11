"""The port through which a protocol reaches an owner in one run, over whatever streams."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curator.owners.connection import Connection, Traffic
from curator.runs.journal import RunJournal
from fedkme.errors import (
    BudgetError,
    OwnerFaultError,
    OwnerLostError,
    PolicyError,
    ProtocolError,
    SealedBoxError,
)
from fedkme.protocol import Assignment, Bid, Broadcast, CellAssignment, Closing
from fedkme.sealed import AnyRow
from fedkme.wire import codecs
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.sealed import gift_to_wire
from fedkme.wire.v1 import owners_pb2 as pb

MOST_ROWS = 2**53
"""Rows that an owner can say it has."""
REFUSALS = (BudgetError, PolicyError, SealedBoxError)
"""Faults of an owner that are its right, and are told as what they are."""


class OwnerSession:
    """The `OwnerPort` of a deployment: an owner in one run.

    Attributes:
        name: the owner's name.
        traffic: what went over its streams for the run.
    """

    def __init__(
        self,
        connection: Connection,
        run: str,
        journal: RunJournal | None = None,
        width: int | None = None,
        sealed: bool = False,
    ) -> None:
        """Open for one run.

        Args:
            connection: reaches the owner.
            run: the run's name.
            journal: where answers are kept, and taken from; None to keep nothing.
            width: columns of the schema; None to take rows of any.
            sealed: whether rows come in boxes.
        """
        self.name = connection.name
        self.traffic = Traffic()
        self._connection = connection
        self._run = run
        self._journal = journal
        self._width = width
        self._sealed = sealed
        self._round = 0
        self._seq = 0

    async def prepare(self, assignment: Assignment) -> int:
        """See `OwnerPort`."""
        prepare = pb.Prepare(
            features=codecs.features_to_wire(assignment.features),
            schema_digest=assignment.schema,
            target=codecs.mean_to_wire(assignment.target),
            consumer=assignment.consumer,
            protocol=assignment.protocol,
            rows=assignment.rows,
            planned=[codecs.event_to_wire(event) for event in assignment.planned],
            heard=[codecs.disclosure_to_wire(about) for about in assignment.heard],
            gift=None if assignment.gift is None else gift_to_wire(assignment.gift),
        )
        reply = await self._exchange(pb.Directive(prepare=prepare), "prepared")
        return reply.prepared.rows

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        """See `OwnerPort`."""
        self._round = broadcast.round
        reply = await self._exchange(pb.Directive(broadcast=_to_wire(broadcast)), "bid", "dry")
        return Bid(reply.bid.value, reply.bid.token) if reply.HasField("bid") else None

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        """See `OwnerPort`."""
        self._round = round_number
        rows = await self._rows(pb.Directive(ask=pb.Ask(token=token)), most=1)
        if not rows:
            raise OwnerFaultError(f"{self.name} answered an ask with no row", "Check its software.")
        return rows[0]

    async def quote(self, broadcast: Broadcast, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """See `OwnerPort`."""
        self._round = broadcast.round
        said = pb.Broadcast(size=broadcast.size, mean=codecs.mean_to_wire(broadcast.mean))
        message = pb.Quote(broadcast=said, prices=prices.tolist())
        reply = await self._exchange(pb.Directive(quote=message), "counts")
        return codecs.counts_from_wire(reply.counts.at_least)

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        self._round = round_number
        return await self._rows(pb.Directive(sell=pb.Sell(price=price)), most=due)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        self._round = round_number
        return await self._rows(pb.Directive(draw=pb.Draw(count=count)), most=count)

    async def divide(self, assignment: CellAssignment) -> int:
        """See `OwnerPort`."""
        divide = codecs.division_to_wire(assignment)
        reply = await self._exchange(pb.Directive(divide=divide), "prepared")
        if reply.prepared.rows > MOST_ROWS:
            raise self._odd("it has more rows than any table")
        return reply.prepared.rows

    async def tally(self, round_number: int, cells: int) -> NDArray[np.int64]:
        """See `OwnerPort`."""
        self._round = round_number
        reply = await self._exchange(pb.Directive(tally=pb.Tally()), "histogram")
        try:
            return codecs.histogram_from_wire(reply.histogram, cells)
        except ProtocolError as error:
            raise self._odd(error.cause) from None

    async def herd(self, round_number: int, count: int, shares: NDArray[np.float64]) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        self._round = round_number
        return await self._rows(pb.Directive(herd=pb.Herd(count=count, shares=shares.tolist())), most=count)

    async def close(self, last_round: int) -> Closing:
        """See `OwnerPort`."""
        self._round = last_round
        reply = await self._exchange(pb.Directive(close=pb.Close()), "closing")
        return Closing(reply.closing.rows_sent)

    async def dismiss(self) -> None:
        """Let the owner forget the run."""
        await self._connection.tell(pb.Directive(at=pb.Position(run=self._run), dismiss=pb.Dismiss()))

    async def _rows(self, directive: pb.Directive, most: int) -> Sequence[AnyRow]:
        parts = await self._messages(directive, most, "rows")
        try:
            return any_rows_from_wire((part.rows for part in parts), self._sealed)
        except ProtocolError as error:
            self._connection.cut()
            raise OwnerFaultError(f"{self.name}, round {self._round}: {error.cause}", error.remedy) from None

    async def _exchange(self, directive: pb.Directive, *expected: str) -> pb.OwnerMessage:
        return (await self._messages(directive, 0, *expected))[-1]

    async def _messages(
        self, directive: pb.Directive, most_rows: int, *expected: str
    ) -> Sequence[pb.OwnerMessage]:
        """The answer to a directive: from the journal, or from the owner and then into the journal."""
        self._seq += 1
        directive.at.run, directive.at.round, directive.at.seq = self._run, self._round, self._seq
        journal = self._journal
        messages = None if journal is None else journal.answer(self.name, directive)
        if messages is None:
            if journal is not None:
                journal.commit()
            try:
                messages = await self._connection.exchange(directive, most_rows, self.traffic, self._width)
            except OwnerLostError as error:
                if journal is not None:
                    journal.keep_answer(self.name, directive, lost=error)
                raise
            if journal is not None:
                journal.keep_answer(self.name, directive, messages)
        body = messages[-1].WhichOneof("body")
        if body == "fault":
            fault = codecs.fault_from_wire(messages[-1].fault)
            kind = type(fault) if isinstance(fault, REFUSALS) else OwnerFaultError
            raise kind(f"{self.name}, round {self._round}: {fault.cause}", fault.remedy)
        if body not in expected:
            raise self._odd("an answer that was not asked for")
        return messages

    def _odd(self, cause: str) -> OwnerFaultError:
        """For an answer that is none, of somebody who is cut off."""
        self._connection.cut()
        remedy = "Install the same release of fedkme on both sides."
        return OwnerFaultError(f"{self.name}, round {self._round}: {cause}", remedy)


@functools.lru_cache(maxsize=4)
def _to_wire(broadcast: Broadcast) -> pb.Broadcast:
    """Encoded once a round, not once an owner."""
    return pb.Broadcast(size=broadcast.size, mean=codecs.mean_to_wire(broadcast.mean))
