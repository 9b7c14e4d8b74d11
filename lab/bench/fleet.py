"""Owners and echoes as processes, and this process's server, to which both connect."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import grpc.aio

from curator.owners.connection import OwnerConnection
from curator.owners.members import Members
from curator.owners.owner_service import OwnerService
from curator.owners.session import OwnerSession
from curator.peers import NameRegister
from fedkme.pki.authority import Authority
from fedkme.pki.identity import Identity
from fedkme.wire.channel import SERVER_OPTIONS
from fedkme.wire.v1 import owners_pb2_grpc
from lab.bench.echo import EchoServer
from sim.config import SimulationSettings
from sim.engines.children import Child, Event
from sim.engines.processes import prepare_parties
from sim.engines.template import AVAILABLE, Template
from sim.scenarios.base import Scenario

T = TypeVar("T")
Keeps = Literal["nothing", "ledger", "process", "power"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Parties that joined; an echo and its owner have the same index."""

    members: Members
    connections: Sequence[OwnerConnection]
    echoes: EchoServer
    identity: Identity | None = None
    """Identity of the curator; None in plaintext."""
    blocks: list[Sequence[OwnerSession]] = field(default_factory=list)
    """Sessions of the owners of each run so far."""
    children: Sequence[Child] = ()
    """The processes of owners and echoes."""

    def cpu_s(self) -> float:
        """CPU seconds of all processes so far, with this process."""
        return time.process_time() + sum(cpu_s(child.pid) for child in self.children)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far; 0 for a process that is gone, or without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def fleet(
    scenario: Scenario, settings: SimulationSettings, keeps: Keeps = "process", forked: bool = AVAILABLE
) -> AsyncIterator[Fleet]:
    """Start an owner and an echo for each owner of a scenario; they end with the context.

    The processes are forks of one template, or each an interpreter of its own, as on hosts.

    Owners keep a journal that survives the loss of power, or of the process; or they write less than real
    owners, see `lab.bench.bare`.

    Raises:
        FedkmeError: a party did not join.
    """
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as scratch:
        folder = Path(scratch)
        authority = Authority() if settings.tls else None
        (folder / "run").mkdir()
        commands = prepare_parties(scenario, settings, folder, folder / "run", authority)
        owners = {name: _command(commands[name], keeps) for name in scenario.owners}
        members = Members(tuple(scenario.owners), settings.progress_s, settings.progress_s)
        registry = OwnerService(members, NameRegister(), settings.connect_s)
        echoes = EchoServer(len(scenario.owners))
        server = grpc.aio.server(options=SERVER_OPTIONS)
        owners_pb2_grpc.add_OwnersServicer_to_server(registry, server)
        echoes.serve_on(server)
        identity = Identity.load(folder / "curator") if settings.tls else None
        address = f"127.0.0.1:{_listen(server, identity)}"
        children: list[Child] = []
        template = Template(folder / "template.txt") if forked else None
        try:
            await server.start()
            for name in scenario.owners:
                own = [str(folder / name)] if settings.tls else []
                echo = ["lab.bench.echo", str(settings.connect_s), *own]
                for party, command in ((name, owners[name]), (f"echo of {name}", echo)):
                    child = await Child.start(party, command, folder / f"{party}.txt", _ignore, template)
                    children.append(child)
                    child.tell(address)
            gathered = members.gather(len(scenario.owners), settings.connect_s)
            joined = asyncio.gather(gathered, echoes.gather())
            names, _ = await unless_one_ends(joined, children, folder)
            connections = [members.connection(name) for name in names]
            yield Fleet(members, connections, echoes, identity, children=children)
        finally:
            await members.end()
            echoes.end()
            await server.stop(None)
            await asyncio.gather(*(child.stop() for child in children))
            if template is not None:
                template.close()


def _command(command: list[str], keeps: Keeps) -> list[str]:
    """Command of a real owner, or of an owner that writes less."""
    config = Path(command[-1])
    text = config.read_text(encoding="utf-8").replace("away_s = 0.0", "away_s = 60.0")  # owners come back
    if keeps == "power":
        text = text.replace('durability = "process"', 'durability = "power"')
    config.write_text(text, encoding="utf-8")
    return command if keeps in ("power", "process") else ["lab.bench.bare", keeps, str(config)]


async def unless_one_ends(joined: asyncio.Future[T], children: Sequence[Child], folder: Path) -> T:
    """Wait for all parties; raise the failure of a party that ends instead of joining."""
    ends = {asyncio.ensure_future(child.ended()): child for child in children}
    everything: list[asyncio.Future[Any]] = [joined, *ends]
    try:
        await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        for end, child in ends.items():
            if end.done():
                raise child.died(end.result(), folder / f"{child.party}.txt")
        return await joined
    finally:
        for waiting in everything:
            waiting.cancel()
        await asyncio.gather(*everything, return_exceptions=True)


def _listen(server: grpc.aio.Server, identity: Identity | None) -> int:
    if identity is None:
        return server.add_insecure_port("127.0.0.1:0")
    return server.add_secure_port("127.0.0.1:0", identity.server_credentials())


def _ignore(event: Event) -> None:
    """Ignore a party's event."""
