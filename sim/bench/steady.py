"""`steady`: memory of a curator over the rounds of one run; `soak` has that over many runs.

Owners are processes and this process is the curator, whose store is on disk. Memory is the resident set once
nothing waits to be collected, each time at a mark; the first marks are where everything that is made once has
been made.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from dataclasses import dataclass, field

from typing_extensions import override

from curator.summary.record import RoundRecord
from fedkme.privacy.events import CURATOR
from sim.bench.fleet import fleet
from sim.bench.memory import status
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.rounds import RoundEnds, journal_of, real_block, stored, summary_settings
from sim.bench.synthetic import simulation, synthetic_scenario

_OWNERS, _MARKS = 2, 5


@dataclass(slots=True)
class Marks(RoundEnds):
    """Resident MiB after every so many rounds.

    Attributes:
        every: rounds between two marks.
        sizes: at the marks.
    """

    every: int = 1
    sizes: list[float] = field(default_factory=list)

    @override
    def round_done(self, record: RoundRecord) -> None:
        RoundEnds.round_done(self, record)
        if record.round % self.every == 0:
            self.sizes.append(_settled())


def measure_steady(settings: BenchSettings) -> Result:
    """A row: memory at the marks of one run by the clock, and its growth since the middle one."""
    row = asyncio.run(_rounds(settings.steady_rounds, settings.tls))
    return Result("steady", "resident memory of a curator, MiB", [row])


async def _rounds(count: int, tls: bool) -> dict[str, Cell]:
    scenario = synthetic_scenario(_OWNERS, count // _OWNERS + 1)
    simulated = simulation(count, tls)
    marks = Marks(every=-(-count // _MARKS))
    async with fleet(scenario, simulated) as owners:
        with stored(CURATOR) as store:
            books = journal_of("run", store)
            protocol = summary_settings(simulated, "clock")
            await real_block(scenario, simulated, protocol, owners, _OWNERS, "run", books, marks)
    sizes, middle = marks.sizes, len(marks.sizes) // 2
    grown = (sizes[-1] - sizes[middle]) / (marks.every * (len(sizes) - 1 - middle))
    found = {f"at {i}/{len(sizes)}": size for i, size in enumerate(sizes, start=1)}
    return {"rounds": count, **found, "KiB a round, second half": 2**10 * grown}


def _settled() -> float:
    """Resident MiB without what is garbage, in Python and in the C library."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS") / 2**20
