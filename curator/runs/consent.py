"""Consent of owners to a summary, before its D_v draws anything.

A sketch of owners' rows asks for consent itself (`SumTerms.ahead`). For every other summary `ask_owners` asks
and begins nothing: an owner that agrees decides again by the invitation. It asks the owners that are here,
and waits for further owners only while too few have agreed: D_v pays for no run that has too few owners. An
owner that comes later decides by the invitation alone; so does an owner of an earlier release that does not
know the question.
"""

import asyncio
from collections.abc import Sequence

from curator.owners.connection import Connection, Traffic
from curator.run.run import Run
from curator.runs.context import RunContext
from fedkme import errors
from fedkme.directives import Directive, Limits, Refusal
from fedkme.documents import Fault
from fedkme.protocol import Consider, IntendedSummary


async def ask_owners(context: RunContext, run: Run) -> None:
    """Ask owners whether they will take part in a run, until enough owners accept.

    Raises:
        MissingOwnersError: too few owners came in time.
        QuorumError: too few of the owners that came will take part; D_v has paid for nothing.
    """
    members, quorum = context.members, context.summary_of(run.document).quorum
    questioned, refusals = set[str](), list[Fault]()
    while True:
        present = members.here()
        question = Directive(f"{run.name}/considered", 0, 1, _question(context, run))
        new = [members.connection(name) for name in present if name not in questioned]
        answers = await asyncio.gather(*(_refusal(owner, question) for owner in new))
        refusals += [fault for fault in answers if fault is not None]
        questioned |= {owner.name for owner in new}
        if (willing := len(questioned) - len(refusals)) >= quorum:
            return
        if not questioned.issuperset(members.here()):
            continue  # another owner came while the others answered
        try:
            if questioned and not members.missing():
                raise _too_few(willing, quorum, refusals)
            context.say("waiting", run=run.name, round=0, owners=willing, quorum=quorum)
            await members.gather(quorum + len(refusals), context.settings.connect_s)
        except (errors.MissingOwnersError, errors.QuorumError) as error:
            for fault in refusals:
                context.left(run.name, fault)
            raise (_too_few(willing, quorum, refusals) if refusals else error) from None


def _too_few(willing: int, quorum: int, refusals: Sequence[Fault]) -> errors.QuorumError:
    last = max(refusals, key=lambda fault: fault.owner, default=None)  # independent of the order of answers
    why = "" if last is None else f"; {last.line.rstrip('.')}"
    cause = f"{willing} owners may take part and the quorum is {quorum}{why}"
    return errors.QuorumError(cause, "Ask again when more owners take part; D_v has paid for nothing.")


def _question(context: RunContext, run: Run) -> Consider:
    settings, document, members = context.summary_of(run.document), run.document, context.members
    owners = max(len(members.here()) + len(members.missing()), settings.quorum)
    row, rows, choice = settings.row, document.summary.rows, document.planned.choice
    cells = row.family == "cells"
    count = round(settings.cells.rho * rows) if cells else settings.drawn(rows)
    dimension = 0 if cells else document.planned.features.dimension
    meant = IntendedSummary(row.name, count, tuple(settings.between_owners(rows, owners)), dimension)
    expected = "" if choice is None else choice.line
    return Consider(run.name, context.schema.digest(), run.consumer, meant, expected)


async def _refusal(owner: Connection, question: Directive) -> Fault | None:
    """Ask one owner; return the fault of an owner that will not take part, or None."""
    try:
        answer = await owner.exchange(question, Limits(), Traffic())
    except (errors.OwnerLostError, errors.OwnerFaultError) as gone:
        return Fault(0, owner.name, gone.code, str(gone))
    error = answer.error() if isinstance(answer, Refusal) else None
    if not isinstance(error, (errors.BudgetError, errors.PolicyError)):
        return None
    return Fault(0, owner.name, error.code, f"{owner.name}, round 0: {error}")
