"""Lifecycle of a run: its owners, its body, its record, its end.

After a crash the lifecycle of a run is carried out again and does the same, from the run's document and
journal. Summaries and releases differ in their `Body`.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TypeAlias

from curator.owners.exchanges import HeadExchange
from curator.run.run import Run, Status
from curator.runs.context import GOES_ON, RunContext
from curator.runs.release_run import ReleaseRun
from curator.runs.summary_families import CellsFamily, Family, SummaryFamily
from curator.runs.summary_run import SummaryRun
from curator.sums.charges import charge_ended
from fedkme.directives import Directive, Dismiss
from fedkme.documents import RunDocument
from fedkme.errors import CancelledRunError, FedkmeError, PartyFailedError, StoreError
from fedkme.heads.log import HeadLog
from fedkme.ledgers.departures import keep_departure
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.wire.journals import run_document_to_bytes

LOG = logging.getLogger("curator")


Body: TypeAlias = ReleaseRun | SummaryRun
"""Work of one run: `begin` before owners are bound, `enter`, `carry_out`, `write`; or `stop`, or `leave`."""


class Lifecycle:
    """Carries out the runs of a curator."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.cells = CellsFamily(context)
        self._summary = SummaryFamily(context)
        log = HeadLog(Role.CURATOR, CURATOR, context.ledger, context.store, context.identity)
        log.check()
        self.heads = HeadExchange(log, context.say)

    def family(self, document: RunDocument) -> Family:
        """Family of a run, by its choice."""
        return self.cells if self.context.summary_of(document).row.family == "cells" else self._summary

    def settle(self, run: Run) -> None:
        """Charge possible disclosures of a run that ends while owners are asked, or that goes on later.

        Raises:
            StoreError: the store fails.
        """
        charge_ended(self.context.ledger, self.context.store, run.name)

    async def carry_out(self, run: Run) -> Status | None:
        """Carry out a run, or the rest of a run that an earlier process began.

        Returns:
            Status of the ended run, whose record is on disk. None where the store or this program failed: the
            run stays open until its consumer asks again or a later process takes it up.
        """
        body: Body | None = None
        try:
            body = self._body(run)
            status = await self._outcome(run, body)
            run.decided = True
            body.write()
            left = self._keep_departures(run, body)
            await self._exchange_heads(run)
        except StoreError as error:
            self._suspend(run, body, error)
            return None
        except asyncio.CancelledError:
            # the process stops: the run stays open, and its record so far can be read
            if body is not None:
                body.leave()
            raise
        except Exception:
            LOG.exception("%s failed in a way that was not foreseen", run.name)
            cause = f"the curator failed in {run.name} in a way that was not foreseen"
            self._suspend(run, body, PartyFailedError(cause, GOES_ON))
            return None
        for session in body.sessions:
            await session.dismiss()
        for owner, departure in left.items():
            await self.context.members.connection(owner).tell(departure)
        record = body.record
        self.context.say("ended", run=run.name, round=body.rounds, status=record.status, reason=record.reason)
        return status

    def _suspend(self, run: Run, body: Body | None, error: FedkmeError) -> None:
        run.error = error
        where = {"run": run.name, "round": 0 if body is None else body.rounds}
        self.context.say("suspended", **where, code=error.code, cause=error.cause, remedy=error.remedy)

    def _keep_departures(self, run: Run, body: Body) -> dict[str, Directive]:
        """Keep why the run went on without some of its owners; return what tells each, by name.

        Raises:
            StoreError: the store fails.
        """
        reasons = {fault.owner: fault.reason for fault in body.record.faults}
        with self.context.store.transaction() if reasons else contextlib.nullcontext():
            for owner, reason in reasons.items():
                keep_departure(self.context.store, owner, run.name, reason)
        return {owner: Directive(run.name, 0, 0, Dismiss(reason)) for owner, reason in reasons.items()}

    async def _exchange_heads(self, run: Run) -> None:
        """Exchange heads with the run's owners that are here.

        Raises:
            StoreError: the curator's store fails.
        """
        members = self.context.members
        members.discharge(run.name)
        present = sorted(set(run.document.owners) & set(members.here()))
        await self.heads.after(run.name, [members.connection(name) for name in present])

    def _body(self, run: Run) -> Body:
        if run.is_release:
            return ReleaseRun(self.context, run)
        return SummaryRun(self.context, run, self.family(run.document))

    async def _outcome(self, run: Run, body: Body) -> Status:
        try:
            await body.begin()
            await self._gather(run, body.quorum)
            self.context.members.enlist(run.name, run.document.owners)
            body.enter(run.document.owners)
            return await body.carry_out()
        except StoreError:
            raise
        except FedkmeError as error:
            body.stop(error, "failed")
            return "failed"
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            cancelled = CancelledRunError(f"{run.name} was cancelled", "Ask again for another run.")
            body.stop(cancelled, "cancelled")
            return "cancelled"

    async def _gather(self, run: Run, quorum: int) -> None:
        """Bind the owners that are here when the run begins; they stay its owners to its end."""
        if run.document.owners:
            return
        members = self.context.members
        names = await members.gather(quorum, self.context.settings.connect_s)
        bound = replace(run.document, owners=tuple(names), missing=tuple(members.missing()))
        document = bound if run.is_release else self._with_forecast(bound)
        self.context.store.update_run(run.name, document=run_document_to_bytes(document))
        run.document = document
        if document.plan != bound.plan:
            self.context.say_choice(run.name, document.planned.choice)

    def _with_forecast(self, document: RunDocument) -> RunDocument:
        """Add the forecast of a named protocol to the plan, now that the run's owners are here."""
        context, before = self.context, document.planned.choice
        if before is None or before.relative_mmd2:
            return document
        choice = context.choice(context.summary_of(document), document, document.owners)
        return replace(document, plan=replace(document.planned, choice=choice))
