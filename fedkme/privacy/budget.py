"""Budgets: what a data set may cost in all, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from pydantic import Field

from fedkme.config import Settings
from fedkme.errors import BudgetError
from fedkme.privacy.events import OWNERS, Disclosure, Event, is_validation
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.presets import PrivacyTarget

_ROUNDED = 1.0 + 1e-6
"""Room for what floating point adds to a plan that is exactly at its target."""


class Budget(Settings):
    """A total (epsilon, delta), over everything that a party's ledger holds; by the sound accountant."""

    epsilon: float = Field(gt=0)
    """Most that may be spent."""
    delta: float = Field(gt=0, lt=1)
    """Probability at which epsilon is stated."""


class WindowBudget(Budget):
    """A total (epsilon, delta) over a window of time; see fedkme/ledgers/windows.py for clocks."""

    days: float | None = Field(None, gt=0)
    """Over what was disclosed in so many days; none: over all that the party's ledger holds."""

    @property
    def period(self) -> str:
        """The window, for a line that goes on from what is before it; empty without one."""
        return "" if self.days is None else f" in {self.days:g} days"


def check_budget(
    budget: WindowBudget, protected: str, observer: str, spent: Iterable[Disclosure], planned: Iterable[Event]
) -> None:
    """Refuse a plan that would go over a budget.

    Args:
        budget: the total.
        protected: the data set.
        observer: who learns of it.
        spent: every line of the party's ledger in the budget's window; of other data sets and observers too.
        planned: what is about to be released.

    Raises:
        BudgetError: past and plan together have no epsilon within the budget; nothing was computed.
    """
    from fedkme.privacy.accountants import paid

    about = [d for d in spent if (d.protected, d.observer) == (protected, observer)]
    check_cost(
        budget,
        f"{protected} towards {observer}{budget.period}",
        tuple(paid(about)),
        tuple(planned),
        f"Ask for a smaller epsilon, {'wait, ' if budget.days else ''}or agree on a larger budget.",
    )


def check_owners(budget: Budget, spent: Iterable[Disclosure], planned: Iterable[Event]) -> None:
    """Refuse a plan by which any owner's rows would cost more towards other owners than a budget.

    Args:
        budget: the total of each owner.
        spent: what the curator's ledger holds, about all owners at once or about one.
        planned: what is about to be released of each owner's rows.

    Raises:
        BudgetError: past and plan together have no epsilon within the budget; nothing was computed.
    """
    from fedkme.privacy.accountants import paid

    about_owners = [d for d in spent if d.observer == OWNERS and not is_validation(d.protected)]
    names = {d.protected for d in about_owners if d.protected != OWNERS} or {OWNERS}
    remedy = "Ask for a smaller epsilon, or agree on a larger budget."
    events = {tuple(paid(d for d in about_owners if d.protected in (OWNERS, name))) for name in sorted(names)}
    for before in events:  # owners of equal past cost the same
        check_cost(budget, f"{OWNERS} towards {OWNERS}", before, tuple(planned), remedy)


def check_target(target: PrivacyTarget, whose: str, planned: Sequence[Event]) -> None:
    """Refuse a plan that costs more than the target of the settings that it was made by.

    What has no finite epsilon was chosen by its name and is bounded by no target: see `warn_of_unbounded`.

    Args:
        target: the bound, for the rows of a group together.
        whose: data set and observer, for the error.
        planned: what is about to be released.

    Raises:
        BudgetError: it costs more; nothing was computed.
    """
    from fedkme.privacy.accountants import Sound

    figure = Sound().epsilon(for_group(planned, target.group), target.delta)
    if target.epsilon * _ROUNDED < figure.epsilon < math.inf:
        raise BudgetError(
            f"{whose}: epsilon {figure.epsilon:.4g} is planned at delta {target.delta:g}, and the target is "
            f"{target.epsilon:g}",
            "Give the mechanisms that the settings name a smaller epsilon, or allow a larger one in all.",
        )


def warn_of_unbounded(
    target: PrivacyTarget, whose: str, planned: Sequence[Event], warn: Callable[[str], None]
) -> None:
    """Say in a line why a plan has no finite epsilon, if it has none: a target then promises nothing.

    Args:
        target: see `check_target`.
        whose: likewise.
        planned: likewise.
        warn: told of the line.
    """
    from fedkme.privacy.accountants import Sound

    figure = Sound().epsilon(for_group(planned, target.group), target.delta)
    if math.isinf(figure.epsilon):
        warn(f"{whose}: the target of epsilon {target.epsilon:g} bounds nothing of this: {figure.reason}")


def check_cost(
    budget: Budget, whose: str, before: Sequence[Event], planned: Sequence[Event], remedy: str
) -> None:
    """Refuse a plan that would go over a budget, given what was paid for.

    Args:
        budget: the total.
        whose: data set and observer, for the error.
        before: what was released.
        planned: what is about to be released.
        remedy: for the error.

    Raises:
        BudgetError: past and plan together have no epsilon within the budget; nothing was computed.
    """
    from fedkme.privacy.accountants import Sound

    sound = Sound()
    after = sound.epsilon((*before, *planned), budget.delta)
    if after.epsilon <= budget.epsilon:
        return
    used = sound.epsilon(before, budget.delta).epsilon if before else 0.0
    why = f" ({after.reason})" if after.reason else ""
    raise BudgetError(
        f"{whose}: epsilon {used:.4g} is spent of {budget.epsilon:g} at delta "
        f"{budget.delta:g}, and this would make it {after.epsilon:.4g}{why}",
        remedy,
    )
