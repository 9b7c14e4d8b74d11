"""`start`: from the launch of all parties to round 1, against interpreters that import and end.

The engine is `processes`, with K owners, a curator and a consumer. `bare` starts as many interpreters that
import numpy and grpc.aio and end: what any design with a process for each party pays.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedkme.errors import PartyFailedError
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.synthetic import simulation, synthetic_scenario
from sim.engines.processes import LaunchTimes, SummaryLaunch
from sim.report.progress import PlainProgress

_BARE = "import numpy, grpc.aio"
_ROWS = 2


def measure_start(settings: BenchSettings) -> Result:
    """A table of one row."""
    clocks, bare = [], []
    for _ in range(settings.repeats):
        clocks.append(asyncio.run(_launch(settings)))
        bare.append(asyncio.run(_bare(settings.start_owners + 2)))
    launched = np.array([clock.first_round - clock.launched for clock in clocks if clock.first_round])
    imported = np.array([clock.first_round - clock.imported for clock in clocks if clock.first_round])
    row: dict[str, Cell] = {"K": settings.start_owners}
    for what, seconds in (("after imports", imported), ("with imports", launched), ("bare", np.array(bare))):
        row |= {f"{what} s": float(np.median(seconds)), f"{what} max s": float(seconds.max())}
    row["with imports / bare"] = float(np.median(launched / np.array(bare)))
    return Result("start", "launch to round 1", [row])


async def _launch(settings: BenchSettings) -> LaunchTimes:
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        scenario = synthetic_scenario(settings.start_owners)
        progress = PlainProgress(io.StringIO())
        launch = SummaryLaunch(scenario, simulation(_ROWS, settings.tls), Path(folder), progress)
        await launch.run()
    if launch.clock.first_round is None:
        raise PartyFailedError("no round began", "Run the benchmark again.")
    return launch.clock


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
