"""The curator's services without a network: what gRPC would hand them comes from a list."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from curator.consumers.admission import ConsumerAdmission
from curator.consumers.summary_service import SummaryService
from curator.owners.connection import OwnerConnection
from curator.owners.members import Members
from curator.owners.owner_service import OwnerService
from curator.peers import NameRegister
from curator.runs.context import RecordFolder, RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue
from curator.settings import CuratorSettings
from fedkme.privacy.events import CURATOR
from fedkme.store import open_store
from fedkme.tables.table import Table
from fedkme.wire.v1 import owners_pb2 as pb
from tests.system.market import SCHEMA, curator_settings


class Call:
    """One call, as a servicer sees it: the caller says what is in the list and then hangs up."""

    def __init__(self, said: Iterable[Any], waits: bool = False) -> None:
        self._said = iter(said)
        self._waits = waits
        self.heard: list[Any] = []
        self.status: grpc.StatusCode | None = None

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def read(self) -> Any:
        await asyncio.sleep(0)
        message = next(self._said, grpc.aio.EOF)
        if message is None:
            raise DecodeError
        if message is grpc.aio.EOF and self._waits:
            await asyncio.get_running_loop().create_future()
        return message

    async def write(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.heard.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.status = code
        raise grpc.aio.AbortError(details)


class Willing:
    """An owner that says it will take part in any run, and then has no rows for it."""

    def __init__(self, connection: OwnerConnection) -> None:
        self._connection = connection

    async def write(self, directive: pb.Directive) -> None:
        rows = 1000 if directive.WhichOneof("body") == "consider" else 0
        said = pb.OwnerMessage(at=directive.at, accepted=pb.Accepted(rows=rows))
        asyncio.get_running_loop().call_soon(self._connection.deliver, self, said)

    def cut(self) -> None:
        """Stay."""


class Services:
    """A curator's, over a store in memory."""

    def __init__(self, settings: CuratorSettings, store: Any, seeds: Table | None = None) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.store = store
        self.members = Members(settings.owners, settings.progress_s, settings.grace_s, say=self.say)
        context = RunContext(
            settings,
            SCHEMA,
            seeds,
            self.members,
            store,
            settings.noise_for(CURATOR),
            self.say,
            RecordFolder(settings.directory),
        )
        lifecycle = Lifecycle(context)
        self.runs = RunQueue(store, lifecycle.carry_out, settings.runs_at_once)
        self.runs.settle = lifecycle.settle
        names = NameRegister(settings.owners)
        admission = ConsumerAdmission(settings, self.runs, names, self.say)
        preparation = Preparation(lifecycle, self.runs)
        self.summaries: Any = SummaryService(context, preparation, self.runs, admission)
        self.owners: Any = OwnerService(self.members, names, settings.connect_s, say=self.say)

    def say(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))


@contextlib.asynccontextmanager
async def services(folder: Path, seeds: Table | None = None, **changes: Any) -> AsyncIterator[Services]:
    """The services of a curator that waits for nobody; where it expects no owner, a willing one is here."""
    settings = curator_settings(folder, **{"connect_s": 0.01, "grace_s": 0.01, **changes})
    settings.directory.mkdir(exist_ok=True)
    with contextlib.closing(open_store(":memory:", CURATOR, "process")) as store:
        made = Services(settings, store, seeds)
        if not settings.owners:
            connection = made.members.connection("willing")
            await connection.attach(Willing(connection))
        try:
            yield made
        finally:
            await made.runs.suspend()
