"""Service manager of a deployment: it starts again who ended, until all consumers are served."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from audit.chaos.faults import InjectedFault, Kind
from consumer.releases.client import OPEN
from fedkme.tables.files import load_table
from tests.system import failing_disk
from tests.system.chaos.between import Between, BetweenFault
from tests.system.chaos.deployment import PATIENCE_S, Deployment
from tests.system.chaos.party import Party
from tests.system.chaos.schedules import role

_LIVES = 40
_AGAIN = (35, 53, 55, 57)  # errors after which the same command goes on
_ABSENT = (33, 34)  # errors of the network
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
"""Kinds of audit/chaos after which the same must hold."""


class PlayedProcesses:
    """Schedule that is played, and what came of it.

    Attributes:
        world: simulated world of audit/chaos.
        story: seconds, party, and its fault or its line.
        found: violations.
        happened: faults that happened, by audit/chaos's names.
        kinds: kinds of these faults, by this module's names.
        results: results of consumers.
        parties: parties by name.
    """

    def __init__(self, deployment: Deployment, release: str = "") -> None:
        """Begin with a deployment; `release` is the folder of an earlier release that takes part."""
        self.world = deployment.world
        self.story: list[tuple[float, str, str]] = []
        self.found: list[str] = []
        self.happened: list[InjectedFault] = []
        self.kinds = Counter[str]()
        self.results: dict[str, Any] = {}
        self.parties = deployment.parties
        self._deployment = deployment
        self._release = release
        self._preloaded = str(failing_disk.library())
        self._between = self._forwarder()
        self._began = time.monotonic()

    def play(self) -> None:
        """Play it to its end."""
        if self._between is not None:
            self._between.start(self._deployment.near)
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
            if self._between is not None:
                self._between.stop()
                self._count(self._between.begun)

    def _forwarder(self) -> Between | None:
        """Make the forwarder, where the schedule has one."""
        schedule, server = self._deployment.schedule, self._deployment.server
        if schedule.between is None:
            return None
        assert server is not None, "it has a data base, too"
        return Between(self._deployment.address, schedule.between, server, self._befall)

    def _befall(self, fault: BetweenFault) -> None:
        """Note a fault of the network, the data base or a party, and end the party."""
        self._say(fault.party or "between", str(fault))
        if fault.party:
            party = self.parties[fault.party]
            party.told = True
            party.process.send_signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)

    def _count(self, begun: Sequence[BetweenFault]) -> None:
        """Note faults as audit/chaos calls them."""
        self.kinds.update(fault.kind for fault in begun)
        for fault in begun:
            parties = (
                self._deployment.schedule.stored if fault.kind == "restart" else [fault.party or "curator"]
            )
            kind: Kind = "doubt" if fault.kind == "restart" else "cut"
            if fault.kind in ("kill", "stop"):
                kind = "kill" if fault.kind == "kill" else "stop"
            self.happened += [InjectedFault(name, fault.at, kind) for name in parties]

    def _say(self, party: str, line: str) -> None:
        self.story.append(
            (time.monotonic() - self._began, party, line.replace(str(self._deployment.folder), ""))
        )

    def _start(self, party: Party) -> None:
        if party.faults and party.faults[0].kind == "power":
            failing_disk.begin_power(party.home)
        party.start(self._preloaded, self._release)
        self._say(party.name, f"starts{', of the earlier release' if party.earlier else ''}")

    def _is_stuck(self, consumers: Sequence[Party]) -> bool:
        waiting = [party.name for party in consumers if not party.done]
        restless = [party.name for party in self.parties.values() if party.lives > _LIVES]
        if stuck := restless or (waiting if time.monotonic() - self._began > PATIENCE_S else []):
            self.found.append(f"stuck: {', '.join(stuck)}")
            for name in stuck:
                for line in self.parties[name].last_words():
                    self._say(name, line)
        return bool(stuck)

    def _look_at(self, party: Party) -> None:
        if party.done or (status := party.ended()) is None:
            return
        self._tell(party, status)
        if role(party.name) == "consumer" and self._is_served(party, status):
            party.done = True
            return
        if self._release:
            # a release that refuses what it finds is not tried again at once
            party.earlier = not party.earlier if status > 0 else self._deployment.chance.random() < 0.5
        self._start(party)

    def _tell(self, party: Party, status: int) -> None:
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
        befallen = fault is not None or party.told
        expected = status == 0 or (befallen and -status in (signal.SIGKILL, signal.SIGTERM))
        expected |= status == -signal.SIGTERM and not words  # told to stop as its interpreter began
        if not expected and not (status > 9 and failed):
            self.found += [f"unforeseen: {party.name} ended with {status}: {' | '.join(words[-12:])}"]
        if status in _ABSENT and any('"joined"' in line for line in words):
            self.found += [f"absence: {party.name} had joined, and ended with {status}: {words[-1]}"]

    def _is_served(self, party: Party, status: int) -> bool:
        if (
            status > 0
            and status not in _AGAIN
            and party.fault is None
            and not party.told
            and not self._release
        ):
            self.results[party.name] = (status,)
            return True
        if status:
            return False
        out = party.home / "out"
        if self.world.case.summary is None:
            files = sorted(path for path in out.iterdir() if path.name != OPEN)
            self.results[party.name] = {path.name: path.read_bytes() for path in files}
        else:
            table = load_table(out / "received.npz", self._deployment.schema, party.name)
            labels = None if table.labels is None else table.labels.tolist()
            self.results[party.name] = (table.values.tolist(), labels)
        return True

    def _stop(self) -> None:
        """Stop everybody, as a service manager does."""
        running = [party for party in self.parties.values() if not party.done]
        for party in running:
            party.process.send_signal(signal.SIGCONT)
            party.process.terminate()
        until = time.monotonic() + PATIENCE_S
        while running and time.monotonic() < until:
            time.sleep(0.02)
            running = [party for party in running if party.ended() is None]
        self.found += [f"stuck: {party.name} does not stop" for party in running]
        for party in self.parties.values():
            if not party.done and party not in running:
                self._tell(party, party.process.poll())
