"""Agreement with owners before a run's plan goes to the consumer: public cells, and owners' keys.

The sketch is a run of sums of its own, called RUN/cells, with the counts of coalitions as its second question
where owners count together: this tells them the cells, which are on disk before it is asked. It follows
decision 006: the cells, with the ledger's lines, are on disk before anybody hears of them; an attempt that
died before is asked again where the curator is trusted with sums, and costs again where it is not. It does
not end with the consumer's call: a second attempt would find owners that have left the first.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from curator.cells.code_book import (
    PublicCells,
    cells_from_json,
    counted,
    of_owners,
    of_seeds,
    picks_warning,
    sketch_invitation,
)
from curator.cells.pool_model import cells_of_rows, margins_help, no_margins_reason, of_release
from curator.planning.formulas import held_rows
from curator.run.run import Run
from curator.runs.context import RunContext
from curator.runs.sums import run_sums, security_of, stage_reporter
from curator.summary.settings import SummarySettings
from curator.sums.answers import NoisyAnswer
from curator.sums.charges import Settle, charge_ended
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.cells.coalitions import pools_help
from fedkme.cells.disclosures import sketch_of
from fedkme.cells.plan import RELEASE_SHARE, share_for
from fedkme.documents import Fault, RunDocument
from fedkme.errors import ConfigError, FedkmeError, ProtocolError, StoreError, error_of
from fedkme.exchange import CellsPlan, SummaryRequest
from fedkme.ops.threads import in_thread
from fedkme.wire.journals import run_document_to_bytes

_SKETCH = "sketch/"
"""Key of an attempt that is not over, by its run: whom it asks and for which share of their epsilon, what
owners may have disclosed under secure aggregation, or why it failed."""


class Agreement:
    """State that the cells of all runs share."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def agree(self, run: Run, here: Sequence[str] = ()) -> None:
        """Agree on the run's cells, once; the agreement goes on when its caller is cancelled.

        Owners that are `here` are asked where they are enough; else it waits for others.

        Raises:
            FedkmeError: no agreement on cells: too few owners, seeds or rows, or an aggregation that failed.
        """
        if run.document.planned.cells is None:
            await asyncio.shield(self._task(run, here))

    def take_up(self, waiting: Iterable[Run]) -> list[Run]:
        """Attempts of an earlier process, for runs that wait for their consumers; returns those to `resume`.

        Their owners must not forget them when they come back.
        """
        by_key = {f"{_SKETCH}{run.name}": run for run in waiting}
        taken = []
        for key in self._context.store.keys(_SKETCH):
            if key not in by_key:
                charge_ended(self._context.ledger, self._context.store, sketch_of(key.removeprefix(_SKETCH)))
                self._context.store.delete(key)
            elif (attempt := self._attempt(by_key[key])) is not None and "owners" in attempt:
                self._context.members.enlist(sketch_of(by_key[key].name), attempt["owners"])
                taken.append(by_key[key])
        return taken

    def resume(self, runs: Iterable[Run]) -> None:
        """Continue agreements of an earlier process; the consumer hears the result when it asks again."""
        for run in runs:
            self._task(run)

    def forget(self, run: Run) -> None:
        """The run is over, and its consumer knows why."""
        self._context.store.delete(_key(run))

    async def suspend(self) -> None:
        """Stop for the next process; owners keep their part of the agreement."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, run: Run, here: Sequence[str] = ()) -> asyncio.Task[None]:
        if (task := self._tasks.get(run.name)) is None:
            task = self._tasks[run.name] = asyncio.create_task(self._agree(run, here))
            task.add_done_callback(partial(self._over, run.name))
        return task

    def _over(self, run: str, task: asyncio.Task[None]) -> None:
        del self._tasks[run]
        if not task.cancelled():
            task.exception()  # it was written down: perhaps nobody waits for it any more

    async def _agree(self, run: Run, here: Sequence[str]) -> None:
        context, document = self._context, run.document
        summary, schema = context.summary_of(document), context.schema
        seed = document.planned.features.seed
        if not summary.sketched:
            self._warn_of_picks(run, coalitions=False)
            if summary.cells.release is None:
                cells = of_seeds(summary, schema, context.encoded_seeds, document.summary, seed)
            else:
                cells = await self._of_existing_release(summary, document.summary, seed)
            with context.store.transaction():
                self._keep(run, cells)
            self._show(run, cells)
            return
        attempt = self._attempt(run) or {}
        if "fault" in attempt:
            self.forget(run)
            code, cause, remedy = attempt["fault"]
            raise error_of(code, cause, remedy) or ProtocolError(cause, remedy)
        try:
            await self._sketched(run, attempt, here)
        except StoreError:
            raise
        except FedkmeError as error:
            self._note(run, fault=[error.code, error.cause, error.remedy])
            raise

    async def _of_existing_release(
        self, summary: SummarySettings, request: SummaryRequest, seed: int
    ) -> PublicCells:
        if against := no_margins_reason(summary, request):
            cause = f"cells are of a release that exists, and D_v gives no margins over it: {against}"
            raise ConfigError(cause, "Allow as many 'picks', or ask another curator.")
        rows = await in_thread(lambda: self._context.pool_rows)
        return await in_thread(cells_of_rows, summary, self._context.schema, rows, request, seed)

    def _keep(self, run: Run, cells: PublicCells, left: Sequence[Fault] = ()) -> None:
        """Put the cells into the plan on disk, in the transaction that charges their cost."""
        if run.status == "asked":  # else it was cancelled
            planned = run_document_to_bytes(self._planned(run, cells, left))
            self._context.store.update_run(run.name, document=planned)

    def _show(self, run: Run, cells: PublicCells, left: Sequence[Fault] = ()) -> None:
        """Put the cells into the plan in memory: they are on disk, and a call may go on."""
        if run.status == "asked":
            run.document = self._planned(run, cells, left)

    def _planned(self, run: Run, cells: PublicCells, left: Sequence[Fault]) -> RunDocument:
        plan, how = run.document.planned, self._context.summary_of(run.document).cells
        gamma, share = plan.features.gamma, cells.sketch_share
        menu = None if cells.menu is None else cells.menu.to_json()
        public = CellsPlan(cells.book.to_json(), gamma, how.rho, cells.classes, share, menu)
        plan = replace(plan, cells=public)
        return replace(run.document, plan=plan, coalitions=cells.coalitions, left=tuple(left))

    def _share(self, run: Run, owners: Sequence[str]) -> float:
        """Share of owners' epsilon for the sketch, by the sizes that they said when they joined."""
        context, document = self._context, run.document
        rows = sum(held_rows(owners, context.members.sizes())) or None
        deviation = context.summary_of(document).owner_noise().sketch_deviation
        return share_for(rows, len(context.schema.classes), deviation, document.summary.labelled)

    def _by_margins(self, run: Run, owners: Sequence[str]) -> bool:
        """Say whether D_v gives margins over a release of the pool."""
        context, request = self._context, run.document.summary
        summary = context.summary_of(run.document)
        if against := no_margins_reason(summary, request):
            if summary.cells.code_book == "release":
                line = f"'cells.code_book' = \"release\" has no effect, cells are of a sketch: {against}"
                context.say("warning", run=run.name, round=0, line=line)
            return False
        held = held_rows(owners, context.members.sizes())
        return margins_help(summary, context.schema, request.validation_rows, held)

    def _in_coalitions(self, summary: SummarySettings, names: Sequence[str], share: float) -> bool:
        """Say whether owners will count together: by settings, or by the sizes that they said."""
        if summary.cells.coalitions is not None:
            return summary.cells.coalitions
        held = held_rows(names, self._context.members.sizes())
        return pools_help(held, summary.owner_noise(share).histogram.epsilon)

    def _warn_of_picks(self, run: Run, coalitions: bool) -> None:
        summary = self._context.summary_of(run.document)
        if line := picks_warning(summary, self._context.schema, coalitions):
            self._context.say("warning", run=run.name, round=0, line=line)

    async def _sketched(self, run: Run, attempt: dict[str, Any], here: Sequence[str]) -> None:
        context, document = self._context, run.document
        summary, members = context.summary_of(document), context.members
        quorum = max(summary.quorum, context.settings.release.quorum)
        if "owners" not in attempt:
            enough = len(here) >= quorum
            owners = list(here) if enough else await members.gather(quorum, context.settings.connect_s)
            margins = self._by_margins(run, owners)
            share = RELEASE_SHARE if margins else self._share(run, owners)
            together = not margins and self._in_coalitions(summary, owners, share)
            attempt = {"owners": owners, "share": share, "coalitions": together, "margins": margins}
            self._note(run, **attempt)
            self._warn_of_picks(run, together)
        names: list[str] = attempt["owners"]
        share = attempt["share"]
        coalitions = bool(attempt.get("coalitions"))
        invitation = sketch_invitation(
            *(run.name, summary, context.schema, run.consumer),
            *(security_of(context, names), share, coalitions),
            document.summary.rows,
            "" if document.planned.choice is None else document.planned.choice.line,
        )
        members.enlist(invitation.run, names)
        seed = document.planned.features.seed
        left = [Fault(**fault) for fault in attempt.get("left", ())]
        stored = [NoisyAnswer.from_bytes(b64decode(each)) for each in attempt.get("answers", ())]
        before = stored[-1].owners if stored else names  # an owner that was lost since is not asked
        sessions = [SumSession(members.connection(name), invitation.run) for name in names if name in before]

        def settled(settle: Settle, answer: NoisyAnswer) -> None:
            stored.append(answer)
            answers = [b64encode(each.to_bytes()).decode("ascii") for each in stored]
            result = {"answers": answers, "left": [*map(asdict, left)]}
            settle(lambda: self._note(run, **attempt | result))

        abandoned, tell = stage_reporter(context, run)

        async def ask(sums: OwnerSums, settle: Settle) -> PublicCells:
            sums.report = lambda stage, line, fraction: tell(f"{stage} the pool", line, fraction)
            sums.tell("asking", f"{len(sessions)} owners", 0.0)
            await sums.invite()
            if attempt.get("margins"):
                sums.restore(tuple(stored), partial(settled, settle))
                return await of_release(summary, context.schema, sums, document.summary, seed, share)
            if "cells" in attempt:  # that owners may have been told: the very same are asked for again
                sums.resume(1, attempt["drawn"])
                return await counted(summary, sums, cells_from_json(attempt["cells"], context.schema))
            cells = await of_owners(summary, context.schema, sums, document.summary, seed, share, coalitions)
            if not coalitions:
                return cells
            result = {"cells": cells.to_json(), "drawn": sums.drawn, "left": [*map(asdict, left)]}
            settle(lambda: self._note(run, **attempt | result))
            return await counted(summary, sums, cells)

        def keep(cells: PublicCells) -> None:
            self.forget(run)
            self._keep(run, cells, left)

        observe = partial(context.left, run.name)
        try:
            cells = await run_sums(context, invitation, sessions, quorum, ask, keep, observe, left)
            self._show(run, cells, left)
        except asyncio.CancelledError:
            abandoned.set()
            raise
        except StoreError:
            raise
        except FedkmeError:
            await self._end(invitation.run, sessions)
            raise
        await self._end(invitation.run, sessions)

    async def _end(self, name: str, sessions: Iterable[SumSession]) -> None:
        self._context.members.discharge(name)
        for session in sessions:
            await session.dismiss()

    def _attempt(self, run: Run) -> dict[str, Any] | None:
        stored = self._context.store.get(_key(run))
        return None if stored is None else dict(json.loads(stored))

    def _note(self, run: Run, **what: Any) -> None:
        self._context.store.put(_key(run), json.dumps(what).encode("ascii"))


def _key(run: Run) -> str:
    return f"{_SKETCH}{run.name}"
