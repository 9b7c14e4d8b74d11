"""Owners' consent to a summary before its D_v draws anything.

Public cells that are made of owners' rows ask for it themselves (`SumTerms.ahead`). For all other summaries
this asks, and begins nothing: who said yes decides again by the invitation. An owner of an earlier release
does not know the question, and is counted with those that will take part.
"""

from __future__ import annotations

from collections.abc import Sequence

from curator.owners.connection import Connection, Traffic
from curator.owners.roster import Roster
from curator.runs.context import RunContext
from curator.runs.queue import Run
from fedkme.directives import Accepted, Directive, Limits, Refusal
from fedkme.errors import SAME_RELEASE, BudgetError, OwnerFaultError, PolicyError, QuorumError
from fedkme.protocol import Consider, IntendedSummary


async def ask_owners(context: RunContext, run: Run, here: Sequence[str]) -> None:
    """Ask those who are here, or else come, whether they will take part in a run.

    Raises:
        MissingOwnersError: too few came.
        QuorumError: too few of them would take part; D_v has paid for nothing.
    """
    settings, document = context.summary_of(run.document), run.document
    names = here or await context.members.gather(settings.quorum, context.settings.connect_s)
    row, rows = settings.row, document.summary.rows
    asked = round(settings.cells.rho * rows) if row.family == "cells" else settings.drawn(rows)
    dimension = 0 if row.family == "cells" else document.planned.features.dimension
    meant = IntendedSummary(row.name, asked, tuple(settings.between_owners(rows, len(names))), dimension)
    line = "" if document.planned.choice is None else document.planned.choice.line
    question = Consider(run.name, context.schema.digest(), run.consumer, meant, line)
    ports = [context.members.connection(name) for name in names]
    roster: Roster[Connection] = Roster(
        ports, settings.quorum, lambda fault: context.left(run.name, fault), []
    )
    await roster.ask(0, _consider, dict.fromkeys(names, question))
    if (shortfall := roster.below_quorum()) is not None:
        raise QuorumError(shortfall.cause, "Ask again when more owners take part; D_v has paid for nothing.")


async def _consider(owner: Connection, question: Consider) -> None:
    """Raise what the owner says against it, if anything."""
    directive = Directive(f"{question.run}/considered", 0, 1, question)
    answer = await owner.exchange(directive, Limits(), Traffic())
    if isinstance(answer, Refusal):
        if isinstance(error := answer.error(), (BudgetError, PolicyError)):
            raise type(error)(f"{owner.name}, round 0: {error.cause}", error.remedy)
    elif not isinstance(answer, Accepted):
        owner.cut()
        raise OwnerFaultError(f"{owner.name}, round 0: an answer that was not asked for", SAME_RELEASE)
