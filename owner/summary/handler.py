"""What an owner answers in one run. Nothing here knows gRPC or disks.

A directive that comes again gets the same bytes: no noise is drawn for it and no row is touched. The curator
asks one thing at a time, and the next only when it has kept the answer, so that the last answer is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError
from fedkme.protocol import Assignment, Broadcast
from fedkme.protocols import foreign
from fedkme.wire import codecs
from fedkme.wire import rows as rows_wire
from fedkme.wire.sealed import gift_from_wire
from fedkme.wire.v1 import journals_pb2
from fedkme.wire.v1 import owners_pb2 as pb
from owner.summary.bidder import Bidder

MOST_PLANNED = 32
"""Events that a curator may plan for a run."""
MOST_PRICES = 2**16
"""Prices of one quote."""


class SummaryHandler:
    """One run at an owner."""

    def __init__(self, run: str, bidder: Bidder, width: int) -> None:
        """Before its first directive.

        Args:
            run: the run's name.
            bidder: computes; for this run alone.
            width: columns in model space.
        """
        self.run = run
        self._bidder = bidder
        self._width = width
        self._dimension = 0
        self._begun = False
        self._protocol = ""
        self._rows = 0
        self._prices: frozenset[float] = frozenset()  # at one of which rows may be sold
        self._last: tuple[int, list[pb.OwnerMessage]] = (0, [])

    @property
    def begun(self) -> bool:
        """Whether the run was let in."""
        return self._begun

    def known(self, directive: pb.Directive) -> list[pb.OwnerMessage] | None:
        """The answer that a directive got before; none of it for one that is older than the last.

        None when the directive is new.
        """
        last, replies = self._last
        if directive.at.seq > last:
            return None
        return replies if directive.at.seq == last else []

    def answer(self, directive: pb.Directive) -> journals_pb2.OwnerEntry:
        """Compute the answer to a new directive, with all that must be kept before it leaves."""
        named = self._bidder.rows_named
        try:
            if directive.at.seq != self._last[0] + 1:
                raise OwnerFaultError(
                    f"{self._bidder.name} does not know what {self.run} asked before this",
                    "Its journal was lost; the run goes on without it.",
                )
            replies = list(self._compute(directive))
        except FedkmeError as error:
            replies = [pb.OwnerMessage(fault=codecs.fault_to_wire(error))]
        for reply in replies:
            reply.at.CopyFrom(directive.at)
        self._last = (directive.at.seq, replies)
        kept = pb.Directive()
        kept.CopyFrom(directive)
        if kept.HasField("broadcast"):
            kept.broadcast.mean.Clear()  # what a bid leaves behind is the token alone
        return journals_pb2.OwnerEntry(directive=kept, replies=replies, named=self._bidder.named_since(named))

    def restore(self, entry: journals_pb2.OwnerEntry) -> None:
        """Be as after `answer` had returned this entry; what it cost is in the ledger."""
        directive, replies = entry.directive, list(entry.replies)
        self._last = (directive.at.seq, replies)
        failed = bool(replies) and replies[0].HasField("fault")
        match directive.WhichOneof("body"):
            case "prepare" if not failed:
                self._bidder.restore_assignment(self._assignment(directive.prepare))
                self._begun = True
            case "broadcast" | "close" if not failed:
                self._bidder.restore_heard(directive.at.round, "mean")
            case "quote" if not failed:
                self._bidder.restore_heard(directive.at.round, "mean")
                self._bidder.restore_quote(self._said(directive.quote.broadcast, directive.at.round))
                self._prices = frozenset(directive.quote.prices)
            case "ask" | "sell" if not failed:
                self._bidder.restore_heard(directive.at.round, "auction")
                self._prices = frozenset()
            case "draw" if not failed:
                self._bidder.skip_draw()
        sent = [row.token for reply in replies if reply.HasField("rows") for row in reply.rows.rows]
        self._bidder.restore_rows(entry.named, sent)

    def _compute(self, directive: pb.Directive) -> Iterator[pb.OwnerMessage]:
        number = directive.at.round
        question = directive.WhichOneof("body")
        if question != "prepare" and not self._begun:
            raise ProtocolError(f"{self._bidder.name} does not take part in {self.run}", "Restart the run.")
        if question is not None and foreign(self._protocol, question):
            raise ProtocolError(
                f"{self.run} is of the protocol {self._protocol!r}, which asks for no {question!r}",
                "Check the curator's software.",
            )
        match question:
            case "broadcast":
                bid = self._bidder.bid(self._said(directive.broadcast, number))
                if bid is None:
                    yield pb.OwnerMessage(dry=pb.Dry())
                else:
                    yield pb.OwnerMessage(bid=pb.Bid(value=bid.value, token=bid.token))
            case "quote":
                prices = np.array(directive.quote.prices, dtype=np.float64)
                if len(prices) > MOST_PRICES or not np.isfinite(prices).all():
                    raise ProtocolError(
                        f"{self.run} quotes more than {MOST_PRICES} prices, or some that are no numbers",
                        "Check the curator's software.",
                    )
                counts = self._bidder.quote(self._said(directive.quote.broadcast, number), prices)
                self._prices = frozenset(directive.quote.prices)
                yield pb.OwnerMessage(counts=pb.Counts(at_least=counts.tolist()))
            case "sell":
                if directive.sell.price not in self._prices:
                    raise ProtocolError(
                        f"{self.run} sells at a price that was not quoted, or twice",
                        "Check the curator's software.",
                    )
                self._prices = frozenset()
                sold = self._bidder.sell(number, directive.sell.price)
                yield from (pb.OwnerMessage(rows=part) for part in rows_wire.any_rows_to_wire(sold))
            case "ask":
                rows = [self._bidder.reveal(number, directive.ask.token)]
                yield from (pb.OwnerMessage(rows=part) for part in rows_wire.any_rows_to_wire(rows))
            case "draw":
                if self._protocol and self._bidder.rows_named + directive.draw.count > self._rows:
                    raise ProtocolError(
                        f"{self.run} is of {self._rows} rows and draws more", "Check the curator's software."
                    )
                drawn = self._bidder.draw(number, directive.draw.count)
                yield from (pb.OwnerMessage(rows=part) for part in rows_wire.any_rows_to_wire(drawn))
            case "prepare" if directive.at.seq == 1:
                rows_here = self._bidder.prepare(self._assignment(directive.prepare))
                self._begun = True
                yield pb.OwnerMessage(prepared=pb.Prepared(rows=rows_here))
            case "close":
                sent = self._bidder.close(number).rows_sent
                yield pb.OwnerMessage(closing=pb.Closing(rows_sent=sent))
            case "prepare":
                raise ProtocolError(f"{self.run} has begun already", "Start another run.")
            case _:
                raise ProtocolError(
                    "the curator sent a directive that is not known here", "Update this owner."
                )

    def _said(self, said: pb.Broadcast, number: int) -> Broadcast:
        return Broadcast(number, said.size, codecs.mean_from_wire(said.mean, self._dimension))

    def _assignment(self, said: pb.Prepare) -> Assignment:
        features = codecs.any_features_from_wire(said.features, self._width)
        self._dimension = features.dimension
        self._protocol, self._rows = said.protocol, said.rows
        return Assignment(
            self.run,
            features,
            said.schema_digest,
            codecs.mean_from_wire(said.target, features.dimension),
            said.consumer,
            said.protocol,
            said.rows,
            codecs.events_from_wire(said.planned, MOST_PLANNED),
            tuple(codecs.disclosures_from_wire(said.heard, MOST_PLANNED)),
            gift_from_wire(said.gift) if said.HasField("gift") else None,
        )
