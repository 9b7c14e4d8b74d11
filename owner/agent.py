"""The owner's process: loads rows once, and opens the stream to the curator again when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import grpc.aio

from fedkme.directives import Accepted, Answer, Directive, Dismiss, Hello, Refusal, WordVector
from fedkme.errors import ApprovalError, ConnectionFailedError, FedkmeError
from fedkme.ledgers.data_files import DataFiles, units_of
from fedkme.ops.archiver import Archiver
from fedkme.ops.collector import traced
from fedkme.ops.supervision import StatusReporter, to_the_end, while_stored
from fedkme.ops.threads import AdaptiveThreads
from fedkme.ops.traces import Public, Tracer
from fedkme.pki.expiry import Expiry, expiries, told_daily
from fedkme.pki.revocation import Revocation
from fedkme.protocol import Invitation, SumTerms
from fedkme.secagg.messages import Delivery
from fedkme.store import Store, open_store
from fedkme.sums.disclosures import NO_PROMISE
from fedkme.tables.conversion import NOT_LISTED
from fedkme.tables.files import load_rows
from fedkme.tables.schema import load_schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.dial import OwnIdentity, own_identity
from fedkme.wire.directives import answer_to_wire, directive_from_wire, hello_to_wire
from fedkme.wire.retry import CuratorCalls, curator_calls
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc
from fedkme.wire.v1.types_pb2 import VersionRange
from owner.consent.history import archive_runs, files_of_runs
from owner.consent.policy import check_columns
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import OwnerSettings

if TYPE_CHECKING:
    from owner.metrics import OwnerMetrics


Answering = Callable[[Directive], Answer | None]


@dataclass(slots=True)
class _ReleaseLog:
    """A release that this owner takes part in: its epsilon, and the questions answered so far."""

    epsilon: float
    answered: set[int] = field(default_factory=set)


class ReleaseLines:
    """Logs each event of a release once; the gate logs why a release is refused."""

    def __init__(self, say: Callable[..., None], delta: float) -> None:
        """Log through `say`, from any thread, with epsilons at `delta`."""
        self._say = say
        self._delta = delta
        self._runs: dict[str, _ReleaseLog] = {}
        self._refused: set[str] = set()

    def answer(self, answering: Answering, directive: Directive) -> Answer | None:
        """Answer a directive, and log the outcome before the answer leaves."""
        answer = answering(directive)
        match directive.body, answer:
            case Dismiss(), _:
                self._over(directive.run)
            case Invitation(terms=SumTerms(ahead=None)) as invitation, Accepted() | Refusal():
                self._note_invitation(invitation, answer)
            case body, WordVector(words) if (log_entry := self._runs.get(directive.run)) is not None:
                if directive.round not in log_entry.answered:
                    log_entry.answered.add(directive.round)
                    how = "masked" if isinstance(body, Delivery) else "plain"
                    self._say("sent", run=directive.run, round=directive.round, numbers=len(words), sums=how)
        return answer

    def welcome(self, runs: Collection[str]) -> None:
        """End all runs but those in which the curator still has this owner."""
        for run in (self._runs.keys() | self._refused) - set(runs):
            self._over(run)

    def _note_invitation(self, invitation: Invitation, answer: Accepted | Refusal) -> None:
        run, accepted = invitation.run, isinstance(answer, Accepted)
        if run in self._runs or (run in self._refused and not accepted):
            return  # the invitation came again: a connection broke, or the run waits for approval
        from fedkme.privacy.accountants import Sound  # an owner of summaries alone never loads it

        epsilon = Sound().epsilon(invitation.planned or NO_PROMISE, self._delta).epsilon
        if accepted:
            self._runs[run] = _ReleaseLog(epsilon)
        else:
            self._refused.add(run)
        self._say(
            "release",
            run=run,
            round=0,
            consumer=invitation.consumer,
            method=invitation.protocol,
            secure=invitation.security is not None,
            colluders=None if invitation.security is None else invitation.security.colluders,
            epsilon=epsilon,
            delta=self._delta,
            answer="accepted" if accepted else "refused",
            rows=answer.rows if isinstance(answer, Accepted) else None,
        )

    def _over(self, run: str) -> None:
        self._refused.discard(run)
        if (log_entry := self._runs.pop(run, None)) is not None:
            cost = log_entry.epsilon if log_entry.answered else 0.0
            self._say("over", run=run, round=0, sums=len(log_entry.answered), epsilon=cost, delta=self._delta)


Stream = grpc.aio.StreamStreamCall[pb.OwnerMessage, pb.Directive]
Answered = Callable[[Directive, Answer | None, int, int, int], None]
"""Callback for each exchange, once the answer is sent: directive, answer, bytes received, bytes sent, and
when the directive came (nanoseconds since 1970)."""


def ignore_exchange(directive: Directive, answer: Answer | None, received: int, sent: int, at: int) -> None:
    """Count nothing; the default callback."""


async def attend(
    channel: grpc.aio.Channel,
    address: str,
    name: str,
    instance: bytes,
    runs: RunManager,
    welcomed: Callable[[int], None],
    answered: Answered = ignore_exchange,
    new_journal: bool = False,
    lines: ReleaseLines | None = None,
) -> None:
    """Serve a stream until the curator's farewell; `welcomed` gets this process's number when it is let in.

    `lines` logs what happens in releases.

    Raises:
        ConnectionFailedError: the stream broke.
        FedkmeError: the curator refused this owner, in its own words.
    """
    stream = owners_pb2_grpc.OwnersStub(channel).Attend()
    is_welcome, threads = False, AdaptiveThreads()
    answer = runs.answer if lines is None else partial(lines.answer, runs.answer)
    newest = codecs.VERSIONS.newest
    hello = Hello(name, newest, instance, runs.rows, runs.head(), new_journal, runs.schema)
    await stream.write(hello_to_wire(hello))
    while isinstance(message := await stream.read(), pb.Directive):
        match message.WhichOneof("body"):
            case "fault":
                raise codecs.fault_from_wire(message.fault)
            case "welcome" if is_welcome:
                continue  # a second welcome could leave out runs that began after the first
            case "welcome":
                is_welcome = True
                welcome = message.welcome
                spoken = VersionRange(oldest=welcome.version, newest=welcome.version)
                codecs.common_version(spoken, "the curator")
                runs.welcome(welcome.runs)
                if lines is not None:
                    lines.welcome(welcome.runs)
                welcomed(welcome.epoch)
            case "farewell":
                return
            case _:
                directive = directive_from_wire(message)
                answering = _respond(stream, directive, message.ByteSize(), runs, answer, threads, answered)
                await (answering if threads.quick(directive.question) else to_the_end(answering))
    raise ConnectionFailedError(f"{address} closed the connection", "Look at the curator's last lines.")


async def _respond(
    stream: Stream,
    directive: Directive,
    received: int,
    runs: RunManager,
    answering: Answering,
    threads: AdaptiveThreads,
    answered: Answered,
) -> None:
    """Compute an answer, in a thread unless the answer is quick, and send it."""
    began, at = time.perf_counter(), time.time_ns()
    answer = await threads.compute(directive.question, answering, directive)
    replies = () if answer is None else answer_to_wire(answer, directive)
    if wait_s := runs.wait_s(directive, time.perf_counter() - began):
        await asyncio.sleep(wait_s)
    for reply in replies:
        await stream.write(reply)
    answered(directive, answer, received, sum([reply.ByteSize() for reply in replies]), at)


async def join(
    settings: OwnerSettings,
    reporter: StatusReporter,
    make: type[RunManager] = RunManager,
    new_journal: bool = False,
) -> None:
    """Load the rows, dial the curator, serve its runs; dial again when the connection breaks.

    With `new_journal` the owner joins although the curator knows it with another journal.
    """
    schema = load_schema(settings.schema_file)
    check_columns(settings.name, settings.policy, schema)
    loaded = load_rows(settings.data, schema, settings.name, of_persons=True)
    table = loaded.table
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        unapproved = set[str]()

        def refused(run: str, error: FedkmeError) -> None:
            if isinstance(error, ApprovalError):
                if run in unapproved:
                    return  # the curator asks again and again until the run is approved
                unapproved.add(run)
            reporter.say("refused", run=run, round=0, code=error.code, cause=error.cause, remedy=error.remedy)

        reporter.say("loaded", rows=len(table))
        for line in DataFiles(store).take(units_of(loaded, schema), files_of_runs(store)):
            reporter.say("warning", line=line)
        _report_reading(table, reporter)
        address = await reporter.hear() if settings.curator == "-" else settings.curator
        settings.check_address(address)
        own = own_identity(settings.identity, reporter)
        revocation = _revocation(settings, own)

        def must_be_renewed() -> list[Expiry]:
            return expiries(None if own is None else own.current(), revocation)

        with contextlib.ExitStack() as open_now:
            open_now.enter_context(told_daily(reporter.say, must_be_renewed))
            metrics, timed_store = None, store
            if settings.metrics is not None:
                from fedkme.ops.metrics import Expiries
                from owner.metrics import export

                metrics, timed_store = open_now.enter_context(
                    export(settings, store, lambda: runs.rows_sent, reporter)
                )
                metrics.registry.register(Expiries(must_be_renewed))

            def left_out(run: str, reason: FedkmeError) -> None:
                if metrics is not None:
                    metrics.left_out(reason.code)
                reporter.say(
                    "left_out", run=run, round=0, code=reason.code, cause=reason.cause, remedy=reason.remedy
                )

            party = OwnerParty(
                name=settings.name,
                table=table,
                schema=schema,
                store=timed_store,
                noise_for=settings.noise_for(settings.name),
                policy=settings.policy,
                approvals=settings.approvals,
                identity=lambda: None if own is None else own.current(),
                revoked=None if revocation is None else revocation.check,
                refused=refused,
                left_out=left_out,
            )
            runs = make(party, address)
            calls = curator_calls(settings, address, own, reporter)
            traces = open_now.enter_context(traced(settings, settings.name, reporter.say))
            serving = _serve(settings, calls, runs, timed_store, reporter, metrics, traces, new_journal)
            await while_stored(store, settings.journal, serving)
        reporter.say("left", rows_sent=runs.rows_sent)


def _report_reading(table: Table, reporter: StatusReporter) -> None:
    """Log the columns that are left out and the cells that reading changed, by their number alone."""
    if table.reading is None:
        return
    if left_out := table.reading.left_out:
        reporter.say("left_out", columns=", ".join(left_out))
    for change in table.reading.changes:
        event = "unlisted" if change.what.startswith(NOT_LISTED) else "changed"
        reporter.say(event, column=change.column, cells=change.cells, what=change.what)


def _revocation(settings: OwnerSettings, own: OwnIdentity | None) -> Revocation | None:
    """The list of other owners' revoked certificates, if the settings name one."""
    if own is None or settings.revoked is None:
        return None
    return Revocation(settings.revoked, own.current().authority)


async def _serve(
    settings: OwnerSettings,
    calls: CuratorCalls,
    runs: RunManager,
    store: Store,
    reporter: StatusReporter,
    metrics: OwnerMetrics | None,
    traces: Tracer,
    new_journal: bool,
) -> None:
    """Serve one stream after another, until the curator says farewell or refuses this process.

    Raises:
        FedkmeError: see `attend`.
    """
    name = settings.name
    archiver = Archiver(partial(archive_runs, name, store), reporter.say)
    archiver.begin(store)
    instance = secrets.token_bytes(16)
    dialled: int | None = time.time_ns()

    def welcomed(epoch: int) -> None:
        nonlocal dialled
        calls.absence.over()
        if dialled is not None:
            traces.phase("join", dialled, Public(owner=name))
            dialled = None
        reporter.say("joined", curator=calls.address, epoch=epoch)
        reporter.ready()
        if metrics is not None:
            metrics.stream.set(1)

    count = ignore_exchange if metrics is None else metrics.answered

    def answered(directive: Directive, answer: Answer | None, received: int, sent: int, at: int) -> None:
        count(directive, answer, received, sent, at)
        if directive.question != Dismiss.question:
            traces.answered(at, name, directive, answer.code if isinstance(answer, Refusal) else 0)
        if isinstance(directive.body, Dismiss):
            archiver.go_on()

    lines = ReleaseLines(reporter.say, settings.policy.delta)

    async def call(channel: grpc.aio.Channel) -> None:
        try:
            await attend(channel, calls.address, name, instance, runs, welcomed, answered, new_journal, lines)
        finally:
            if metrics is not None:
                metrics.stream.set(0)

    with contextlib.closing(archiver):
        await calls.until_done(call)
