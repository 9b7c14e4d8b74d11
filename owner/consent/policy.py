"""Policy of an owner: which runs it takes part in, and what they may cost."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import IntArray
from fedkme.cells.disclosures import sketch_of
from fedkme.errors import SAME_RELEASE, ApprovalError, PolicyError
from fedkme.ledgers.windows import begin_of
from fedkme.party import fault_of_name
from fedkme.privacy.budget import check_cost
from fedkme.privacy.events import CURATOR, OWNERS, Event, ExactStatistic, HashedRows, RawRows
from fedkme.protocol import (
    AuctionTerms,
    CellTerms,
    Consider,
    IntendedSummary,
    Invitation,
    Security,
    SumTerms,
    Terms,
)
from fedkme.protocols import PROTOCOLS, SKETCH, Family, fault_of_protocol, is_hashed, is_sealed, keeps_to
from fedkme.store import Store
from fedkme.sums.disclosures import NO_PROMISE
from fedkme.tables.schema import Schema
from owner.consent.approvals import Approval, Asked, left_in, tidy, use
from owner.consent.history import Admission, History
from owner.consent.pools import RowPools
from owner.settings import PeriodBudget, PolicySettings

_TERMS: Mapping[Family, type[Terms]] = {
    "auction": AuctionTerms,
    "uniform": AuctionTerms,
    "cells": CellTerms,
    "sums": SumTerms,
}
_ASK_THE_OWNER = "The owner decides whether its policy allows this."
_NO_REAL_ROW = (
    "Ask for rows for a target, of which none is real: real_rows = false in the consumer's [request]."
)


def check_columns(owner: str, settings: PolicySettings, schema: Schema) -> None:
    """Refuse a schema with columns that may not leave.

    Raises:
        PolicyError: names the first such column.
    """
    names = [column.name for column in schema.columns] + ([schema.label.name] if schema.label else [])
    for name in names:
        if settings.columns and name not in settings.columns:
            cause = f"column {name!r} of the public schema is not among the columns that may leave {owner}"
            remedy = "Agree on a schema without it, or let the owner add it to 'columns' of its policy."
            raise PolicyError(cause, remedy)


@dataclass(frozen=True, eq=False)
class Policy:
    """Decides on each run, by the settings and the history in the store."""

    _owner: str
    _settings: PolicySettings
    _schema: Schema
    """The public schema that this owner holds; runs with another schema are refused earlier."""
    _store: Store
    _history: History
    """Runs and costs so far, from the store."""
    _pools: RowPools
    """Rows that runs may have."""
    _approvals: Path
    """Folder where approvals are left."""
    _clock: Callable[[], float] = time.time
    """Returns Unix seconds."""

    @property
    def most_sums(self) -> int:
        """Most numbers that one question of a release may ask for."""
        return self._settings.most_sums

    def admit(self, invitation: Invitation) -> None:
        """Let a run begin, and store its admission; a repeated invitation uses up nothing more.

        Raises:
            PolicyError: the policy does not allow such a run, or nobody approved it.
            BudgetError: the run would cost more than the owner allows.
        """
        consumer, protocol, planned = invitation.consumer, invitation.protocol, invitation.planned
        self._check_names(consumer, protocol)
        self._check_family(invitation)
        terms = invitation.terms
        if not isinstance(terms, SumTerms):
            self._check_asked(terms.rows, terms.features.dimension if isinstance(terms, AuctionTerms) else 0)
        self._check_allowed(consumer, protocol)
        if isinstance(terms, SumTerms):
            planned = planned or NO_PROMISE
            self._check_sums(terms.security)
        elif isinstance(terms, AuctionTerms) and terms.heard and not planned and self._settings.budgets:
            cause = f"{self._owner} is not told what the run will cost towards other owners"
            raise PolicyError(cause, SAME_RELEASE)
        self._history.read()
        rows, ahead = self._history.rows_of_no_pool, invitation.ahead
        pool = None if isinstance(terms, SumTerms) else self._pools.next(rows)
        if ahead is not None:
            self._check_ahead(consumer, protocol, ahead)
            self._pools.next(rows)  # raises where no pool is left for the summary, which takes one later
        shown = shown_to_curator(protocol, planned, invitation.security)
        self._let_in(
            Admission(invitation.run, consumer, protocol, invitation.rows, planned, pool, shown=shown),
            invitation.expected,
            ahead,
        )

    def consider(self, request: Consider) -> None:
        """Refuse a summary that `admit` would refuse, before noise for D_v is drawn; no run begins.

        Raises:
            As `admit`.
        """
        summary, consumer = request.summary, request.consumer
        self._check_names(consumer, summary.protocol)
        if PROTOCOLS[summary.protocol].family == "sums":
            raise self._odd(SKETCH, summary)
        self._check_asked(summary.rows, summary.dimension)
        self._check_allowed(consumer, summary.protocol)
        self._history.read()
        pool = self._pools.next(self._history.rows_of_no_pool)
        meant = Admission(request.run, consumer, summary.protocol, summary.rows, (), pool)
        self._check_new(with_summary(meant, summary))
        if self._settings.approval == "manual":
            self._approval(self._request(meant, request.expected))

    def offered(self, run: str) -> IntArray | None:
        """Places in the file of the rows in an admitted run's pool; None for all rows."""
        self._history.read()
        admission = self._history.admitted.get(run)
        return None if admission is None or not admission.pool else self._pools.draw(run, admission.pool)

    def tie_breaks(self, run: str) -> NDArray[np.float64]:
        """Tie-break constants in a run, for all rows of the file, (rows,)."""
        return self._pools.tie_breaks(run)

    def _check_names(self, consumer: str, protocol: str) -> None:
        if fault := fault_of_name(consumer, "consumer"):
            cause = f"{self._owner} is asked for a run without a valid consumer: {fault}"
            raise PolicyError(cause, "Look at the curator.")
        if fault := fault_of_protocol(protocol):
            remedy = "Let the owner install the package that brings it, or the curator's release of fedkme."
            raise PolicyError(f"{self._owner} does not know the protocol of a run: {fault}", remedy)

    def _check_family(self, invitation: Invitation) -> None:
        """Refuse terms of another family than the protocol's."""
        protocol, sums = invitation.protocol, isinstance(invitation.terms, SumTerms)
        if isinstance(invitation.terms, _TERMS[PROTOCOLS[protocol].family]):
            return
        what = "sums" if sums else "rows" if PROTOCOLS[protocol].family == "sums" else "other rows"
        cause = f"{self._owner} is asked for {what} in the protocol {protocol!r}, which needs none"
        raise PolicyError(cause, "Look at the curator.")

    def _check_ahead(self, consumer: str, protocol: str, ahead: IntendedSummary) -> None:
        """Refuse a sketch for a summary that would be refused, and any other sums before a summary."""
        self._check_names(consumer, ahead.protocol)
        if protocol != SKETCH or PROTOCOLS[ahead.protocol].family != "cells" or ahead.rows < 1:
            raise self._odd(protocol, ahead)
        self._check_allowed(consumer, ahead.protocol)

    def _odd(self, protocol: str, ahead: IntendedSummary) -> PolicyError:
        cause = f"{self._owner} is asked for {protocol!r} before {ahead.rows} rows by {ahead.protocol!r}"
        return PolicyError(cause, "Look at the curator.")

    def _check_asked(self, rows: int, dimension: int) -> None:
        most = self._settings.most_dimension
        if rows < 1:
            raise PolicyError(f"{self._owner} is asked for a run of no rows", "Look at the curator.")
        if dimension > most:
            cause = f"{self._owner} is asked for h1 of {dimension} coordinates and computes at most {most}"
            remedy = "Ask for a smaller dimension, or let the owner raise 'most_dimension' of its policy."
            raise PolicyError(cause, remedy)

    def _check_allowed(self, consumer: str, protocol: str) -> None:
        owner, settings = self._owner, self._settings
        if settings.protocols and not {protocol, serves(protocol)} & set(settings.protocols):
            allowed = ", ".join(settings.protocols)
            cause = f"{owner} does not take part in the protocol {protocol!r}, but in {allowed}"
            raise PolicyError(cause, _ASK_THE_OWNER)
        if not keeps_to(protocol, settings.rows):
            what = "h1 of a row" if settings.rows == "hashed" else "numbers about all its rows"
            cause = f"raw rows leave in the protocol {protocol!r}, and no more than {what} may leave {owner}"
            raise PolicyError(cause, _ASK_THE_OWNER if settings.rows == "hashed" else _NO_REAL_ROW)
        if settings.consumers and consumer not in settings.consumers:
            cause = f"{owner} does not take part in runs for the consumer {consumer!r}"
            raise PolicyError(cause, _ASK_THE_OWNER)
        check_columns(owner, settings, self._schema)

    def _check_sums(self, security: Security | None) -> None:
        if security is None:
            if self._settings.sums != "exact":
                raise PolicyError(
                    f"{self._owner} sends sums under secure aggregation alone, and is asked for them plainly",
                    "Let the curator use secure aggregation, or let the owner set 'sums' of its policy.",
                )
        elif security.colluders < (most := self._settings.colluders):
            raise PolicyError(
                f"{self._owner} adds noise for {most} owners that side with the curator, and the run is for "
                f"{security.colluders}",
                "Raise 'colluders' of the curator's [release.security], or let the owner lower its own.",
            )

    def _let_in(self, admission: Admission, expected: str, ahead: IntendedSummary | None) -> None:
        self._check_new(admission if ahead is None else with_summary(admission, ahead))
        if admission.run in self._history.admitted:
            return  # admitted by a process that died before its answer was stored
        if self._settings.approval == "manual":
            self._use_approval(admission, expected, ahead)
        else:
            admission.write(self._store)

    def _check_new(self, admission: Admission) -> None:
        """Refuse a run with a used name, and a run over a budget."""
        if admission.run in self._history.disclosures:
            cause = f"the ledger of {self._owner} holds a run called {admission.run!r}, which is over"
            raise PolicyError(cause, "Look at the curator: each run has a new name.")
        now = self._clock()
        try:
            for budget in self._settings.budgets:
                if budget.binds(admission.consumer, self._settings.budgets):
                    self._check_budget(admission, budget, now)
        finally:
            self._history.readings.note(now)

    def _check_budget(self, admission: Admission, budget: PeriodBudget, now: float) -> None:
        if not (planned := admission.towards(budget.observer)):
            return
        counted, begin = budget.counted(admission.consumer), begin_of(budget.days, now)
        before = tuple(self._history.costs(begin, admission.run, budget.observer, counted))
        check_cost(
            budget,
            f"rows of {self._owner} towards {towards(budget, counted)}{budget.period}",
            before,
            planned,
            "Ask for a run that costs less, wait, or agree with the owner on a larger budget.",
        )

    def _approved_before(self, admission: Admission) -> str | None:
        """Id of the approval that let in the same run's sketch, if that approval covers the whole run."""
        before = self._history.admitted.get(sketch_of(admission.run))
        if before is None or before.protocol != SKETCH or admission.protocol != (before.ahead or "cells"):
            return None
        covered = before.consumer == admission.consumer and admission.rows <= before.rows
        return before.approval or None if covered else None

    def _use_approval(self, admission: Admission, expected: str, ahead: IntendedSummary | None) -> None:
        whole = admission if ahead is None else replace(admission, protocol=ahead.protocol, rows=ahead.rows)
        request = self._request(whole, expected)
        if (approved := self._approved_before(admission)) is not None:
            with self._store.transaction():
                admission.by(approved).write(self._store)
                request.forget(self._store)
            return
        approval = self._approval(request)
        if ahead is not None:
            admission = replace(admission, rows=approval.rows, ahead=ahead.protocol)
        elif approval.protocol != admission.protocol:
            admission = replace(admission, rows=approval.rows)
        with self._store.transaction():
            use(self._store, approval)
            admission.by(approval.id).write(self._store)
            request.forget(self._store)
        tidy(self._approvals, self._store)

    def _request(self, admission: Admission, expected: str) -> Asked:
        run, consumer = admission.run, admission.consumer
        return Asked(run, consumer, admission.protocol, admission.rows, self._clock(), expected)

    def _approval(self, request: Asked) -> Approval:
        """Find a usable approval for a run; a lone sketch may use one for the summaries that it serves.

        Raises:
            ApprovalError: there is no such approval; the owner's operator sees the request.
        """
        usable = [approval for approval, _ in left_in(self._approvals, self._store)]
        if (approval := next((a for a in usable if a.covers(request)), None)) is not None:
            return approval
        kind = (request.consumer, serves(request.protocol))
        if kind[1] != request.protocol:
            for approval in usable:
                if (approval.consumer, approval.protocol) == kind:
                    return approval
        request.note(self._store)
        what = f"of {request.rows} rows" if request.rows else f"by {request.protocol}"
        raise ApprovalError(
            f"{self._owner} approves each run by hand, and has approved none {what} for {request.consumer}",
            f"Let the owner run '{request.command()}': a run that waits goes on then; else ask again.",
        )


def with_summary(admission: Admission, ahead: IntendedSummary) -> Admission:
    """Add to the admission of a sketch the cost of the summary that follows."""
    shown = shown_to_curator(ahead.protocol, ahead.planned, None)
    planned = admission.planned + ahead.planned
    return replace(admission, planned=planned, shown=(*(admission.shown or ()), *shown))


def shown_to_curator(
    protocol: str, planned: tuple[Event, ...], security: Security | None
) -> tuple[Event, ...]:
    """Cost of a run to an owner's rows towards the curator, given the cost towards others.

    Under secure aggregation the curator sees totals with owners' noise, checked against the plan; in sealed
    summaries by cells it sees the owner's histogram, which is the plan. Boxes tell the curator nothing.
    """
    if PROTOCOLS[protocol].family == "sums":
        return (ExactStatistic("sums of all rows"),) if security is None else planned
    if not is_sealed(protocol):
        return (RawRows(1),)
    return (HashedRows(1),) if is_hashed(protocol) else planned


def serves(protocol: str) -> str:
    """Protocol that a protocol is a part of: a sketch is a part of summaries by cells."""
    return "cells" if protocol == SKETCH else protocol


def towards(budget: PeriodBudget, consumers: Collection[str] | None) -> str:
    """Name the observer of a budget, for a message; the budget counts runs of `consumers` together."""
    if budget.observer == OWNERS:
        return "others"
    if budget.observer == CURATOR:
        return "the curator"
    return "all consumers together" if consumers is None else " and ".join(sorted(consumers))
