"""Cost of a request to D_v, looked at before anything of D_v is computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from consumer.settings import RequestSettings
from fedkme.cells.asks import noise_of_asks
from fedkme.errors import BudgetError
from fedkme.privacy.budget import WindowBudget, check_budget
from fedkme.privacy.events import OWNERS, Disclosure, Event, ExactStatistic, validation_of
from fedkme.privacy.settings import target_event


def shared_event(request: RequestSettings, by_cells: bool) -> Event:
    """Event by which curator and owners get D_v's mean or its histogram, as the plan says."""
    return noise_of_asks(request.privacy, request.asks).event if by_cells else target_event(request.target)


def check_request(
    consumer: str, budget: WindowBudget | None, request: RequestSettings, spent: Sequence[Disclosure]
) -> None:
    """Refuse a request that D_v can pay for in no protocol, before the curator hears of it.

    Raises:
        BudgetError: it can in none.
    """
    gamma = request.kernel.gamma == "median-validation"
    extra: list[Event] = [ExactStatistic("gamma, a median distance of D_v")] if gamma else []
    try:
        check_spending(consumer, budget, spent, [shared_event(request, False), *extra])
    except BudgetError:
        with contextlib.suppress(BudgetError):
            check_spending(consumer, budget, spent, [shared_event(request, True), *extra])
            return
        raise


def check_spending(
    consumer: str, budget: WindowBudget | None, spent: Iterable[Disclosure], planned: Sequence[Event]
) -> None:
    """Refuse what D_v cannot pay for, before anything of it is computed; `spent` is its ledger in the window.

    Owners hear all that the curator hears, but for D_v itself where it is trusted with that.

    Raises:
        BudgetError: it cannot.
    """
    if budget is not None:
        check_budget(budget, validation_of(consumer), OWNERS, spent, planned)
