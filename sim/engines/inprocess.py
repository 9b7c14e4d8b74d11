"""The `inprocess` engine: the same protocol by direct calls, under one debugger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import consumer.gate
import curator.summary.disclosures
import owner.consent.gate
from consumer.sealed.boxes import opened
from consumer.sealed.keys import RunKeys
from consumer.settings import RequestSettings
from consumer.summary.client import gamma_of
from curator.runs.public_draws import draw_features, public_seed, reference_rows
from curator.summary.hashed import HashedContent
from curator.summary.record import RunObserver, SummaryRecord
from curator.summary.run import run_summary
from curator.summary.settings import SummarySettings
from curator.summary.task import SummaryTask
from fedkme.errors import BudgetError, ConfigError, FedkmeError, OwnerFaultError, SealedBoxError
from fedkme.features.fourier import RandomFourier
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.privacy.ledger import Ledger
from fedkme.privacy.settings import release_target
from fedkme.protocol import Assignment, Bid, Broadcast, CellAssignment, Closing
from fedkme.sealed import AnyRow, KeyOffer
from fedkme.sums.values import Security
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.keyring import KeyRing
from owner.summary.bidder import Bidder
from sim.engines.inprocess_cells import run_by_cells
from sim.scenarios import Scenario


class DirectPort:
    """The `OwnerPort` of an owner in the same process. Its failures reach the curator as its faults."""

    def __init__(
        self, bidder: Bidder, filler: HistogramResponder | None = None, keys: KeyRing | None = None
    ) -> None:
        self._bidder = bidder
        self._filler = filler
        self._keys = keys or KeyRing(bidder.name)
        self.name = bidder.name

    def offer(self, run: str) -> KeyOffer:
        """This owner's keys in a run whose rows go sealed."""
        return self._keys.offer(run)

    async def prepare(self, assignment: Assignment) -> int:
        """See `OwnerPort`."""
        with self._faults(0):
            return self._bidder.prepare(assignment)

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        """See `OwnerPort`."""
        with self._faults(broadcast.round):
            return self._bidder.bid(broadcast)

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        """See `OwnerPort`."""
        with self._faults(round_number):
            return self._bidder.reveal(round_number, token)

    async def quote(self, broadcast: Broadcast, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """See `OwnerPort`."""
        with self._faults(broadcast.round):
            return self._bidder.quote(broadcast, prices)

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        with self._faults(round_number):
            return self._bidder.sell(round_number, price)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        with self._faults(round_number):
            return self._bidder.draw(round_number, count)

    async def divide(self, assignment: CellAssignment) -> int:
        """See `OwnerPort`."""
        with self._faults(0):
            return self._cells().divide(assignment)

    async def tally(self, round_number: int, cells: int) -> NDArray[np.int64]:
        """See `OwnerPort`."""
        with self._faults(round_number):
            return self._cells().tally(round_number)

    async def herd(self, round_number: int, count: int, shares: NDArray[np.float64]) -> Sequence[AnyRow]:
        """See `OwnerPort`."""
        with self._faults(round_number):
            return self._cells().herd(round_number, count, shares)

    async def close(self, last_round: int) -> Closing:
        """See `OwnerPort`."""
        if self._filler is not None and self._filler.begun:
            return self._filler.close()
        return self._bidder.close(last_round)

    def _cells(self) -> HistogramResponder:
        if self._filler is None:
            raise OwnerFaultError(f"{self.name} takes no part in summaries by cells", "Ask another owner.")
        return self._filler

    @contextlib.contextmanager
    def _faults(self, round_number: int) -> Iterator[None]:
        try:
            yield
        except FedkmeError as error:
            kind = type(error) if isinstance(error, BudgetError | SealedBoxError) else OwnerFaultError
            raise kind(f"{self.name}, round {round_number}: {error.cause}", error.remedy) from None


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Owners in this process, and what is public."""

    schema: Schema
    ports: Sequence[DirectPort]
    seeds: NDArray[np.float32]
    """Encoded rows of the public seed set, (s, n)."""
    tables: Mapping[str, Table]
    """Owners' rows."""
    security: Security | None = None
    """How their sums are protected; None: by trust."""


def open_market(scenario: Scenario, seed: int, ledgers: Mapping[str, Ledger] | None = None) -> Market:
    """Owners of a scenario with the private randomness that their processes would have, and their ledgers."""
    gates = {name: owner.consent.gate.OwnerGate(name, (ledgers or {}).get(name)) for name in scenario.owners}
    schema = scenario.schema
    rings = {name: KeyRing(name) for name in scenario.owners}
    ports = [
        DirectPort(
            Bidder(name, table, schema, noise_for(seed, name)("draw"), gates[name], rings[name]),
            HistogramResponder(
                name, table, schema, noise_for(seed, name)("histogram"), gates[name], rings[name]
            ),
            rings[name],
        )
        for name, table in scenario.owners.items()
    ]
    return Market(schema, ports, encoded(schema, scenario.seeds), scenario.owners)


def encoded(schema: Schema, table: Table | None) -> NDArray[np.float32]:
    """Rows in model space, (m, n); none without a table."""
    if table is None:
        return np.empty((0, schema.encoded_width), dtype=np.float32)
    return schema.encode(table.values)


async def run_in_process(
    market: Market,
    validation: Table,
    settings: SummarySettings,
    request: RequestSettings,
    seed: int,
    record: SummaryRecord,
    observer: RunObserver,
    facts: dict[str, Any],
    ledgers: Mapping[str, Ledger] | None = None,
) -> Table | None:
    """One run; fills `record`, and `facts` with what else the curator's record.json says of it.

    The curator and the consumer write in those of `ledgers` that bear their names.

    Returns:
        What the consumer finds in boxes, where rows go sealed.
    """
    ledgers = ledgers or {}
    run = "run-1"
    theirs = consumer.gate.ConsumerGate(CONSUMER, ledgers.get(CONSUMER))
    gate = curator.summary.disclosures.SummaryDisclosures(run, ledgers.get(CURATOR), CONSUMER)
    rows = market.schema.encode(validation.values)
    gamma = gamma_of(request.kernel, rows, market.seeds)
    if request.kernel.gamma == "median-validation":
        theirs.pass_gamma(gamma)
    features = draw_features(
        settings.features,
        gamma,
        market.schema.encoded_width,
        public_seed(seed),
    )
    facts |= {
        "run": run,
        "consumer": CONSUMER,
        "p": request.p,
        "validation_rows": len(validation),
        "validation_points": 0 if request.share == "embedding" else len(validation),
        "seed_rows": len(market.seeds),
        "features": asdict(features),
        "cells": None,
        "prune": settings.drawn(request.p) > request.p,
        "bytes": {"sent": 0, "received": 0},
    }
    keys, gifts = None, None
    if settings.sealed:
        keys = RunKeys.fresh(CONSUMER, run, seed)
        offers = [port.offer(run) for port in market.ports]
        gifts = {gift.taker: gift for gift in keys.gifts(offers, None, lambda _, error: None)}
    if settings.protocol == "cells":
        await run_by_cells(
            run,
            market.schema,
            market.ports,
            market.tables,
            market.seeds,
            validation,
            settings,
            request,
            seed,
            features,
            theirs,
            record,
            observer,
            facts,
            ledgers,
            gifts,
            market.security,
        )
        return None if keys is None else opened(record.sealed(), market.schema, keys)
    h1 = RandomFourier(features)
    draw = keys.draw(features) if keys is not None and settings.protocol == "algorithm3" else None
    if draw is not None and request.share == "rows":
        raise ConfigError(
            "the curator chooses by hashes that it cannot make, so that D_v is of no use to it",
            "Set 'share' to \"embedding\", or ask a curator that sees rows.",
        )
    holder = "consumer" if request.share == "embedding" else "curator"
    target, cost = release_target(request.target, draw or h1, rows, noise_for(seed, holder)("target"))
    if request.share == "embedding":
        theirs.pass_target(run, target, cost)
        gate.receive_target(target, theirs.declared)
    else:
        theirs.pass_rows(run, len(validation))
        gate.receive_validation(len(validation), theirs.declared)
        gate.pass_target(target, cost)
    task = SummaryTask(
        run,
        request.p,
        market.schema,
        h1,
        target,
        h1.fixed_point(market.seeds if draw is None else market.seeds[:0]),
        count_seeds=settings.seed_set == "counted",
        reference=(
            h1.fixed_point(reference_rows(market.schema, market.seeds, features.seed))
            if keys is None or draw is None
            else keys.reference(draw, market.schema)
        ),
        gifts=gifts,
        hashed=None if draw is None else HashedContent(draw.spec, market.schema.width),
    )
    await run_summary(task, settings, market.ports, noise_for(seed, "curator"), record, observer, gate)
    return None if keys is None else opened(record.sealed(), market.schema, keys, draw)
