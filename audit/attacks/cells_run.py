"""Audit of whole summaries by cells: another owner's order may tell of a row, over the real wire.

An owner sees the code book, which is fixed here, and its order: a number of rows and their cells. The holder
has one row, in the first cell or in another; D_v is in the first cell, so that the observer is asked for more
rows if the holder has none in the first cell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.cells import BOOK, CORNERS, SCHEMA
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.recount import recount
from audit.attacks.runs import OBSERVER
from audit.attacks.wire import GRPC, LOOPBACK, Engine, SilentObserver
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.run.summary_record import SummaryRecord
from fedkme.arrays import FloatArray
from fedkme.cells.histogram import histogram_noise
from fedkme.directives import FillOrder
from fedkme.errors import OwnerLostError
from fedkme.privacy.events import Event, PureDp
from fedkme.privacy.ledger import LedgerSink
from fedkme.privacy.noise import SimulatedNoise
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate

HOLDER = "holder"
_ROWS = 4


@dataclass(slots=True)
class ObserverView:
    """The observer's view of a run.

    Attributes:
        count: rows that the observer is asked for; 0 if it is not asked.
        shares: shares of the order, by class and cell.
    """

    count: int = 0
    shares: FloatArray | None = None


class _Listener(HistogramResponder):
    """The observer: an owner that records its order."""

    def __init__(self, view: ObserverView, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._view = view

    def fill_order(self, round_number: int, order: FillOrder) -> Sequence[AnyRow]:
        self._view.count, self._view.shares = order.count, order.shares
        return super().fill_order(round_number, order)


def orders() -> Subject:
    """Whole runs at epsilon = 1 of the histograms, in one process and over gRPC."""
    claim = Claim(1.0, 0.0, "replace one row of another owner; an owner looks")
    game = partial(Experiment, claim, "rows that another owner is asked for, and of which cells")
    checks = (
        partial(_recount_run, claim),
        game(partial(play, LOOPBACK), 3_000, note=LOOPBACK.note),
        game(partial(play, GRPC), 300, note=GRPC.note),
    )
    return Subject("cells-orders", "sound", claim, checks)


def play(engine: Engine, second: bool, count: int, random: np.random.Generator) -> Scores:
    """Scores of `count` runs of one world, (count,)."""
    return np.array(asyncio.run(_scores(engine, second, count, random)), dtype=np.float64)


async def _scores(engine: Engine, second: bool, count: int, random: np.random.Generator) -> list[float]:
    noise, scores = SimulatedNoise(random), []
    async with engine.open([HOLDER, OBSERVER], SCHEMA.encoded_width) as seat:
        for _ in range(count):
            view, record = ObserverView(), SummaryRecord()
            ports = seat(_owners(second, noise, view))
            await run_cells(_task(), ports, 1, record, SilentObserver(), CellDisclosures("audit", None, "c"))
            if any(fault.code == OwnerLostError.code for fault in record.faults):
                raise OwnerLostError(record.faults[0].line, "A game's connections must hold.")
            scores.append(_score(view))
    return scores


def _owners(
    second: bool, noise: SimulatedNoise, view: ObserverView, ledger: LedgerSink | None = None
) -> list[HistogramResponder]:
    held = CORNERS[[3 if second else 0]]
    others = np.tile(CORNERS[[0, 3]], (4, 1))
    labels = np.zeros(len(others), dtype=np.int64)
    return [
        HistogramResponder(HOLDER, Table(held, labels[:1]), SCHEMA, noise, OwnerGate(HOLDER, ledger)),
        _Listener(view, OBSERVER, Table(others, labels), SCHEMA, noise, OwnerGate(OBSERVER)),
    ]


def _task() -> CellTask:
    first = int(BOOK.cells_of(SCHEMA.encode(CORNERS[:1]))[0])
    target = np.zeros(BOOK.cells, dtype=np.int64)
    target[first] = 20
    task = CellTask("audit", _ROWS, 1.0, SCHEMA, BOOK, 1.0, histogram_noise(1.0), target, 20, None, 0, "c")
    return replace(task, uniform=0.0)  # uniform rows, which so small a D_v gets, tell the observer nothing


def _score(view: ObserverView) -> float:
    """Score of a view: grows with the number of rows asked for, and with the share of other cells."""
    if view.shares is None:
        return 0.0
    first = int(BOOK.cells_of(SCHEMA.encode(CORNERS[:1]))[0])
    return view.count + 1.0 - float(view.shares[first])


class _Lines:
    """A ledger in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def extend(self, disclosures: Any) -> None:
        """Record the events towards other owners."""
        self.events += [about.event for about in disclosures if about.observer == "owners"]

    def head(self) -> dict[str, int | str]:
        """Head of an empty chain."""
        return {}


def _recount_run(claim: Claim, effort: Effort) -> CheckResult:
    """Compare what the holder wrote down of a run towards other owners with the claim."""
    lines, random = _Lines(), np.random.default_rng(effort.seed)

    async def run() -> None:
        noise = SimulatedNoise(random)
        async with LOOPBACK.open([HOLDER, OBSERVER], SCHEMA.encoded_width) as seat:
            ports = seat(_owners(True, noise, ObserverView(), lines))
            gate = CellDisclosures("audit", None, "c")
            await run_cells(_task(), ports, 1, SummaryRecord(), SilentObserver(), gate)

    asyncio.run(run())
    return recount(claim, lines.events, [PureDp], "the holder's lines about other owners in a run")
