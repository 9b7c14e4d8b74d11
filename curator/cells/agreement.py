"""What is agreed on with owners before a run's plan goes to the consumer: public cells, and owners' keys.

The sketch is a run of sums of its own, called RUN/cells. It follows decision 007: the cells, with the
ledger's lines, are on disk before anybody hears of them; an attempt that died before is asked again where the
curator is trusted with sums, and costs again where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curator.cells.book import PublicCells, of_owners, of_seeds, sketch_enrolment
from curator.introductions import introduce
from curator.members import Members
from curator.pooling.gate import PoolGate
from curator.pooling.oracle import Pool
from curator.pooling.session import PoolSession
from curator.runs import Run
from curator.settings import CuratorSettings
from curator.summary.roster import Fault
from fedkme.errors import SecureAggregationError
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.ledger import Ledger
from fedkme.schema import Schema
from fedkme.store import Store
from fedkme.wire import codecs
from fedkme.wire.sealed import offer_to_wire

AGGREGATING = "sketching"
"""Kind of the entry that says that owners may have opened a sketch."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Everything that the cells of runs share."""

    settings: CuratorSettings
    schema: Schema
    seeds: NDArray[np.float32]
    """Encoded public rows, (s, n)."""
    members: Members
    store: Store
    ledger: Ledger
    noise_for: NoiseFor
    say: Callable[..., None]
    identity: Callable[[], Identity | None] = lambda: None

    async def agree(self, run: Run) -> None:
        """Fill in the run's cells, and the keys of its owners where rows go sealed, once.

        Raises:
            FedkmeError: there are none: too few owners, seeds or rows, or an aggregation that failed.
        """
        async with run.lock:
            if self.settings.summary.protocol == "cells" and not run.document.HasField("cells"):
                await self._divide(run)
            if self.settings.summary.sealed and not run.document.hashed:
                await self._introduce(run)

    async def _introduce(self, run: Run) -> None:
        quorum = self.settings.summary.quorum
        names = await self.members.gather(quorum, self.settings.connect_s)
        links = [self.members.link(name) for name in names]
        offers = await introduce(links, run.name, quorum, lambda fault: self._left(run, fault))
        document = run.document
        document.offers.extend(offer_to_wire(offer) for offer in offers)
        document.owners.extend(offer.name for offer in offers)
        document.missing.extend(sorted({*self.members.missing(), *names}.difference(document.owners)))
        document.hashed = True
        document.secret_draw = self.settings.summary.protocol == "algorithm3"
        with self.store.transaction():
            self.store.update_run(run.name, document=document.SerializeToString())

    async def _divide(self, run: Run) -> None:
        gate = None
        if self.settings.summary.cells.code_book == "seeds":
            document = run.document
            rows, seed = document.request.validation_rows, document.features.seed
            cells = of_seeds(self.settings.summary, self.schema, self.seeds, rows, seed)
        else:
            cells, gate = await self._sketched(run)
        gamma, rho = run.document.features.gamma, self.settings.summary.cells.rho
        book = cells.book.to_json()
        run.document.cells.CopyFrom(codecs.cells_to_wire(book, gamma, rho, cells.classes))
        with self.ledger.together(), self.store.transaction():
            if gate is not None:
                self.ledger.extend(gate.take())
            self.store.update_run(run.name, document=run.document.SerializeToString())

    async def _sketched(self, run: Run) -> tuple[PublicCells, PoolGate]:
        if any(entry.kind == AGGREGATING for entry in self.store.entries(run.name)):
            raise SecureAggregationError(
                f"the curator stopped while the owners of {run.name} opened a sketch",
                "Ask again; what owners disclosed counts, and it costs again.",
            )
        release = self.settings.release
        security = None if release.security is None else release.security.value()
        summary = self.settings.summary
        enrolment = sketch_enrolment(run.name, summary, self.schema, run.consumer, security)
        quorum = max(summary.quorum, release.quorum)
        names = await self.members.gather(quorum, self.settings.connect_s)
        self.members.enlist(enrolment.run, names)
        sessions = [PoolSession(self.members.link(name), enrolment.run) for name in names]
        gate = PoolGate(enrolment)
        pool = Pool(
            sessions,
            enrolment,
            self.schema,
            gate,
            noise_for=self.noise_for,
            quorum=quorum,
            identity=self.identity(),
            begin_aggregation=lambda: self._mark(run),
            observe=lambda fault: self._left(run, fault),
        )
        try:
            await pool.enlist()
            rows, seed = run.document.request.validation_rows, run.document.features.seed
            return await of_owners(summary, self.schema, pool, rows, seed), gate
        except BaseException:
            with self.ledger.together(), self.store.transaction():
                self.ledger.extend(gate.take())  # what came counts, also where nothing is made of it
            raise
        finally:
            self.members.discharge(enrolment.run)
            for session in sessions:
                await session.dismiss()

    def _mark(self, run: Run) -> None:
        with self.store.transaction():
            self.store.append(run.name, AGGREGATING, b"")

    def _left(self, run: Run, fault: Fault) -> None:
        self.say("owner_left", run=run.name, owner=fault.owner, round=fault.round, line=fault.line)
