"""Parties on hosts: their folders, certificates of `fedkme pki`, their processes and what these say."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedkme.privacy.ledger import read_ledger
from tests.hosts.network import Network
from tests.parties import (
    HERE,
    NUMBERS,
    Values,
    consumer_values,
    curator_values,
    numbers,
    owner_values,
    run_verb,
    write_config,
)
from tests.places import ROOT

WAIT_S = 300.0
"""Time to wait for something that takes a second or two when the machine has nothing else to do."""

COMMAND = "from operate.cli import main; main()"
"""The `fedkme` command of this checkout."""

OWNERS = ("north", "south", "west")
PORT = 7700
ADDRESS = f"curator:{PORT}"
VERBS = {"curator": ("curator", "serve"), "lab": ("consumer", "summary")}

Event = dict[str, Any]


def environment(**more: str) -> dict[str, str]:
    """Environment of this checkout's processes."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


class Party:
    """A process whose log is JSON."""

    def __init__(self, command: Sequence[str], cwd: Path, **more: str) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[Event] = []
        self.other: list[str] = []
        self._over = False
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    self.other.append(line)
                self._more.notify_all()
        with self._more:
            self._over = True
            self._more.notify_all()

    def until(self, event: str, fits: Callable[[Event], bool] = lambda line: True, after: int = 0) -> Event:
        """The first such event of those after the first so many; waited for."""

        def found() -> list[Event]:
            return [line for line in self.events[after:] if line["event"] == event and fits(line)]

        with self._more:
            self._more.wait_for(lambda: found() or self._over, WAIT_S)
            assert found(), f"no {event!r} came: {self.events[-5:]} {self.other[-20:]}"
            return found()[0]

    def said(self, event: str) -> list[Event]:
        """Such events so far."""
        return [line for line in list(self.events) if line["event"] == event]

    def ended(self) -> int:
        """Exit status, once it has ended and everything that it said was read."""
        status = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return status

    def kill(self) -> None:
        """Kill it as a loss of power would: no handler runs."""
        self.process.kill()
        self.ended()

    def stop(self) -> int:
        """Stop it as a service manager does; returns its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()


class Site:
    """Folders of a curator, three owners and a consumer called lab, each on its host, and their processes."""

    def __init__(self, network: Network, folder: Path, identities: Path, rows: int = 150) -> None:
        """Write what the parties hold; start nobody."""
        self.network = network
        self.folder = folder
        self.identities = identities
        self.running: dict[str, Party] = {}
        self._started: list[Party] = []
        folder.mkdir()
        (folder / "schema.toml").write_text(NUMBERS)
        for place, name in enumerate((*OWNERS, "lab")):
            self.home(name).mkdir()
            (self.home(name) / "rows.csv").write_text(numbers(rows, place))
        self.home("curator").mkdir()

    def home(self, party: str) -> Path:
        """A party's folder."""
        return self.folder / party

    def _own(self, identity: str) -> Values:
        return {"schema_file": "../schema.toml", "log": "json", "identity": self.identities / identity}

    def start(self, party: str, values: Values, settings: str = "") -> Party:
        """Write a configuration and start its party on its host."""
        home = self.home(party)
        role, verb = VERBS.get(party, ("owner", "join"))
        config = write_config(home / f"{party}.toml", values, settings)
        command = self.network.within(party, sys.executable, "-m", role, verb, str(config))
        self._started.append(Party(command, home))
        return self._started[-1]

    def curator(self, settings: str = "") -> Party:
        """The curator, once it listens."""
        own = {"listen": f"{self.network.address('curator')}:{PORT}", "owners": OWNERS, "durability": "power"}
        values = curator_values(HERE, **self._own("curator.pem"), **own)
        party = self.running["curator"] = self.start("curator", values, settings)
        party.until("listening")
        return party

    def owner(self, name: str, identity: str = "", **changes: Any) -> Party:
        """An owner, not yet joined; with its bundle by default."""
        own = self._own(identity or f"{name}.pem") | {"data": "rows.csv", "durability": "power"}
        self.running[name] = self.start(name, owner_values(HERE, name, ADDRESS, **own | changes))
        return self.running[name]

    def ask(self, p: int, output: str) -> Party:
        """The consumer's request."""
        own = self._own("lab.pem") | {"name": "lab", "validation": "rows.csv", "output": output}
        request = {"p": p, "kernel": {"gamma": 0.5}}
        return self.start("lab", consumer_values(HERE, ADDRESS, request=request, **own))

    def close(self) -> None:
        """End every process."""
        for party in self._started:
            party.process.kill()
            party.ended()

    def audit(self, p: int) -> Event:
        """Hold a finished run to its claims; its record.

        The run is complete, every chain is whole and both sides of each exchange say the same
        (`fedkme audit verify`), curator, owners and consumer count the same points accessed, and no event is
        written down twice.
        """
        ledgers = [self.folder / f"{name}.jsonl" for name in OWNERS]
        for name, ledger in zip(OWNERS, ledgers, strict=True):
            run_verb("owner", "ledger", self.home(name) / f"{name}.toml", "--out", ledger)
        runs = self.home("curator") / "runs"
        run_verb("curator", "ledger", self.home("curator") / "curator.toml", "--out", runs / "ledger.jsonl")
        asked = self.folder / "lab.jsonl"
        run_verb("consumer", "ledger", self.home("lab") / "lab.toml", "--out", asked)
        verdict = run_verb(
            "audit", "verify", runs, *ledgers, asked, "--authority", self.identities / "ca/authority.pem"
        )
        assert "FAULT" not in verdict
        assert all(f"{name} and curator: " in verdict for name in (*OWNERS, "lab"))
        run = read_ledger(asked)[-1].disclosure.run
        record: Event = json.loads((runs / run / "record.json").read_text())
        assert record["status"] == "complete"
        rows = len(record["selected"])
        assert rows >= p if record["prune"] else rows == p
        with (runs / run / "rounds.csv").open() as file:
            numbers = [int(row["round"]) for row in csv.DictReader(file)]
        assert numbers == list(range(1, len(numbers) + 1))
        for path in (runs / "ledger.jsonl", *ledgers, asked):
            events = Counter(entry.disclosure for entry in read_ledger(path))
            assert max(events.values()) == 1, f"{path.name}: an event was written twice"
        for name, ledger in zip(OWNERS, ledgers, strict=True):
            tokens = [token for _, who, token in accesses(runs / "ledger.jsonl", run) if who == name]
            here = [token for _, _, token in accesses(ledger, run)]
            assert record["accessed"][name] == len(tokens) == len(here)
            assert sorted(tokens) == sorted(here) == sorted(set(here))
        return record


def accesses(ledger: Path, run: str) -> list[tuple[int, str, str]]:
    """Rows that came to the curator in a run: round, owner, and what tells rows apart."""
    found = (entry.disclosure for entry in read_ledger(ledger))
    return [
        (about.round, about.protected, about.nonce)
        for about in found
        if about.run == run
        and about.observer == "curator"
        and about.protected in OWNERS
        and about.event.kind == "raw-rows"
    ]
