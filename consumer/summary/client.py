"""The consumer's process: requests a summary, protects D_v, receives the rows and judges them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import grpc.aio

from consumer.requests import ENDED, RECEIVED, KeptRequest, Requests, is_final
from consumer.results import SUMMARY, make_folder
from consumer.sealed_rows import RunKeys, keys_for
from consumer.settings import ConsumerSettings
from consumer.stages import StageReports
from consumer.summary.evaluation import require_models
from consumer.summary.offers import Summary, finish
from consumer.summary.party import ConsumerParty
from consumer.summary.received import ReceivedRows, load_validation
from fedkme.documents import RequestDocument
from fedkme.errors import CancelledRunError, ConnectionFailedError, FedkmeError, ProtocolError, StoreError
from fedkme.exchange import Plan
from fedkme.heads.log import Head
from fedkme.ledgers.data_files import units_of
from fedkme.ops.archiver import report_lost
from fedkme.ops.collector import traced
from fedkme.ops.supervision import StatusReporter
from fedkme.ops.traces import Phases, Tracer
from fedkme.store import OPEN, Store, open_store
from fedkme.tables.files import counted_persons
from fedkme.tables.schema import Schema, load_schema
from fedkme.wire import codecs
from fedkme.wire.dial import own_identity
from fedkme.wire.releases import STAGE
from fedkme.wire.retry import CuratorCalls, curator_calls
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.sealed import HEAD
from fedkme.wire.summaries import OUTCOME, offer_to_messages, plan_from_wire, request_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange

QUIET_S = 2.0
"""Seconds after which a person waiting is told why."""
Stream = grpc.aio.StreamStreamCall[pb.ConsumerMessage, pb.CuratorMessage]


async def summarize(
    stream: Stream,
    party: ConsumerParty,
    request: KeptRequest,
    reporter: StatusReporter,
    heard: Callable[[], None] = lambda: None,
    phases: Phases | None = None,
) -> Summary:
    """Request one summary over an open stream; a repeat sends the same request and the same bytes about D_v.

    Raises:
        BudgetError: the plan costs more than D_v's budget; nothing was computed from D_v.
        ProtocolError: rows came for an offer that is not in the store, hence not in the ledger.
        FedkmeError: the curator's refusal or failure, in its own words.
    """

    def refused(error: FedkmeError) -> None:
        if is_final(error):
            request.end(ENDED)

    phases = phases or Phases(Tracer())
    phases.begin("plan")
    messages = _messages(stream, refused)
    await stream.write(pb.ConsumerMessage(request=request_to_wire(request.document.request)))
    with _reported_if_long(
        reporter, "", "the curator's plan; the curator asks owners first, who may have to approve the run"
    ):  # also after words on stages: the last of them may be an approval of days
        plan = await _plan(messages, party.schema, reporter, heard)
    phases.named(plan.run)
    phases.begin("offer")
    if plan.choice is not None and not plan.offered:
        reporter.say("planned", run=plan.run, round=0, line=plan.choice.line)
    offer = list[pb.ConsumerMessage]()
    if not plan.offered:
        offer += offer_to_messages(party.offer(request, plan))
    elif request.document.offer is not None:
        party.offer(request, plan)  # refuses a plan other than the one that the offer was made for
    keep = partial(party.keep_head, plan.run)
    phases.begin("rows")
    async with _sending(stream, offer):
        summary = await _receive(
            plan, messages, party.schema, reporter, keys_for(plan, request.document), keep
        )
    if request.document.plan is None:
        cause = f"the curator says that it has D_v for {plan.run}, and this consumer's store has no offer"
        remedy = "Restore the newest store; else give the request up by choosing another 'output'."
        raise ProtocolError(cause, remedy)
    return summary


@contextlib.asynccontextmanager
async def _sending(stream: Stream, messages: Iterable[pb.ConsumerMessage]) -> AsyncIterator[None]:
    """Send messages in a task inside the block; reads, not these writes, raise a failure's reason."""

    async def send() -> None:
        for message in messages:
            await stream.write(message)

    task = asyncio.ensure_future(send())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        task.cancelled() or task.exception()  # marks the exception as retrieved


async def receive_summary(
    run: str, stream: Stream, schema: Schema, reporter: StatusReporter, document: RequestDocument | None
) -> Summary:
    """Receive the summary of a run on a stream attached to it; `document` has the keys of sealed rows.

    Raises:
        FedkmeError: the curator's refusal or failure, in its own words.
    """
    messages = _messages(stream)
    plan = await _plan(messages, schema, reporter)
    return await _receive(replace(plan, run=run), messages, schema, reporter, keys_for(plan, document))


@contextlib.contextmanager
def _reported_if_long(reporter: StatusReporter, run: str, what: str) -> Iterator[asyncio.TimerHandle]:
    """Report what the command waits for, unless the block ends or cancels the timer within QUIET_S."""
    say = partial(reporter.say, "waiting", run=run, round=0, line=f"waiting for {what}")
    later = asyncio.get_running_loop().call_later(QUIET_S, say)
    try:
        yield later
    finally:
        later.cancel()


async def _plan(
    messages: AsyncIterator[pb.CuratorMessage],
    schema: Schema,
    reporter: StatusReporter,
    heard: Callable[[], None] = lambda: None,
) -> Plan:
    opening, stages = await anext(messages, None), StageReports(reporter)
    while opening is not None and opening.HasField("stage"):
        heard()
        stages.show("", STAGE.from_wire(opening.stage))
        opening = await anext(messages, None)
    heard()
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
    """Receive progress, rows, the curator's head and the outcome."""
    parts = []
    what = "owners' rows"
    if plan.cells is not None:
        what = "owners: they count their rows by what D_v gave, with noise, then send the rows ordered"
    with _reported_if_long(reporter, plan.run, what) as telling:
        async for message in messages:
            telling.cancel()
            match message.WhichOneof("body"):
                case "progress":
                    progress = message.progress
                    counts = {"rows": progress.selected, "accessed": progress.points_accessed}
                    reporter.say("progress", run=plan.run, round=progress.round, **counts)
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
    """Request a summary, write it and judge it."""
    schema = load_schema(settings.schema_file)
    examined = load_validation(settings, schema)
    validation = examined.table
    make_folder(settings.output)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        requests = Requests(settings.name, store)
        reporter.say("loaded", rows=len(validation))
        for line in requests.files.take(units_of(examined, schema), requests.used_files):
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
        request = _current_request(settings, party, reporter)
        rows = ReceivedRows(settings, schema, validation, reporter, counted_persons(examined, schema))
        with traced(settings, settings.name, reporter.say) as traces, Phases(traces) as phases:
            if request.status == OPEN:
                phases.begin("join")
                calls = curator_calls(settings, address, identity, reporter)
                summary = await ask(calls, party, request, reporter, phases)
                phases.begin("fit")
                rows.keep(summary, lambda: request.end(RECEIVED))
            plan = request.document.plan
            assert plan is not None, "received rows have a plan"
            phases.named(plan.run)
            phases.begin("judge")

            def warn(error: StoreError, run: str = plan.run) -> None:
                reporter.say("warning", run=run, round=0, line=str(error), code=error.code)

            try:
                rows.judge(plan, lambda: request.finish(warn))
            finally:
                _archive(requests, store, reporter)


def _archive(requests: Requests, store: Store, reporter: StatusReporter) -> None:
    """Archive ended requests and report lost archives; a failure here is a warning."""
    try:
        report_lost(store, reporter.say)
        if archives := requests.archive():
            reporter.say("archived", archives=archives)
    except FedkmeError as error:
        reporter.say("warning", line=str(error), code=error.code)


def _current_request(
    settings: ConsumerSettings, party: ConsumerParty, reporter: StatusReporter
) -> KeptRequest:
    """Continue the folder's request if it is open or not judged yet; else begin a new request.

    Raises:
        BudgetError: a new request would exceed D_v's budget.
        ConfigError: another request is open in the folder.
        MissingDependencyError: a new summary could not be judged here.
    """
    document = party.document(settings.output)
    request = party.requests.going_on(document)
    if request is None or (request.status == RECEIVED and not (settings.output / SUMMARY).exists()):
        if settings.trains(party.schema):
            require_models()
        request = party.ask(document)
        if request.document.request.replaces:
            given_up = CancelledRunError(
                f"the earlier request for {settings.output} is given up, with nothing of D_v sent: this "
                "command or this release asks otherwise",
                "For both summaries, repeat the earlier command with another 'output'.",
            )
            reporter.say("warning", line=str(given_up), code=given_up.code)
        return request
    plan = request.document.plan
    reporter.say("resumed", run="" if plan is None else plan.run)
    return request


async def ask(
    calls: CuratorCalls,
    party: ConsumerParty,
    request: KeptRequest,
    reporter: StatusReporter,
    phases: Phases | None = None,
) -> Summary:
    """Send the request, again after broken connections, until there is an outcome.

    Raises:
        FedkmeError: the curator's refusal, a failure here, or no curator for too long.
    """

    async def call(channel: grpc.aio.Channel) -> Summary:
        stream = summaries_pb2_grpc.SummariesStub(channel).Summarize()
        return await summarize(stream, party, request, reporter, calls.absence.over, phases)

    return await calls.until_done(call)
