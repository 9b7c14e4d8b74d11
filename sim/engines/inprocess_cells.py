"""A summary by cells within one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import consumer.gate
from consumer.settings import RequestSettings
from curator.cells.code_book import PublicCells, of_owners, of_seeds, sketch_enrolment
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.ports import OwnerPort
from curator.summary.record import RunObserver, SummaryRecord
from curator.summary.settings import SummarySettings
from curator.sums.disclosures import SumDisclosures
from curator.sums.owner_sums import OwnerSums
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.noise import on_integers
from fedkme.features.fourier import FourierSpec
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.privacy.ledger import Ledger
from fedkme.sealed import Gift
from fedkme.sums.values import Security
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate
from owner.sums.responder import SumResponder
from sim.engines.release_ports import DirectPoolPort


async def run_by_cells(
    run: str,
    schema: Schema,
    ports: Sequence[OwnerPort],
    tables: Mapping[str, Table],
    seeds: NDArray[np.float32],
    validation: Table,
    settings: SummarySettings,
    request: RequestSettings,
    seed: int,
    features: FourierSpec,
    theirs: consumer.gate.ConsumerGate,
    record: SummaryRecord,
    observer: RunObserver,
    facts: dict[str, Any],
    ledgers: Mapping[str, Ledger],
    gifts: Mapping[str, Gift] | None = None,
    security: Security | None = None,
) -> None:
    """One run, the consumer's and the curator's parts as their processes do them; fills `record`."""
    if settings.cells.code_book == "seeds":
        public = of_seeds(settings, schema, seeds, len(validation), features.seed)
    else:
        public = await _sketched(
            run, settings, schema, tables, len(validation), seed, features.seed, ledgers, security
        )
    book = public.book
    encoded = schema.encode(validation.values)
    cells = book.cells_of(encoded)
    gate = CellDisclosures(run, ledgers.get(CURATOR), CONSUMER)
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
    facts["cells"] = {"rho": settings.cells.rho}
    facts["prune"] = not trusted or gifts is not None
    task = CellTask(
        run,
        request.p,
        settings.cells.rho,
        schema,
        book,
        features.gamma,
        settings.owner_noise().histogram,
        histogram,
        len(validation),
        encoded if trusted else None,
        public.classes,
        gifts=gifts,
    )
    await run_cells(task, ports, settings.quorum, record, observer, gate)


async def _sketched(
    run: str,
    settings: SummarySettings,
    schema: Schema,
    tables: Mapping[str, Table],
    validation_rows: int,
    seed: int,
    public_seed: int,
    ledgers: Mapping[str, Ledger],
    security: Security | None,
) -> PublicCells:
    """The code book, by a run of sums over the same owners."""
    enrolment = sketch_enrolment(run, settings, schema, CONSUMER, security)
    gate = SumDisclosures(enrolment)
    ports = [
        DirectPoolPort(
            SumResponder(
                name, table, schema, noise_for(seed, name)("sums"), OwnerGate(name, ledgers.get(name))
            )
        )
        for name, table in tables.items()
    ]
    curators = noise_for(seed, CURATOR)
    pool = OwnerSums(ports, enrolment, schema, gate, noise_for=curators, quorum=settings.quorum)
    try:
        await pool.enlist()
        return await of_owners(settings, schema, pool, validation_rows, public_seed)
    finally:
        if CURATOR in ledgers:
            ledgers[CURATOR].extend(gate.take())
