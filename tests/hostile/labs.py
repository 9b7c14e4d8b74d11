"""Curators that break off or lie, and the host of a consumer that calls them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np

from consumer.settings import ConsumerSettings
from consumer.summary.client import run
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.projection import ProjectionSpec
from fedkme.errors import QuorumError
from fedkme.exchange import CellsPlan, Plan
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import read_ledger
from fedkme.wire import codecs
from fedkme.wire.summaries import plan_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc, types_pb2
from tests import forked
from tests.parties import HERE, WAIT_S, consumer_values, write_config
from tests.system.market import SCHEMA, Ear

RUN = "run-1-0badf00d"
LOST = codecs.fault_to_wire(QuorumError("fewer owners are left", "Ask again."))


def plan(seed: int, run: str = RUN, cells: bool = True, **changes: Any) -> Plan:
    """A plan that differs from others by its seed alone, unless more is said."""
    book = None
    if cells:
        spec = ProjectionSpec(seed, SCHEMA.encoded_width, SCHEMA.encoded_width, "domain")
        public = np.random.default_rng(seed).random((8, SCHEMA.encoded_width))
        book = CellsPlan(kmeans_book(public, 4, spec, SCHEMA, seed).to_json(), 1.0, 2.0)
    return Plan(run, FourierSpec("paired", 8, 1.0, SCHEMA.encoded_width, seed), cells=book, **changes)


class Hostile(summaries_pb2_grpc.SummariesServicer):
    """Answers each call with the next plan, keeps what is offered for it, and lets the call fall."""

    def __init__(self, plans: Iterator[Plan], fault: Any = None) -> None:
        self._plans = plans
        self._fault = fault
        self.requests: list[bytes] = []
        self.offers: list[bytes] = []

    async def Summarize(self, request_iterator: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        self.requests.append((await context.read()).request.request_id)
        plan = plan_to_wire(next(self._plans), codecs.VERSIONS.newest)
        await context.write(pb.CuratorMessage(plan=plan))
        if isinstance(offer := await context.read(), pb.ConsumerMessage):
            self.offers.append(offer.SerializeToString())
            if self._fault is not None:
                await context.write(pb.CuratorMessage(fault=self._fault))
                return
        await context.abort(grpc.StatusCode.UNAVAILABLE, "")


@dataclass
class Command:
    """Command on a consumer's host, and the file of its lines."""

    process: forked.Forked | subprocess.Popen[bytes]
    said: Path

    async def ended(self) -> tuple[int, list[str]]:
        """Wait for the end; exit status and lines."""
        status = await asyncio.to_thread(self.process.wait, WAIT_S)
        return status, self.said.read_text(encoding="utf-8").splitlines()


class Lab:
    """A consumer's host: a configuration, and the command on it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self._address = address
        (folder / "schema.toml").write_text(SCHEMA.to_toml())
        rows = np.random.default_rng(1).random((30, SCHEMA.width))
        lines = [",".join(SCHEMA.names), *(",".join(map(str, row)) for row in rows)]
        (folder / "validation.csv").write_text("\n".join(lines) + "\n")

    def start(self, output: str = "out", **changes: Any) -> Command:
        """Start `fedkme consumer summary`."""
        values = consumer_values(HERE, self._address, output=output, **changes)
        config = write_config(self.folder / "consumer.toml", values)
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as said:
            return Command(forked.party(["consumer", "summary", str(config)], said.fileno()), Path(said.name))

    async def ask(self, output: str = "out", **changes: Any) -> tuple[int, list[str]]:
        """Exit status of the command, and its lines."""
        return await self.start(output, **changes).ended()

    async def ask_here(self, **changes: Any) -> None:
        """Do the same without a process of its own."""
        values = consumer_values(self.folder, self._address, **{"away_s": 0, **changes})
        await run(ConsumerSettings(**values), Ear())

    def drawn(self) -> int:
        """Draws of D_v that its ledger has."""
        lines = [entry.disclosure for entry in read_ledger(self.folder / "consumer.db")]
        return sum(about.observer == CURATOR for about in lines)


@contextlib.asynccontextmanager
async def lab(folder: Path, curator: Hostile) -> AsyncIterator[Lab]:
    """A consumer's host that calls this curator."""
    server = grpc.aio.server()
    summaries_pb2_grpc.add_SummariesServicer_to_server(curator, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Lab(folder, f"127.0.0.1:{port}")
    finally:
        await server.stop(None)


class Giver(Hostile):
    """Sends rows and an outcome behind its plan, whatever was offered for it."""

    async def Summarize(self, request_iterator: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        self.requests.append((await context.read()).request.request_id)
        plan = plan_to_wire(next(self._plans), codecs.VERSIONS.newest)
        await context.write(pb.CuratorMessage(plan=plan))
        rows = [types_pb2.Row(values=row) for row in np.eye(3)]
        await context.write(pb.CuratorMessage(summary=types_pb2.Rows(rows=rows, last=True)))
        await context.write(pb.CuratorMessage(outcome=pb.Outcome(status=pb.Outcome.STATUS_COMPLETE)))


class Silent(Hostile):
    """Takes the call, and says its plan when it is let."""

    def __init__(self, said: Plan) -> None:
        super().__init__(itertools.repeat(said))
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def Summarize(self, request_iterator: Any, context: Any) -> None:  # noqa: N802  # gRPC's name
        self.reached.set()
        await self.go.wait()
        await super().Summarize(request_iterator, context)
