"""Service for a consumer's call for a release: a run over the owners, then the release's files.

The run outlives the call.
"""

import asyncio
import contextlib

from curator.consumers.admission import ConsumerAdmission, OpenCall
from curator.consumers.stream import ConsumerStream, Context
from curator.peers import masks_errors
from curator.run.release_record import ReleaseOutcome, completed, read_release
from curator.run.run import Run
from curator.runs.context import RunContext
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue
from fedkme.errors import ConfigError, ConnectionFailedError, FedkmeError, NotMadeError
from fedkme.exchange import StageProgress
from fedkme.inputs import read_bytes
from fedkme.ops.threads import in_thread
from fedkme.wire import codecs
from fedkme.wire.channel import CHUNK_BYTES
from fedkme.wire.releases import STAGE, request_from_wire
from fedkme.wire.v1 import releases_pb2 as pb
from fedkme.wire.v1 import releases_pb2_grpc


class ReleaseService(releases_pb2_grpc.ReleasesServicer):
    """Serves releases to consumers; each consumer sees its own runs alone."""

    def __init__(
        self, context: RunContext, preparation: Preparation, runs: RunQueue, admission: ConsumerAdmission
    ) -> None:
        self._directory = context.settings.directory
        self._preparation = preparation
        self._runs = runs
        self._admission = admission
        self._completing = asyncio.Lock()

    @masks_errors
    async def Release(self, request: pb.ReleaseRequest, context: Context) -> None:  # noqa: N802  # gRPC's name
        """Serve one call, about a new run or a run that was asked for before."""
        async with self._admission.call(context) as call:
            try:
                await self._admission.while_admitted(context, self._talk(call, request))
            except FedkmeError as error:
                fault = self._admission.refused(error, call.name, call.run)
                with contextlib.suppress(ConnectionFailedError):
                    await call.stream.tell(pb.ReleaseMessage(fault=codecs.fault_to_wire(fault)))

    async def _talk(self, call: OpenCall, request: pb.ReleaseRequest) -> None:
        self._admission.check_caller(call.stream)
        version = codecs.VERSIONS.newest
        if request.attach:
            self._admission.admit(call, request.name)
            run = self._admission.own(request.name, request.attach)
        else:
            version = codecs.common_version(request.versions, "the consumer")
            self._admission.admit(call, request.name, request.request_id)
            found = self._runs.asked_before(request.name, request.request_id)
            if found is None:
                self._admission.check_open()
                found = await self._preparation.open_release(request_from_wire(request))
            run = found
        run = call.run = self._runs.again(_release(run))
        await call.stream.tell(pb.ReleaseMessage(plan=pb.ReleasePlan(version=version, run=run.name)))
        await self._follow(call.stream, run)

    async def _follow(self, stream: ConsumerStream, run: Run) -> None:
        """Pass on progress, then the files and the run's outcome.

        If the run was over when this call came, files that could not be made of its numbers are tried again.
        """
        was_over = run.over.is_set()
        async for progress in run.follow():
            if isinstance(progress, StageProgress):
                await stream.tell(pb.ReleaseMessage(progress=STAGE.to_wire(progress)))
        await self._preparation.ended(run)
        outcome = read_release(self._directory / run.name)
        if isinstance(outcome.fault, NotMadeError) and was_over:
            outcome = await self._complete(run)
        for path in outcome.files:
            data = read_bytes(path)
            for start in range(0, max(len(data), 1), CHUNK_BYTES):
                part = data[start : start + CHUNK_BYTES]
                last = start + CHUNK_BYTES >= len(data)
                await stream.tell(pb.ReleaseMessage(file=pb.FilePart(name=path.name, data=part, last=last)))
        if outcome.fault is not None:
            raise outcome.fault
        ended = pb.ReleaseOutcome(
            rows=outcome.rows,
            owners=outcome.owners,
            participation=codecs.PARTICIPATION.encode(outcome.participation),
        )
        await stream.tell(pb.ReleaseMessage(outcome=ended))

    async def _complete(self, run: Run) -> ReleaseOutcome:
        """Make the missing files of a release; one of several calls makes the files, the others read them."""
        folder = self._directory / run.name
        async with self._completing:
            if isinstance(read_release(folder).fault, NotMadeError):
                await in_thread(completed, folder, _silent)
        return read_release(folder)


def _silent(stage: str, line: str, fraction: float) -> None:
    """Report no progress."""


def _release(run: Run) -> Run:
    """Check that a run is a release."""
    if not run.is_release:
        raise ConfigError(f"{run.name} is a summary", "Follow it with `fedkme consumer watch`.")
    return run
