"""What a consumer's call does: plan, g~, a run over the owners, the rows. The run outlives the call."""

from __future__ import annotations

import contextlib
import secrets

from curator.access.error_masking import masks_errors
from curator.cells.agreement import Agreement
from curator.consumers.admission import ConsumerAdmission, OpenCall
from curator.consumers.call import ConsumerCall, Context
from curator.runs.public_draws import draw_features, public_seed
from curator.runs.queue import Run, RunQueue, kind_of, next_run
from curator.runs.record_files import read_outcome
from curator.runs.secret_draws import check_secret_draw
from curator.runs.summary_run import SummaryRun
from fedkme.cells.codebook import code_book_from_json
from fedkme.embeddings.kernels import median_gamma
from fedkme.errors import (
    CancelledRunError,
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    ProtocolError,
    SchemaError,
    StoreError,
)
from fedkme.privacy.budget import check_owners
from fedkme.privacy.ledger import disclosures_in
from fedkme.tables.row import Row
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.rows import any_rows_to_wire
from fedkme.wire.sealed import gifts_from_wire
from fedkme.wire.v1 import journals_pb2, summaries_pb2_grpc
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1.types_pb2 import Rows

MOST_VALIDATION = 2**26
"""Bytes of D_v, where it comes itself."""


class SummaryService(summaries_pb2_grpc.SummariesServicer):
    """Serves consumers; each sees its own runs alone."""

    def __init__(
        self,
        conductor: SummaryRun,
        runs: RunQueue,
        reception: ConsumerAdmission,
        agreement: Agreement | None = None,
    ) -> None:
        self._conductor = conductor
        self._agreement = agreement or Agreement(
            conductor.settings,
            conductor.schema,
            conductor.seeds,
            conductor.members,
            conductor.store,
            conductor.ledger,
            conductor.noise_for,
            conductor.say,
        )
        self._settings = conductor.settings
        self._schema = conductor.schema
        self._runs = runs
        self._reception = reception

    @masks_errors
    async def Summarize(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """One call: a new run, or one that was asked for before."""
        async with self._reception.call(context) as call:
            try:
                await self._reception.while_admitted(context, self._talk(call))
            except FedkmeError as error:
                self._reception.refused(error, call.run)
                with contextlib.suppress(ConnectionFailedError):
                    await call.line.tell(pb.CuratorMessage(fault=codecs.fault_to_wire(error)))

    @masks_errors
    async def ListRuns(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """The caller's runs, of every kind."""
        try:
            self._reception.check(self._reception.line(context), request.name)
            if request.run:
                runs = [self._reception.own(request.name, request.run)]
            else:
                runs = self._runs.of(request.name)
            return pb.RunList(runs=[self._state(run) for run in runs])
        except FedkmeError as error:
            self._reception.refused(error)
            return pb.RunList(fault=codecs.fault_to_wire(error))

    @masks_errors
    async def CancelRun(self, request: pb.RunQuery, context: Context) -> pb.RunList:  # noqa: N802  # gRPC's name
        """End one of the caller's runs, of whatever kind."""
        try:
            self._reception.check(self._reception.line(context), request.name)
            run = self._reception.own(request.name, request.run)
            self._runs.cancel(run)
            await run.over.wait()
            return pb.RunList(runs=[self._state(run)])
        except FedkmeError as error:
            self._reception.refused(error)
            return pb.RunList(fault=codecs.fault_to_wire(error))

    async def _talk(self, call: OpenCall) -> None:
        self._reception.check_caller(call.line)
        run = call.run = await self._admit(call)
        await self._follow(call.line, run)

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

    async def _admit(self, call: OpenCall) -> Run:
        """The run that the caller means, with its g~."""
        line = call.line
        message = await line.hear("request", "attach")
        if message.HasField("attach"):
            self._reception.admit(call, message.attach.name)
            run = _summary(self._reception.own(message.attach.name, message.attach.run))
            if run.status == "asked":
                raise ConfigError(f"{run.name} waits for its g~", "Ask again with the same output folder.")
            newest = codecs.VERSIONS.newest
            plan = _plan(newest, run, offered=True)
            await line.tell(pb.CuratorMessage(plan=plan))
            return self._runs.again(run)
        request = message.request
        version = codecs.common_version(request.versions, "the consumer")
        self._reception.admit(call, request.name, request.request_id)
        before = self._runs.asked_before(request.name, request.request_id)
        run = self._open(request) if before is None else _summary(before)
        settings = self._settings.summary
        if (settings.protocol == "cells" or settings.sealed) and run.status == "asked":
            await self._agree(run)
        offered = run.status != "asked"
        plan = _plan(version, run, offered)
        await line.tell(pb.CuratorMessage(plan=plan))
        if offered:
            return self._runs.again(run)
        await self._offer(line, run)
        if run.status == "asked":  # another call of the same consumer may have been faster
            self._runs.enqueue(run)
            what = {"consumer": run.consumer, "p": run.document.request.rows}
            self._conductor.say("queued", run=run.name, round=0, **what)
        return run

    async def _agree(self, run: Run) -> None:
        """What owners have to do with the run before its plan.

        Raises:
            FedkmeError: there are none, and the run is over.
        """
        try:
            await self._agreement.agree(run)
        except StoreError:
            raise
        except FedkmeError:
            if run.status == "asked":
                self._runs.close(run, "failed")
            self._agreement.forget(run)
            raise

    def _open(self, request: pb.SummaryRequest) -> Run:
        self._reception.check_open()
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
        check_owners(settings.budget, spent, planned)

    def _gamma_from_seeds(self) -> float:
        if not len(self._conductor.seeds):
            raise ConfigError(
                "gamma is to come from the seed set and the curator has none",
                "Give gamma as a number or 'median-validation', or give the curator 'seeds'.",
            )
        return median_gamma(self._conductor.seeds)

    async def _offer(self, line: ConsumerCall, run: Run) -> None:
        """g~, or the rows of D_v, and what the consumer declares about them, into the run's document."""
        document = run.document
        most, size = document.request.validation_rows, 0
        by_cells = document.HasField("cells")
        message = await line.hear("histogram" if by_cells else "target", "validation")
        codecs.disclosures_from_wire(message.disclosures, codecs.MOST_DECLARED)
        declared, gifts = list(message.disclosures), list(message.gifts)
        if document.secret_draw:
            check_secret_draw(document, self._schema, message)
        else:
            gifts_from_wire(gifts)
        if message.HasField("target"):
            codecs.mean_from_wire(message.target, document.features.dimension)
            if run.status == "asked":  # else another call of the same consumer was faster
                document.target.CopyFrom(message.target)
        elif message.HasField("histogram"):
            book = code_book_from_json(codecs.code_book_from_wire(document.cells), self._schema)
            codecs.histogram_from_wire(message.histogram, book.cells)
            if run.status == "asked":
                document.histogram.CopyFrom(message.histogram)
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
            del document.gifts[:]
            document.gifts.extend(gifts if document.hashed else ())
            if document.secret_draw:
                document.reference = message.reference

    async def _follow(self, line: ConsumerCall, run: Run) -> None:
        """Pass on progress, then the rows and how the run ended."""
        async for progress in run.follow():
            if isinstance(progress, pb.Progress):
                await line.tell(pb.CuratorMessage(progress=progress))
        await run.over.wait()
        if run.error is not None:
            raise run.error
        if run.status in ("cancelled", "failed") and not (self._settings.directory / run.name).exists():
            cause = f"{run.name} was cancelled, or failed, before it began"
            raise CancelledRunError(cause, "Ask again for another run.")
        outcome = read_outcome(self._settings.directory / run.name)
        if run.status == "failed" and outcome.fault is not None:
            raise outcome.fault
        for part in any_rows_to_wire(outcome.sealed or _rows(outcome.table)):
            await line.tell(pb.CuratorMessage(summary=part))
        ended = pb.Outcome(
            status=pb.Outcome.STATUS_COMPLETE if outcome.complete else pb.Outcome.STATUS_STOPPED,
            reason=outcome.reason,
            rounds=outcome.rounds,
            points_accessed=outcome.points_accessed,
            prune=outcome.prune,
        )
        await line.tell(pb.CuratorMessage(outcome=ended))


def _plan(version: int, run: Run, offered: bool) -> pb.Plan:
    """What a consumer needs to offer g~ or a histogram, and to know what comes."""
    document = run.document
    plan = pb.Plan(version=version, run=run.name, features=document.features, offered=offered)
    if document.HasField("cells"):
        plan.cells.CopyFrom(document.cells)
    plan.hashed, plan.secret_draw = document.hashed, document.secret_draw
    plan.offers.extend(document.offers)
    return plan


def _summary(run: Run) -> Run:
    """A run that is one of a summary.

    Raises:
        ConfigError: it is a release.
    """
    if run.is_release:
        raise ConfigError(f"{run.name} is a release", "Follow it with `fedkme consumer release --attach`.")
    return run


def _rows(table: Table | None) -> list[Row]:
    """The summary without names of owners: tokens are places in it."""
    if table is None:
        return []
    labels = [None] * len(table) if table.labels is None else table.labels.tolist()
    return [Row(index, values, labels[index]) for index, values in enumerate(table.values)]
