"""What a consumer's call for a release does: a run over the owners, then its files.

The run outlives the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets

from curator.access.error_masking import masks_errors
from curator.consumers.admission import ConsumerAdmission, OpenCall
from curator.consumers.call import ConsumerCall, Context
from curator.releases.method import make_method
from curator.releases.record import read_release
from curator.runs.public_draws import public_seed
from curator.runs.queue import Run, RunQueue, next_run
from curator.runs.release_run import ReleaseRun
from fedkme.errors import CancelledRunError, ConfigError, ConnectionFailedError, FedkmeError, SchemaError
from fedkme.releases.settings import settings_from_json
from fedkme.wire import codecs
from fedkme.wire.channel import CHUNK_BYTES
from fedkme.wire.v1 import journals_pb2, releases_pb2_grpc
from fedkme.wire.v1 import releases_pb2 as pb

MOST_SETTINGS = 2**22
"""Letters of a request's settings: public points of Balog's Algorithm 1 may be among them."""


class ReleaseService(releases_pb2_grpc.ReleasesServicer):
    """Serves consumers; each sees its own runs alone."""

    def __init__(self, conductor: ReleaseRun, runs: RunQueue, reception: ConsumerAdmission) -> None:
        self._conductor = conductor
        self._settings = conductor.settings
        self._schema = conductor.schema
        self._runs = runs
        self._reception = reception

    @masks_errors
    async def Release(self, request: pb.ReleaseRequest, context: Context) -> None:  # noqa: N802  # gRPC's name
        """One call: a new run, or one that was asked for before."""
        async with self._reception.call(context) as call:
            try:
                await self._reception.while_admitted(context, self._talk(call, request))
            except FedkmeError as error:
                self._reception.refused(error, call.run)
                with contextlib.suppress(ConnectionFailedError):
                    await call.line.tell(pb.ReleaseMessage(fault=codecs.fault_to_wire(error)))

    async def _talk(self, call: OpenCall, request: pb.ReleaseRequest) -> None:
        self._reception.check_caller(call.line)
        version = codecs.VERSIONS.newest
        if request.attach:
            self._reception.admit(call, request.name)
            run = _release(self._reception.own(request.name, request.attach))
        else:
            version = codecs.common_version(request.versions, "the consumer")
            self._reception.admit(call, request.name, request.request_id)
            before = self._runs.asked_before(request.name, request.request_id)
            if before is None:
                self._check(request)
                settings = await asyncio.to_thread(self._settled, request.settings)  # makes feature maps
                before = self._runs.asked_before(request.name, request.request_id)  # by a faster call
            run = self._open(request, settings) if before is None else _release(before)
        run = call.run = self._runs.again(run)
        await call.line.tell(pb.ReleaseMessage(plan=pb.ReleasePlan(version=version, run=run.name)))
        await self._follow(call.line, run)

    def _check(self, request: pb.ReleaseRequest) -> None:
        """Refuse what is no request, or one too many.

        Raises:
            FedkmeError: says why.
        """
        self._reception.check_open()
        if request.schema_digest != self._schema.digest():
            raise SchemaError(
                "consumer and curator hold different schemas", "Give both the same schema file."
            )
        if len(request.settings) > MOST_SETTINGS:
            raise ConfigError("a request's settings are too long", "Give fewer public points.")
        quota = self._settings.quota_of(request.name)
        quota.check(request.name, 0, self._runs.of(request.name))

    def _open(self, request: pb.ReleaseRequest, settings: str) -> Run:
        self._check(request)  # again: time has passed
        kept = pb.ReleaseRequest()
        kept.CopyFrom(request)
        kept.settings = settings
        seed = self._settings.simulation_seed
        name = next_run(self._conductor.store, seed is not None, lambda: secrets.token_hex(4))
        run = self._runs.ask(name, journals_pb2.RunDocument(consumer=request.name, release=kept))
        self._runs.enqueue(run)
        self._conductor.say("queued", run=run.name, round=0, consumer=run.consumer)
        return run

    def _settled(self, text: str) -> str:
        """The settings that the run is of, with every public choice made.

        Raises:
            ConfigError: they are no settings, or cost more than this curator takes part in.
        """
        settings = settings_from_json(text)
        if settings.seed is None:
            seed = public_seed(self._settings.simulation_seed) >> 1
            settings = settings.model_copy(update={"seed": seed})
        most = self._settings.release.most_epsilon
        if math.isinf(settings.epsilon):
            if self._settings.simulation_seed is None:
                raise ConfigError("a release without noise is asked for", "Only simulations make one.")
        elif most is not None and settings.epsilon > most:
            raise ConfigError(
                f"epsilon {settings.epsilon:g} is asked for and this curator's limit is {most:g}",
                "Ask for less, or agree with the curator on a larger 'most_epsilon'.",
            )
        # Refused now rather than in the queue.
        make_method(settings, self._schema, self._conductor.seeds, settings.seed or 0)
        return json.dumps(settings.model_dump(mode="json"), sort_keys=True)

    async def _follow(self, line: ConsumerCall, run: Run) -> None:
        """Pass on progress, then the files and how the run ended."""
        async for progress in run.follow():
            if isinstance(progress, pb.ReleaseProgress):
                await line.tell(pb.ReleaseMessage(progress=progress))
        await run.over.wait()
        if run.error is not None:
            raise run.error
        folder = self._settings.directory / run.name
        if run.status == "cancelled" and not folder.exists():
            raise CancelledRunError(f"{run.name} was cancelled before it began", "Ask again for another run.")
        outcome = read_release(folder)
        if outcome.fault is not None:
            raise outcome.fault
        for path in outcome.files:
            data = path.read_bytes()
            for start in range(0, max(len(data), 1), CHUNK_BYTES):
                part = data[start : start + CHUNK_BYTES]
                last = start + CHUNK_BYTES >= len(data)
                await line.tell(pb.ReleaseMessage(file=pb.FilePart(name=path.name, data=part, last=last)))
        ended = pb.ReleaseOutcome(rows=outcome.rows, owners=outcome.owners)
        await line.tell(pb.ReleaseMessage(outcome=ended))


def _release(run: Run) -> Run:
    """A run that is one of a release.

    Raises:
        ConfigError: it is a summary.
    """
    if not run.is_release:
        raise ConfigError(f"{run.name} is a summary", "Follow it with `fedkme consumer watch`.")
    return run
