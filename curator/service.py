"""What a consumer's call does: plan, g~, a run over the owners, the rows."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.conduct import conduct
from curator.gate import MOST_DECLARED, Gate
from curator.line import Context, Line
from curator.public import draw_features, public_seed, reference_rows
from curator.sessions import OwnerSession, Registry
from curator.settings import CuratorSettings
from curator.store import next_run, write_run
from curator.summary.record import RoundRecord, SummaryRecord, columns
from curator.summary.roster import Fault
from curator.summary.task import SummaryTask
from fedkme.data import Table, load_table
from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    MissingOwnersError,
    ProtocolError,
    SchemaError,
)
from fedkme.features.fixed_point import MeanVector
from fedkme.features.fourier import RandomFourier
from fedkme.kernels import median_gamma
from fedkme.privacy.budget import check_budget
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure
from fedkme.privacy.ledger import open_ledger, read_ledger
from fedkme.privacy.settings import release_target
from fedkme.protocol import Row
from fedkme.schema import Schema, load_schema
from fedkme.supervision import Voice
from fedkme.wire import codecs
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc

NO_ROWS = Table(np.empty((0, 0)), None)
PROGRESS_EVERY_S = 0.1
"""Rounds take milliseconds; a person reads no faster than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What a consumer sends of D_v: g~, or, to a curator that is trusted with it, the rows."""

    target: MeanVector | None
    rows: Table
    declared: Sequence[Disclosure]

    @property
    def points(self) -> int:
        """How many rows of D_v came here."""
        return len(self.rows)


class Watcher:
    """Tells the launcher and the consumer how far a run is: now and then, and after each tenth of it."""

    def __init__(self, voice: Voice, rows: int) -> None:
        self._voice = voice
        self._tenth = math.ceil(rows / 10)
        self._next = 0.0
        self._untold: RoundRecord | None = None
        self._messages: asyncio.Queue[pb.CuratorMessage | None] = asyncio.Queue()

    def round_done(self, record: RoundRecord) -> None:
        """See `RunObserver`."""
        now = time.monotonic()
        self._untold = record
        if now >= self._next or record.round % self._tenth == 0:
            self._next = now + PROGRESS_EVERY_S
            self.tell()

    def tell(self) -> None:
        """Pass on the last round that was not."""
        record, self._untold = self._untold, None
        if record is None:
            return
        self._voice.say("round", record=columns(record))
        progress = pb.Progress(round=record.round, selected=record.round, points_accessed=record.accessed)
        self._messages.put_nowait(pb.CuratorMessage(progress=progress))

    def owner_left(self, fault: Fault) -> None:
        """See `RunObserver`."""
        self._voice.say("owner_left", owner=fault.owner, round=fault.round, line=fault.line)

    def end(self) -> None:
        """Let `pump` end when it has passed on everything."""
        self.tell()
        self._messages.put_nowait(None)

    async def pump(self, line: Line) -> None:
        """Send the consumer its progress; one that does not listen misses it."""
        with contextlib.suppress(ConnectionFailedError):
            while (message := await self._messages.get()) is not None:
                await line.tell(message)


class SummaryService(summaries_pb2_grpc.SummariesServicer):
    """Serves consumers one after another.

    Attributes:
        served: set when the number of runs that the settings allow is done.
    """

    def __init__(self, settings: CuratorSettings, registry: Registry, voice: Voice) -> None:
        self._settings = settings
        self._registry = registry
        self._voice = voice
        self._schema = load_schema(settings.schema_file)
        self._seeds = _encoded_seeds(settings, self._schema)
        self._noise_for = settings.noise_for("curator")
        self._free = asyncio.Lock()
        self._count = 0
        self.served = asyncio.Event()

    async def Summarize(self, request_iterator: object, context: Context) -> None:  # noqa: N802  # gRPC's name
        """One consumer's call."""
        async with self._free:
            line = Line(context, self._settings.progress_s)
            try:
                line.check_caller(self._settings.consumers, self._settings.owners)
                await self._serve(line)
            except FedkmeError as error:
                self._voice.say("refused", code=error.code, cause=error.cause, remedy=error.remedy)
                with contextlib.suppress(ConnectionFailedError):
                    await line.tell(pb.CuratorMessage(fault=codecs.fault_to_wire(error)))
            finally:
                self._count += 1
                if self._settings.runs is not None and self._count >= self._settings.runs:
                    self.served.set()

    async def idle(self) -> None:
        """Wait until no run is in progress."""
        async with self._free:
            pass

    async def _serve(self, line: Line) -> None:
        request = await self._request(line)
        self._check_budget(request.rows)
        run = next_run(self._settings.directory, self._settings.simulation_seed is not None)
        h1 = RandomFourier(
            draw_features(
                self._settings.summary.features,
                request.gamma if request.HasField("gamma") else self._gamma_from_seeds(),
                self._schema.encoded_width,
                public_seed(self._settings.simulation_seed),
            )
        )
        version = codecs.common_version(request.versions, "the consumer")
        plan = pb.Plan(version=version, run=run, features=codecs.features_to_wire(h1.spec))
        await line.tell(pb.CuratorMessage(plan=plan))
        offer = await self._offer(line, h1, request.validation_rows)
        folder = self._settings.directory / run
        folder.mkdir(parents=True, exist_ok=True)
        with open_ledger(CURATOR, folder / "ledger.jsonl") as ledger:
            gate = Gate(run, ledger)
            task = SummaryTask(
                run,
                request.rows,
                self._schema,
                h1,
                self._target(offer, h1, gate),
                h1.fixed_point(self._seeds),
                count_seeds=self._settings.summary.seed_set == "counted",
                reference=h1.fixed_point(reference_rows(self._schema, self._seeds, h1.spec.seed)),
            )
            record = SummaryRecord()
            sessions: list[OwnerSession] = []
            try:
                minimum = self._settings.summary.quorum
                sessions += await self._registry.gather(minimum, self._settings.connect_s)
                await self._conduct(line, task, sessions, record, gate)
            except FedkmeError as error:
                record.stop(error)
                raise
            finally:
                facts = self._facts(request, h1, sessions, offer) | {"ledger": gate.head()}
                write_run(folder, record, facts)
        await _deliver(line, record)

    async def _conduct(
        self, line: Line, task: SummaryTask, sessions: list[OwnerSession], record: SummaryRecord, gate: Gate
    ) -> None:
        watcher = Watcher(self._voice, task.rows)
        pump = asyncio.create_task(watcher.pump(line))
        self._voice.say("run", run=task.run, p=task.rows, owners=len(sessions))
        for owner in self._registry.missing():
            absent = MissingOwnersError(f"{owner} has not joined; the run begins without it", "Start it.")
            fault = Fault(0, owner, absent.code, str(absent))
            record.faults.append(fault)
            watcher.owner_left(fault)
        try:
            await conduct(task, self._settings.summary, sessions, self._noise_for, record, watcher, gate)
        finally:
            watcher.end()
            await pump
        self._voice.say("ended", status=record.status, reason=record.reason)

    async def _request(self, line: Line) -> pb.SummaryRequest:
        request = (await line.hear("request")).request
        codecs.common_version(request.versions, "the consumer")
        if request.schema_digest != self._schema.digest():
            raise SchemaError(
                "consumer and curator hold different schemas", "Give both the same schema file."
            )
        if request.rows < 1 or request.WhichOneof("kernel") is None:
            raise ProtocolError("a request has no rows or no kernel", "Install the same release of fedkme.")
        return request

    def _check_budget(self, rows: int) -> None:
        """Refuse a run that owners' rows cannot pay for, before anything is computed.

        Raises:
            BudgetError: they cannot.
        """
        settings = self._settings
        if settings.budget is None:
            return
        spent = [
            entry.disclosure
            for path in sorted(settings.directory.glob("run-*/ledger.jsonl"))
            for entry in read_ledger(path)
        ]
        planned = settings.summary.between_owners(rows, max(len(settings.owners), 1))
        check_budget(settings.budget, OWNERS, OWNERS, spent, planned)

    def _gamma_from_seeds(self) -> float:
        if not len(self._seeds):
            raise ConfigError(
                "gamma is to come from the seed set and the curator has none",
                "Give gamma as a number or 'median-validation', or give the curator 'seeds'.",
            )
        return median_gamma(self._seeds)

    async def _offer(self, line: Line, h1: RandomFourier, most: int) -> Offer:
        """g~, or `most` rows of D_v, and what the consumer declares about them."""
        message = await line.hear("target", "validation")
        declared = codecs.disclosures_from_wire(message.disclosures, MOST_DECLARED)
        if message.HasField("target"):
            return Offer(codecs.mean_from_wire(message.target, h1.spec.dimension), NO_ROWS, declared)
        rows = codecs.rows_from_wire([message.validation])
        while not message.validation.last and len(rows) <= most:
            message = await line.hear("validation")
            rows += codecs.rows_from_wire([message.validation])
        if len(rows) != most:
            raise ProtocolError(
                "D_v has another size than the request said", "Install the same release of fedkme."
            )
        table = Table(codecs.values_of(rows, self._schema.width), None)
        self._schema.check(table, "the validation set")
        return Offer(None, table, declared)

    def _target(self, offer: Offer, h1: RandomFourier, gate: Gate) -> MeanVector:
        """g~ for the owners, made here where D_v itself came."""
        if offer.target is not None:
            gate.receive_target(offer.target, offer.declared)
            return offer.target
        gate.receive_validation(offer.points, offer.declared)
        encoded = self._schema.encode(offer.rows.values)
        noise = self._noise_for("target")
        target, cost = release_target(self._settings.summary.target, h1, encoded, noise)
        gate.pass_target(target, cost)
        return target

    def _facts(
        self,
        request: pb.SummaryRequest,
        h1: RandomFourier,
        sessions: list[OwnerSession],
        offer: Offer,
    ) -> dict[str, Any]:
        return {
            "p": request.rows,
            "validation_rows": request.validation_rows,
            "validation_points": offer.points,
            "seed_rows": len(self._seeds),
            "features": asdict(h1.spec),
            "bytes": {
                "sent": sum(session.traffic.sent for session in sessions),
                "received": sum(session.traffic.received for session in sessions),
            },
        }


async def _deliver(line: Line, record: SummaryRecord) -> None:
    """The rows, without names of owners, and how the run ended."""
    rows = [Row(index, row.values, row.label) for index, row in enumerate(record.selected)]
    for part in codecs.rows_to_wire(rows):
        await line.tell(pb.CuratorMessage(summary=part))
    complete = record.status == "complete"
    outcome = pb.Outcome(
        status=pb.Outcome.STATUS_COMPLETE if complete else pb.Outcome.STATUS_STOPPED,
        reason=record.reason or "",
        rounds=len(record.rounds),
        points_accessed=len(record.accesses),
    )
    await line.tell(pb.CuratorMessage(outcome=outcome))


def _encoded_seeds(settings: CuratorSettings, schema: Schema) -> NDArray[np.float32]:
    if settings.seeds is None:
        return np.empty((0, schema.encoded_width), dtype=np.float32)
    table = load_table(settings.seeds, schema, "the seed set")
    schema.check(table, "the seed set")
    return schema.encode(table.values)
