"""A curator and owners over a simulated network, in virtual time, who may be killed at any step.

Everything is what a deployment runs (Members, RunQueue, Lifecycle, RunJournal, RunManager, SqliteStore) but
the sockets. A process that is killed loses everything but what its store had committed: from then on each of
its calls to the store and the network raises `Killed`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curator.owners.members import Members
from curator.runs.context import RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.preparation import Preparation
from curator.runs.queue import Run, RunQueue
from curator.settings import CuratorSettings
from curator.summary.record import SummaryRecord
from curator.summary.settings import SummarySettings
from fedkme.cells.codebook import code_book_from_json
from fedkme.cells.histogram import counts
from fedkme.directives import Hello
from fedkme.errors import ConnectionFailedError, FedkmeError, StoreError
from fedkme.exchange import Offer, Plan, SummaryRequest
from fedkme.features.fixed_point import quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.party import noise_for
from fedkme.privacy.ledger import stored_ledger
from fedkme.protocols import AUTO
from fedkme.store import open_store
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.journals import RunDocument
from fedkme.wire.v1 import owners_pb2 as pb
from owner.party import OwnerParty
from tests.faults.mortal import CuratorEnd, Fate, Killed, MortalRecords, MortalStore, Process, Wire
from tests.owner.over_wire import OverWire
from tests.parties import curator_values

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=3),))
LABELLED = SCHEMA.model_copy(update={"label": Label(name="kind", classes=("a", "b", "c"))})
DIMENSION = 8
OWNERS = ("owner-1", "owner-2", "owner-3")
RUN = "run-1"
SEEDS = np.random.default_rng(8).random((30, 3), dtype=np.float32)
"""Public rows, for cells."""


def table(name: str, schema: Schema) -> Table:
    chance = np.random.default_rng(int(name[-1]))
    values = chance.random((14, schema.width))
    return Table(values, chance.integers(len(schema.classes), size=14) if schema.label else None)


class World:
    """World of a run: its parties, and what they kept."""

    def __init__(
        self,
        folder: Path,
        summary: SummarySettings,
        seed: int = 0,
        *,
        fates: dict[str, Fate] | None = None,
        drops: int = 0,
        twice: float = 0.0,
        rows: int = 8,
        secure: bool = False,
        schema: Schema = SCHEMA,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.summary = summary
        self.chance = random.Random(seed)
        self.fates = {name: Fate() for name in ("curator", *OWNERS)} | (fates or {})
        self.drops = drops
        self.twice = twice
        self.rows = rows
        self.seed = None if secure else 5
        self.record: SummaryRecord | None = None
        self.members: Members | None = None
        self.curator_process: Process | None = None
        self.wires: list[Wire] = []
        self.faults: list[str] = []
        self.lives = 0
        self.lines: list[str] = []

    def _store(self, name: str, process: Process) -> Any:
        return MortalStore(open_store(self.folder / f"{name}.db", name, "process"), process)

    async def run(self) -> None:
        """Keep all parties alive until the run is over; one that is killed is started again."""
        over = asyncio.Event()
        everybody = [asyncio.create_task(self._again(self._curator, "curator", over))]
        everybody += [
            asyncio.create_task(self._again(functools.partial(self._owner, name), name, over))
            for name in OWNERS
        ]
        dropper = asyncio.create_task(self._drop())
        try:
            async with asyncio.timeout(100_000):
                await over.wait()
        finally:
            for task in (*everybody, dropper):
                task.cancel()
            await asyncio.gather(*everybody, dropper, return_exceptions=True)

    async def _again(self, life: Callable[[Process], Any], name: str, over: asyncio.Event) -> None:
        while True:
            process = Process(self.fates[name])
            self.lives += 1
            task = asyncio.create_task(life(process))
            died = asyncio.create_task(process.died.wait())
            try:
                await asyncio.wait((task, died), return_when=asyncio.FIRST_COMPLETED)
                if not process.died.is_set():
                    with contextlib.suppress(StoreError):  # no room: told to whoever asked; started again
                        await task
                        over.set()
                        return
            finally:
                process.alive = False
                for each in (task, died):
                    each.cancel()
                await asyncio.gather(task, died, return_exceptions=True)
            await asyncio.sleep(self.chance.uniform(0.0, 2.0))  # somebody starts it again

    async def _drop(self) -> None:
        """Break wires now and then."""
        for _ in range(self.drops):
            await asyncio.sleep(self.chance.expovariate(1 / 0.05))
            if self.wires:
                self.chance.choice(self.wires).broken.set()

    async def _curator(self, process: Process) -> None:
        raw = self._store("curator", process)
        try:
            await self._curate(process, raw)
        finally:
            raw._store.close()
            self.members = self.curator_process = None
            for wire in self.wires:
                wire.broken.set()

    async def _curate(self, process: Process, store: Any) -> None:
        times = {"progress_s": 60, "grace_s": 1000, "connect_s": 1000}
        own = {"owners": OWNERS, "simulation_seed": self.seed, "summary": self.summary}
        settings = CuratorSettings(**curator_values(self.folder, **times, **own))
        members = Members(OWNERS, 60, 1000)
        seeds = Table(SCHEMA.decode(SEEDS)) if self.summary.protocol in ("cells", AUTO) else None
        lifecycle = Lifecycle(
            RunContext(
                settings,
                self.schema,
                seeds,
                members,
                store,
                stored_ledger("curator", store),
                noise_for(self.seed, "curator"),
                self._say,
                MortalRecords(process, settings.directory),
            )
        )
        agreement = lifecycle.cells.agreement
        outcome: dict[str, SummaryRecord] = {}
        begun: list[Run] = []

        async def conduct(run: Run) -> Any:
            begun.append(run)
            status = await lifecycle.carry_out(run)
            if run.error is not None:
                process.kill()  # an operator makes room and starts it again
            return status

        runs = RunQueue(store, conduct, 4)
        for run in runs.left_open():
            members.enlist(run.name, run.document.owners)
        agreed_on = agreement.take_up(runs.waiting())
        self.members, self.curator_process = members, process
        self._outcome = outcome
        runs.start()
        agreement.resume(agreed_on)
        try:
            await self._ask(runs, store, Preparation(lifecycle, runs), process)
        finally:
            await agreement.suspend()
            tasks = [run.task for run in begun if run.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # a dead process has nobody to look at them

    def _say(self, event: str, **fields: Any) -> None:
        if event == "suspended":
            self.faults.append(f"{event} {fields}")

    async def _ask(self, runs: RunQueue, store: Any, preparation: Preparation, process: Process) -> None:
        """Call as a consumer does, in each life of the curator, until the run is over."""
        known = store.run(RUN)
        if known is None or known.status == "asked":
            if known is not None:
                await asyncio.sleep(1.0)  # owners are back before the consumer is
            run = runs.find(RUN) or runs.ask(RUN, self._document())
            validation = table("owner-9", self.schema).take(np.arange(5))
            encoded = self.schema.encode(validation.values)
            plan = await preparation.plan_of(run)
            assert plan.choice is not None
            self.lines.append(plan.choice.line)
            if plan.cells is not None:
                book = code_book_from_json(plan.cells.code_book, self.schema)
                offer = Offer(histogram=counts(book.cells_of(encoded, validation.labels), book.cells))
            else:
                h1 = RandomFourier(plan.features)
                offer = Offer(target=quantize_mean(h1.normalised(encoded).mean(axis=0)))
            run.document = dataclasses.replace(run.document, offer=offer)
            runs.enqueue(run)
        while (found := runs.find(RUN)) is not None and found.open:
            await found.over.wait()
            if found.error is not None:
                process.kill()  # an operator makes room and starts it again
            if not process.alive:
                raise Killed

    def _document(self) -> RunDocument:
        spec = FourierSpec("paired", DIMENSION, 1.0, SCHEMA.encoded_width, 7)
        labelled = self.schema.label is not None
        request = SummaryRequest("consumer", b"1" * 16, self.schema.digest(), self.rows, 5, 1.0, labelled)
        return RunDocument(request, Plan(RUN, spec))

    async def _owner(self, name: str, process: Process) -> None:
        store = self._store(name, process)
        party = OwnerParty(
            name=name,
            table=table(name, self.schema),
            schema=self.schema,
            store=store,
            noise_for=noise_for(self.seed, name),
        )
        try:
            manager = party.open("curator")
            hello = Hello(name, codecs.VERSIONS.newest, self.chance.randbytes(16), manager.rows)
            while True:
                with contextlib.suppress(ConnectionFailedError):
                    await self._attend(hello, process, OverWire(manager))
                await asyncio.sleep(self.chance.uniform(0.05, 0.2))
        finally:
            store._store.close()

    async def _attend(self, hello: Hello, process: Process, runs: OverWire) -> None:
        """One stream: what `owner.agent.attend` and `curator.owners.owner_service.Registry` do over gRPC."""
        members, curator = self.members, self.curator_process
        if members is None or curator is None:
            raise ConnectionFailedError("nobody is there", "Wait.")
        process.tick()
        wire = Wire(self.chance, self.twice)
        self.wires.append(wire)
        inbox: asyncio.Queue[pb.Directive] = asyncio.Queue()
        end = CuratorEnd(wire, inbox, curator)

        async def serve() -> None:
            try:
                connection = await members.join(end, hello)
                joined.append(connection)
            except (FedkmeError, Killed):
                wire.broken.set()

        joined: list[Any] = []
        known = False
        serving = asyncio.create_task(serve())
        broken = asyncio.create_task(wire.broken.wait())
        try:
            while True:
                reading = asyncio.create_task(inbox.get())
                await asyncio.wait((reading, broken), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    raise ConnectionFailedError("the wire broke", "Wait.")
                directive = reading.result()
                process.tick()
                match directive.WhichOneof("body"):
                    case "welcome" if known:
                        continue
                    case "welcome":
                        known = True
                        runs.welcome(directive.welcome.runs)
                    case "fault":
                        raise ConnectionFailedError(directive.fault.cause, directive.fault.remedy)
                    case _:
                        for reply in runs.answer(directive):
                            process.tick()
                            wire.send("up", functools.partial(self._deliver, curator, joined, end, reply))
        finally:
            self.wires.remove(wire)
            wire.broken.set()
            serving.cancel()
            broken.cancel()
            await asyncio.gather(serving, broken, return_exceptions=True)
            for connection in joined:
                connection.detach(end)

    def _deliver(self, curator: Process, joined: list[Any], end: CuratorEnd, said: pb.OwnerMessage) -> None:
        if curator.alive and joined:
            joined[0].deliver(end, said)
