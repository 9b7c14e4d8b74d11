"""Random schedules of real processes over mTLS: each dies, is stopped, is frozen, or has a disk that fails.

`make chaos N=50` plays so many. A seed decides on a world of sim/chaos, and what befalls whom, at which
operation on its disk, in which of its lives. Who ended is started again, as a service manager would. What is
left is held, by the oracles of sim/chaos, to what the simulated world leaves in which nothing fails. With
`--releases` lives are of the last release and of this one in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from consumer.releases.client import OPEN
from fedkme.errors import FedkmeError
from fedkme.privacy.ledger import stored_ledger
from fedkme.store import open_store
from fedkme.tables.files import load_table, save_table
from fedkme.wire.tls import LOOPBACK, Authority
from sim.chaos.faults import FaultSchedule as Simulated
from sim.chaos.faults import InjectedFault, Kind
from sim.chaos.oracles import judge
from sim.chaos.parties import SEED
from sim.chaos.simulation import PlayedSchedule, quiet, records_in, unreconciled
from sim.chaos.worlds import menu
from sim.engines.owners import policy_of
from sim.replay.neighbours import SCHEMA, UNLABELLED
from tests import forked
from tests.parties import Values, write_config
from tests.places import ROOT
from tests.system import failing_disk
from tests.system.failing_disk import KINDS, DiskFault
from tests.system.lives import PORTS

WORLDS = (10, 22, 76, 6, 8, 3, 77, 12, 78, 75, 44, 84)
"""Numbers of worlds that are played: cells, clock, sketch, auctions, sealed rows, secure sums, releases."""
BOTH = (10, 22, 12)
"""Worlds of which an earlier release can be a part."""
PATIENCE_S = 240.0
"""Time after which who is not served is stuck."""
_MOST = 6  # faults
_LIVES = 20
_OPERATIONS = {"curator": 400, "owner": 120, "consumer": 60}  # of a whole run, about
_AGAIN = (35, 53, 55, 57)  # errors after which the same command goes on
_MEMORY = Path("/dev/shm")
_SIMULATED: Mapping[failing_disk.Kind, Kind] = {
    "kill": "kill",
    "torn": "kill",
    "power": "kill",
    "stop": "stop",
    "freeze": "slow",
    "full": "full",
    "sync": "doubt",
    "short": "slow",
}
"""Kinds of sim/chaos after which the same must hold."""


@dataclass(frozen=True, slots=True)
class ProcessSchedule:
    """Faults of the lives of the parties of a world.

    Attributes:
        seed: of it.
        world: number in the menu of sim/chaos.
        faults: of each party: of its first life, its second, and so on.
    """

    seed: int
    world: int
    faults: Mapping[str, Sequence[DiskFault]]


def drawn(seed: int, releases: bool = False) -> ProcessSchedule:
    """Draw the schedule of a seed; with two releases, of deaths alone."""
    chance = random.Random(f"processes {seed}")
    worlds = BOTH if releases else WORLDS
    world = menu()[worlds[seed % len(worlds)]]
    parties = ["curator", *world.owners, *world.consumers]
    weights = [len(parties) if name == "curator" else 3 for name in parties]
    faults: dict[str, list[DiskFault]] = {}
    for _ in range(chance.randint(1, _MOST)):
        party = chance.choices(parties, weights)[0]
        kind = chance.choice(("kill", "stop") if releases else KINDS)
        operation = round(_OPERATIONS[_role(party)] ** chance.random())  # as often early as late
        many = chance.randint(2, 8) if kind == "freeze" else chance.randint(1, 30)
        faults.setdefault(party, []).append(DiskFault(kind, operation, many))
    return ProcessSchedule(seed, worlds[seed % len(worlds)], faults)


def _role(party: str) -> str:
    return "consumer" if party.startswith("consumer") else "curator" if party == "curator" else "owner"


@dataclass(eq=False)
class _Party:
    """A party over all its lives.

    Attributes:
        name: its name.
        home: folder of all that it has.
        verb: that its processes do.
        faults: of lives that are still to come.
        fault: of the present life.
        earlier: whether the present life is of the earlier release.
        done: whether nothing is left for it to do.
    """

    name: str
    home: Path
    verb: Sequence[str]
    faults: list[DiskFault]
    fault: DiskFault | None = None
    lives: int = 0
    earlier: bool = False
    done: bool = False
    process: Any = None
    thaws: float = 0.0

    @property
    def _log(self) -> Path:
        return self.home.with_suffix(f".{self.lives}.log")

    def start(self, preloaded: str, release: str) -> None:
        """Begin a life, of this release or of an earlier one that lies in a folder."""
        self.lives += 1
        self.fault = self.faults.pop(0) if self.faults else None
        told = failing_disk.variables(self.fault, self.home)
        command = [*self.verb, str(self.home / "config.toml")]
        with self._log.open("wb") as log:
            if self.earlier:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", *command],
                    env=os.environ | told | {"LD_PRELOAD": preloaded, "PYTHONPATH": release},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            else:
                pairs = [f"{key}={value}" for key, value in told.items()]
                armed = ["tests.system.failing_disk", *pairs, "--", *command]
                self.process = forked.party(armed, log.fileno(), preloaded)

    def ended(self) -> int | None:
        """Exit status, once it has ended; what is frozen is let go on when it is time."""
        status: int | None = self.process.poll()
        if status is None and self.fault is not None and self.fault.kind == "freeze" and self._is_frozen():
            self.thaws = self.thaws or time.monotonic() + self.fault.many
            if time.monotonic() > self.thaws:
                self.thaws = 0.0
                self.process.send_signal(signal.SIGCONT)
        return status

    def _is_frozen(self) -> bool:
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def last_words(self) -> list[str]:
        """Last lines of the present process."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]

    def kill(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@dataclass(eq=False)
class Deployment:
    """Parties of a schedule, each in a folder of its own.

    Attributes:
        schedule: that is played.
        folder: of all.
        preloaded: the disk that fails.
        release: folder of an earlier release; empty: none takes part.
        story: seconds, party, what befell it or what it said.
        found: what must not be.
        happened: faults of lives, as sim/chaos calls them.
        kinds: of those, as they are called here.
        results: of consumers.
    """

    schedule: ProcessSchedule
    folder: Path
    preloaded: str
    release: str = ""
    story: list[tuple[float, str, str]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    happened: list[InjectedFault] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    results: dict[str, Any] = field(default_factory=dict)
    parties: dict[str, _Party] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write what each party has."""
        self.world = menu()[self.schedule.world]
        self._began = time.monotonic()
        self._chance = random.Random(f"releases {self.schedule.seed}")
        self._address = f"127.0.0.1:{next(PORTS)}"
        self._schema = SCHEMA if self.world.case.labels else UNLABELLED
        (self.folder / "schema.toml").write_text(self._schema.to_toml(), encoding="utf-8")
        authority, case = Authority(), self.world.case
        verb = "release" if case.summary is None else "summary"
        self._add(authority, "curator", ["curator", "serve"], self._curator())
        for name in self.world.owners:
            self._add(authority, name, ["owner", "join"], self._owner(name))
        for name in self.world.consumers:
            self._add(authority, name, ["consumer", verb], self._consumer(name))

    def _add(self, authority: Authority, name: str, verb: Sequence[str], values: Values) -> None:
        home = self._home(name)
        authority.issue(name, LOOPBACK if name == "curator" else ()).save(home)
        common = {"schema_file": "../schema.toml", "identity": ".", "log": "json", "connect_s": PATIENCE_S}
        write_config(home / "config.toml", {**common, "simulation_seed": SEED, **values})
        faults = list(self.schedule.faults.get(name, ()))
        earlier = bool(self.release) and self._chance.random() < 0.5
        self.parties[name] = _Party(name, home, verb, faults, earlier=earlier)

    def _curator(self) -> Values:
        case, home = self.world.case, self._home("curator")
        if self.world.seeds is not None:
            save_table(home / "seeds.npz", self.world.seeds)
        asked = {} if case.summary is None else {"summary": _plain(case.summary)}
        return {
            "listen": self._address,
            "directory": ".",
            "owners": [*self.world.owners],
            "grace_s": PATIENCE_S,
            "release": _plain(case.pooling),
            **({} if self.world.seeds is None else {"seeds": "seeds.npz"}),
            **asked,
        }

    def _owner(self, name: str) -> Values:
        save_table(self._home(name) / "rows.npz", self.world.owners[name])
        policy = _plain(policy_of(self.world.case.policies, name))
        return {"name": name, "curator": self._address, "data": "rows.npz", "policy": policy}

    def _consumer(self, name: str) -> Values:
        case, common = self.world.case, {"name": name, "curator": self._address, "output": "out"}
        if case.summary is None:
            return {**common, "release": case.release}
        save_table(self._home(name) / "rows.npz", self.world.validation)
        assert case.request is not None, "the case is of a summary"
        asked = {"validation": "rows.npz", "downstream": False, "request": _plain(case.request)}
        return {**common, **asked}

    def _home(self, name: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        return self.folder / name

    def play(self) -> PlayedSchedule:
        """Play it to its end."""
        try:
            for party in self.parties.values():
                self._start(party)
            consumers = [self.parties[name] for name in self.world.consumers]
            while not all(party.done for party in consumers) and not self._is_stuck(consumers):
                time.sleep(0.02)
                for party in self.parties.values():
                    self._look_at(party)
            self._stop()
        finally:
            for party in self.parties.values():
                party.kill()
        return self._outcome()

    def _say(self, party: str, line: str) -> None:
        self.story.append((time.monotonic() - self._began, party, line.replace(str(self.folder), "")))

    def _start(self, party: _Party) -> None:
        if party.faults and party.faults[0].kind == "power":
            failing_disk.begin_power(party.home)
        party.start(self.preloaded, self.release)
        self._say(party.name, f"starts{', of the earlier release' if party.earlier else ''}")

    def _is_stuck(self, consumers: Sequence[_Party]) -> bool:
        waiting = [party.name for party in consumers if not party.done]
        restless = [party.name for party in self.parties.values() if party.lives > _LIVES]
        if stuck := restless or (waiting if time.monotonic() - self._began > PATIENCE_S else []):
            self.found.append(f"stuck: {', '.join(stuck)}")
            for name in stuck:
                for line in self.parties[name].last_words():
                    self._say(name, line)
        return bool(stuck)

    def _look_at(self, party: _Party) -> None:
        if party.done or (status := party.ended()) is None:
            return
        self._tell(party, status)
        if _role(party.name) == "consumer" and self._is_served(party, status):
            party.done = True
            return
        if self.release:
            # a release that refuses what it finds is not tried again at once
            party.earlier = not party.earlier if status > 0 else self._chance.random() < 0.5
        self._start(party)

    def _tell(self, party: _Party, status: int) -> None:
        """Note what befell a process that ended, and what it said if nothing did."""
        fault, words = party.fault if failing_disk.operations(party.home) else None, party.last_words()
        if fault is not None:
            self._say(party.name, str(fault))
            self.kinds[fault.kind] += 1
            self.happened.append(
                InjectedFault(party.name, fault.operation, _SIMULATED[fault.kind], fault.many)
            )
            if fault.kind == "power":
                failing_disk.lose_power(party.home)
        failed = [line for line in words if '"failed"' in line or line.startswith("error ")]
        said = f": {failed[-1]}" if failed and status > 0 else ""
        self._say(party.name, f"ends with {status}{said}")
        expected = status == 0 or (fault is not None and -status in (signal.SIGKILL, signal.SIGTERM))
        if not expected and not (status > 9 and failed):
            self.found += [f"unforeseen: {party.name} ended with {status}: {' | '.join(words[-12:])}"]

    def _is_served(self, party: _Party, status: int) -> bool:
        if status > 0 and status not in _AGAIN and party.fault is None and not self.release:
            self.results[party.name] = (status,)
            return True
        if status:
            return False
        out = party.home / "out"
        if self.world.case.summary is None:
            files = sorted(path for path in out.iterdir() if path.name != OPEN)
            self.results[party.name] = {path.name: path.read_bytes() for path in files}
        else:
            table = load_table(out / "received.npz", self._schema, party.name)
            labels = None if table.labels is None else table.labels.tolist()
            self.results[party.name] = (table.values.tolist(), labels)
        return True

    def _stop(self) -> None:
        """Stop everybody, as a service manager does."""
        running = [party for party in self.parties.values() if not party.done]
        for party in running:
            party.process.send_signal(signal.SIGCONT)
            party.process.terminate()
        until = time.monotonic() + 60.0
        while running and time.monotonic() < until:
            time.sleep(0.02)
            running = [party for party in running if party.ended() is None]
        self.found += [f"stuck: {party.name} does not stop" for party in running]
        for party in self.parties.values():
            if not party.done and party not in running:
                self._tell(party, party.process.poll())

    def _outcome(self) -> PlayedSchedule:
        """Gather what everybody has, out of stores that are opened once more."""
        statuses = dict[str, str]()
        ledgers = {name: self._ledger(party, statuses) for name, party in self.parties.items()}
        return PlayedSchedule(
            Simulated(self.schedule.seed, self.schedule.world),
            self.results,
            records_in(self.folder / "curator"),
            ledgers,
            {},
            self.happened,
            self.found,
            self.story,
            statuses,
        )

    def _ledger(self, party: _Party, statuses: dict[str, str]) -> list[str]:
        if not (journal := party.home / "journal.db").exists():
            return []  # a consumer of a release keeps none
        try:
            with contextlib.closing(open_store(journal, party.name)) as store:
                stored_ledger(party.name, store)  # which follows its chain
                if party.name == "curator":
                    statuses.update((row.run, row.status) for row in store.runs())
                return [kept.line for kept in store.ledger()]
        except FedkmeError as error:
            self.found.append(f"store: {party.name}: {error}")
            return []


def _plain(settings: Any) -> Values:
    values: Values = settings.model_dump(mode="json", exclude_unset=True)
    return values


def play_processes(schedule: ProcessSchedule, folder: Path, release: str = "") -> Deployment:
    """Play a schedule by real processes in a folder, and find what must not be."""
    played = Deployment(schedule, folder, str(failing_disk.library()), release)
    outcome = played.play()
    outcome = replace(outcome, unreconciled=unreconciled(folder, outcome))
    undisturbed = quiet(schedule.world)
    if menu()[schedule.world].case.summary is not None:  # in files there is no word of the outcome
        rows = {name: result[:2] for name, result in undisturbed.results.items()}
        undisturbed = replace(undisturbed, results=rows)
    found = judge(outcome, undisturbed)
    # another release forecasts otherwise what a run will be worth, and says so in the record
    played.found = [line for line in found if not (release and line.startswith("same: records"))]
    return played


def _play(seed: int, release: str) -> Deployment:
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedkme-chaos-", dir=where) as folder:
        return play_processes(drawn(seed, bool(release)), Path(folder), release)


def _tell(seed: int, played: Deployment) -> None:
    print(f"seed {seed}, {played.world.name}:")
    for at, party, line in played.story:
        print(f"{at:9.2f}  {party:<12} {line}")
    for line in played.found or ["all is well"]:
        print(f"-> {line}")


def last_release(folder: Path) -> Path:
    """Install the wheel of the last release, the last tag or else the commit that dated it, into a folder.

    Its gRPC and protobuf come with it, on whose versions messages depend; all else is of this environment.
    """
    tag = _output("git", "describe", "--tags", "--abbrev=0")
    version = re.search(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None, "there was a release"
    commit = tag or _output("git", "log", "-1", "--format=%H", f"-S## {version[1]}", "--", "CHANGELOG.md")
    source, release = folder / "source", folder / "release"
    source.mkdir()
    subprocess.run(f"git archive {commit} | tar x -C {source}", shell=True, cwd=ROOT, check=True)
    locked = (source / "constraints.txt").read_text(encoding="utf-8")
    wire = re.findall(r"^(?:protobuf|grpcio(?!-tools)\S*)==\S+", locked, re.MULTILINE)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(release), str(source), *wire], check=True)
    return release


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()


def main() -> None:
    """Play schedules, and tell the story of each that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", type=int, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--releases", action="store_true", help="lives are of the last release, too")
    parser.add_argument("--story", action="store_true", help="tell all stories")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedkme-release-") as folder:
        release = str(last_release(Path(folder))) if asked.releases else ""
        failed = _play_all(range(asked.seed, asked.seed + asked.schedules), release, asked.story)
    sys.exit(1 if failed else 0)


def _play_all(seeds: range, release: str, tells: bool) -> list[int]:
    kinds, failed, began = Counter[str](), list[int](), time.monotonic()
    for seed in seeds:
        played = _play(seed, release)
        kinds.update(played.kinds)
        failed += [seed] if played.found else []
        if played.found or tells:
            _tell(seed, played)
    counts = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    took = time.monotonic() - began
    print(
        f"{len(seeds)} schedules in {took:.0f} s, {kinds.total()} faults: {counts}; bad: {failed or 'none'}"
    )
    return failed


if __name__ == "__main__":
    main()
