"""Deliveries for orders that follow noise: as many rows as were ordered, or as there are (issue 13)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.summary.record import SummaryRecord
from fedkme.cells.histogram import histogram_noise
from fedkme.errors import OwnerFaultError
from fedkme.party import noise_for
from fedkme.sealed import AnyRow
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from sim.attacks.wire import SilentObserver, loopback_to
from tests.owner.test_sealed import BOOK, RUN, SCHEMA, table

P = 8
NOISE = histogram_noise(0.1)


class Port(OwnerSession):
    """Port to an owner in this process that has rows of one cell alone."""

    def __init__(self, name: str, cell: int, seed: int) -> None:
        rows = table(cell, 400)
        mine = np.flatnonzero(BOOK.cells_of(SCHEMA.encode(rows.values)) == cell)[:P]
        assert rows.labels is not None
        held = Table(rows.values[mine], rows.labels[mine])
        noise = noise_for(seed, name)("histogram")
        owner = HistogramResponder(name, held, SCHEMA, noise, OwnerGate(name))
        super().__init__(loopback_to(owner, SCHEMA.encoded_width), RUN)


class Short(Port):
    """Port to an owner that keeps one row back."""

    async def fill_order(self, *order: Any) -> Sequence[AnyRow]:
        return (await super().fill_order(*order))[1:]


async def run(*ports: OwnerSession) -> SummaryRecord:
    target = np.array([20, 0, 0, 0])
    task = CellTask(RUN, P, 1.0, SCHEMA, BOOK, 1.0, NOISE, target, int(target.sum()), None)
    record = SummaryRecord()
    async with asyncio.timeout(20):
        await run_cells(task, ports, 1, record, SilentObserver(), CellDisclosures(RUN, None, "consumer"))
    return record


@pytest.mark.parametrize("seed", range(10))
async def test_orders_of_cells_that_an_owner_has_no_row_of_are_filled(seed: int) -> None:
    # Issue 13, item 6: rho 1 delivers p rows, whatever noise the orders follow.
    record = await run(*(Port(name, cell, seed) for cell, name in enumerate("abcd")))
    assert not record.faults
    assert len(record.selected) == len(record.accesses) == P
    assert record.status == "complete"


async def test_an_owner_that_sends_fewer_rows_than_it_has_is_out_of_the_run() -> None:
    record = await run(Short("a", 0, 0), Port("b", 1, 0))
    assert [(fault.owner, fault.code) for fault in record.faults] == [("a", OwnerFaultError.code)]
    assert {row.owner for row in record.selected} == {"b"}
    assert record.status == "stopped"
