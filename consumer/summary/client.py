"""The consumer's process: asks for a summary, protects D_v itself, receives the rows, judges them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import grpc.aio

from consumer.requests import DONE, ENDED, RECEIVED, KeptRequest, Requests, is_final
from consumer.results import SUMMARY, make_folder
from consumer.sealed.boxes import keys_for
from consumer.sealed.keys import RunKeys
from consumer.settings import ConsumerSettings
from consumer.summary.evaluation import require_models
from consumer.summary.offers import Summary, finish
from consumer.summary.party import ConsumerParty
from consumer.summary.received import judge_received, keep_received, load_validation
from fedkme.documents import RequestDocument
from fedkme.errors import ConnectionFailedError, FedkmeError, ProtocolError
from fedkme.exchange import Plan
from fedkme.heads.log import Head
from fedkme.ledgers.data_files import units_of
from fedkme.ops.archiver import report_lost
from fedkme.ops.supervision import StatusReporter
from fedkme.store import OPEN, Store, open_store
from fedkme.tables.schema import Schema, load_schema
from fedkme.wire import codecs
from fedkme.wire.dial import own_identity
from fedkme.wire.heads import HEAD
from fedkme.wire.retry import CuratorCalls, curator_calls
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.summaries import OUTCOME, offer_to_messages, plan_from_wire, request_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange

QUIET_S = 2.0
"""Time that a person waits without a word."""
Stream = grpc.aio.StreamStreamCall[pb.ConsumerMessage, pb.CuratorMessage]


async def summarize(
    stream: Stream,
    party: ConsumerParty,
    kept: KeptRequest,
    reporter: StatusReporter,
    heard: Callable[[], None] = lambda: None,
) -> Summary:
    """One summary over an open stream; asked again, it is the same request, with the same bytes of D_v.

    Raises:
        BudgetError: D_v cannot pay for what the plan asks for; nothing of it was computed.
        ProtocolError: rows came for an offer that the store, hence the ledger, does not know.
        FedkmeError: the curator's refusal or failure, in its own words.
    """

    def refused(error: FedkmeError) -> None:
        if is_final(error):
            kept.end(ENDED)

    messages = _messages(stream, refused)
    await stream.write(pb.ConsumerMessage(request=request_to_wire(kept.document.request)))
    with _told_if_long(reporter, "", "the curator's plan; it asks owners first, who may have to approve it"):
        plan = await _plan(messages, party.schema)
    heard()
    if plan.choice is not None and not plan.offered:
        reporter.say("planned", run=plan.run, round=0, line=plan.choice.line)
    offer = list[pb.ConsumerMessage]()
    if not plan.offered:
        offer += offer_to_messages(party.offer(kept, plan), plan.packs)
    elif kept.document.offer is not None:
        party.offer(kept, plan)  # refuses a plan other than the one that the offer was made for
    keep = partial(party.keep_head, plan.run)
    async with _sending(stream, offer):
        summary = await _receive(plan, messages, party.schema, reporter, keys_for(plan, kept.document), keep)
    if kept.document.plan is None:
        raise ProtocolError(
            f"the curator says that it has D_v for {plan.run}, and this consumer's store knows of no offer",
            "Bring back the newest store; else give the request up by another 'output'.",
        )
    return summary


@contextlib.asynccontextmanager
async def _sending(stream: Stream, messages: Iterable[pb.ConsumerMessage]) -> AsyncIterator[None]:
    """Send messages while inside, where it is heard why they fail: gRPC tells who writes nothing of it."""

    async def send() -> None:
        for message in messages:
            await stream.write(message)

    task = asyncio.ensure_future(send())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        task.cancelled() or task.exception()  # heard


async def receive_summary(
    run: str, stream: Stream, schema: Schema, reporter: StatusReporter, asked: RequestDocument | None
) -> Summary:
    """The summary of a run, on a stream that is attached to it; `asked` has the keys of sealed rows.

    Raises:
        FedkmeError: the curator's refusal or failure, in its own words.
    """
    messages = _messages(stream)
    plan = await _plan(messages, schema)
    return await _receive(replace(plan, run=run), messages, schema, reporter, keys_for(plan, asked))


@contextlib.contextmanager
def _told_if_long(reporter: StatusReporter, run: str, what: str) -> Iterator[asyncio.TimerHandle]:
    """Report what is waited for, unless it comes, or the timer is cancelled, within QUIET_S."""
    say = partial(reporter.say, "waiting", run=run, round=0, line=f"it waits for {what}")
    later = asyncio.get_running_loop().call_later(QUIET_S, say)
    try:
        yield later
    finally:
        later.cancel()


async def _plan(messages: AsyncIterator[pb.CuratorMessage], schema: Schema) -> Plan:
    opening = await anext(messages, None)
    if opening is None or not opening.HasField("plan"):
        raise ProtocolError("the curator did not begin with a plan")
    version = opening.plan.version
    codecs.common_version(VersionRange(oldest=version, newest=version), "the curator")
    return plan_from_wire(opening.plan, schema.encoded_width)


async def _receive(
    plan: Plan,
    messages: AsyncIterator[pb.CuratorMessage],
    schema: Schema,
    reporter: StatusReporter,
    keys: RunKeys | None,
    keep: Callable[[Head], None] = lambda head: None,
) -> Summary:
    """Progress, rows, the curator's head, and how the run ended."""
    parts = []
    with _told_if_long(reporter, plan.run, "owners' rows") as telling:
        async for message in messages:
            telling.cancel()
            match message.WhichOneof("body"):
                case "progress":
                    said = message.progress
                    counts = {"rows": said.selected, "accessed": said.points_accessed}
                    reporter.say("progress", run=plan.run, round=said.round, **counts)
                case "summary":
                    parts.append(message.summary)
                case "head":
                    keep(HEAD.from_wire(message.head))
                case "outcome":
                    rows = any_rows_from_wire(parts, plan.sealed)
                    return finish(plan, rows, OUTCOME.from_wire(message.outcome), schema, keys)
    raise ConnectionFailedError("the curator ended the call before the outcome", "Look at its last lines.")


async def _messages(
    stream: Stream, refused: Callable[[FedkmeError], None] = lambda error: None
) -> AsyncIterator[pb.CuratorMessage]:
    while isinstance(message := await stream.read(), pb.CuratorMessage):
        if message.HasField("fault"):
            error = codecs.fault_from_wire(message.fault)
            refused(error)
            raise error
        yield message


async def run(settings: ConsumerSettings, reporter: StatusReporter) -> None:
    """Ask for a summary and write it; then judge it."""
    schema = load_schema(settings.schema_file)
    found = load_validation(settings, schema)
    validation = found.table
    make_folder(settings.output)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        requests = Requests(settings.name, store)
        reporter.say("loaded", rows=len(validation))
        for line in requests.files.take(units_of(found, schema), requests.used_files):
            reporter.say("warning", line=line)
        address = await reporter.hear() if settings.curator == "-" else settings.curator
        settings.check_address(address)
        identity = own_identity(settings.identity, reporter)
        party = ConsumerParty(
            requests=requests,
            request=settings.request,
            schema=schema,
            validation=validation,
            noise_for=settings.noise_for(settings.name),
            warn=lambda run, line: reporter.say("warning", run=run, round=0, line=line),
            budget=settings.budget,
            identity=lambda: None if identity is None else identity.current(),
            simulation_seed=settings.simulation_seed,
        )
        kept = _taken_up(settings, party, reporter)
        if kept.status == OPEN:
            summary = await ask(curator_calls(settings, address, identity, reporter), party, kept, reporter)
            keep_received(settings, schema, validation, summary, reporter, lambda: kept.end(RECEIVED))
        plan = kept.document.plan
        assert plan is not None, "rows are those of a run"
        try:
            judge_received(settings, schema, validation, plan, reporter, lambda: kept.end(DONE))
        finally:
            _archive(requests, store, reporter)


def _archive(requests: Requests, store: Store, reporter: StatusReporter) -> None:
    """Archive what is over, and say what of earlier archives is gone; nothing else depends on it."""
    try:
        report_lost(store, reporter.say)
        if made := requests.archive():
            reporter.say("archived", archives=made)
    except FedkmeError as error:
        reporter.say("warning", line=str(error), code=error.code)


def _taken_up(settings: ConsumerSettings, party: ConsumerParty, reporter: StatusReporter) -> KeptRequest:
    """The request of the folder that is open or was not judged; else a new one.

    Raises:
        BudgetError: D_v cannot pay for a new one.
        ConfigError: another one is open in the folder.
        MissingDependencyError: a new one could not be judged here.
    """
    document = party.document(settings.output)
    kept = party.requests.going_on(document)
    if kept is None or (kept.status == RECEIVED and not (settings.output / SUMMARY).exists()):
        if settings.trains(party.schema):
            require_models()
        return party.ask(document)
    plan = kept.document.plan
    reporter.say("resumed", run="" if plan is None else plan.run)
    return kept


async def ask(
    calls: CuratorCalls, party: ConsumerParty, kept: KeptRequest, reporter: StatusReporter
) -> Summary:
    """Ask, and ask again after a broken connection, until there is an outcome.

    Raises:
        FedkmeError: the curator's refusal, a failure here, or no curator for too long.
    """

    async def call(channel: grpc.aio.Channel) -> Summary:
        stream = summaries_pb2_grpc.SummariesStub(channel).Summarize()
        return await summarize(stream, party, kept, reporter, calls.absence.over)

    return await calls.until_done(call)
