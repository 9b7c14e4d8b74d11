"""What an owner answers in one summary by cells. Nothing here knows gRPC or disks.

Answers are kept as they left, noise and rows with them: a directive that comes again gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError
from fedkme.wire import codecs
from fedkme.wire import rows as rows_wire
from fedkme.wire.v1 import journals_pb2
from fedkme.wire.v1 import owners_pb2 as pb
from owner.cells.responder import HistogramResponder
from owner.summary.handler import MOST_PLANNED


class CellHandler:
    """One summary by cells at an owner."""

    def __init__(self, run: str, filler: HistogramResponder) -> None:
        """Before its first directive.

        Args:
            run: the run's name.
            filler: computes; for this run alone.
        """
        self.run = run
        self._filler = filler
        self._last: tuple[int, list[pb.OwnerMessage]] = (0, [])

    @property
    def begun(self) -> bool:
        """Whether the run was let in."""
        return self._filler.begun

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
        try:
            if directive.at.seq != self._last[0] + 1:
                raise OwnerFaultError(
                    f"{self._filler.name} does not know what {self.run} asked before this",
                    "Its journal was lost; the run goes on without it.",
                )
            replies = list(self._compute(directive))
        except FedkmeError as error:
            replies = [pb.OwnerMessage(fault=codecs.fault_to_wire(error))]
        for reply in replies:
            reply.at.CopyFrom(directive.at)
        self._last = (directive.at.seq, replies)
        return journals_pb2.OwnerEntry(directive=directive, replies=replies)

    def restore(self, entry: journals_pb2.OwnerEntry) -> None:
        """Be as after `answer` had returned this entry; what it cost is in the ledger."""
        directive, replies = entry.directive, list(entry.replies)
        self._last = (directive.at.seq, replies)
        if replies and replies[0].HasField("fault"):
            return
        match directive.WhichOneof("body"):
            case "divide":
                self._filler.restore_assignment(
                    codecs.division_from_wire(directive.divide, self.run, MOST_PLANNED)
                )
            case "tally":
                self._filler.skip_tally()
            case "herd":
                self._filler.restore_rows([row.token for reply in replies for row in reply.rows.rows])

    def _compute(self, directive: pb.Directive) -> Iterator[pb.OwnerMessage]:
        match directive.WhichOneof("body"):
            case "divide" if directive.at.seq == 1:
                said = codecs.division_from_wire(directive.divide, self.run, MOST_PLANNED)
                yield pb.OwnerMessage(prepared=pb.Prepared(rows=self._filler.divide(said)))
            case "tally":
                counts = self._filler.tally(directive.at.round)
                yield pb.OwnerMessage(histogram=codecs.histogram_to_wire(counts))
            case "herd":
                shares = np.array(directive.herd.shares, dtype=np.float64)
                rows = self._filler.herd(directive.at.round, directive.herd.count, shares)
                yield from (pb.OwnerMessage(rows=part) for part in rows_wire.any_rows_to_wire(rows))
            case "close":
                sent = self._filler.close().rows_sent
                yield pb.OwnerMessage(closing=pb.Closing(rows_sent=sent))
            case question:
                raise ProtocolError(
                    f"{self.run} is a summary by cells, which asks for no {question!r}",
                    "Check the curator's software.",
                )
