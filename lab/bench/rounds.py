"""`rounds`: rounds of real owner processes against a bare echo of the same messages.

With journals, which the curator and the owners keep on disk as they do in deployments, and without.

This process is the curator. Blocks alternate: a run over the owners, with the size of every message written
down, then as many rounds of messages of these sizes with the echoes, which have the same server, stream type,
channel options and TLS. A round's time is from the end of the round before to its own end, so the first round
of a block, which also makes the expensive first release of h2, is left out. CPU time is of all processes, by
the system's ticks, over the same rounds: it waits for nobody, so that its ratio holds on a machine that
others use.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from typing_extensions import override

from curator.owners.connection import OwnerConnection
from curator.owners.session import OwnerSession
from curator.run.journal import JournaledNoise, RunJournal
from curator.run.summary_record import RoundRecord, SummaryRecord
from curator.runs.public_draws import draw_features, public_seed
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.run import run_summary
from curator.summary.settings import SummarySettings
from curator.summary.task import SummaryTask
from fedkme.documents import Fault
from fedkme.errors import PartyFailedError
from fedkme.features.fourier import RandomFourier
from fedkme.party import noise_for
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.settings import release_target
from fedkme.protocol import Bid, Broadcast
from fedkme.sealed.rows import AnyRow
from fedkme.store import Durability, Store, open_store
from lab.bench.echo import EchoServer, Phases, Sizes, messages_of
from lab.bench.fleet import Fleet, Keeps, fleet
from lab.bench.result import BenchSettings, Cell, Result
from lab.bench.synthetic import simulation, synthetic_scenario
from sim.config import SimulationSettings
from sim.scenarios.base import Scenario

T = TypeVar("T")
Books = RunJournal | Ledger | None
"""Journal or ledger that the curator keeps of a run."""

_AUCTIONS = ("privauction", "ask-everyone")
_GAMMA = 0.1


class MeasuredSession(OwnerSession):
    """An owner's session that writes down the size of every message of its rounds."""

    def __init__(self, connection: OwnerConnection, run: str, journal: RunJournal | None) -> None:
        super().__init__(connection, run, journal)
        self.sizes: tuple[dict[int, Sizes], dict[int, Sizes]] = ({}, {})
        """Of bids and of reveals, by round."""

    @override
    async def bid(self, broadcast: Broadcast) -> Bid | None:
        return await self._measured(self.sizes[0], broadcast.round, super().bid(broadcast))

    @override
    async def reveal(self, round_number: int, token: int) -> AnyRow:
        return await self._measured(self.sizes[1], round_number, super().reveal(round_number, token))

    async def _measured(self, sizes: dict[int, Sizes], round_number: int, call: Awaitable[T]) -> T:
        sent, received = self.traffic.sent, self.traffic.received
        answer = await call
        sizes[round_number] = (self.traffic.sent - sent, self.traffic.received - received)
        return answer


@dataclass(slots=True)
class RoundEnds:
    """A `RunObserver` that looks at the clock."""

    ends: list[float] = field(default_factory=list)

    def round_done(self, record: RoundRecord) -> None:
        """Write down when a round ended."""
        self.ends.append(time.perf_counter())

    def owner_left(self, fault: Fault) -> None:
        """Fail: every owner is needed."""
        raise PartyFailedError(fault.line.rstrip("."), "Run the benchmark again.")


@dataclass(slots=True)
class MeasuredEnds(RoundEnds):
    """Looks at the CPU seconds of everybody, too, as the first round of so many ends, and the last."""

    cpu_s: Callable[[], float] = time.process_time
    rounds: int = 2
    cpu: list[float] = field(default_factory=list)

    @override
    def round_done(self, record: RoundRecord) -> None:
        RoundEnds.round_done(self, record)
        if record.round in (1, self.rounds):
            self.cpu.append(self.cpu_s())


@dataclass(slots=True)
class Paired:
    """Milliseconds of rounds, one array a block, ours and the echo's; CPU of a round, one a block."""

    ours: list[np.ndarray] = field(default_factory=list)
    echo: list[np.ndarray] = field(default_factory=list)
    ours_cpu: list[float] = field(default_factory=list)
    echo_cpu: list[float] = field(default_factory=list)

    def row(self, owners: int, auction: str, keeps: Keeps) -> dict[str, Cell]:
        """A line of the table; ratios are of medians."""
        ours, echo = np.concatenate(self.ours), np.concatenate(self.echo)
        blocks = [np.median(a) / np.median(b) for a, b in zip(self.ours, self.echo, strict=True)]
        return {
            "K": owners,
            "auction": auction,
            "journals": "yes" if keeps == "process" else "no",
            "p50 ms": float(np.median(ours)),
            "p99 ms": float(np.percentile(ours, 99)),
            "echo p50 ms": float(np.median(echo)),
            "echo p99 ms": float(np.percentile(echo, 99)),
            "ratio": float(np.median(ours) / np.median(echo)),
            "block ratio min": float(min(blocks)),
            "block ratio median": float(np.median(blocks)),
            "block ratio max": float(max(blocks)),
            "CPU ms": float(np.median(self.ours_cpu)),
            "echo CPU ms": float(np.median(self.echo_cpu)),
            "CPU ratio": float(np.median(np.divide(self.ours_cpu, self.echo_cpu))),
        }


def measure(settings: BenchSettings) -> Result:
    """The table of all numbers of owners and auctions."""
    rows = asyncio.run(_measure(settings))
    how = "TLS" if settings.tls else "plaintext"
    return Result("rounds", f"rounds against a bare echo of the same messages, {how}", rows)


async def _measure(settings: BenchSettings) -> list[dict[str, Cell]]:
    variants: tuple[Keeps, ...] = ("process", "nothing")
    return [row for keeps in variants for row in await _measure_with(settings, keeps)]


async def _measure_with(settings: BenchSettings, keeps: Keeps) -> list[dict[str, Cell]]:
    scenario = synthetic_scenario(max(settings.owners))
    simulated = simulation(settings.rounds, settings.tls)
    rows = []
    async with contextlib.AsyncExitStack() as stack:
        everybody = await stack.enter_async_context(fleet(scenario, simulated, keeps))
        store = stack.enter_context(stored(CURATOR)) if keeps == "process" else None
        for owners in sorted(settings.owners):
            for auction in _AUCTIONS:
                summary = summary_settings(simulated, auction)
                paired = Paired()
                for block in range(settings.blocks + 1):
                    run = f"{owners}-{auction}-{block + 1}"
                    books = None if store is None else journal_of(run, store)
                    watch = MeasuredEnds(cpu_s=everybody.cpu_s, rounds=settings.rounds)
                    ours, phases = await real_block(
                        scenario, simulated, summary, everybody, owners, run, books, watch
                    )
                    began = everybody.cpu_s()
                    echo = await _echo_block(everybody.echoes, phases)
                    if block:  # the first warms both up
                        paired.ours.append(ours)
                        paired.echo.append(echo)
                        paired.ours_cpu.append(1e3 * (watch.cpu[1] - watch.cpu[0]) / len(ours))
                        paired.echo_cpu.append(1e3 * (everybody.cpu_s() - began) / len(phases))
                rows.append(paired.row(owners, auction, keeps))
    return rows


@contextlib.contextmanager
def stored(party: str, durability: Durability = "process") -> Iterator[Store]:
    """A party's store on disk, for as long as the context."""
    with (
        tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder,
        contextlib.closing(open_store(Path(folder) / "journal.db", party, durability)) as store,
    ):
        yield store


def journal_of(run: str, store: Store) -> RunJournal:
    """The curator's journal of a run that is new to its store."""
    store.open_run(run, "bench", b"")
    return RunJournal(store, run, stored_ledger(CURATOR, store))


def summary_settings(simulated: SimulationSettings, auction: str) -> SummarySettings:
    """The curator's part of a simulation, with another auction."""
    default = simulated.summary.curator_part()
    return SummarySettings.model_validate(default.model_dump() | {"auction": {"kind": auction}})


async def real_block(
    scenario: Scenario,
    simulated: SimulationSettings,
    settings: SummarySettings,
    fleet: Fleet,
    owners: int,
    run: str = "",
    books: Books = None,
    watch: RoundEnds | None = None,
) -> tuple[np.ndarray, list[Phases]]:
    """Times of rounds, and sizes of messages, of a run over the first `owners`, to whom its name is new."""
    noise = noise_for(simulated.seed, "bench")
    spec = draw_features(
        settings.features, _GAMMA, scenario.schema.encoded_width, public_seed(simulated.seed)
    )
    h1 = RandomFourier(spec)
    validation = scenario.schema.encode(scenario.validation.values)
    target, _ = release_target(simulated.summary.target, h1, validation, noise("target"))
    assert scenario.seeds is not None, "every market of a benchmark has a seed set"
    seeds = h1.fixed_point(scenario.schema.encode(scenario.seeds.values))
    run = run or f"bench-{len(fleet.blocks) + 1}"  # every block is a run of its own
    task = SummaryTask(run, simulated.summary.p, scenario.schema, h1, target, seeds)
    journal = books if isinstance(books, RunJournal) else None
    sessions = [MeasuredSession(connection, run, journal) for connection in fleet.connections[:owners]]
    fleet.blocks.append(sessions)
    fleet.members.enlist(run, [session.name for session in sessions])
    watch = watch or RoundEnds()

    def drawn(purpose: str) -> NoiseSource:
        return noise(purpose) if journal is None else JournaledNoise(noise(purpose), journal, purpose)

    await run_summary(task, settings, sessions, drawn, SummaryRecord(), watch, SummaryDisclosures(run, books))
    fleet.members.discharge(run)
    for session in sessions:
        await session.dismiss()
    present = list(enumerate(sessions))
    phases: list[Phases] = [
        [
            {
                i: session.sizes[exchange][number]
                for i, session in present
                if number in session.sizes[exchange]
            }
            for exchange in (0, 1)
        ]
        for number in range(1, len(watch.ends) + 1)
    ]
    return 1e3 * np.diff(watch.ends), phases


async def _echo_block(echoes: EchoServer, phases: Sequence[Phases]) -> np.ndarray:
    """Time as many rounds of the same messages with the echoes."""
    rounds = [messages_of(exchanges) for exchanges in phases]
    ends = []
    for messages in rounds:
        await echoes.round(messages)
        ends.append(time.perf_counter())
    return 1e3 * np.diff(ends)
