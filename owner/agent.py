"""The owner's process: rows loaded once, one stream to the curator, an answer to each directive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import numpy as np

from fedkme.data import load_table
from fedkme.errors import FedkmeError, ProtocolError
from fedkme.privacy.events import RawRows
from fedkme.privacy.ledger import open_ledger, read_ledger
from fedkme.protocol import Assignment, Broadcast
from fedkme.schema import load_schema
from fedkme.supervision import Voice
from fedkme.wire import codecs
from fedkme.wire.channel import explained
from fedkme.wire.dial import dial
from fedkme.wire.tls import Identity
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange
from owner.bidder import Bidder
from owner.gate import Gate
from owner.settings import OwnerSettings


class Desk:
    """Answers directives; a directive that comes again gets the same bytes and touches no row."""

    def __init__(self, bidder: Bidder, width: int) -> None:
        self._bidder = bidder
        self._width = width
        self._dimension = 0
        self._last: tuple[int, list[pb.OwnerMessage]] = (0, [])

    def answer(self, directive: pb.Directive) -> list[pb.OwnerMessage]:
        """The messages to send back, in order."""
        last, replies = self._last
        if directive.at.seq == last:
            return replies
        try:
            replies = list(self._compute(directive))
        except FedkmeError as error:
            replies = [pb.OwnerMessage(fault=codecs.fault_to_wire(error))]
        for reply in replies:
            reply.at.CopyFrom(directive.at)
        if directive.at.seq > last:
            self._last = (directive.at.seq, replies)
        return replies

    def _compute(self, directive: pb.Directive) -> Iterator[pb.OwnerMessage]:
        if directive.at.seq < self._last[0]:
            raise ProtocolError(
                "the curator sent a directive that is older than the last", "Update the curator."
            )
        match directive.WhichOneof("body"):
            case "broadcast":
                said = directive.broadcast
                mean = codecs.mean_from_wire(said.mean, self._dimension)
                bid = self._bidder.bid(Broadcast(directive.at.round, said.size, mean))
                if bid is None:
                    yield pb.OwnerMessage(dry=pb.Dry())
                else:
                    yield pb.OwnerMessage(bid=pb.Bid(value=bid.value, token=bid.token))
            case "quote":
                said = directive.quote.broadcast
                mean = codecs.mean_from_wire(said.mean, self._dimension)
                prices = np.array(directive.quote.prices, dtype=np.float64)
                counts = self._bidder.quote(Broadcast(directive.at.round, said.size, mean), prices)
                yield pb.OwnerMessage(counts=pb.Counts(at_least=counts.tolist()))
            case "sell":
                sold = self._bidder.sell(directive.at.round, directive.sell.price)
                yield from (pb.OwnerMessage(rows=part) for part in codecs.rows_to_wire(sold))
            case "ask":
                rows = [self._bidder.reveal(directive.at.round, directive.ask.token)]
                yield from (pb.OwnerMessage(rows=part) for part in codecs.rows_to_wire(rows))
            case "draw":
                drawn = self._bidder.draw(directive.at.round, directive.draw.count)
                yield from (pb.OwnerMessage(rows=part) for part in codecs.rows_to_wire(drawn))
            case "prepare":
                yield self._prepare(directive.at.run, directive.prepare)
            case "close":
                sent = self._bidder.close().rows_sent
                yield pb.OwnerMessage(closing=pb.Closing(rows_sent=sent))
            case _:
                raise ProtocolError(
                    "the curator sent a directive that is not known here", "Update this owner."
                )

    def _prepare(self, run: str, said: pb.Prepare) -> pb.OwnerMessage:
        features = codecs.features_from_wire(said.features, self._width)
        self._dimension = features.dimension
        target = codecs.mean_from_wire(said.target, features.dimension)
        rows = self._bidder.prepare(Assignment(run, features, said.schema_digest, target))
        return pb.OwnerMessage(prepared=pb.Prepared(rows=rows))


async def attend(channel: grpc.aio.Channel, address: str, name: str, desk: Desk, voice: Voice) -> None:
    """Serve one session until the curator ends it.

    Raises:
        ConnectionFailedError: the stream broke.
        FedkmeError: the curator refused this owner, in its own words.
    """
    stream = owners_pb2_grpc.OwnersStub(channel).Attend()
    with explained(address):
        await stream.write(pb.OwnerMessage(hello=pb.Hello(name=name, versions=codecs.VERSIONS)))
        while isinstance(directive := await stream.read(), pb.Directive):
            match directive.WhichOneof("body"):
                case "fault":
                    raise codecs.fault_from_wire(directive.fault)
                case "welcome":
                    version = directive.welcome.version
                    codecs.common_version(VersionRange(oldest=version, newest=version), "the curator")
                    voice.say("joined", curator=address)
                case _:
                    for reply in desk.answer(directive):
                        await stream.write(reply)


async def join(settings: OwnerSettings, voice: Voice) -> None:
    """Load the rows, dial the curator, serve its runs."""
    schema = load_schema(settings.schema_file)
    table = load_table(settings.data, schema, settings.name)
    noise = settings.noise_for(settings.name)("draw")
    with contextlib.ExitStack() as files:
        ledger = None
        if settings.ledger is not None:
            ledger = files.enter_context(open_ledger(settings.name, settings.ledger))
        gate = Gate(
            settings.name, ledger, most_rows=settings.most_rows, sent_before=_rows_sent(settings.ledger)
        )
        bidder = Bidder(settings.name, table, schema, noise, gate)
        voice.say("loaded", rows=len(table))
        address = await voice.hear() if settings.curator == "-" else settings.curator
        settings.check_address(address)
        identity = None if settings.identity is None else Identity.load(settings.identity)
        channel = await dial(address, identity, settings.connect_s)
        async with channel:
            await attend(channel, address, settings.name, Desk(bidder, schema.encoded_width), voice)
        voice.say("left", rows_sent=bidder.close().rows_sent)


def _rows_sent(ledger: Path | None) -> int:
    """Rows that left in earlier runs, by the owner's own ledger."""
    if ledger is None or not ledger.exists():
        return 0
    events = (entry.disclosure.event for entry in read_ledger(ledger))
    return sum(event.count for event in events if isinstance(event, RawRows))
