"""What is agreed on with owners before a run's plan goes to the consumer: public cells, and owners' keys.

The sketch is a run of sums of its own, called RUN/cells. It follows decision 007: the cells, with the
ledger's lines, are on disk before anybody hears of them; an attempt that died before is asked again where the
curator is trusted with sums, and costs again where it is not. It does not end with the consumer's call: a
second attempt would find owners that have left the first.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.cells.code_book import PublicCells, of_owners, of_seeds, sketch_enrolment
from curator.owners.key_exchange import exchange_keys
from curator.owners.members import Members
from curator.owners.roster import Fault
from curator.runs.queue import Run
from curator.settings import CuratorSettings
from curator.sums.disclosures import SumDisclosures, unwritten
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.cells.disclosures import sketch_of
from fedkme.errors import FedkmeError, SecureAggregationError, StoreError
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Disclosure, disclosure_from_json
from fedkme.privacy.ledger import Ledger, disclosures_in
from fedkme.store import Store
from fedkme.sums.values import Enrolment
from fedkme.tables.schema import Schema
from fedkme.wire import codecs
from fedkme.wire.sealed import offer_to_wire
from fedkme.wire.v1 import journals_pb2, types_pb2

_SKETCH = "sketch/"
"""Key of an attempt that is not over, by its run: whom it asks, what owners may have disclosed under secure
aggregation, or why it failed."""


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
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def agree(self, run: Run) -> None:
        """Fill in the run's cells, and the keys of its owners where rows go sealed, once.

        Cells go on when whoever waits for them does not; asking for keys begins nothing.

        Raises:
            FedkmeError: there are none: too few owners, seeds or rows, or an aggregation that failed.
        """
        if self.settings.summary.protocol == "cells" and not run.document.HasField("cells"):
            await asyncio.shield(self._task(run))
        if self.settings.summary.sealed:
            async with run.lock:
                if not run.document.hashed:
                    await self._introduce(run)

    async def _introduce(self, run: Run) -> None:
        """The run's owners, for good, and what the consumer seals the group secret for."""
        quorum = self.settings.summary.quorum
        names = await self.members.gather(quorum, self.settings.connect_s)
        connections = [self.members.connection(name) for name in names]
        offers = await exchange_keys(connections, run.name, quorum, lambda fault: self._left(run, fault))
        if run.status != "asked":
            return  # it was cancelled
        document = run.document
        document.offers.extend(offer_to_wire(offer) for offer in offers)
        document.owners.extend(offer.name for offer in offers)
        document.missing.extend(sorted({*self.members.missing(), *names}.difference(document.owners)))
        document.hashed = True
        document.secret_draw = self.settings.summary.protocol == "algorithm3"
        with self.store.transaction():
            self.store.update_run(run.name, document=document.SerializeToString())

    def take_up(self, waiting: Iterable[Run]) -> list[Run]:
        """Attempts of an earlier process: their owners must not forget them when they come back.

        Args:
            waiting: runs that wait for what the consumer offers.

        Returns:
            Those to `resume`.
        """
        known = {f"{_SKETCH}{run.name}": run for run in waiting}
        taken = []
        for key in self.store.keys(_SKETCH):
            if key not in known:
                self.store.delete(key)
            elif (attempt := self._attempt(known[key])) is not None and set(attempt) == {"owners"}:
                self.members.enlist(sketch_of(known[key].name), attempt["owners"])
                taken.append(known[key])
        return taken

    def resume(self, runs: Iterable[Run]) -> None:
        """Go on with what was taken up; the consumer hears how it ended when it asks again."""
        for run in runs:
            self._task(run)

    def forget(self, run: Run) -> None:
        """The run is over, and its consumer knows why."""
        self.store.delete(_key(run))

    async def suspend(self) -> None:
        """Let go; owners keep their part of it, for the next process."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, run: Run) -> asyncio.Task[None]:
        if (task := self._tasks.get(run.name)) is None:
            task = self._tasks[run.name] = asyncio.create_task(self._agree(run))
            task.add_done_callback(partial(self._over, run.name))
        return task

    def _over(self, run: str, task: asyncio.Task[None]) -> None:
        del self._tasks[run]
        if not task.cancelled():
            task.exception()  # it was written down: perhaps nobody waits for it any more

    async def _agree(self, run: Run) -> None:
        if self.settings.summary.cells.code_book == "seeds":
            rows, seed = run.document.request.validation_rows, run.document.features.seed
            self._publish(run, of_seeds(self.settings.summary, self.schema, self.seeds, rows, seed))
            return
        attempt = self._attempt(run) or {}
        if "lines" in attempt:
            self._give_up(run, attempt["lines"])
        if "fault" in attempt:
            self.store.delete(_key(run))
            code, cause, remedy = attempt["fault"]
            raise codecs.fault_from_wire(types_pb2.Fault(code=code, cause=cause, remedy=remedy))
        try:
            await self._sketched(run, attempt.get("owners"))
        except StoreError:
            raise
        except FedkmeError as error:
            self._note(run, fault=[error.code, error.cause, error.remedy])
            raise

    def _publish(self, run: Run, cells: PublicCells, gate: SumDisclosures | None = None) -> None:
        """What it cost and the cells, on disk; nothing of it left before."""
        gamma, rho = run.document.features.gamma, self.settings.summary.cells.rho
        document = journals_pb2.RunDocument()
        document.CopyFrom(run.document)
        document.cells.CopyFrom(codecs.cells_to_wire(cells.book.to_json(), gamma, rho, cells.classes))
        with self.ledger.together(), self.store.transaction():
            if gate is not None:
                self.ledger.extend(gate.take())
                self.store.delete(_key(run))
            if run.status == "asked":  # else it was cancelled
                self.store.update_run(run.name, document=document.SerializeToString())
        if run.status == "asked":
            run.document.cells.CopyFrom(document.cells)  # it is on disk: a call may go on

    async def _sketched(self, run: Run, names: list[str] | None) -> None:
        summary, release = self.settings.summary, self.settings.release
        security = None if release.security is None else release.security.value()
        enrolment = sketch_enrolment(run.name, summary, self.schema, run.consumer, security)
        quorum = max(summary.quorum, release.quorum)
        if names is None:
            names = await self.members.gather(quorum, self.settings.connect_s)
            self._note(run, owners=names)
        self.members.enlist(enrolment.run, names)
        sessions = [SumSession(self.members.connection(name), enrolment.run) for name in names]
        gate = SumDisclosures(enrolment, self._written(enrolment))
        pool = OwnerSums(
            sessions,
            enrolment,
            self.schema,
            gate,
            noise_for=self.noise_for,
            quorum=quorum,
            identity=self.identity(),
            begin_aggregation=lambda: self._note(run, lines=[line.to_json() for line in gate.at_most()]),
            observe=lambda fault: self._left(run, fault),
        )
        try:
            await pool.enlist()
            rows, seed = run.document.request.validation_rows, run.document.features.seed
            self._publish(run, await of_owners(summary, self.schema, pool, rows, seed), gate)
        except BaseException as error:
            with self.ledger.together(), self.store.transaction():
                self.ledger.extend(gate.take())  # what came counts, also where nothing is made of it
            if isinstance(error, FedkmeError) and not isinstance(error, StoreError):
                await self._end(enrolment.run, sessions)
            raise
        await self._end(enrolment.run, sessions)

    async def _end(self, name: str, sessions: Iterable[SumSession]) -> None:
        self.members.discharge(name)
        for session in sessions:
            await session.dismiss()

    def _give_up(self, run: Run, lines: Iterable[dict[str, Any]]) -> None:
        """An attempt under secure aggregation died, and may have been opened.

        Raises:
            SecureAggregationError: always, with what owners may have disclosed in the ledger.
        """
        found = [disclosure_from_json(plain) for plain in lines]
        with self.ledger.together(), self.store.transaction():
            written = Counter(line for line in self._ledger_lines() if line.run == sketch_of(run.name))
            self.ledger.extend(unwritten(found, written))
            self.store.delete(_key(run))
        raise SecureAggregationError(
            f"the curator stopped while the owners of {run.name} opened a sketch",
            "Ask again; what owners disclosed counts, and it costs again.",
        )

    def _written(self, enrolment: Enrolment) -> list[Disclosure]:
        """What the ledger says of the sketch already: owners asked again for the same write nothing."""
        return [line for line in self._ledger_lines() if line.run == enrolment.run]

    def _ledger_lines(self) -> list[Disclosure]:
        return list(disclosures_in(kept.line for kept in self.store.ledger()))

    def _attempt(self, run: Run) -> dict[str, Any] | None:
        kept = self.store.get(_key(run))
        return None if kept is None else dict(json.loads(kept))

    def _note(self, run: Run, **what: Any) -> None:
        self.store.put(_key(run), json.dumps(what).encode("ascii"))

    def _left(self, run: Run, fault: Fault) -> None:
        self.say("owner_left", run=run.name, owner=fault.owner, round=fault.round, line=fault.line)


def _key(run: Run) -> str:
    return f"{_SKETCH}{run.name}"
