"""The `processes` engine: a curator, K owners and a consumer as real processes over loopback gRPC.

Every party gets a folder of its own with its rows, its configuration and its certificate, and nothing of
anybody else's. The folders are temporary; what a run leaves is its record.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import Settings, dump_toml
from fedkme.data import Table, save_table
from fedkme.errors import ConnectionFailedError, FedkmeError, MissingOwnersError
from fedkme.wire.tls import LOOPBACK, Authority
from owner.settings import OwnerSettings
from sim.children import GRACE_S, Child, Event
from sim.config import SimulationSettings, plain
from sim.progress import Progress
from sim.rundir import adopt_curator_run, adopt_owner_journals
from sim.scenarios import Scenario

T = TypeVar("T")


@dataclass(slots=True)
class Clock:
    """When what happened, on the machine's monotonic clock.

    Attributes:
        launched: the launcher began to start processes.
        imported: the last party had imported its modules.
        first_round: the first round began.
    """

    launched: float = field(default_factory=time.monotonic)
    imported: float = 0.0
    first_round: float | None = None


class Launch:
    """One run of the `processes` engine."""

    def __init__(
        self, scenario: Scenario, settings: SimulationSettings, directory: Path, progress: Progress
    ) -> None:
        self.clock = Clock()
        self._scenario = scenario
        self._settings = settings
        self._directory = directory
        self._progress = progress
        self._log = (directory / "log.jsonl").open("a", encoding="utf-8")
        self._children: dict[str, Child] = {}
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._began = asyncio.Event()
        self._authority = Authority() if settings.tls else None

    async def run(self) -> None:
        """Start everybody, wait for the end, leave nobody behind.

        Raises:
            FedkmeError: a party failed in a way that ends the run, in that party's words.
        """
        with tempfile.TemporaryDirectory(prefix="fedkme-") as scratch:
            try:
                await self._start(Path(scratch))
                await self._finish()
            finally:
                await self._stop()
                adopt_curator_run(self._directory)
                adopt_owner_journals(self._directory)
                self._log.close()

    async def _stop(self) -> None:
        """The curator first, so that it writes that it was stopped and not that everybody left."""
        if "curator" in self._children:
            await self._children["curator"].stop()
        await asyncio.gather(*(child.stop() for child in self._children.values()))

    async def _start(self, scratch: Path) -> None:
        parties = prepare_parties(self._scenario, self._settings, scratch, self._directory, self._authority)
        for party, command in parties.items():
            errors = self._errors(party)
            self._children[party] = await Child.start(party, command, errors, self._hear)
        address = await self._until(self._address)
        for party, child in self._children.items():
            if party != "curator":
                child.tell(address)

    async def _finish(self) -> None:
        """Wait until the consumer has judged its summary and the curator has written its record."""
        for party in ("consumer", "curator"):
            await self._until(asyncio.ensure_future(self._children[party].ended()))

    async def _until(self, future: asyncio.Future[T]) -> T:
        """Wait, but not past the failure of a party without which the run cannot begin, or go on.

        Raises:
            FedkmeError: the failure.
        """
        watched = {asyncio.ensure_future(child.ended()): child for child in self._children.values()}
        try:
            while not future.done():
                waiting: set[asyncio.Future[Any]] = {future, *watched}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done & watched.keys():
                    child = watched.pop(task)  # type: ignore[call-overload]  # a task is the future it waits on
                    status = task.result()
                    if status and (child.party in ("consumer", "curator") or not self._began.is_set()):
                        raise await self._cause(child, status)
            return future.result()
        finally:
            for task in watched:
                task.cancel()

    async def _cause(self, child: Child, status: int) -> FedkmeError:
        """The first cause: a broken connection may be a dead curator's, missing owners may have said why.

        A curator that ends well has refused the consumer, who says why; an owner that comes later finds
        nobody there.
        """
        own = child.died(status, self._errors(child.party))
        for party in ("curator", "consumer"):
            other = self._children[party]
            if isinstance(own, ConnectionFailedError) and child is not other:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE_S):
                        if status := await other.ended():
                            own = other.died(status, self._errors(party))
        if isinstance(own, MissingOwnersError):
            for other in self._children.values():
                if other.failure is not None and other is not child:
                    return other.failure
        return own

    def _errors(self, party: str) -> Path:
        folder = self._directory / "stderr"
        folder.mkdir(exist_ok=True)
        return folder / f"{party}.txt"

    def _hear(self, event: Event) -> None:
        self._log.write(json.dumps(event) + "\n")
        match event["event"]:
            case "imported":
                self.clock.imported = max(self.clock.imported, event["at"])
            case "listening":
                if not self._address.done():
                    self._address.set_result(event["address"])
            case "run":
                self._began.set()
                self._progress.started(event["owners"], event["p"])
            case "round":
                record = event["record"]
                if self.clock.first_round is None:
                    self.clock.first_round = event["at"] - record["milliseconds"] / 1e3
                self._progress.round(record)
            case "owner_left":
                self._progress.note(event["line"])


def prepare_parties(
    scenario: Scenario,
    settings: SimulationSettings,
    scratch: Path,
    directory: Path,
    authority: Authority | None,
) -> Mapping[str, list[str]]:
    """Write every party's folder.

    Args:
        scenario: who holds which rows.
        settings: the simulation's.
        scratch: where the folders go.
        directory: the run's folder, for what is to stay.
        authority: signs certificates; None for plaintext.

    Returns:
        The command of each party, the curator first.
    """
    directory = directory.absolute()  # a party reads paths from its own folder
    schema_file = scratch / "schema.toml"
    schema_file.write_text(scenario.schema.to_toml(), encoding="utf-8")
    seeds = _table(scratch / "seeds.npz", scenario.seeds)

    def common(party: str, hosts: tuple[str, ...] = ()) -> dict[str, Any]:
        folder = scratch / party
        folder.mkdir()
        if authority is not None:
            authority.issue(party, hosts).save(folder)
        return {
            "identity": None if authority is None else folder,
            "plaintext": authority is None,
            "simulation_seed": settings.seed,
            "connect_s": settings.connect_s,
            "away_s": 0.0,  # nobody starts a party of a simulation again
            "schema_file": schema_file,
        }

    curator = CuratorSettings(
        **common("curator", LOOPBACK),
        directory=directory / "curator",
        journal=str(directory / "curator" / "journal.db"),
        seeds=seeds,
        owners=tuple(scenario.owners),
        progress_s=settings.progress_s,
        grace_s=0.0,
        durability="process",
        runs=1,
        summary=settings.summary.curator_part(),
    )
    commands = {"curator": ["curator", "serve", _write(scratch / "curator", curator)]}
    ledgers = directory / "owners"
    ledgers.mkdir()
    for name, table in scenario.owners.items():
        owner = OwnerSettings(
            **common(name),
            name=name,
            curator="-",
            data=scratch / name / "rows.npz",
            journal=str(ledgers / f"{name}.db"),
            durability="process",
        )
        save_table(owner.data, table)
        commands[name] = ["owner", "join", _write(scratch / name, owner)]
    consumer = ConsumerSettings(
        **common("consumer"),
        curator="-",
        validation=scratch / "consumer" / "validation.npz",
        test=_table(scratch / "consumer-test.npz", scenario.test),
        seeds=seeds,
        output=directory / "consumer",
        downstream=settings.downstream,
        request=settings.summary.consumer_part(),
    )
    save_table(consumer.validation, scenario.validation)
    commands["consumer"] = ["consumer", "summary", _write(scratch / "consumer", consumer)]
    return commands


def _table(path: Path, table: Table | None) -> Path | None:
    if table is None or not len(table):
        return None
    save_table(path, table)
    return path


def _write(folder: Path, settings: Settings) -> str:
    path = folder / "config.toml"
    path.write_text(dump_toml(plain(settings)), encoding="utf-8")
    return str(path)
