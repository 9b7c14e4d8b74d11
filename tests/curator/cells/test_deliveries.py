"""Deliveries for orders that follow noise: an owner sends all rows of its order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.attacks.wire import SilentObserver, loopback_to
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.run.summary_record import SummaryRecord
from fedkme.cells.histogram import histogram_noise
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.summary_weights import received
from fedkme.errors import OwnerFaultError
from fedkme.party import noise_for
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from tests.owner.test_sealed import BOOK, RUN, SCHEMA, table
from tests.parties import WAIT_S

P = 8
NOISE = histogram_noise(0.1)


class Port(OwnerSession):
    """Port to an owner in this process that has P rows, of one cell alone or of any (None)."""

    def __init__(self, name: str, cell: int | None, seed: int) -> None:
        rows = table(cell or seed, 400)
        cells = BOOK.cells_of(SCHEMA.encode(rows.values))
        mine = np.flatnonzero((cells == cell) | (cell is None))[:P]
        assert rows.labels is not None
        held = Table(rows.values[mine], rows.labels[mine])
        noise = noise_for(seed, name)("histogram")
        owner = HistogramResponder(name, held, SCHEMA, noise, OwnerGate(name))
        super().__init__(loopback_to(owner, SCHEMA.encoded_width), RUN)


class Short(Port):
    """Port to an owner that withholds one row."""

    async def fill_order(self, *order: Any) -> Sequence[AnyRow]:
        return (await super().fill_order(*order))[1:]


async def run(
    *ports: OwnerSession, rho: float = 1.0, uniform: float = 0.0, target: Sequence[int] = (20, 0, 0, 0)
) -> SummaryRecord:
    histogram, gamma = np.array(target), 1.0
    task = CellTask(RUN, P, rho, SCHEMA, BOOK, gamma, NOISE, histogram, 20, None, uniform=uniform)
    record = SummaryRecord()
    async with asyncio.timeout(WAIT_S):
        await run_cells(task, ports, 1, record, SilentObserver(), CellDisclosures(RUN, None, "consumer"))
    return record


@pytest.mark.parametrize("seed", range(10))
async def test_orders_of_cells_that_an_owner_has_no_row_of_are_filled(seed: int) -> None:
    # With rho 1 the run gets p rows, whatever noise the orders follow.
    record = await run(*(Port(name, cell, seed) for cell, name in enumerate("abcd")))
    assert not record.faults
    assert len(record.selected) == len(record.accesses) == P
    assert record.status == "complete"


async def test_an_owner_that_sends_fewer_rows_than_it_has_is_out_of_the_run() -> None:
    record = await run(Short("a", 0, 0), Port("b", 1, 0))
    assert [(fault.owner, fault.code) for fault in record.faults] == [("a", OwnerFaultError.code)]
    assert {row.owner for row in record.selected} == {"b"}
    assert record.status == "stopped"


@pytest.mark.parametrize("target", [(20, 0, 0, 0), (0, -9, 3, 400), (5, 5, 5, 5)])
async def test_a_share_of_uniform_rows_bounds_the_error_whatever_the_histograms_say(
    target: tuple[int, ...],
) -> None:
    # Decision 008: with weights, MMD^2 is at most that of a rho p uniform rows, for every draw. The test runs
    # the whole protocol at epsilon .1, with histograms that fit D_v or do not.
    def ports() -> list[OwnerSession]:
        return [Port(name, None, seed) for seed, name in enumerate("abcd", 1)]

    both = await run(*ports(), rho=2.0, uniform=0.5, target=target)
    alone = await run(*ports(), rho=1.0, uniform=1.0, target=target)
    assert sum(both.released["uniform"].values()) == len(alone.selected) == P
    assert (len(both.selected), both.status, alone.status) == (2 * P, "complete", "complete")
    assert rows_of(alone) < rows_of(both)  # the same draws, of the owners' own randomness
    validation = np.random.default_rng(5).random((20, 3)) * [0.3, 1.0, 1.0]
    least = [
        received(np.array(sorted(rows_of(record))), ReferenceRows(validation, 1.0)).least
        for record in (both, alone)
    ]
    assert least[0] <= least[1]


def rows_of(record: SummaryRecord) -> set[tuple[float, ...]]:
    return {tuple(row.values.tolist()) for row in record.selected}
