"""Play of one schedule: parties live, die and start again until all consumers are served."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from audit.chaos.clock import StuckError, run_virtual, simulated_machine
from audit.chaos.disk import Disk, MortalStore
from audit.chaos.faults import BESIDE_S, FaultSchedule, InjectedFault
from audit.chaos.file_order import FileOrder, store_violations
from audit.chaos.network import SimulatedNetwork
from audit.chaos.parties import GRACE_S, SEED, ask_release, compute, curate, own, summarise
from audit.chaos.process import Fate, Process, owned, pause
from audit.chaos.worlds import SimulatedWorld, menu
from audit.replay.neighbours import SCHEMA, UNLABELLED
from consumer.releases.client import OPEN
from consumer.requests import RECEIVED
from curator.sums.charges import DOUBTFUL
from fedkme.errors import (
    ConnectionFailedError,
    FedkmeError,
    FencedError,
    IdentityError,
    QuotaError,
    StoppingError,
    StoreError,
)
from fedkme.ledgers.reconcile import verify
from fedkme.store.memory import MemoryStore

DEADLINE_S = 40_000.0
"""Virtual time by which every consumer must have ended."""
_SETTLE_S = 200.0  # wait for messages under way when the last consumer has its answer
_LIVES = 40  # most lives of a party; a party that starts more often is stuck
_CUT_OFF_S = 3.0  # longer than the next process takes to come
_STORES = 10  # one schedule in as many looks at a store on a disk, whose settings hang on no schedule
_AGAIN = (StoreError, StoppingError, QuotaError)  # errors after which the same command goes on
_MEMORY = Path("/dev/shm")  # a disk of the simulated machine
Line = tuple[float, str, str]


@dataclass(frozen=True, eq=False)
class PlayedSchedule:
    """Outcome of a played schedule.

    Attributes:
        schedule: that was played.
        results: results of consumers: rows, files, or the number of an error.
        records: records by run, as text, without entries that depend on times and deaths.
        ledgers: lines by party.
        steps: number of steps of each party.
        happened: faults that took effect.
        faults: violations seen during the play, a line each.
        story: virtual seconds, party, and the party's words or fault.
        statuses: statuses of runs, from the curator.
        redrawn: parties that answered a question in two ways, with the question.
        uncharged: owners of whom a vector left before its charge was on the curator's disk, with the run.
        unreconciled: parties whose ledgers do not fit the curator's, with the reason.
    """

    schedule: FaultSchedule
    results: Mapping[str, Any]
    records: Mapping[str, Sequence[str]]
    ledgers: Mapping[str, Sequence[str]]
    steps: Mapping[str, int]
    happened: Sequence[InjectedFault]
    faults: Sequence[str]
    story: Sequence[Line]
    statuses: Mapping[str, str]
    unreconciled: Sequence[tuple[str, str]] = ()
    redrawn: Sequence[tuple[str, str]] = ()
    uncharged: Sequence[tuple[str, str]] = ()


@dataclass(eq=False)
class _Life:
    """A party over all its lives."""

    fate: Fate
    disk: Disk
    work: Callable[[Any, Process], Any]
    ends: bool = False
    lives: int = 0
    left: str = ""


@dataclass(eq=False)
class _Simulation:
    world: SimulatedWorld
    schedule: FaultSchedule
    folder: Path
    story: list[Line] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    lives: dict[str, _Life] = field(default_factory=dict)
    outlived: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = FileOrder(self.folder)

    def say(self, party: str, line: str) -> None:
        self.story.append((asyncio.get_running_loop().time(), party, line.replace(str(self.folder), "")))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unheard)
        loop.set_task_factory(owned)
        self.network = SimulatedNetwork(self.schedule.seed, self.order)
        self.gone: asyncio.Future[None] = loop.create_future()
        self._populate()
        everybody = {name: loop.create_task(self._again(life)) for name, life in self.lives.items()}
        served = [task for name, task in everybody.items() if self.lives[name].ends]
        ends: list[asyncio.Future[Any]] = [asyncio.gather(*served), self.gone]
        await asyncio.wait(ends, timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
        waiting = [name for name, task in everybody.items() if self.lives[name].ends and not task.done()]
        if waiting and not self.gone.done():
            self.found.append(f"stuck: {', '.join(waiting)}")
        await asyncio.sleep(_SETTLE_S)
        for task in (*everybody.values(), *self.outlived):
            task.cancel()
        for ended in await asyncio.gather(*everybody.values(), *self.outlived, return_exceptions=True):
            if isinstance(ended, Exception):
                self.found.append(f"unforeseen: {ended!r}")
        everybody.clear()
        served.clear()

    def _populate(self) -> None:
        world, folder, network = self.world, self.folder, self.network
        self._add("curator", lambda store, process: curate(world, folder, store, network, process, self.say))
        for name in world.owners:
            self._add(
                name, lambda store, process: own(world, process.name, store, network, process, self.say)
            )
        for name in world.consumers:
            self._add(name, self._consume, True)

    def _add(self, name: str, work: Callable[[Any, Process], Any], ends: bool = False) -> None:
        faults = sorted(fault for fault in self.schedule.faults if fault.party == name)
        fate = Fate(name, faults, settled=self.order.settled, tell=self.say)
        backups = any(fault.kind == "restore" for fault in faults)
        if name in self.world.owners:
            fate.charged = partial(self._charged, name)
        self.lives[name] = _Life(fate, Disk(MemoryStore(name, clock=fate.clock), backups), work, ends)

    def _charged(self, owner: str, run: str) -> bool:
        """Check that the curator's disk has an owner's charge in a run: written, or as what may be sent."""
        store = self.lives["curator"].disk.store
        doubtful = store.get(DOUBTFUL + run) or b""
        lines = (*doubtful.decode("ascii").splitlines(), *(entry.line for entry in store.ledger()))
        return any(f'"{owner}"' in line and f'"{run}"' in line for line in lines)

    async def _consume(self, store: Any, process: Process) -> None:
        name, world = process.name, self.world
        if world.case.summary is None:
            await ask_release(world, name, self.folder, self.network, process, self.say)
            files = sorted((self.folder / name).iterdir())
            self.results[name] = {path.name: path.read_bytes() for path in files if path.name != OPEN}
            return
        result = await summarise(world, name, self.folder, store, self.network, process, self.say)
        if result is not None:
            summary, request = result
            process.tick()
            labels = None if summary.table.labels is None else summary.table.labels.tolist()
            self.results[name] = (summary.table.values.tolist(), labels, summary.outcome)
            request.end(RECEIVED)

    async def _again(self, party: _Life) -> None:
        """Run a party until its work is done; restart it after a death."""
        while True:
            party.lives += 1
            chance = random.Random(f"{self.schedule.seed} {party.fate.name} {party.lives}")
            fresh = self.schedule.fresh or not self.world.repeatable
            process = Process(party.fate, party.lives, chance, SEED + party.lives * fresh)
            if party.lives > _LIVES:
                self.found.append(f"stuck: {party.fate.name} was started {_LIVES} times")
                return
            pausing = 2.0
            main = process.start(party.work(MortalStore(party.disk, process), process))
            over = asyncio.ensure_future(process.over.wait())
            try:
                await asyncio.wait((main, over), return_when=asyncio.FIRST_COMPLETED)
                ended = main.done() and not process.over.is_set()
                if (ended or _finished(main)) and self._ended(party, main, process):
                    if party.ends:
                        return
                    await asyncio.Event().wait()  # an owner that is out for good
            finally:
                over.cancel()
                if main.done() and not main.cancelled():
                    main.exception()  # retrieves the error of a process that failed while it was stopped
                ending = process.ending
                if ending is not None and ending.kind == "beside" and not main.done():
                    seconds = ending.amount % BESIDE_S + 1.0
                    self.outlived.append(asyncio.create_task(self._outlive(process, main, seconds)))
                else:
                    await self._stop(party.fate.name, process, main)
            if ending is not None:
                pausing = self._suffer(party, ending)
            await pause(process.chance, pausing)

    async def _stop(self, name: str, process: Process, main: asyncio.Task[Any]) -> None:
        """End a process; an error in it that no code handled is a violation."""
        self.found += [f"unheard: {name}: {error!r}" for error in await process.unheard()]
        ending = process.ending
        await process.end(main if ending is not None and ending.kind == "stop" else None)
        self.network.cut(process)

    async def _outlive(self, process: Process, main: asyncio.Task[Any], seconds: float) -> None:
        """Let an old process live on beside the next one, until it sees that another has its store.

        The network between the old process and the others is down until the next one is there.
        """
        process.cut_off_until = asyncio.get_running_loop().time() + _CUT_OFF_S
        self.network.cut(process)
        try:
            await asyncio.wait([main], timeout=_CUT_OFF_S + seconds)
            error = main.exception() if main.done() and not main.cancelled() else None
            if isinstance(error, Exception) and not isinstance(error, FedkmeError):
                self.found.append(f"unforeseen: {process.name}: {error!r}")
        finally:
            await self._stop(process.name, process, main)

    def _ended(self, party: _Life, main: asyncio.Task[Any], process: Process) -> bool:
        """Examine why a process ended by itself; return whether it stays ended."""
        name, error = party.fate.name, main.exception()
        if error is None:
            return True
        if not isinstance(error, FedkmeError):
            self.found.append(f"unforeseen: {name}: {error!r}")
            party.left = "unforeseen"
            self.results.setdefault(name, "unforeseen")
            return True
        self.say(name, f"ends with error {error.code}: {error}")
        if isinstance(error, (*_AGAIN, FencedError)):
            return False
        if isinstance(error, (ConnectionFailedError, IdentityError)):
            if process.let_in:
                self.found.append(f"absence: {name} gave up although a curator had let it in: {error}")
            return False  # its supervisor, or its person, starts it again
        party.left = f"error {error.code}"
        if name == "curator" and not self.gone.done():
            self.gone.set_result(None)
        if party.ends:
            self.results.setdefault(name, (error.code, error.cause))
        return True

    def _suffer(self, party: _Life, ending: InjectedFault) -> float:
        """Apply a death's effect to a disk; return the time until the party starts again."""
        match ending.kind:
            case "restore":
                party.disk.put_back(ending.amount)
            case "flip":
                party.disk.flip(ending.amount)
            case "away":
                return 3.0 * GRACE_S
        return 2.0

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, Exception):
            self.found.append(f"unheard: {context.get('message')} {error!r}")

    def outcome(self) -> PlayedSchedule:
        store = self.lives["curator"].disk.store
        statuses = {row.run: row.status for row in store.runs()}
        ledgers = {
            name: [entry.line for entry in life.disk.store.ledger()] for name, life in self.lives.items()
        }
        return PlayedSchedule(
            self.schedule,
            self.results,
            records_in(self.folder / "curator"),
            ledgers,
            {name: life.fate.step for name, life in self.lives.items()},
            [fault for life in self.lives.values() for fault in life.fate.happened],
            self.found,
            self.story,
            statuses,
            redrawn=[(name, line) for name, life in self.lives.items() for line in life.fate.redrawn],
            uncharged=[(name, line) for name, life in self.lives.items() for line in life.fate.uncharged],
        )


def _finished(main: asyncio.Task[Any]) -> bool:
    """Check whether a process has done its work; a later death does not undo the work."""
    return main.done() and not main.cancelled() and main.exception() is None


def play(schedule: FaultSchedule) -> PlayedSchedule:
    """Play a schedule to its end."""
    world = menu()[schedule.world]
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedkme-chaos-", dir=where) as folder:
        schema = SCHEMA if world.case.labels else UNLABELLED
        (Path(folder) / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
        simulation = _Simulation(world, schedule, Path(folder))
        try:
            with simulated_machine(), simulation.order.recorded():
                run_virtual(simulation.run, compute)
        except StuckError as error:
            simulation.found.append(f"stuck: {error}")
        simulation.found += simulation.network.fenced_out()
        simulation.found += simulation.order.violations
        if schedule.seed % _STORES == 0:
            simulation.found += store_violations(Path(folder))
        outcome = simulation.outcome()
        return replace(outcome, unreconciled=unreconciled(Path(folder), outcome))


def records_in(directory: Path, omitted: Sequence[str] = ("bytes", "ledger")) -> dict[str, list[str]]:
    """Records of runs as text, but for some facts, such as traffic: NaN is NaN."""
    records = {}
    for folder in directory.glob("run-*"):
        if (path := folder / "record.json").is_file():
            facts = json.loads(path.read_text(encoding="utf-8"))
            records[folder.name] = [f"{key}: {json.dumps(facts[key])}" for key in facts if key not in omitted]
    return records


_VERIFIED: dict[bytes, Sequence[tuple[str, str]]] = {}
"""Cache of faults by a hash of all ledgers and records: most schedules end with equal ones."""


def unreconciled(folder: Path, outcome: PlayedSchedule) -> Sequence[tuple[str, str]]:
    """Find parties whose ledgers do not fit the curator's, with the reason from `fedkme audit verify`."""
    flipped = {fault.party for fault in outcome.happened if fault.kind == "flip"}
    if "curator" in flipped:
        return ()
    ledgers = {name: lines for name, lines in outcome.ledgers.items() if name not in flipped}
    facts = repr((outcome.schedule.world, ledgers, records_in(folder / "curator", omitted=("bytes",))))
    key = hashlib.sha256(facts.encode(errors="replace")).digest()
    if key not in _VERIFIED:
        _VERIFIED[key] = tuple(_ledger_faults(folder, ledgers))
    return _VERIFIED[key]


def _ledger_faults(folder: Path, ledgers: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    curator = folder / "curator"
    curator.mkdir(exist_ok=True)
    paths = {name: folder / f"{name}.jsonl" for name in ledgers}
    paths["curator"] = curator / "ledger.jsonl"
    for name, lines in ledgers.items():
        paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="ascii", errors="replace")
    others = [path for name, path in paths.items() if name != "curator" and ledgers[name]]
    try:
        verdicts = verify(curator, others)
    except FedkmeError as error:
        yield "curator", str(error)
        return
    for verdict in verdicts:
        if verdict.fault:
            about = verdict.about.partition(" and ")[0]
            yield next((name for name, path in paths.items() if str(path) == about), about), verdict.fault


@cache
def quiet(world: int) -> PlayedSchedule:
    """Play a world without faults."""
    return play(FaultSchedule(0, world))
