"""A curator, owners and consumers in one event loop, over a real port; and peers that break the contract."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np

from consumer.settings import ConsumerSettings
from consumer.summary.client import run as consume
from curator.server import serve
from curator.settings import CuratorSettings
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.privacy.settings import ExactSettings
from fedkme.store import open_store
from fedkme.tables.files import save_table
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2_grpc, summaries_pb2_grpc
from fedkme.wire.v1 import summaries_pb2 as summaries_pb
from owner.agent import join
from owner.runs import RunManager
from owner.settings import OwnerSettings
from tests.parties import WAIT_S, Transcript, consumer_values, curator_values, owner_values

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=3),))
DIMENSION = 8
ASKED = {"real_rows", "target", "share", "privacy", "kernel", "picks"}


class Ear(Transcript):
    """A transcript whose events tests wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()

    def say(self, event: str, **fields: Any) -> None:
        super().say(event, **fields)
        try:
            self._loop = asyncio.get_running_loop()
            self._wake()
        except RuntimeError:  # an owner that computes in a thread
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        task = asyncio.ensure_future(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def heard(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait for an event's `count`-th time; returns what was said with it."""

        def found() -> list[dict[str, Any]]:
            return [fields for name, fields in self.said if name == event]

        async with asyncio.timeout(WAIT_S), self._more:
            await self._more.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]


def rows(count: int, seed: int, schema: Schema = SCHEMA) -> Table:
    """Rows in the unit cube; those of a class, where there are any, in a smaller one on its diagonal."""
    chance = np.random.default_rng(seed)
    values = chance.random((count, schema.width))
    if not schema.classes:
        return Table(values)
    labels = chance.integers(len(schema.classes), size=count)
    return Table((labels[:, None] + values) / len(schema.classes), labels)


class Market:
    """A curator that serves, and who may come to it."""

    def __init__(
        self, folder: Path, settings: CuratorSettings | None = None, schema: Schema = SCHEMA
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.ear = Ear()
        self.address = ""
        self.tasks: list[asyncio.Task[None]] = []
        self._settings = settings
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        """Let the curator serve, where it did before if it did; whether it does."""
        assert self._settings is not None
        if self.address:
            self._settings = self._settings.model_copy(update={"listen": self.address})
        self.ear = Ear()
        self._serving = asyncio.create_task(serve(self._settings, self.ear))
        listening = asyncio.create_task(self.ear.heard("listening"))
        await asyncio.wait((self._serving, listening), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            listening.cancel()
            return False
        self.address = listening.result()["address"]
        return True

    async def serving(self) -> None:
        """Wait for the curator's end."""
        assert self._serving is not None
        await self._serving

    async def stop(self) -> None:
        """Cancel the curator's task, as a signal does, and wait for its end."""
        if self._serving is not None:
            self._serving.cancel()
            await self._serving

    async def end(self) -> None:
        """Stop everybody; owners' ledgers lie beside their journals then."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.stop()
        for journal in self.folder.glob("*.db"):
            write_ledger(journal)

    def ended(self) -> dict[str, Any]:
        """Wait for the end of a run; returns what the curator said of the last that ended."""
        return [fields for event, fields in self.ear.said if event == "ended"][-1]

    def owner(
        self,
        name: str,
        count: int = 20,
        ear: Ear | None = None,
        make: type[RunManager] = RunManager,
        new_journal: bool = False,
        **changes: Any,
    ) -> asyncio.Task[None]:
        """Let a well-behaved owner join."""
        data = self.folder / f"{name}.npz"
        save_table(data, rows(count, len(name) + ord(name[-1]), self.schema))
        values = owner_values(self.folder, name, **{"curator": self.address, "data": data, **changes})
        self.tasks.append(asyncio.create_task(join(OwnerSettings(**values), ear or Ear(), make, new_journal)))
        return self.tasks[-1]

    def asking(self, p: int = 6, **changes: Any) -> ConsumerSettings:
        """Settings of a consumer of a summary; `changes` are of them, and of what it asks for."""
        request = {"p": p, **{key: changes.pop(key) for key in ASKED & changes.keys()}}
        own: dict[str, Any] = {
            "curator": self.address,
            "validation": self.folder / "validation.npz",
            "request": request,
        }
        return ConsumerSettings(**consumer_values(self.folder, **own | changes))

    def consumer(self, p: int = 6, ear: Ear | None = None, **changes: Any) -> asyncio.Task[None]:
        """Let a well-behaved consumer ask for a summary."""
        save_table(self.folder / "validation.npz", rows(15, 1000, self.schema))
        settings = self.asking(p, **{"target": ExactSettings(), **changes})
        self.tasks.append(asyncio.create_task(consume(settings, ear or Ear())))
        return self.tasks[-1]

    @contextlib.asynccontextmanager
    async def attend(self) -> AsyncIterator[Any]:
        """A bare owner's stream, for whoever does not keep to the contract."""
        async with grpc.aio.insecure_channel(self.address, options=UNLIMITED) as channel:
            yield owners_pb2_grpc.OwnersStub(channel).Attend()

    @contextlib.asynccontextmanager
    async def summarize(self) -> AsyncIterator[Any]:
        """A bare consumer's stream."""
        async with grpc.aio.insecure_channel(self.address, options=UNLIMITED) as channel:
            yield summaries_pb2_grpc.SummariesStub(channel).Summarize()

    @contextlib.asynccontextmanager
    async def summaries(self) -> AsyncIterator[Any]:
        """Services that a consumer may call."""
        async with grpc.aio.insecure_channel(self.address, options=UNLIMITED) as channel:
            yield summaries_pb2_grpc.SummariesStub(channel)

    @contextlib.asynccontextmanager
    async def raw(self, method: str) -> AsyncIterator[Any]:
        """A stream of bytes."""
        async with grpc.aio.insecure_channel(self.address, options=UNLIMITED) as channel:
            yield channel.stream_stream(f"/fedkme.v1.{method}", bytes, bytes)()


UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def curator_settings(folder: Path, **changes: Any) -> CuratorSettings:
    """Settings of a curator whose noise is a simulation's and whose summaries have none."""
    summary = SummarySettings(
        preset="published", features=FeatureSettings(dimension=DIMENSION), broadcast=ExactSettings()
    )
    return CuratorSettings(**curator_values(folder, **{"simulation_seed": 0, "summary": summary, **changes}))


@contextlib.asynccontextmanager
async def market(
    folder: Path, owners: Sequence[str] = (), schema: Schema = SCHEMA, **changes: Any
) -> AsyncIterator[Market]:
    """A curator that waits for the named owners, told to stop in the end."""
    (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    made = Market(folder, curator_settings(folder, owners=tuple(owners), **changes), schema)
    try:
        if await made.start():
            yield made
    finally:
        await made.end()


def write_ledger(journal: Path) -> None:
    """The ledger of an owner that has ended, as a file of lines beside its journal."""
    with contextlib.closing(open_store(journal, journal.stem, "process")) as store:
        journal.with_suffix(".jsonl").write_text("".join(f"{kept.line}\n" for kept in store.ledger()))


SAID_ALONE = ("welcome", "farewell", "summary", "head", "outcome", "fault")


class FakeCurator(owners_pb2_grpc.OwnersServicer, summaries_pb2_grpc.SummariesServicer):
    """Says what it was given to say, whoever calls, and keeps what it hears after each of it."""

    def __init__(self, *messages: Any, finish: Callable[[Any], Any] | None = None) -> None:
        self.messages = messages
        self.heard: list[Any] = []
        self._finish = finish

    async def _talk(self, context: Any) -> None:
        await context.read()
        for message in self.messages:
            await context.write(message)
            if message.WhichOneof("body") not in SAID_ALONE:
                self.heard.append(await context.read())
        if self._finish is not None:
            await self._finish(context)

    async def Attend(self, request_iterator: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        await self._talk(context)

    async def Summarize(self, request_iterator: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        await self._talk(context)


@contextlib.asynccontextmanager
async def fake_curator(folder: Path, fake: FakeCurator) -> AsyncIterator[Market]:
    """A market whose curator is not ours."""
    (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    server = grpc.aio.server(options=UNLIMITED)
    owners_pb2_grpc.add_OwnersServicer_to_server(fake, server)
    summaries_pb2_grpc.add_SummariesServicer_to_server(fake, server)
    made = Market(folder)
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)
        await made.end()


def request(p: int = 3) -> summaries_pb.ConsumerMessage:
    """Make the first message of a consumer."""
    asked = summaries_pb.SummaryRequest(
        versions=codecs.VERSIONS,
        rows=p,
        schema_digest=SCHEMA.digest(),
        gamma=1.0,
        validation_rows=2,
        name="consumer",
    )
    return summaries_pb.ConsumerMessage(request=asked)
