"""The whole curator: its runs and the services of its one port.

The curator is the same on a host and in a simulation; only its context and the server that carries it differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import grpc.aio

from curator.access.certificates import CertificateCheck
from curator.access.names import NameRegister
from curator.consumers.admission import ConsumerAdmission
from curator.consumers.release_service import ReleaseService
from curator.consumers.summary_service import SummaryService
from curator.owners.members import Members, next_epoch
from curator.owners.owner_service import OwnerService
from curator.runs.context import RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue
from curator.settings import CuratorSettings
from fedkme.store import Store
from fedkme.wire.v1 import owners_pb2_grpc, releases_pb2_grpc, summaries_pb2_grpc


class CuratorParty:
    """A curator's runs, and the services that answer owners and consumers.

    Attributes:
        runs: all runs of the curator.
        calls: open calls of consumers.
    """

    def __init__(self, context: RunContext, members: Members, admission: CertificateCheck) -> None:
        """Take up the runs that an earlier process left open, without starting any run."""
        settings = context.settings
        lifecycle = Lifecycle(context)
        self.runs = RunQueue(context.store, lifecycle.carry_out, settings.runs_at_once)
        self.runs.settle = lifecycle.settle
        for run in self.runs.left_open():
            members.enlist(run.name, run.document.owners)
        names = NameRegister(settings.owners, settings.consumers)
        self.calls = ConsumerAdmission(settings, self.runs, names, context.say, admission)
        self._agreement = lifecycle.cells.agreement
        self._agreed_on = self._agreement.take_up(self.runs.waiting())
        preparation = Preparation(lifecycle, self.runs)
        self._summaries = SummaryService(context, preparation, self.runs, self.calls)
        self._releases = ReleaseService(context, preparation, self.runs, self.calls)
        self._owners = OwnerService(
            members, names, settings.connect_s, admission, context.say, lifecycle.heads.admit
        )

    def serve_on(self, server: grpc.aio.Server) -> None:
        """Add the services to a server that has not started."""
        owners_pb2_grpc.add_OwnersServicer_to_server(self._owners, server)
        summaries_pb2_grpc.add_SummariesServicer_to_server(self._summaries, server)
        releases_pb2_grpc.add_ReleasesServicer_to_server(self._releases, server)

    def start(self) -> None:
        """Start the runs that may start, and continue those left open."""
        self.runs.start()
        self._agreement.resume(self._agreed_on)

    async def suspend(self) -> None:
        """Suspend all runs under way; they continue when the curator starts again."""
        await self.runs.suspend()
        await self._agreement.suspend()


def expected_members(settings: CuratorSettings, store: Store, say: Callable[..., None]) -> Members:
    """Register of the owners that the settings expect; the store counts their processes."""
    times = settings.progress_s, settings.grace_s
    return Members(settings.owners, *times, partial(next_epoch, store), say, settings.approval_s)
