"""The owner's process: rows loaded once, a stream to the curator that is opened again when it breaks."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import grpc.aio

from fedkme.errors import ConnectionFailedError, FedkmeError
from fedkme.ops.supervision import StatusReporter, to_the_end
from fedkme.pki.revocation import Revocation
from fedkme.store import open_store
from fedkme.tables.schema import load_schema
from fedkme.tables.table import load_table
from fedkme.wire import codecs
from fedkme.wire.absence import Absence
from fedkme.wire.channel import explained
from fedkme.wire.dial import OwnIdentity, dial, own_identity
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import Allowance, OwnerGate
from owner.consent.history import History
from owner.consent.policy import Policy, check_columns
from owner.keyring import KeyRing
from owner.runs import Outbox, RunManager
from owner.settings import OwnerSettings
from owner.summary.bidder import Bidder
from owner.summary.handler import SummaryHandler
from owner.sums.handler import SumHandler
from owner.sums.responder import SumResponder

if TYPE_CHECKING:
    from owner.metrics import OwnerMetrics  # imported only where figures are asked for

Stream = grpc.aio.StreamStreamCall[pb.OwnerMessage, pb.Directive]
Answered = Callable[[pb.Directive, Sequence[pb.OwnerMessage]], None]


def nobody(directive: pb.Directive, replies: Sequence[pb.OwnerMessage]) -> None:
    """Counts nothing."""


async def attend(
    channel: grpc.aio.Channel,
    address: str,
    name: str,
    instance: bytes,
    office: RunManager,
    welcomed: Callable[[int], None],
    answered: Answered = nobody,
) -> bool:
    """Serve one stream to its end.

    Args:
        channel: to the curator.
        address: the curator's.
        name: this owner's.
        instance: this process's.
        office: answers.
        welcomed: told this process's number when it is let in.
        answered: told of each answer.

    Returns:
        Whether the curator said farewell.

    Raises:
        ConnectionFailedError: the stream broke.
        FedkmeError: the curator refused this owner, in its own words.
    """
    stream = owners_pb2_grpc.OwnersStub(channel).Attend()
    known = False
    with explained(address):
        hello = pb.Hello(name=name, versions=codecs.VERSIONS, instance=instance)
        await stream.write(pb.OwnerMessage(hello=hello))
        while isinstance(directive := await stream.read(), pb.Directive):
            match directive.WhichOneof("body"):
                case "fault":
                    raise codecs.fault_from_wire(directive.fault)
                case "welcome" if known:
                    continue  # a later one could name fewer runs than were begun since
                case "welcome":
                    known = True
                    said = directive.welcome
                    codecs.common_version(
                        VersionRange(oldest=said.version, newest=said.version), "the curator"
                    )
                    office.welcome(said.runs)
                    welcomed(said.epoch)
                case "farewell":
                    return True
                case _:
                    replies = office.answer(directive)
                    answered(directive, replies)
                    await to_the_end(_send(stream, replies))  # it is on disk; let it leave before stopping
    raise ConnectionFailedError(f"{address} closed the connection", "Look at the curator's last lines.")


async def _send(stream: Stream, replies: Sequence[pb.OwnerMessage]) -> None:
    for reply in replies:
        await stream.write(reply)


async def join(
    settings: OwnerSettings, voice: StatusReporter, make_office: type[RunManager] = RunManager
) -> None:
    """Load the rows, dial the curator, serve its runs; come back when the connection breaks."""
    schema = load_schema(settings.schema_file)
    check_columns(settings.name, settings.policy, schema)
    table = load_table(settings.data, schema, settings.name)
    schema.check(table, settings.name)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        history = History(settings.name, store)
        history.read()
        allowance = Allowance(history.rows, settings.policy.most_rows, settings.policy.most_rows_per_run)
        policy = Policy(settings.name, settings.policy, schema, store, history, settings.approvals)

        def refused(run: str, error: FedkmeError) -> None:
            voice.say("refused", run=run, code=error.code, cause=error.cause, remedy=error.remedy)

        def open_desk(run: str, outbox: Outbox) -> SummaryHandler:
            noise = settings.noise_for(settings.name)("draw")
            gate = OwnerGate(settings.name, outbox, allowance, policy, refused)
            return SummaryHandler(
                run, Bidder(settings.name, table, schema, noise, gate, keys), schema.encoded_width
            )

        voice.say("loaded", rows=len(table))
        address = await voice.hear() if settings.curator == "-" else settings.curator
        settings.check_address(address)
        own = own_identity(settings.identity, voice)
        revoked = _revocation(settings, own)
        keys = KeyRing(settings.name, lambda: None if own is None else own.current(), revoked)

        def open_pool_desk(run: str, outbox: Outbox) -> SumHandler:
            noise = settings.noise_for(settings.name)("sums")
            gate = OwnerGate(settings.name, outbox, allowance, policy, refused)
            identity = None if own is None else own.current()
            return SumHandler(run, SumResponder(settings.name, table, schema, noise, gate, identity, revoked))

        def open_cell_desk(run: str, outbox: Outbox) -> CellHandler:
            noise = settings.noise_for(settings.name)("histogram")
            gate = OwnerGate(settings.name, outbox, allowance, policy, refused)
            return CellHandler(run, HistogramResponder(settings.name, table, schema, noise, gate, keys))

        at_once = settings.policy.runs_at_once
        with contextlib.ExitStack() as open_now:
            metrics, kept = None, store
            if settings.metrics is not None:
                from owner.metrics import export

                figures = export(settings, store, lambda: allowance.rows, voice)
                metrics, kept = open_now.enter_context(figures)
            office = make_office(
                settings.name,
                address,
                table,
                kept,
                allowance,
                open_desk,
                at_once,
                open_pool_desk,
                open_cell_desk,
                keys,
            )
            await _serve(settings, address, office, voice, metrics, own)
        voice.say("left", rows_sent=allowance.rows)


def _revocation(settings: OwnerSettings, own: OwnIdentity | None) -> Callable[[bytes], None] | None:
    """What refuses certificates of other owners that were revoked.

    Raises:
        IdentityError: the list cannot be relied on.
    """
    if own is None or settings.revoked is None:
        return None
    return Revocation(settings.revoked, own.current().authority).check


async def _serve(
    settings: OwnerSettings,
    address: str,
    office: RunManager,
    voice: StatusReporter,
    metrics: OwnerMetrics | None,
    identity: OwnIdentity | None,
) -> None:
    """One stream after another, until the curator says farewell or refuses this process.

    Raises:
        ConnectionFailedError: no curator answered at first.
        FedkmeError: the curator refused this owner.
    """
    instance = secrets.token_bytes(16)
    absence = Absence(voice, settings.away_s, settings.connect_s)

    def welcomed(epoch: int) -> None:
        absence.over()
        voice.say("joined", curator=address, epoch=epoch)
        voice.ready()
        if metrics is not None:
            metrics.stream.set(1)

    answered = nobody if metrics is None else metrics.answered
    while True:
        try:
            async with await dial(address, identity, settings.connect_s) as channel:
                absence.reached()
                if await attend(channel, address, settings.name, instance, office, welcomed, answered):
                    return
        except ConnectionFailedError as error:
            if metrics is not None:
                metrics.stream.set(0)
            await absence.wait(error)
