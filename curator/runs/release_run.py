"""Carries out one release run over owners that dialled in, from its document to its files on disk.

Owners are asked once. What they gave, with noise, is written down together with the ledger's lines; from
there everything is post-processing, which a curator that starts again does again (docs/decisions/007).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from curator.owners.members import Members
from curator.owners.roster import Fault
from curator.releases.method import Finished, Method, make_method
from curator.releases.record import ReleaseRecord, write_release
from curator.runs.queue import Run, Status
from curator.settings import CuratorSettings
from curator.sums.disclosures import SumDisclosures, unwritten
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.errors import (
    CancelledRunError,
    FedkmeError,
    MissingOwnersError,
    SecureAggregationError,
    StoreError,
)
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Disclosure, disclosure_from_json
from fedkme.privacy.ledger import Ledger, disclosures_in
from fedkme.releases.settings import settings_from_json
from fedkme.store import Store
from fedkme.sums.values import Enrolment
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.wire.v1 import releases_pb2

RELEASE, POOLED, AGGREGATING = "release", "pooled", "aggregating"
"""Kinds of entries of a run's journal: the release, how it came, and, as masks were asked for, the ledger's
lines that owners may have written from there on."""


@dataclass(frozen=True, eq=False)
class ReleaseRun:
    """Everything that release runs share."""

    settings: CuratorSettings
    schema: Schema
    seeds: Table | None
    """Public rows."""
    members: Members
    store: Store
    ledger: Ledger
    noise_for: NoiseFor
    say: Callable[..., None]
    identity: Callable[[], Identity | None] = lambda: None
    """This curator's, as it is now."""

    async def carry_out(self, run: Run) -> Status | None:
        """Carry out a run, or what is left of it.

        Returns:
            How it ended, with its record on disk; None when it is left open for a later process, because the
            store failed.
        """
        record = ReleaseRecord()
        sessions: list[SumSession] = []
        facts: dict[str, Any] = {}
        files: dict[str, bytes] = {}
        try:
            status = await self._outcome(run, record, sessions, facts, files)
            self._write(run, record, files, facts, sessions)
        except StoreError as error:
            run.error = error
            self.say("suspended", run=run.name, code=error.code, cause=error.cause, remedy=error.remedy)
            return None
        self.members.discharge(run.name)
        for session in sessions:
            await session.dismiss()
        self.say("ended", run=run.name, status=record.status, reason=record.reason)
        return status

    async def _outcome(
        self,
        run: Run,
        record: ReleaseRecord,
        sessions: list[SumSession],
        facts: dict[str, Any],
        files: dict[str, bytes],
    ) -> Status:
        """Everything but what comes after; all but `run` are filled."""
        try:
            settings = settings_from_json(run.document.release.settings)
            method = await asyncio.to_thread(
                make_method, settings, self.schema, self.seeds, settings.seed or 0
            )
            facts |= {
                "protocol": method.protocol,
                "settings": settings.model_dump(mode="json"),
                "planned": [event.to_json() for event in method.planned()],
            }
            begun = bool(run.document.owners)
            if begun:  # by an earlier process: owners are told of the end, whatever is left to do
                sessions += self._sessions(run)
            release = self._kept(run, record)
            if release is None:
                if not begun:
                    await self._gather(run)
                    sessions += self._sessions(run)
                release = await self._pool(run, method, record, sessions)
            finished = await self._finish(run, method, release)
        except StoreError:
            raise
        except FedkmeError as error:
            record.stop(error)
            return "failed"
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            record.stop(
                CancelledRunError(f"{run.name} was cancelled", "Ask again for another run."), "cancelled"
            )
            return "cancelled"
        record.status, record.rows, record.files = "complete", finished.rows, tuple(finished.files)
        files |= finished.files
        return "complete"

    def _kept(self, run: Run, record: ReleaseRecord) -> bytes | None:
        """The release, where an earlier process came so far.

        Raises:
            SecureAggregationError: it died while owners opened a sum.
        """
        kept = {entry.kind: entry.body for entry in self.store.entries(run.name)}
        if POOLED in kept:
            record.restore(kept[POOLED])
        if RELEASE in kept:
            return kept[RELEASE]
        if AGGREGATING in kept:
            lines = [disclosure_from_json(plain) for plain in json.loads(kept[AGGREGATING])]
            with self.ledger.together(), self.store.transaction():
                self.ledger.extend(unwritten(lines, Counter(self._written(run))))
            raise SecureAggregationError(
                f"the curator stopped while the owners of {run.name} opened a sum",
                "Ask again; what owners disclosed counts, and it costs again.",
            )
        return None

    def _written(self, run: Run) -> list[Disclosure]:
        """What the ledger says of the run already."""
        lines = disclosures_in(kept.line for kept in self.store.ledger())
        return [line for line in lines if line.run == run.name]

    async def _gather(self, run: Run) -> None:
        """The owners of the run: who is here when it begins, for good."""
        document = run.document
        names = await self.members.gather(self.settings.release.quorum, self.settings.connect_s)
        document.owners.extend(names)
        document.missing.extend(self.members.missing())
        self.store.update_run(run.name, document=document.SerializeToString())

    def _sessions(self, run: Run) -> list[SumSession]:
        self.members.enlist(run.name, run.document.owners)
        return [SumSession(self.members.connection(name), run.name) for name in run.document.owners]

    async def _pool(
        self, run: Run, method: Method, record: ReleaseRecord, sessions: list[SumSession]
    ) -> bytes:
        """Ask owners; the release is on disk, with what it cost, when this returns."""
        security = None if self.settings.release.security is None else self.settings.release.security.value()
        enrolment = Enrolment(
            run.name, self.schema.digest(), run.consumer, method.protocol, method.planned(), security
        )
        gate = SumDisclosures(enrolment, self._written(run))

        def left(fault: Fault) -> None:
            self.say("owner_left", run=run.name, owner=fault.owner, round=fault.round, line=fault.line)

        for owner in run.document.missing:
            absent = MissingOwnersError(f"{owner} has not joined; the run begins without it", "Start it.")
            record.faults.append(Fault(0, owner, absent.code, str(absent)))
            left(record.faults[-1])
        pool = OwnerSums(
            sessions,
            enrolment,
            self.schema,
            gate,
            quorum=self.settings.release.quorum,
            noise_for=self.noise_for,
            identity=self.identity(),
            begin_aggregation=partial(self._mark, run, gate),
            observe=left,
            faults=record.faults,
        )
        self.say("run", run=run.name, round=0, protocol=method.protocol, owners=len(sessions))
        run.tell(releases_pb2.ReleaseProgress(stage="pooling", line=f"asking {len(sessions)} owners"))
        try:
            record.owner_rows = await pool.enlist()
            release = await method.ask(pool)
            record.owner_rows = pool.contributions or record.owner_rows
        except BaseException:
            with self.ledger.together(), self.store.transaction():
                self.ledger.extend(gate.take())  # what came counts, also where nothing is made of it
            raise
        with self.ledger.together(), self.store.transaction():
            self.ledger.extend(gate.take())
            self.store.append(run.name, POOLED, record.pooled())
            self.store.append(run.name, RELEASE, release)
        return release

    def _mark(self, run: Run, gate: SumDisclosures) -> None:
        """From here on owners write lines of which nothing may come to this process."""
        lines = json.dumps([line.to_json() for line in gate.at_most()])
        with self.store.transaction():
            self.store.append(run.name, AGGREGATING, lines.encode())

    async def _finish(self, run: Run, method: Method, release: bytes) -> Finished:
        """Post-processing, beside the loop that serves everybody else."""
        loop, abandoned = asyncio.get_running_loop(), threading.Event()

        def tell(stage: str, line: str, fraction: float) -> None:  # in the thread
            if abandoned.is_set():  # or it would train to the end, and this process wait for it
                raise CancelledRunError(f"{run.name} is not carried out any more", "Ask again.")
            said = releases_pb2.ReleaseProgress(stage=stage, line=line, fraction=fraction)
            loop.call_soon_threadsafe(run.tell, said)
            report = partial(self.say, "progress", run=run.name, stage=stage, line=line, fraction=fraction)
            loop.call_soon_threadsafe(report)

        try:
            return await asyncio.to_thread(method.finish, release, tell)
        except asyncio.CancelledError:
            abandoned.set()
            raise

    def _write(
        self,
        run: Run,
        record: ReleaseRecord,
        files: dict[str, bytes],
        facts: dict[str, Any],
        sessions: list[SumSession],
    ) -> None:
        """The folder of the run.

        Raises:
            StoreError: it cannot be written.
        """
        security = self.settings.release.security
        about = {
            "run": run.name,
            "consumer": run.consumer,
            "security": None if security is None else security.model_dump(mode="json"),
            **facts,
            "bytes": {
                "sent": sum(session.traffic.sent for session in sessions),
                "received": sum(session.traffic.received for session in sessions),
            },
            "ledger": self.ledger.head(),
        }
        try:
            write_release(self.settings.directory / run.name, record, files, about)
        except OSError as error:
            raise StoreError(
                f"the record of {run.name} cannot be written: {error.strerror}",
                "Make room, and start the curator again: the run goes on.",
            ) from None
