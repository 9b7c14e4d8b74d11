"""`startup`: from the launch of all parties to round 1, against interpreters that import and end.

The engine is `processes`, with K owners, a curator and a consumer. `bare` starts as many interpreters that
import numpy and grpc.aio and end: what a design with an interpreter for each party pays. On a machine that
others use as well, CPU seconds say more than those of the clock; they are of the whole run, with its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from typing_extensions import override

from fedkme.errors import PartyFailedError
from lab.bench.fleet import cpu_s, fleet
from lab.bench.result import BenchSettings, Cell, Result
from lab.bench.rounds import real_block, summary_settings
from lab.bench.synthetic import simulation, synthetic_scenario
from sim.engines.children import Event
from sim.engines.processes import SummaryLaunch
from sim.progress import Progress

_BARE = "import numpy, grpc.aio"
_ROWS = 2


_HELP = ("-c", "import sys; from operate.cli import main; sys.argv[1:] = ['sim', 'run', '--help']; main()")
_MEMORY = {"Rss:": "resident", "Pss:": "with its share of shared pages", "Private_Dirty:": "its own"}
_KIB = 2**10


class MeasuredLaunch(SummaryLaunch):
    """A summary by processes that looks at its owners' memory as round 1 ends.

    Attributes:
        memory: MiB by what is counted, a value for each owner; none where the system does not tell.
        cpu: CPU seconds of all processes until then, and of what this one did before.
    """

    memory: dict[str, list[float]] | None = None
    cpu = 0.0

    @override
    def hear(self, event: Event) -> None:
        super().hear(event)
        if event["event"] == "round" and self.memory is None:
            self.memory = {}
            pids = [child.pid for child in self._children.values()]
            self.cpu = _cpu() + sum(
                map(cpu_s, pids if self._template is None else [*pids, self._template.pid])
            )
            for name, child in self._children.items():
                if name.startswith("owner"):
                    _add_memory(child.pid, self.memory)


@dataclass(slots=True)
class Launched:
    """Launches: seconds to round 1 with and without imports, CPU seconds, MiB of an owner."""

    whole: list[float] = field(default_factory=list)
    imported: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)


def measure(settings: BenchSettings) -> Result:
    """A table of one row."""
    launched = Launched()
    bare, bare_cpu, help_s, help_cpu = [], [], [], []
    for _ in range(settings.repeats):
        began = _cpu()
        asyncio.run(_launch(settings, launched))
        launched.cpu.append(_cpu() - began)
        began = _cpu()
        bare.append(asyncio.run(_bare(settings.start_owners + 2)))
        bare_cpu.append(_cpu() - began)
        began, clock = _cpu(), time.monotonic()
        subprocess.run([sys.executable, *_HELP], stdout=subprocess.DEVNULL, check=True)
        help_s.append(time.monotonic() - clock)
        help_cpu.append(_cpu() - began)
    row: dict[str, Cell] = {"K": settings.start_owners}
    figures = {
        "to round 1 s": launched.whole,
        "to round 1 after imports s": launched.imported,
        "bare s": bare,
        "to round 1 CPU s": launched.first,
        "whole run CPU s": launched.cpu,
        "bare CPU s": bare_cpu,
        "sim run --help s": help_s,
        "sim run --help CPU s": help_cpu,
    }
    for what, values in figures.items():
        row |= {what: float(np.median(values)), f"{what}, max": float(np.max(values))}
    row["to round 1 / bare"] = float(np.median(np.divide(launched.whole, bare)))
    alone = asyncio.run(_alone(settings))
    for where, memory in (("forked", launched.memory), ("alone", alone)):
        for what, sizes in memory.items():
            row[f"an owner's MiB, {where}, {what}"] = float(np.median(sizes))
    return Result("startup", "launch to round 1, and memory of an owner of 200 rows", [row])


async def _launch(settings: BenchSettings, launched: Launched) -> None:
    began = _cpu()
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        scenario = synthetic_scenario(settings.start_owners)
        progress = Progress(io.StringIO())
        launch = MeasuredLaunch(scenario, simulation(_ROWS, settings.tls), Path(folder), progress)
        await launch.run()
    if not launch.timing:
        raise PartyFailedError("no round began", "Run the benchmark again.")
    launched.whole.append(launch.timing["launch_s"])
    launched.first.append(launch.cpu - began)
    launched.imported.append(launch.timing["startup_s"])
    for what, sizes in (launch.memory or {}).items():
        launched.memory.setdefault(what, []).extend(sizes)


async def _alone(settings: BenchSettings) -> dict[str, list[float]]:
    """Memory of an owner in an interpreter of its own, after a run."""
    scenario, simulated = synthetic_scenario(1), simulation(_ROWS, settings.tls)
    memory: dict[str, list[float]] = {}
    async with fleet(scenario, simulated, forked=False) as everybody:
        protocol = summary_settings(simulated, "ask-everyone")
        await real_block(scenario, simulated, protocol, everybody, owners=1)
        _add_memory(everybody.children[0].pid, memory)
    return memory


def _add_memory(pid: int, sizes: dict[str, list[float]]) -> None:
    with contextlib.suppress(OSError):  # another system, or the owner has ended
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            key, size, *_ = line.split()
            if key in _MEMORY:
                sizes.setdefault(_MEMORY[key], []).append(int(size) / _KIB)


def _cpu() -> float:
    """Seconds of this process and of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


async def _bare(count: int) -> float:
    """Seconds until so many interpreters, started at once, have imported and ended."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    started = time.monotonic()
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", _BARE, env=environment)
        for _ in range(count)
    ]
    await asyncio.gather(*(process.wait() for process in processes))
    return time.monotonic() - started
