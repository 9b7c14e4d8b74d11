"""`soak`: what parties grow by from run to run over the wire, and whether runs take longer.

A curator and owners are processes that serve one run after another over mutual TLS; consumers, in this
process, ask in waves, each of them once in a wave. Memory is what is resident between waves. A slope is that
of a line through the second half of the waves, in which nothing is new any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from consumer.settings import ConsumerSettings
from consumer.summary.client import run as consume
from fedkme.config import load_toml
from fedkme.ops.supervision import StatusReporter
from fedkme.pki.authority import Authority
from lab.bench.fleet import cpu_s, unless_one_ends
from lab.bench.result import BenchSettings, Cell, Result
from lab.bench.synthetic import simulation, synthetic_scenario
from sim.engines.children import Child, Event
from sim.engines.processes import prepare_parties
from sim.engines.template import AVAILABLE, Template

_OWNERS, _ROUNDS = 4, 10
_HERE = "consumers"
_WATCHED = {"curator": "run/curator/*.db*", "owner-1": "run/owners/owner-1.db*"}
"""Processes that are looked at, and their journals."""


class _Silent(StatusReporter):
    """Reporter of a consumer that discards events."""

    @override
    def say(self, event: str, **fields: object) -> None:
        """Say nothing."""


@dataclass(slots=True)
class ProcessFigures:
    """Figures of a process after each wave: MB resident, descriptors, CPU s, and MB in its journals."""

    memory: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    journal: list[float] = field(default_factory=list)

    def read(self, pid: int, folder: Path, journals: str) -> None:
        """Read the figures of a process; `journals` is a pattern of files in the folder."""
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.descriptors.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        self.cpu.append(cpu_s(pid))
        self.journal.append(
            sum(file.stat().st_size for file in folder.glob(journals) if file.is_file()) / 1e6
        )


def measure(settings: BenchSettings) -> Result:
    """A row for each party."""
    consumers = settings.soak_consumers
    waves = max(2, settings.soak_runs // consumers)
    figures, seconds = asyncio.run(_soak(consumers, waves, settings.tls))
    rows = [_row(party, read, consumers, seconds) for party, read in figures.items()]
    title = f"{waves * consumers} runs of {_ROUNDS} rounds, {consumers} consumers, {_OWNERS} owners"
    return Result("soak", title, rows)


def _row(party: str, figures: ProcessFigures, runs: int, seconds: Sequence[float]) -> dict[str, Cell]:
    half = len(figures.memory) // 2
    first, second = seconds[: len(seconds) // 2], seconds[len(seconds) // 2 :]
    cpu = np.diff([0.0, *figures.cpu]) / runs
    return {
        "party": party,
        "MB after the first wave": figures.memory[0],
        "MB in the end": figures.memory[-1],
        "kB a run": 1e3 * _slope(figures.memory[half:]) / runs,
        "descriptors, first": figures.descriptors[0],
        "descriptors, last": figures.descriptors[-1],
        "journal kB a run": 1e3 * _slope(figures.journal[half:]) / runs,
        "CPU ms a run, first half": 1e3 * float(np.mean(cpu[1 : half + 1])),
        "CPU ms a run, second half": 1e3 * float(np.mean(cpu[half:])),
        "s a run, first half": statistics.median(first),
        "s a run, second half": statistics.median(second),
    }


def _slope(values: Sequence[float]) -> float:
    """Growth from one value to the next, by least squares."""
    return float(np.polyfit(range(len(values)), values, 1)[0]) if len(values) > 1 else 0.0


async def _soak(consumers: int, waves: int, tls: bool) -> tuple[dict[str, ProcessFigures], list[float]]:
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as scratch:
        folder = Path(scratch)
        async with _serving(folder, Authority() if tls else None) as (children, asking):
            figures = {party: ProcessFigures() for party in (*_WATCHED, _HERE)}
            seconds = list[float]()
            settings = [asking(number) for number in range(consumers)]
            for _ in range(waves):
                seconds += await asyncio.gather(*map(_ask, settings))
                for party, where in _WATCHED.items():
                    figures[party].read(children[party].pid, folder, where)
                figures[_HERE].read(os.getpid(), folder, "lab/*/*.db*")
    return figures, seconds


@contextlib.asynccontextmanager
async def _serving(
    folder: Path, authority: Authority | None
) -> AsyncIterator[tuple[dict[str, Child], Callable[[int], ConsumerSettings]]]:
    """A curator and owners until the context ends, and settings of consumers by their numbers."""
    commands, own = _prepared(folder, authority)
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    children = dict[str, Child]()
    template = Template(folder / "template.txt") if AVAILABLE else None

    def hear(event: Event) -> None:
        if event["event"] == "listening":
            listening.set_result(event["address"])

    def asking(number: int) -> ConsumerSettings:
        name, place = f"lab-{number}", folder / "lab" / str(number)
        if authority is not None:
            authority.issue(name).save(place)
            own["identity"] = place
        changes = {"output": place, "journal": str(place / "journal.db"), "curator": listening.result()}
        return ConsumerSettings(**own | changes | {"name": name})

    try:
        for party, command in commands.items():
            children[party] = await Child.start(party, command, folder / f"{party}.txt", hear, template)
        await unless_one_ends(listening, list(children.values()), folder)
        for child in children.values():
            child.tell(listening.result())
        yield children, asking
    finally:
        await asyncio.gather(*(child.stop() for child in children.values()))
        if template is not None:
            template.close()


def _prepared(folder: Path, authority: Authority | None) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Commands of a curator of any number of runs and of owners, and what all consumers' settings have."""
    (folder / "run").mkdir()
    simulated = simulation(_ROUNDS, authority is not None)
    commands = dict(
        prepare_parties(synthetic_scenario(_OWNERS), simulated, folder, folder / "run", authority)
    )
    served = Path(commands["curator"][-1])
    served.write_text(served.read_text(encoding="utf-8").replace("runs = 1\n", "", 1), encoding="utf-8")
    return commands, load_toml(Path(commands.pop("consumer")[-1]))


async def _ask(settings: ConsumerSettings) -> float:
    """Seconds of a request."""
    began = time.monotonic()
    await consume(settings, _Silent(settings.name, False))
    return time.monotonic() - began
