"""Budgets: limits on the total cost of a data set, checked before anything is computed."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from pydantic import Field

from fedkme.config import Settings
from fedkme.errors import BudgetError
from fedkme.privacy.events import OWNERS, Disclosure, Event, is_validation
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.presets import PrivacyTarget

_ROUNDED = 1.0 + 1e-6
"""Factor that lets a plan pass whose cost is exactly its target, but for rounding."""


class Budget(Settings):
    """A total (epsilon, delta) over all lines of a party's ledger, by the sound accountant."""

    epsilon: float = Field(gt=0)
    """Largest epsilon that may be spent."""
    delta: float = Field(gt=0, lt=1)
    """Probability at which epsilon is stated."""


class WindowBudget(Budget):
    """A total (epsilon, delta) over a window of time; see fedkme/ledgers/windows.py for clocks."""

    days: float | None = Field(None, gt=0)
    """Length of the window; none: all lines of the party's ledger count."""

    @property
    def period(self) -> str:
        """Words for the window, to append to a sentence; empty without a window."""
        return "" if self.days is None else f" in {self.days:g} days"


def check_budget(
    budget: WindowBudget, protected: str, observer: str, spent: Iterable[Disclosure], planned: Iterable[Event]
) -> None:
    """Refuse a plan that would exceed a budget.

    Args:
        budget: the total.
        protected: the data set.
        observer: the party that learns of the data set.
        spent: every line of the party's ledger in the budget's window, also about other data sets and
            observers.
        planned: events of the release to come.

    Raises:
        BudgetError: past and planned events together have no epsilon within the budget; nothing was computed.
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
        spent: lines of the curator's ledger, each about all owners at once or about one owner.
        planned: events of the release to come, of each owner's rows.

    Raises:
        BudgetError: past and planned events together have no epsilon within the budget; nothing was computed.
    """
    remedy = "Ask for a smaller epsilon, or agree on a larger budget."
    about_owners = [d for d in spent if d.observer == OWNERS and not is_validation(d.protected)]
    for before in paid_by_owners(about_owners):
        check_cost(budget, f"{OWNERS} towards {OWNERS}", before, tuple(planned), remedy)


def paid_by_owners(lines: Collection[Disclosure]) -> set[tuple[Event, ...]]:
    """Events that each owner's rows paid for, by lines about owners; owners with the same past are one."""
    from fedkme.privacy.accountants import paid

    names = {d.protected for d in lines if d.protected != OWNERS} or {OWNERS}
    return {tuple(paid(d for d in lines if d.protected in (OWNERS, name))) for name in sorted(names)}


def check_target(target: PrivacyTarget, whose: str, planned: Sequence[Event]) -> None:
    """Refuse a plan that costs more than the privacy target of its settings.

    A plan without a finite epsilon passes: the user chose its mechanism by name, and `warn_of_unbounded`
    warns.

    Args:
        target: the bound, for the rows of a group together.
        whose: data set and observer, for the error.
        planned: events of the release to come.

    Raises:
        BudgetError: the plan costs more than the target; nothing was computed.
    """
    from fedkme.privacy.accountants import Sound

    figure = Sound().epsilon(for_group(planned, target.group), target.delta)
    if target.epsilon * _ROUNDED < figure.epsilon < math.inf:
        raise BudgetError(
            f"{whose}: epsilon {figure.epsilon:.4g} is planned at delta {target.delta:g}, and the target is "
            f"{target.epsilon:g}",
            "Give the mechanisms in the settings a smaller epsilon, or raise the target's epsilon.",
        )


def warn_of_unbounded(
    target: PrivacyTarget, whose: str, planned: Sequence[Event], warn: Callable[[str], None]
) -> None:
    """Warn where a plan has no finite epsilon, and say why: a target then promises nothing.

    Args:
        target: see `check_target`.
        whose: data set and observer, for the warning.
        planned: events of the release to come.
        warn: receives the warning, one line.
    """
    from fedkme.privacy.accountants import Sound

    figure = Sound().epsilon(for_group(planned, target.group), target.delta)
    if math.isinf(figure.epsilon):
        warn(f"{whose}: the target of epsilon {target.epsilon:g} does not bound this plan: {figure.reason}")


def check_cost(
    budget: Budget, whose: str, before: Sequence[Event], planned: Sequence[Event], remedy: str
) -> None:
    """Refuse a plan that would exceed a budget after past releases.

    Args:
        budget: the total.
        whose: data set and observer, for the error.
        before: events of past releases.
        planned: events of the release to come.
        remedy: remedy of the error.

    Raises:
        BudgetError: past and planned events together have no epsilon within the budget; nothing was computed.
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
