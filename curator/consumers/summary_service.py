"""Service for a consumer's call for a summary: plan, offer, run, rows; the run outlives the call."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from curator.consumers.admission import ConsumerAdmission, OpenCall
from curator.consumers.stream import ConsumerStream, Context
from curator.peers import masks_errors
from curator.run.run import Run
from curator.run.summary_record import read_outcome
from curator.runs.context import RunContext
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue, kind_of
from fedkme.errors import ConfigError, ConnectionFailedError, FedkmeError, ProtocolError
from fedkme.exchange import Offer, Plan, RoundProgress, StageProgress
from fedkme.tables.table import Row, Table
from fedkme.wire import codecs, summaries
from fedkme.wire.releases import STAGE
from fedkme.wire.rows import any_rows_to_wire
from fedkme.wire.sealed import HEAD
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc

MOST_VALIDATION = 2**26
"""Most bytes of D_v, where the consumer sends D_v itself."""


class SummaryService(summaries_pb2_grpc.SummariesServicer):
    """Serves summaries to consumers; each consumer sees its own runs alone."""

    def __init__(
        self, context: RunContext, preparation: Preparation, runs: RunQueue, admission: ConsumerAdmission
    ) -> None:
        self._directory = context.settings.directory
        self._columns = context.schema.width
        self._preparation = preparation
        self._runs = runs
        self._admission = admission
        # One part of any D_v is decoded at a time, so that the event loop keeps half of the time.
        self._decoding = asyncio.Lock()
        self._settings = context.settings
        self._coming: Counter[str] = Counter()  # numbers of D_v that are being received, by consumer

    @masks_errors
    async def Summarize(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """Serve one call, about a new run or a run that was asked for before."""
        async with self._admission.call(context) as call:
            try:
                await self._admission.while_admitted(context, self._talk(call))
            except FedkmeError as error:
                fault = self._admission.refused(error, call.name, call.run)
                with contextlib.suppress(ConnectionFailedError):
                    await call.stream.tell(pb.CuratorMessage(fault=codecs.fault_to_wire(fault)))

    @masks_errors
    async def ListRuns(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """List the caller's runs, of every kind."""
        try:
            self._admission.check(self._admission.stream(context), request.name)
            if request.run:
                runs = [self._admission.own(request.name, request.run)]
            else:
                runs = self._runs.of(request.name)
            return pb.RunList(runs=[self._state(run) for run in runs])
        except FedkmeError as error:
            return pb.RunList(fault=codecs.fault_to_wire(self._admission.refused(error, None)))

    @masks_errors
    async def CancelRun(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """End one of the caller's runs, of any kind."""
        try:
            self._admission.check(self._admission.stream(context), request.name)
            run = self._runs.cancel(self._admission.own(request.name, request.run))
            await run.over.wait()
            return pb.RunList(runs=[self._state(run)])
        except FedkmeError as error:
            return pb.RunList(fault=codecs.fault_to_wire(self._admission.refused(error, None)))

    def _state(self, run: Run) -> pb.RunState:
        return pb.RunState(
            run=run.name,
            status=run.status,
            rows=run.rows,
            selected=run.selected,
            opened=run.opened,
            ahead=self._runs.ahead(run),
            kind=kind_of(run.document),
        )

    async def _talk(self, call: OpenCall) -> None:
        self._admission.check_caller(call.stream)
        message = await call.stream.hear("request", "attach")
        attached = message.HasField("attach")
        run = await (
            self._attached_run(call, message.attach)
            if attached
            else self._requested_run(call, message.request)
        )
        call.run = self._runs.again(run)
        await self._follow(call.stream, call.run)

    async def _attached_run(self, call: OpenCall, query: pb.RunQuery) -> Run:
        """Find the run that the caller asked for before."""
        self._admission.admit(call, query.name)
        run = _summary(self._admission.own(query.name, query.run))
        if run.status == "asked":
            cause = f"{run.name} waits for its consumer's offer"
            raise ConfigError(cause, "Ask again with the same output folder.")
        await self._tell_plan(call.stream, await self._preparation.plan_of(run), codecs.VERSIONS.newest)
        return run

    async def _requested_run(self, call: OpenCall, message: pb.SummaryRequest) -> Run:
        """Open the run of a request, or find it, and receive the consumer's offer for it."""
        version = codecs.common_version(message.versions, "the consumer")
        self._admission.admit(call, message.name, message.request_id)
        found = self._runs.asked_before(message.name, message.request_id)
        if found is None:
            self._admission.check_open()
            request = summaries.request_from_wire(message)
            self._runs.give_up(request.consumer, request.replaces)
            found = self._preparation.open_summary(request)
        run = call.run = _summary(found)
        plan = await self._planned(call.stream, run, message.stages)
        await self._tell_plan(call.stream, plan, version)
        if not plan.offered:
            with contextlib.ExitStack() as room:  # reserved until the run has D_v's rows
                await self._preparation.accept(run, await self._hear_offer(call.stream, run, plan, room))
        return run

    async def _planned(self, stream: ConsumerStream, run: Run, stages: bool) -> Plan:
        """Make the plan; meanwhile tell a consumer that takes `stages` how far the owners' release is."""
        planning = asyncio.ensure_future(self._preparation.plan_of(run))
        try:
            async for progress in run.follow(planning):
                if stages and isinstance(progress, StageProgress):
                    await stream.tell(pb.CuratorMessage(stage=STAGE.to_wire(progress)))
            return await planning
        finally:
            planning.cancel()

    async def _tell_plan(self, stream: ConsumerStream, plan: Plan, version: int) -> None:
        await stream.tell(pb.CuratorMessage(plan=summaries.plan_to_wire(plan, version)))

    async def _hear_offer(
        self, stream: ConsumerStream, run: Run, plan: Plan, room: contextlib.ExitStack
    ) -> Offer:
        """Receive the consumer's offer; D_v itself comes in parts, and reserves room."""
        first = await stream.hear("target" if plan.cells is None else "histogram")
        offer = summaries.offer_from_messages([first], plan)
        if not first.with_validation:
            return offer
        rows = run.document.summary.validation_rows
        room.enter_context(self._room(run.consumer, rows * self._columns))
        return replace(offer, validation=await self._hear_rows(stream, rows))

    @contextlib.contextmanager
    def _room(self, consumer: str, values: int) -> Iterator[None]:
        """Reserve room for D_v's rows, in addition to rows that come in other calls and rows of open runs.

        Raises:
            QuotaError: see `Quota.check_values`.
        """
        held = self._coming[consumer] + sum(run.values for run in self._runs.open_of(consumer))
        self._settings.quota_of(consumer).check_values(consumer, held + values)
        self._coming[consumer] += values
        try:
            yield
        finally:
            self._coming[consumer] -= values

    async def _hear_rows(self, stream: ConsumerStream, most: int) -> NDArray[np.float64]:
        """Receive D_v's rows; a thread decodes each part into an array, so the event loop never waits."""
        parts, size, last = list[NDArray[np.float64]](), 0, False
        while not last and sum(map(len, parts)) <= most:
            message = await stream.hear("validation")
            async with self._decoding:
                part = await asyncio.to_thread(codecs.values_from_wire, message.validation, self._columns)
            parts.append(part)
            size, last = size + message.ByteSize(), message.validation.last
            if size > MOST_VALIDATION or not len(part):
                cause = f"D_v comes in empty parts, or is over {MOST_VALIDATION} bytes"
                raise ProtocolError(cause, "Leave it at home, or send fewer rows.")
        return np.concatenate(parts)

    async def _follow(self, stream: ConsumerStream, run: Run) -> None:
        """Pass on progress, then the rows and the run's outcome."""
        async for progress in run.follow():
            if isinstance(progress, RoundProgress):
                await stream.tell(pb.CuratorMessage(progress=summaries.PROGRESS.to_wire(progress)))
        await self._preparation.ended(run)
        outcome = read_outcome(self._directory / run.name)
        if run.status == "failed" and outcome.fault is not None:
            raise outcome.fault
        for part in any_rows_to_wire(outcome.sealed or _rows(outcome.table)):
            await stream.tell(pb.CuratorMessage(summary=part))
        if (head := self._preparation.head()) is not None:
            await stream.tell(pb.CuratorMessage(head=HEAD.to_wire(head)))
        await stream.tell(pb.CuratorMessage(outcome=summaries.OUTCOME.to_wire(outcome.outcome)))


def _summary(run: Run) -> Run:
    """Check that a run is a summary."""
    if run.is_release:
        raise ConfigError(f"{run.name} is a release", "Follow it with `fedkme consumer release --attach`.")
    return run


def _rows(table: Table | None) -> list[Row]:
    """Rows of a summary without names of owners: a token is the row's place in the summary."""
    if table is None:
        return []
    labels = [None] * len(table) if table.labels is None else table.labels.tolist()
    return [Row(index, values, labels[index]) for index, values in enumerate(table.values)]
