"""A summary by cells within one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import consumer.gate
from consumer.settings import RequestSettings
from curator.cells.book import public_book
from curator.cells.gate import CellGate
from curator.cells.run import CellTask, conduct_cells
from curator.ports import OwnerPort
from curator.summary.record import RunObserver, SummaryRecord
from curator.summary.settings import SummarySettings
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.noise import on_integers
from fedkme.data import Table
from fedkme.features.fourier import FourierSpec
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.privacy.ledger import Ledger
from fedkme.schema import Schema


async def run_by_cells(
    run: str,
    schema: Schema,
    ports: Sequence[OwnerPort],
    seeds: NDArray[np.float32],
    validation: Table,
    settings: SummarySettings,
    request: RequestSettings,
    seed: int,
    features: FourierSpec,
    theirs: consumer.gate.Gate,
    record: SummaryRecord,
    observer: RunObserver,
    facts: dict[str, Any],
    ledgers: Mapping[str, Ledger],
) -> None:
    """One run, the consumer's and the curator's parts as their processes do them; fills `record`."""
    book = public_book(settings, schema, seeds, len(validation), features.seed)
    encoded = schema.encode(validation.values)
    cells = book.cells_of(encoded)
    gate = CellGate(run, ledgers.get(CURATOR), CONSUMER)
    trusted = request.share == "rows"
    how = histogram_noise((settings if trusted else request).privacy.epsilon)
    noise = on_integers(noise_for(seed, CURATOR if trusted else CONSUMER)("histogram"))
    histogram = noisy_counts(cells, book.cells, how, noise)
    if trusted:
        theirs.pass_rows(run, len(validation))
        gate.receive_declared(theirs.declared, len(validation))
        gate.pass_histogram(how)
    else:
        theirs.pass_histogram(run, how.event)
        gate.receive_declared(theirs.declared, None)
    facts["cells"] = {"rho": settings.cells.rho, "prune": not trusted}
    task = CellTask(
        run,
        request.p,
        settings.cells.rho,
        schema,
        book,
        features.gamma,
        settings.owner_noise(),
        histogram,
        len(validation),
        encoded if trusted else None,
    )
    await conduct_cells(task, ports, settings.quorum, record, observer, gate)
