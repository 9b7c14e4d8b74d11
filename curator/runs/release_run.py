"""Body of a run that makes a release, from its document to its files on disk.

Owners' noisy answers are stored together with the ledger's lines before any step uses them: each answer from
which the next question is made, and the release, which is also written to the run's folder. All later steps
are post-processing. A step that fails costs its own files (`curator.releases.method`). A curator that
restarts repeats all steps (docs/decisions/006), and so does a curator that is asked again for an incomplete
release (`curator.run.release_record.completed`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from curator.releases.method import RELEASE, Finished, Method, finished, make_method
from curator.run.release_record import ReleaseRecord
from curator.run.run import Run, Status
from curator.runs.context import RunContext
from curator.runs.sums import run_sums, security_of, stage_reporter
from curator.sums.answers import NoisyAnswer
from curator.sums.charges import DOUBTFUL, Settle
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.errors import FedkmeError
from fedkme.exchange import StageProgress
from fedkme.ops.threads import in_thread, one_thread
from fedkme.protocol import Invitation, SumTerms
from fedkme.releases.settings import settings_from_json

RELEASED, POOLED, AGGREGATING, ANSWER = "release", "pooled", "aggregating", "answer"
"""Kinds of entries in a run's journal: the release, the owners and faults behind it, lines that owners may
have written under masks (of an earlier fedkme: see `DOUBTFUL`), and answers from which questions follow."""


class ReleaseRun:
    """Run of one release, by its method."""

    rounds = 0

    def __init__(self, context: RunContext, run: Run) -> None:
        self.record = ReleaseRecord(secure=context.settings.release.security is not None)
        self.sessions: list[SumSession] = []
        self.quorum = context.settings.release.quorum
        self._context = context
        self._run = run
        self._method: Method | None = None
        self._facts: dict[str, Any] = {}
        self._files: Mapping[str, bytes] = {}
        self._answers: list[NoisyAnswer] = []

    async def begin(self) -> None:
        """Make the method.

        Raises:
            ConfigError: the method's settings do not fit the schema.
        """
        settings = settings_from_json(self._run.document.release.settings)
        with one_thread():
            method = await in_thread(
                make_method, settings, self._context.schema, self._context.seeds, settings.seed or 0
            )
        self._method = method
        self._facts |= {
            "protocol": method.protocol,
            "settings": settings.model_dump(mode="json"),
            "planned": [event.to_json() for event in method.planned()],
        }

    def enter(self, owners: Sequence[str]) -> None:
        """Open a session with each owner, by which it learns the run's end even if no question is left."""
        members = self._context.members
        self.sessions += [SumSession(members.connection(name), self._run.name) for name in owners]

    async def carry_out(self) -> Status:
        """Ask owners, unless an earlier process did, and derive the files from the release.

        The same release gives the same files, also on a curator with another number of threads.
        """
        assert self._method is not None, "`begin` made the method"
        with one_thread():
            release = self._stored_release()
            if release is None:
                release = await self._pool(self._method)
            self._files, self.record.files = {RELEASE: release}, (RELEASE,)
            self.write()  # the released numbers are in the folder before any step computes with them
            derived = await self._finish(self._method, release)
        self.record.complete(derived)
        self._files = derived.files
        return "complete"

    def _stored_release(self) -> bytes | None:
        """Release that an earlier process stored, or None."""
        name, entries = self._run.name, self._context.store.entries(self._run.name)
        bodies = {entry.kind: entry.body for entry in entries}
        if POOLED in bodies:
            self.record.restore(bodies[POOLED])
        if RELEASED in bodies:
            return bodies[RELEASED]
        if entries and entries[-1].kind == AGGREGATING:
            self._context.store.put(DOUBTFUL + name, entries[-1].body)
        self._answers = [NoisyAnswer.from_bytes(entry.body) for entry in entries if entry.kind == ANSWER]
        return None

    async def _pool(self, method: Method) -> bytes:
        """Ask owners; on return the release is on disk, with its ledger lines."""
        context, run, record = self._context, self._run, self.record
        invitation = Invitation(
            run.name,
            context.schema.digest(),
            run.consumer,
            method.protocol,
            method.planned(),
            SumTerms(security_of(context, run.document.owners)),
        )
        context.begin_without(run, record.faults)
        context.say("run", run=run.name, round=0, protocol=method.protocol, owners=len(self.sessions))
        run.tell(StageProgress("pooling", f"asking {len(self.sessions)} owners"))

        abandoned, tell = stage_reporter(context, run)

        async def ask(sums: OwnerSums, settle: Settle) -> bytes:
            sums.report = tell
            record.owner_rows = await sums.invite()
            sums.restore(tuple(self._answers), lambda answer: settle(partial(self._keep, answer)))
            try:
                release = await method.ask(sums)
            except asyncio.CancelledError:
                abandoned.set()
                raise
            record.owner_rows = sums.contributions or record.owner_rows
            return release

        def keep(release: bytes) -> None:
            context.store.append(run.name, POOLED, record.pooled())
            context.store.append(run.name, RELEASED, release)

        return await run_sums(
            context,
            invitation,
            self._remaining_sessions(),
            self.quorum,
            ask,
            keep,
            partial(context.left, run.name),
            record.faults,
        )

    def _remaining_sessions(self) -> list[SumSession]:
        """Sessions of the owners to ask: an owner that was lost in an earlier question is not asked."""
        before = self._answers[-1].owners if self._answers else None
        return [session for session in self.sessions if before is None or session.name in before]

    def _keep(self, answer: NoisyAnswer) -> None:
        self._context.store.append(self._run.name, POOLED, self.record.pooled())
        self._context.store.append(self._run.name, ANSWER, answer.to_bytes())
        self._answers.append(answer)

    async def _finish(self, method: Method, release: bytes) -> Finished:
        """Derive all files from the release in a thread, so that the event loop keeps serving."""
        abandoned, tell = stage_reporter(self._context, self._run)
        try:
            lost = self._context.participation(self._run, self.record.faults)
            return await in_thread(finished, method, release, tell, lost)
        except asyncio.CancelledError:
            abandoned.set()
            raise

    def stop(self, error: FedkmeError, status: Status) -> None:
        """Note why the run ended without a release; keep the noisy answers so far, which are paid for."""
        if RELEASE not in self._files:
            self._files = {
                f"answer-{number}.npz": answer.to_bytes() for number, answer in enumerate(self._answers, 1)
            }
        self.record.stop(error, "cancelled" if status == "cancelled" else "failed")

    def write(self) -> None:
        """Write the record and the files.

        Raises:
            StoreError: a file cannot be written.
        """
        security = security_of(self._context, self._run.document.owners)
        facts = {
            **self._context.facts(self._run, self.record.faults, self.sessions),
            "security": None if security is None else asdict(security),
            **self._facts,
            "ledger": self._context.ledger.head(),
        }
        self._context.records.keep_release(self._run.name, self.record, self._files, facts)

    def leave(self) -> None:
        """Do nothing: a later process derives all files from the released numbers again."""
