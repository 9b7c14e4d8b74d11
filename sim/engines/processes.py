"""The `processes` engine: a curator, K owners and a consumer as real processes over loopback gRPC.

Every party gets a folder of its own with its rows, its configuration and its certificate, and nothing of
anybody else's. The folders are temporary; what a run leaves is its record.
"""

import asyncio
import contextlib
import json
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from typing_extensions import override

from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from curator.sums.settings import SumSettings
from fedkme.config import Settings, dump_toml
from fedkme.errors import (
    ConnectionFailedError,
    FedkmeError,
    IncompleteSummaryError,
    MissingOwnersError,
    NotMadeError,
)
from fedkme.ops.logs import rounded
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.tables.files import save_table
from fedkme.tables.table import Table
from owner.settings import OwnerSettings
from sim.config import LaunchSettings, SimulationSettings, plain
from sim.engines import run_folder
from sim.engines.children import GRACE_S, Child, Event
from sim.engines.loopback import policy_of
from sim.engines.template import AVAILABLE, Template
from sim.families import words_of
from sim.progress import Follower
from sim.scenarios.base import Scenario

T = TypeVar("T")
SettingsT = TypeVar("SettingsT", bound=LaunchSettings)

ANY_PORT = "127.0.0.1:0"
LEAVE_S = 5.0
"""Time without a word in which owners who were told that the run is over may go on to leave."""


class Launch(ABC, Generic[SettingsT]):
    """One run of the `processes` engine; what kind of run it is, a subclass says.

    Attributes:
        timing: seconds to the first round of a summary, from the launch and from the last party's import.
    """

    def __init__(self, scenario: Scenario, settings: SettingsT, directory: Path, shown: Follower) -> None:
        """Begin before anything is started; the curator has a page if `shown` watches one."""
        self.timing: dict[str, float] = {}
        self._launched, self._imported = time.monotonic(), 0.0
        self.directory = directory
        self.scenario = scenario
        self.settings = settings
        self.shown = shown
        self.page = None if shown.watch is None else ANY_PORT
        self._template: Template | None = None
        self.authority = Authority() if settings.tls else None
        self._log = (directory / "log.jsonl").open("a", encoding="utf-8")
        self._children: dict[str, Child] = {}
        self._address: asyncio.Future[str]
        self._began = asyncio.Event()
        self._heard = 0

    @abstractmethod
    def parties(self, scratch: Path) -> Mapping[str, list[str]]:
        """Write every party's folder; the command of each, the curator first, the consumer last."""

    @abstractmethod
    def hear(self, event: Event) -> None:
        """Hear a party's report, beyond what concerns every run."""

    async def run(self) -> None:
        """Start all parties, wait for the end, and stop every process.

        Raises:
            FedkmeError: a party failed in a way that ends the run, in that party's words.
        """
        self._address = asyncio.get_running_loop().create_future()
        with tempfile.TemporaryDirectory(prefix="fedkme-") as scratch:
            try:
                await self._start(Path(scratch))
                await self._finish()
            finally:
                await self._stop()
                self.adopt()
                self._log.close()

    def adopt(self) -> None:
        """Leave the record of the only run, and every party's ledger as a file of lines."""
        run_folder.adopt(self.directory)
        run_folder.remove_repeated(self.directory)
        if self.authority is not None and (self.directory / "ledger.jsonl").is_file():
            (self.directory / run_folder.AUTHORITY).write_bytes(self.authority.pem)  # never its key

    async def _stop(self) -> None:
        """The curator first, so that it writes that it was stopped and not that everybody left."""
        if "curator" in self._children:
            await self._children["curator"].stop()
        await asyncio.gather(*(child.stop() for child in self._children.values()))
        if self._template is not None:
            self._template.close()

    async def _start(self, scratch: Path) -> None:
        if AVAILABLE:  # it imports while folders are written
            self._template = Template(self._errors("template"))
        for party, command in self.parties(scratch).items():
            errors = self._errors(party)
            self._children[party] = await Child.start(party, command, errors, self._hear, self._template)
        address = await self._until(self._address)
        for party, child in self._children.items():
            if party != "curator":
                child.tell(address)

    async def _finish(self) -> None:
        """Wait until the consumer has judged its summary, the curator written its record, and owners left."""
        for party in ("consumer", "curator"):
            await self._until(asyncio.ensure_future(self._children[party].ended()))
        leaving, heard = {asyncio.ensure_future(child.ended()) for child in self._children.values()}, -1
        while leaving and heard < self._heard:  # thousands in one process take a while
            heard = self._heard
            _, leaving = await asyncio.wait(leaving, timeout=LEAVE_S)
        for owner in leaving:
            owner.cancel()

    async def _until(self, future: asyncio.Future[T]) -> T:
        """Wait, but not past the failure of a party without which the run cannot begin, or go on."""
        watched: dict[asyncio.Future[Any], Child] = {
            asyncio.ensure_future(child.ended()): child for child in self._children.values()
        }
        try:
            while not future.done():
                waiting: set[asyncio.Future[Any]] = {future, *watched}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done & watched.keys():
                    child = watched.pop(task)
                    status = task.result()
                    fatal = status and not isinstance(child.failure, IncompleteSummaryError | NotMadeError)
                    if fatal and (child.party in ("consumer", "curator") or not self._began.is_set()):
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
        folder = self.directory / "stderr"
        folder.mkdir(exist_ok=True)
        return folder / f"{party}.txt"

    def _hear(self, event: Event) -> None:
        self._heard += 1
        self._log.write(json.dumps(rounded(event)) + "\n")
        match event["event"]:
            case "imported":
                self._imported = max(self._imported, event["at"])
            case "listening":
                if not self._address.done():
                    self._address.set_result(event["address"])
            case "run":
                self._began.set()
            case "owner_left":
                self.shown.warn(event["line"])
        if self.shown.watch is not None and event["party"] == "curator":
            self.shown.watch.hear(event["event"], event)
        self.hear(event)


class SummaryLaunch(Launch[SimulationSettings]):
    """A summary by processes."""

    @override
    def parties(self, scratch: Path) -> Mapping[str, list[str]]:
        return prepare_parties(
            self.scenario, self.settings, scratch, self.directory, self.authority, self.page
        )

    @override
    def hear(self, event: Event) -> None:
        if event["event"] == "round" and not self.timing:
            began = event["at"] - event["record"]["milliseconds"] / 1e3
            self.timing |= {"startup_s": began - self._imported, "launch_s": began - self._launched}
        if event["party"] == "curator" and event["event"] != "owner_left":  # everybody's is shown already
            show_summary(self.shown, event["event"], event)


def show_summary(shown: Follower, event: str, fields: Mapping[str, Any]) -> None:
    """Show what the curator of a summary reports."""
    match event:
        case "run":
            shown.started(fields["owners"], words_of(fields["protocol"]).rounds(fields["p"]))
        case "round":
            shown.round(fields["record"])
        case "owner_left" | "warning":
            shown.warn(fields["line"])
        case "planned":
            shown.note(fields["line"])
        case "progress":
            shown.stage(fields["stage"], fields["line"], fields["fraction"])


@dataclass(eq=False, repr=False)
class Folders:
    """Writes every party's folder, with nothing of anybody else's.

    Lasting files go to `directory`, all others to `scratch`. Without an authority everybody speaks plaintext.
    Parties wait `patience_s` for each other when a connection breaks: nobody starts a party of a simulation
    again.
    """

    _scenario: Scenario
    _settings: LaunchSettings
    scratch: Path
    directory: Path
    _authority: Authority | None
    _patience_s: float = 0.0

    def __post_init__(self) -> None:
        self.directory = self.directory.absolute()  # a party reads paths from its own folder
        self._schema_file = self.scratch / "schema.toml"
        self._schema_file.write_text(self._scenario.schema.to_toml(), encoding="utf-8")
        self.seeds = table_file(self.scratch / "seeds.npz", self._scenario.seeds)

    def common(self, party: str, hosts: tuple[str, ...] = ()) -> dict[str, Any]:
        """Make a party's folder; the settings that all parties have."""
        folder = self.scratch / party
        folder.mkdir()
        if self._authority is not None:
            self._authority.issue(party, hosts).save(folder)
        return {
            "identity": None if self._authority is None else folder,
            "plaintext": self._authority is None,
            "simulation_seed": self._settings.noise_seed,
            "traces": self._settings.traces,
            "connect_s": self._settings.connect_s,
            "away_s": self._patience_s,
            "schema_file": self._schema_file,
        }

    def servers(self, page: str | None = None, runs: int = 1, **tables: Settings) -> dict[str, list[str]]:
        """Commands of the curator, which ends after so many runs, and of every owner.

        The curator's configuration has a page, and these tables.
        """
        curator = CuratorSettings(
            **self.common("curator", LOOPBACK),
            directory=self.directory / "curator",
            journal=str(self.directory / "curator" / "journal.db"),
            seeds=self.seeds,
            owners=tuple(self._scenario.owners),
            progress_s=self._settings.progress_s,
            grace_s=self._patience_s,
            durability="process",
            runs=runs,
            page=page,
            **tables,
        )
        commands = {"curator": ["curator", "serve", self.write("curator", curator)]}
        ledgers = self.directory / "owners"
        ledgers.mkdir()
        for name, table in self._scenario.owners.items():
            rows = self.scratch / name / "rows.npz"
            owner = OwnerSettings(
                **self.common(name),
                name=name,
                curator="-",
                data=rows,
                journal=str(ledgers / f"{name}.db"),
                durability="process",
                policy=policy_of(self._settings.policies, name),
            )
            save_table(rows, table, self._scenario.schema.person)
            commands[name] = ["owner", "join", self.write(name, owner)]
        return commands

    def write(self, party: str, settings: Settings) -> str:
        """A party's configuration."""
        path = self.scratch / party / "config.toml"
        path.write_text(dump_toml(plain(settings)), encoding="utf-8")
        return str(path)


def prepare_parties(
    scenario: Scenario,
    settings: SimulationSettings,
    scratch: Path,
    directory: Path,
    authority: Authority | None,
    page: str | None = None,
) -> Mapping[str, list[str]]:
    """Write every party's folder for a summary; the command of each party, the curator first."""
    folders = Folders(scenario, settings, scratch, directory, authority)
    commands = folders.servers(
        page, summary=settings.summary.curator_part(), release=SumSettings(security=settings.security)
    )
    validation = scratch / "consumer" / "validation.npz"
    consumer = ConsumerSettings(
        **folders.common("consumer"),
        curator="-",
        validation=validation,
        test=table_file(scratch / "consumer-test.npz", scenario.test),
        seeds=folders.seeds,
        output=folders.directory / "consumer",
        journal=str(folders.directory / "consumer" / "journal.db"),
        durability="process",
        downstream=settings.downstream,
        request=settings.summary.consumer_part(),
    )
    save_table(validation, scenario.validation, scenario.schema.person)
    commands["consumer"] = ["consumer", "summary", folders.write("consumer", consumer)]
    return commands


def table_file(path: Path, table: Table | None) -> Path | None:
    """A table as a file; None where there are no rows."""
    if table is None or not len(table):
        return None
    save_table(path, table)
    return path
