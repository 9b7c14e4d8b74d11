"""What a consumer's call does: plan, g~, a run over the owners, the rows. The run outlives the call."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine
from typing import Any

from curator.admission import Admission
from curator.conductor import Conductor
from curator.guard import guarded
from curator.line import Context, Line
from curator.names import Names
from curator.public import draw_features, public_seed
from curator.records import read_outcome
from curator.runs import Run, Runs, next_run, unknown
from fedkme.data import Table
from fedkme.errors import (
    CancelledRunError,
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    ProtocolError,
    QuotaError,
    SchemaError,
    StoppingError,
)
from fedkme.kernels import median_gamma
from fedkme.privacy.budget import check_budget
from fedkme.privacy.events import OWNERS
from fedkme.privacy.ledger import disclosures_in
from fedkme.protocol import Row
from fedkme.wire import codecs
from fedkme.wire.v1 import journals_pb2, summaries_pb2_grpc
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1.types_pb2 import Rows

MOST_CALLS = 16
"""Calls of one consumer at a time: each may hold as much of D_v as `MOST_VALIDATION` allows."""
MOST_VALIDATION = 2**26
"""Bytes of D_v, where it comes itself."""
_REQUEST_ID = 64  # bytes


class SummaryService(summaries_pb2_grpc.SummariesServicer):
    """Serves consumers; each sees its own runs alone.

    Attributes:
        served: set when the number of runs that the settings allow is done.
        stopping: whether no new runs are taken.
    """

    def __init__(
        self, conductor: Conductor, runs: Runs, names: Names, admission: Admission | None = None
    ) -> None:
        self._conductor = conductor
        self._settings = conductor.settings
        self._schema = conductor.schema
        self._runs = runs
        self._names = names
        self._admission = admission or Admission()
        self._count = 0
        self._calls: dict[asyncio.Task[None], Run | None] = {}
        self._callers: dict[asyncio.Task[None], str] = {}
        self.served = asyncio.Event()
        self.stopping = False

    async def delivered(self) -> None:
        """Wait until who follows a run that is over has its rows."""
        while calls := [call for call, run in self._calls.items() if run is not None and run.over.is_set()]:
            await asyncio.wait(calls)

    @guarded
    async def Summarize(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """One call: a new run, or one that was asked for before."""
        call = asyncio.current_task()
        assert call is not None, "gRPC serves each call in a task of its own"
        line = self._line(context)
        self._calls[call] = None
        try:
            await self._while_admitted(context, self._talk(line, call))
        except FedkmeError as error:
            self._refused(error, self._calls[call])
            with contextlib.suppress(ConnectionFailedError):
                await line.tell(pb.CuratorMessage(fault=codecs.fault_to_wire(error)))
        finally:
            run = self._calls.pop(call)
            self._callers.pop(call, None)
            if run is None or not run.open:
                self._count += 1
            if self._settings.runs is not None and self._count >= self._settings.runs:
                self.served.set()

    @guarded
    async def ListRuns(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """The caller's runs."""
        try:
            self._check(self._line(context), request.name)
            runs = [self._own(request)] if request.run else self._runs.of(request.name)
            return pb.RunList(runs=[self._state(run) for run in runs])
        except FedkmeError as error:
            self._refused(error)
            return pb.RunList(fault=codecs.fault_to_wire(error))

    @guarded
    async def CancelRun(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """End one of the caller's runs."""
        try:
            self._check(self._line(context), request.name)
            run = self._own(request)
            self._runs.cancel(run)
            await run.over.wait()
            return pb.RunList(runs=[self._state(run)])
        except FedkmeError as error:
            self._refused(error)
            return pb.RunList(fault=codecs.fault_to_wire(error))

    def _line(self, context: Context) -> Line:
        return Line(context, self._settings.progress_s, self._admission)

    def _refused(self, error: FedkmeError, run: Run | None = None) -> None:
        where = {} if run is None else {"run": run.name, "round": run.selected}
        self._conductor.say("refused", **where, code=error.code, cause=error.cause, remedy=error.remedy)

    async def _talk(self, line: Line, call: asyncio.Task[None]) -> None:
        line.check_caller(self._settings.consumers, self._settings.owners)
        run = self._calls[call] = await self._admit(line, call)
        await self._follow(line, run)

    async def _while_admitted(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        """Do it to the end, or until the caller's certificate is revoked.

        Raises:
            IdentityError: it was.
        """
        task = asyncio.ensure_future(work)
        fault: FedkmeError | None = None

        async def end(error: FedkmeError) -> None:
            nonlocal fault
            fault = error
            task.cancel()

        with self._admission.session(context, end):
            try:
                await task
            except asyncio.CancelledError:
                if fault is None:
                    raise
                raise fault from None

    def _check(self, line: Line, name: str) -> None:
        line.check_caller(self._settings.consumers, self._settings.owners)
        line.check_name(name, self._settings.consumers)
        self._names.admit_consumer(name)

    def _count_call(self, call: asyncio.Task[None], name: str) -> None:
        """Note whose call it is.

        Raises:
            QuotaError: it has too many.
        """
        if sum(caller == name for caller in self._callers.values()) >= MOST_CALLS:
            raise QuotaError(f"{name} has {MOST_CALLS} calls open already", "End one of them.")
        self._callers[call] = name

    def _own(self, query: pb.RunQuery) -> Run:
        run = self._runs.find(query.run)
        if run is None or run.consumer != query.name:
            raise unknown(query.run)
        return run

    def _state(self, run: Run) -> pb.RunState:
        return pb.RunState(
            run=run.name,
            status=run.status,
            rows=run.document.request.rows,
            selected=run.selected,
            opened=run.opened,
            ahead=self._runs.ahead(run),
        )

    async def _admit(self, line: Line, call: asyncio.Task[None]) -> Run:
        """The run that the caller means, with its g~."""
        message = await line.hear("request", "attach")
        if message.HasField("attach"):
            self._check(line, message.attach.name)
            self._count_call(call, message.attach.name)
            run = self._own(message.attach)
            if run.status == "asked":
                raise ConfigError(f"{run.name} waits for its g~", "Ask again with the same output folder.")
            newest = codecs.VERSIONS.newest
            plan = pb.Plan(version=newest, run=run.name, features=run.document.features, offered=True)
            await line.tell(pb.CuratorMessage(plan=plan))
            return self._runs.again(run)
        request = message.request
        version = codecs.common_version(request.versions, "the consumer")
        self._check(line, request.name)
        self._count_call(call, request.name)
        if len(request.request_id) > _REQUEST_ID:
            raise ProtocolError("a request has an odd id", "Install the same release of fedkme.")
        run = self._runs.asked_before(request.name, request.request_id) or self._open(request)
        offered = run.status != "asked"
        plan = pb.Plan(version=version, run=run.name, features=run.document.features, offered=offered)
        await line.tell(pb.CuratorMessage(plan=plan))
        if offered:
            return self._runs.again(run)
        await self._offer(line, run)
        if run.status == "asked":  # another call of the same consumer may have been faster
            self._runs.enqueue(run)
            what = {"consumer": run.consumer, "p": run.document.request.rows}
            self._conductor.say("queued", run=run.name, round=0, **what)
        return run

    def _open(self, request: pb.SummaryRequest) -> Run:
        if self.stopping:
            raise StoppingError("the curator is being stopped and takes no new runs", "Ask again later.")
        if request.schema_digest != self._schema.digest():
            raise SchemaError(
                "consumer and curator hold different schemas", "Give both the same schema file."
            )
        if request.rows < 1 or request.WhichOneof("kernel") is None:
            raise ProtocolError("a request has no rows or no kernel", "Install the same release of fedkme.")
        self._settings.quota_of(request.name).check(request.name, request.rows, self._runs.of(request.name))
        self._check_budget(request.rows)
        seed = self._settings.simulation_seed
        features = draw_features(
            self._settings.summary.features,
            request.gamma if request.HasField("gamma") else self._gamma_from_seeds(),
            self._schema.encoded_width,
            public_seed(seed),
        )
        document = journals_pb2.RunDocument(
            consumer=request.name, request=request, features=codecs.features_to_wire(features)
        )
        name = next_run(self._conductor.store, seed is not None, lambda: secrets.token_hex(4))
        return self._runs.ask(name, document)

    def _check_budget(self, rows: int) -> None:
        """Refuse a run that owners' rows cannot pay for, with all that are open, before anything is computed.

        Raises:
            BudgetError: they cannot.
        """
        settings = self._settings
        if settings.budget is None:
            return
        spent = disclosures_in(kept.line for kept in self._conductor.store.ledger())
        owners = max(len(settings.owners), 1)
        planned = [
            event
            for promised in (*self._runs.promised(), rows)
            for event in settings.summary.between_owners(promised, owners)
        ]
        check_budget(settings.budget, OWNERS, OWNERS, spent, planned)

    def _gamma_from_seeds(self) -> float:
        if not len(self._conductor.seeds):
            raise ConfigError(
                "gamma is to come from the seed set and the curator has none",
                "Give gamma as a number or 'median-validation', or give the curator 'seeds'.",
            )
        return median_gamma(self._conductor.seeds)

    async def _offer(self, line: Line, run: Run) -> None:
        """g~, or the rows of D_v, and what the consumer declares about them, into the run's document."""
        document = run.document
        most, size = document.request.validation_rows, 0
        message = await line.hear("target", "validation")
        codecs.disclosures_from_wire(message.disclosures, codecs.MOST_DECLARED)
        declared = list(message.disclosures)
        if message.HasField("target"):
            codecs.mean_from_wire(message.target, document.features.dimension)
            if run.status == "asked":  # else another call of the same consumer was faster
                document.target.CopyFrom(message.target)
        else:
            parts, count = [message.validation], len(message.validation.rows)
            while not message.validation.last and count <= most:
                size += message.ByteSize()
                if size > MOST_VALIDATION or not len(message.validation.rows):
                    raise ProtocolError(
                        f"D_v comes in empty parts, or is over {MOST_VALIDATION} bytes",
                        "Send g~ in its place, or fewer rows.",
                    )
                message = await line.hear("validation")
                parts.append(message.validation)
                count += len(message.validation.rows)
            rows = codecs.rows_from_wire(parts)
            if len(rows) != most:
                raise ProtocolError(
                    "D_v has another size than the request said", "Install the same release of fedkme."
                )
            values = codecs.values_of(rows, self._schema.width)
            self._schema.check(Table(values, None), "the validation set")
            if run.status == "asked":
                document.validation.CopyFrom(
                    Rows(rows=[row for part in parts for row in part.rows], last=True)
                )
        if run.status == "asked":
            del document.disclosures[:]
            document.disclosures.extend(declared)

    async def _follow(self, line: Line, run: Run) -> None:
        """Pass on progress, then the rows and how the run ended."""
        async for progress in run.follow():
            await line.tell(pb.CuratorMessage(progress=progress))
        await run.over.wait()
        if run.error is not None:
            raise run.error
        if run.status == "cancelled" and not (self._settings.directory / run.name).exists():
            raise CancelledRunError(f"{run.name} was cancelled before it began", "Ask again for another run.")
        outcome = read_outcome(self._settings.directory / run.name)
        if run.status == "failed" and outcome.fault is not None:
            raise outcome.fault
        rows = _rows(outcome.table)
        for part in codecs.rows_to_wire(rows):
            await line.tell(pb.CuratorMessage(summary=part))
        ended = pb.Outcome(
            status=pb.Outcome.STATUS_COMPLETE if outcome.complete else pb.Outcome.STATUS_STOPPED,
            reason=outcome.reason,
            rounds=outcome.rounds,
            points_accessed=outcome.points_accessed,
        )
        await line.tell(pb.CuratorMessage(outcome=ended))


def _rows(table: Table | None) -> list[Row]:
    """The summary without names of owners: tokens are places in it."""
    if table is None:
        return []
    labels = [None] * len(table) if table.labels is None else table.labels.tolist()
    return [Row(index, values, labels[index]) for index, values in enumerate(table.values)]
