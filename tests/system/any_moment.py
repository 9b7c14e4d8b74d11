"""SIGTERM, SIGINT and SIGHUP at random moments of the life of real parties, their imports included.

`python -m tests.system.any_moment N --seed S` plays N deployments of one curator, owners and a consumer over
mTLS, each a command line in an interpreter of its own, and prints who ended how, and what nobody should read.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.parties import WAIT_S
from tests.system.chaos.deployment import Deployment
from tests.system.chaos.schedules import ProcessSchedule

WORLDS = (12, 75)
"""Numbers of worlds of audit/chaos: a summary, and a release by secure sums."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BEFORE = ("Fatal Python error: init_", "from operate.cli import main\n")
"""Words of tracebacks of ctrl-C while Python itself begins, or imports the module of `main`."""
FEDKME = Path(sys.executable).parent / "fedkme"


@dataclass(frozen=True, slots=True)
class Shot:
    """Process of a party that was told to stop, and its end.

    Attributes:
        party: its name.
        sent: signals, each with the seconds after the start.
        status: exit status.
        said: what it wrote to its standard streams.
    """

    party: str
    sent: tuple[tuple[float, signal.Signals], ...]
    status: int
    said: str

    @property
    def before(self) -> bool:
        """Check for a traceback of Python itself: ctrl-C came before `main` began."""
        return any(words in self.said for words in _BEFORE)

    @property
    def fault(self) -> str:
        """Describe what is wrong with the end; empty if nothing is, or if `main` had not begun."""
        if self.before:
            return ""
        for words in ("Traceback", "Exception ignored", "Fatal", "unforeseen", "never retrieved"):
            if words in self.said:
                return f"{self.party} wrote {words!r} at {self.sent}, {self.status}: {self.said[-3000:]}"
        untold = self.status in (1, 2) or (self.status < 0 and -self.status not in SIGNALS)
        return f"{self.party} ended with {self.status} at {self.sent}: {self.said[-3000:]}" if untold else ""


def shots(seed: int, folder: Path, signals: tuple[signal.Signals, ...] = SIGNALS) -> list[Shot]:
    """Start all parties of a deployment, and send each of them one or two signals at random moments."""
    chance = random.Random(f"any moment {seed}")
    at = Deployment(ProcessSchedule(seed, chance.choice(WORLDS), {}), folder)
    parties = list(at.parties.values())
    logs = {party.name: (folder / f"{party.name}.log").open("w+b") for party in parties}
    began = time.monotonic()
    processes = {
        party.name: subprocess.Popen(
            [FEDKME, *party.verb, str(party.home / "config.toml")],
            stdin=subprocess.DEVNULL,
            stdout=logs[party.name],
            stderr=subprocess.STDOUT,
        )
        for party in parties
    }
    longest = chance.choice((0.8, 6.0, 2.0))
    if longest == 2.0:  # while they run and end; else while they begin
        _await(folder / "curator.log", b'"run"', processes["curator"])
    due, begins = list[tuple[float, str, signal.Signals]](), time.monotonic() - began
    for party in parties:
        moment = begins + chance.uniform(0.0, longest)
        due.append((moment, party.name, chance.choice(signals)))
        if chance.random() < 0.4:
            due.append((moment + chance.uniform(0.0, 0.6), party.name, chance.choice(signals)))
    sent = {party.name: list[tuple[float, signal.Signals]]() for party in parties}
    try:
        for moment, name, number in sorted(due):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            if processes[name].poll() is None:
                sent[name].append((round(time.monotonic() - began, 3), number))
                processes[name].send_signal(number)
        for name, process in processes.items():
            if sent[name] and all(number is signal.SIGHUP for _, number in sent[name]):
                process.send_signal(signal.SIGTERM)  # a service reads its files again, and goes on
            process.wait(WAIT_S)
    finally:
        for process in processes.values():
            process.kill()
    said = {}
    for name, log in logs.items():
        log.seek(0)
        said[name] = log.read().decode(errors="replace")
        log.close()
    return [
        Shot(name, tuple(sent[name]), process.returncode, said[name]) for name, process in processes.items()
    ]


def _await(log: Path, words: bytes, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has written words, or has ended."""
    until = time.monotonic() + WAIT_S
    while words not in log.read_bytes() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)


def main() -> None:
    """Play deployments; the status is 1 if an end was wrong."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores ctrl-C
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deployments", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ends, faults, told, before = Counter[str](), list[str](), 0, 0
    for seed in range(options.seed, options.seed + options.deployments):
        with tempfile.TemporaryDirectory(prefix="fedkme-moment-", dir=_memory()) as folder:
            for shot in shots(seed, Path(folder)):
                told, before = told + len(shot.sent), before + shot.before
                ends[f"{'+'.join(number.name for _, number in shot.sent) or 'none'}: {shot.status}"] += 1
                if shot.fault:
                    faults.append(shot.fault)
                    print(f"seed {seed}: {shot.fault}", flush=True)
    for end, times in sorted(ends.items()):
        print(f"{times:4} {end}")
    print(f"{told} signals, {ends.total()} processes, {len(faults)} wrong ends, {before} before main")
    sys.exit(bool(faults))


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    main()
