"""Consent of the owners that are here to a summary, before its D_v draws anything.

A sketch of owners' rows asks for it itself (`SumTerms.ahead`). For every other summary this asks, and begins
nothing: whoever says yes decides again by the invitation. Nobody is waited for who is not here, and whoever
does not answer, or is of an earlier release and does not know the question, decides by the invitation alone.
"""

from __future__ import annotations

import asyncio

from curator.owners.connection import Connection, Traffic
from curator.owners.roster import Fault
from curator.runs.context import RunContext
from curator.runs.queue import Run
from fedkme.directives import Directive, Limits, Refusal
from fedkme.errors import BudgetError, OwnerFaultError, OwnerLostError, PolicyError, QuorumError
from fedkme.protocol import Consider, IntendedSummary


async def ask_owners(context: RunContext, run: Run) -> None:
    """Ask those who are here whether they will take part in a run.

    Raises:
        QuorumError: too few of all owners are left that might; D_v has paid for nothing.
    """
    settings, members = context.summary_of(run.document), context.members
    here, quorum = members.here(), max(settings.quorum, 1)
    everybody = max(len(here) + len(members.missing()), quorum)
    question = Directive(f"{run.name}/considered", 0, 1, _question(context, run, len(here)))
    asked = (_refusal(members.connection(name), question) for name in here)
    refusals = [fault for fault in await asyncio.gather(*asked) if fault is not None]
    if (left := everybody - len(refusals)) >= quorum:
        return
    for fault in refusals:
        context.left(run.name, fault)
    raise QuorumError(
        f"{left} owners may take part and the quorum is {quorum}; {refusals[-1].line.rstrip('.')}",
        "Ask again when more owners take part; D_v has paid for nothing.",
    )


def _question(context: RunContext, run: Run, owners: int) -> Consider:
    settings, document = context.summary_of(run.document), run.document
    row, rows, choice = settings.row, document.summary.rows, document.planned.choice
    cells = row.family == "cells"
    asked = round(settings.cells.rho * rows) if cells else settings.drawn(rows)
    dimension = 0 if cells else document.planned.features.dimension
    meant = IntendedSummary(row.name, asked, tuple(settings.between_owners(rows, owners)), dimension)
    expected = "" if choice is None else choice.line
    return Consider(run.name, context.schema.digest(), run.consumer, meant, expected)


async def _refusal(owner: Connection, question: Directive) -> Fault | None:
    """Ask one owner, and give its refusal, if any."""
    try:
        answer = await owner.exchange(question, Limits(), Traffic())
    except (OwnerLostError, OwnerFaultError):
        return None
    error = answer.error() if isinstance(answer, Refusal) else None
    if not isinstance(error, (BudgetError, PolicyError)):
        return None
    return Fault(0, owner.name, error.code, f"{owner.name}, round 0: {error}")
