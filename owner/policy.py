"""In which runs an owner takes part, and what they may cost: the owner's own decision."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from fedkme.errors import PolicyError
from fedkme.party import fault_of_name
from fedkme.privacy.budget import check_cost
from fedkme.protocol import Assignment
from fedkme.schema import Schema
from fedkme.store import Store
from owner.approvals import Asked, left_in, tidy, use
from owner.history import Admission, History
from owner.protocols import fault_of_protocol, keeps_to
from owner.settings import PeriodBudget, PolicySettings

DAY_S = 86400.0
_ASK_THE_OWNER = "The owner decides whether its policy allows this."


def check_columns(owner: str, settings: PolicySettings, schema: Schema) -> None:
    """Refuse a schema with columns that may not leave.

    Raises:
        PolicyError: names the first of them.
    """
    names = [column.name for column in schema.columns] + ([schema.label.name] if schema.label else [])
    for name in names:
        if settings.columns and name not in settings.columns:
            raise PolicyError(
                f"column {name!r} of the public schema is not among the columns that may leave {owner}",
                "Agree on a schema without it, or let the owner add it to 'columns' of its policy.",
            )


class Policy:
    """Decides on one run after another, by the settings and by what the store says of the past."""

    def __init__(
        self,
        owner: str,
        settings: PolicySettings,
        schema: Schema,
        store: Store,
        history: History,
        approvals: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open with what the store holds.

        Args:
            owner: the owner's name.
            settings: `[policy]`.
            schema: the public schema that this owner holds; a run of another one is refused before this.
            store: the owner's.
            history: what the store says of the past.
            approvals: folder where approvals are left.
            clock: Unix seconds.
        """
        self._owner = owner
        self._settings = settings
        self._schema = schema
        self._store = store
        self._approvals = approvals
        self._clock = clock
        self._history = history

    def admit(self, assignment: Assignment) -> None:
        """Let a run begin, and remember that; asked again for the same run, it uses up nothing more.

        Raises:
            PolicyError: the owner does not take part in such a run, or has not approved it.
            BudgetError: it would cost more than the owner allows.
        """
        self._check_kind(assignment)
        check_columns(self._owner, self._settings, self._schema)
        self._history.read()
        self._check_cost(assignment)
        if assignment.run in self._history.admitted:
            return  # by a process that died before its answer was kept
        admission = Admission(
            assignment.run, assignment.consumer, assignment.protocol, assignment.rows, assignment.planned
        )
        if self._settings.approval == "manual":
            self._use_approval(assignment, admission)
        else:
            admission.write(self._store)

    def _check_kind(self, assignment: Assignment) -> None:
        owner, settings = self._owner, self._settings
        if fault := fault_of_name(assignment.consumer, "consumer"):
            raise PolicyError(f"{owner} is asked for a run of nobody: {fault}", "Look at the curator.")
        if fault := fault_of_protocol(assignment.protocol):
            raise PolicyError(
                f"{owner} knows nothing of such a run: {fault}", "Install the same release on both sides."
            )
        if assignment.rows < 1:
            raise PolicyError(f"{owner} is asked for a run of no rows", "Look at the curator.")
        if (dimension := assignment.features.dimension) > settings.most_dimension:
            raise PolicyError(
                f"{owner} is asked for h1 of {dimension} coordinates and computes at most "
                f"{settings.most_dimension}",
                "Ask for a smaller dimension, or let the owner raise 'most_dimension' of its policy.",
            )
        if settings.protocols and assignment.protocol not in settings.protocols:
            allowed = ", ".join(settings.protocols)
            raise PolicyError(
                f"{owner} does not take part in the protocol {assignment.protocol!r}, but in {allowed}",
                _ASK_THE_OWNER,
            )
        if not keeps_to(assignment.protocol, settings.rows):
            what = "h1 of a row" if settings.rows == "hashed" else "numbers about all its rows"
            raise PolicyError(
                f"raw rows leave in the protocol {assignment.protocol!r}, and no more than {what} may leave "
                f"{owner}",
                _ASK_THE_OWNER,
            )
        if settings.consumers and assignment.consumer not in settings.consumers:
            raise PolicyError(
                f"{owner} does not take part in runs for the consumer {assignment.consumer!r}", _ASK_THE_OWNER
            )

    def _check_cost(self, assignment: Assignment) -> None:
        if not self._settings.budgets:
            return
        if assignment.heard and not assignment.planned:
            raise PolicyError(
                f"{self._owner} is not told what the run will cost towards other owners",
                "Install the same release on both sides.",
            )
        for budget in self._settings.budgets if assignment.planned else ():
            before = tuple(self._history.costs(since(budget, self._clock()), without=assignment.run))
            check_cost(
                budget,
                f"rows of {self._owner} towards other owners{period(budget)}",
                before,
                assignment.planned,
                "Ask for a run that costs less, wait, or agree with the owner on a larger budget.",
            )

    def _use_approval(self, assignment: Assignment, admission: Admission) -> None:
        asked = Asked(
            assignment.run, assignment.consumer, assignment.protocol, assignment.rows, self._clock()
        )
        fitting = (a for a, _ in left_in(self._approvals, self._store) if a.covers(asked))
        approval = next(fitting, None)
        if approval is None:
            asked.note(self._store)
            raise PolicyError(
                f"{self._owner} approves each run by hand, and has approved none of {assignment.rows} rows "
                f"for {assignment.consumer}",
                f"Let the owner run '{asked.command}', and ask again.",
            )
        with self._store.transaction():
            use(self._store, approval)
            admission.by(approval.id).write(self._store)
            asked.forget(self._store)
        tidy(self._approvals, self._store)


def since(budget: PeriodBudget, now: float) -> float:
    """Where the period of a budget begins, Unix seconds."""
    return -math.inf if budget.days is None else now - budget.days * DAY_S


def period(budget: PeriodBudget) -> str:
    """The period of a budget, for a line."""
    return "" if budget.days is None else f" in {budget.days:g} days"
