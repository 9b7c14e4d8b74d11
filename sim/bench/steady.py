"""`steady`: memory of a curator over the rounds of one run, and over runs one after another.

Owners are processes, this process is the curator and, for the runs, their consumer too: stores are on disk,
and archives are made as a curator makes them. Memory is the resident set once nothing waits to be collected,
each time at a mark; the first marks are where everything that is made once has been made.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from typing_extensions import override

from curator.runs.queue import shortened
from curator.summary.record import RoundRecord
from fedkme.ledgers.archiving import archive_finished
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from sim.bench.fleet import fleet
from sim.bench.memory import status
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.rounds import RoundEnds, journal_of, real_block, stored, summary_settings
from sim.bench.synthetic import simulation, synthetic_scenario
from sim.engines.inprocess import KeptRecords, SimulatedMarket, ask_in_process, curating, silent

_OWNERS, _MARKS = 2, 5
_ROWS = 2


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
    """A row for rounds, a row for runs."""
    rows = [asyncio.run(measure(settings)) for measure in (_rounds, _runs)]
    return Result("steady", "resident memory of a curator, MiB", rows)


async def _rounds(settings: BenchSettings) -> dict[str, Cell]:
    """One run by the clock."""
    count = settings.steady_rounds
    scenario = synthetic_scenario(_OWNERS, count // _OWNERS + 1)
    simulated = simulation(count, settings.tls)
    marks = Marks(every=-(-count // _MARKS))
    async with fleet(scenario, simulated) as owners:
        with stored(CURATOR) as store:
            books = journal_of("run", store)
            protocol = summary_settings(simulated, "clock")
            await real_block(scenario, simulated, protocol, owners, _OWNERS, "run", books, marks)
    return _row("rounds", count, marks.sizes, marks.every)


async def _runs(settings: BenchSettings) -> dict[str, Cell]:
    """Runs of a few rows each, of a curator that goes on, and of one consumer."""
    scenario = synthetic_scenario(_OWNERS)
    simulated = simulation(_ROWS, settings.tls)
    every, sizes = -(-settings.steady_runs // _MARKS), []
    async with fleet(scenario, simulated) as owners:
        with stored(CURATOR) as curators, stored(CONSUMER) as consumers:
            market = SimulatedMarket(
                schema=scenario.schema,
                seeds=scenario.seeds,
                seed=simulated.seed,
                owners=tuple(scenario.owners),
                members=owners.members,
                noise_for=partial(noise_for, simulated.seed),
                curator=curators,
                consumer=consumers,
                journaled=True,
            )
            records = KeptRecords()
            async with curating(market, records, silent, summary=simulated.summary.curator_part()) as curator:
                for number in range(1, settings.steady_runs + 1):
                    request = simulated.summary.consumer_part()
                    await ask_in_process(market, curator, scenario.validation, request, records)
                    archive_finished(curators, shortened)
                    if number % every == 0:
                        sizes.append(_settled())
    return _row("runs", settings.steady_runs, sizes, every)


def _settled() -> float:
    """Resident MiB without what is garbage, in Python and in the C library."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS") / 2**20


def _row(what: str, count: int, sizes: Sequence[float], every: int) -> dict[str, Cell]:
    """Memory at each mark, and its growth since the middle one."""
    grown = (sizes[-1] - sizes[len(sizes) // 2]) / (every * (len(sizes) - 1 - len(sizes) // 2))
    marks = {f"at {i}/{len(sizes)}": size for i, size in enumerate(sizes, start=1)}
    return {"what": what, "count": count, **marks, "KiB each, second half": 2**10 * grown}
