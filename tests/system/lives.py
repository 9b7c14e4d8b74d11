"""A curator, three owners and a consumer whose processes are killed and started again, at a test's pace.

The curator writes its lines to a pipe that holds one line. It is never further than its second line after the
one that the test has read, so that a process that is killed after a line is killed in the middle of the run,
however fast the run and however late the test.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import select
import signal
import socket
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.store.reading import read_store
from fedkme.wire.v1 import journals_pb2
from tests import forked
from tests.parties import (
    HERE,
    NUMBERS,
    consumer_values,
    curator_values,
    numbers,
    owner_values,
    run_verb,
    write_config,
)
from tests.system.launches import read_json, rounds

PATIENCE_S = 120.0
"""Time to wait for a line that comes within seconds when the machine has nothing else to do."""

OWNERS = ("north", "south", "west")
CONSUMER = "lab"
PARTIES = ("curator", *OWNERS, CONSUMER)
VERBS = {"curator": ("curator", "serve"), CONSUMER: ("consumer", "summary")}

Event = dict[str, Any]


def _ports() -> Iterator[int]:
    """Ports that nobody listens on, and that the system gives to no outgoing call while nobody does."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    for port in range(random.SystemRandom().randrange(10_000, first), 1024, -1):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


PORTS = _ports()
"""A curator keeps its port over all its lives."""


class Life:
    """One process of a party, and the lines that the test has read of it."""

    def __init__(self, role: str, verb: str, config: Path, paced: bool) -> None:
        """Start it.

        Args:
            role: package of the party.
            verb: what it does.
            config: its configuration.
            paced: whether it waits until the test reads: a packet pipe of one page holds one line.
        """
        self.pipe, writing = os.pipe2(os.O_CLOEXEC | (os.O_DIRECT if paced else 0))
        if paced:
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1)
        self.process = forked.party([role, verb, str(config)], writing)
        os.close(writing)
        self.events: list[Event] = []
        self.other: list[str] = []
        self.over = False
        self._rest = b""

    def read(self) -> None:
        """Read what there is; of a paced process a single line."""
        chunk = os.read(self.pipe, 2**16)
        self.over = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.other.append(line.decode(errors="replace"))

    def said(self, event: str, fits: Callable[[Event], bool] = lambda line: True) -> list[Event]:
        """Such events among those that were read."""
        return [line for line in self.events if line["event"] == event and fits(line)]

    def end(self) -> int:
        """Kill it, if it runs, and read what it had said; its exit status."""
        self.process.kill()
        while not self.over:
            self.read()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it; nothing is read any more."""
        self.end()
        os.close(self.pipe)


class Town:
    """The parties of one run over TLS on loopback."""

    def __init__(
        self, folder: Path, p: int, rows: int, summary: str, *, paced: bool = True, seeded: bool = True
    ) -> None:
        """Write what each party holds, and start it.

        Args:
            folder: where to.
            p: rows of the summary.
            rows: rows of each owner, and of D_v.
            summary: the curator's `[summary]`.
            paced: whether the curator waits until the test reads its lines.
            seeded: whether noise is a simulation's, and not the operating system's.
        """
        self.folder = folder
        self.paced = paced
        self._journal = folder / "curator" / "runs" / "journal.db"
        self.lives: dict[str, list[Life]] = {party: [] for party in PARTIES}
        address, authority = f"127.0.0.1:{next(PORTS)}", Authority()
        folder.mkdir()
        (folder / "schema.toml").write_text(NUMBERS)
        common = {"schema_file": "../schema.toml", "identity": ".", "log": "json", "connect_s": PATIENCE_S}
        common["simulation_seed"] = 0 if seeded else None
        calling = common | {"data": "rows.csv"}
        request = {"p": p, "kernel": {"gamma": 0.5}}
        asking = common | {"name": CONSUMER, "validation": "rows.csv", "output": "out"}
        configs = {name: owner_values(HERE, name, address, **calling) for name in OWNERS}
        configs["curator"] = curator_values(
            HERE, listen=address, owners=OWNERS, grace_s=PATIENCE_S, **common, **tomllib.loads(summary)
        )
        configs[CONSUMER] = consumer_values(HERE, address, request=request, **asking)
        for place, party in enumerate(PARTIES):
            home = folder / party
            home.mkdir()
            authority.issue(party, LOOPBACK if party == "curator" else ()).save(home)
            write_config(home / "config.toml", configs[party])
            (home / "rows.csv").write_text(numbers(rows, place))
        for party in PARTIES:
            self.start(party)

    def start(self, party: str) -> None:
        """Start a party with the configuration that it always had."""
        role, verb = VERBS.get(party, ("owner", "join"))
        config = self.folder / party / "config.toml"
        self.lives[party].append(Life(role, verb, config, self.paced and party == "curator"))

    def kill(self, party: str) -> None:
        """`kill -9` in the middle of the run, which nobody has ended and whose result nobody has."""
        life = self.lives[party][-1]
        assert life.process.poll() is None, f"{party} had ended: {life.events[-3:]} {life.other[-20:]}"
        assert life.end() == -signal.SIGKILL
        assert not self.lives["curator"][-1].said("ended")
        assert not [*(self.folder / "curator" / "runs").glob("*/record.json")]
        assert not (self.folder / CONSUMER / "out" / "summary.npz").exists()

    def until(self, party: str, event: str, fits: Callable[[Event], bool] = lambda line: True) -> Event:
        """The first such line of the party's present process; the curator goes on for others' lines alone."""
        life = self.lives[party][-1]
        deadline = time.monotonic() + PATIENCE_S
        while not (found := life.said(event, fits)):
            assert not life.over, f"{party} ended and never said {event!r}:\n{self._last_words()}"
            heard = [life] if party == "curator" else [lives[-1] for lives in self.lives.values()]
            pipes = {other.pipe: other for other in heard if not other.over}
            ready = select.select([*pipes], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"{party} did not say {event!r} in time:\n{self._last_words()}"
            for pipe in ready:
                pipes[pipe].read()
        return found[0]

    def _last_words(self) -> str:
        """Last words of all parties."""
        return "\n".join(
            f"{party}, life {number}: {life.events[-5:]} {life.other[-20:]}"
            for party, lives in self.lives.items()
            for number, life in enumerate(lives, 1)
        )

    def in_round(self, number: int) -> None:
        """Wait until the curator's present process has done so many rounds, or has done them again."""
        self.until("curator", "round", lambda line: line["round"] >= number)

    def finish(self) -> None:
        """Wait for the summary, then stop everybody as a service manager does."""
        self.until(CONSUMER, "judged")
        self.until("curator", "ended")
        for party in (*OWNERS, "curator"):
            self.lives[party][-1].process.terminate()
            self.until(party, "stopped")
            assert self.lives[party][-1].process.wait(PATIENCE_S) == 0
        assert self.lives[CONSUMER][-1].process.wait(PATIENCE_S) == 0

    def ledgers(self) -> dict[str, Path]:
        """Every party's, written out by its own verb."""
        found = {}
        for party in PARTIES:
            found[party] = self.folder / f"{party}.jsonl"
            verb = VERBS.get(party, ("owner", ""))[0]
            run_verb(verb, "ledger", self.folder / party / "config.toml", "--out", found[party])
        return found

    def transcript(self) -> dict[str, Any]:
        """Facts of a run that no death may change; how many bytes went over the wire may."""
        (directory,) = (self.folder / "curator" / "runs").glob("run-1*")
        out = self.folder / CONSUMER / "out"
        return {
            "record": read_json(directory / "record.json") | {"bytes": None},
            "rounds": rounds(directory),
            "summary": (directory / "summary.npz").read_bytes(),
            "received": (out / "summary.npz").read_bytes(),
            "evaluation": (out / "evaluation.json").read_bytes(),
            "ledgers": {party: path.read_bytes() for party, path in self.ledgers().items()},
        }

    def drawn(self) -> dict[str, list[bytes]]:
        """Noise of the open run by purpose, in the order of drawing: from the curator's journal."""
        found: dict[str, list[bytes]] = {}
        with contextlib.closing(read_store(str(self._journal), "curator")) as store:
            for run in store.runs():
                for entry in store.entries(run.run):
                    for draw in journals_pb2.CuratorEntry.FromString(entry.body).draws:
                        found.setdefault(draw.purpose, []).append(draw.values)
        return found

    def audit(self) -> str:
        """Verify the curator's folder and all parties' ledgers; returns what `fedkme audit verify` prints."""
        own = {party: path for party, path in self.ledgers().items() if party != "curator"}
        home = self.folder / "curator"
        return run_verb(
            "audit", "verify", home / "runs", *own.values(), "--authority", home / "authority.pem"
        )

    def close(self) -> None:
        """End every process that still runs."""
        for lives in self.lives.values():
            for life in lives:
                life.close()
