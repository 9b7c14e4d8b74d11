"""Cost of a request to D_v, looked at before anything of D_v is computed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from consumer.settings import ConsumerSettings, RequestSettings
from fedkme.cells.histogram import histogram_noise
from fedkme.errors import BudgetError
from fedkme.privacy.budget import check_budget
from fedkme.privacy.events import OWNERS, Event, ExactStatistic, validation_of
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.settings import target_event


def shared_event(request: RequestSettings, by_cells: bool) -> Event:
    """Event by which curator and owners get D_v's mean or its histogram, as the plan says."""
    return histogram_noise(request.privacy.of_row).event if by_cells else target_event(request.target)


def check_request(settings: ConsumerSettings) -> None:
    """Refuse a request that D_v can pay for in no protocol, before the curator hears of it.

    Raises:
        BudgetError: it can in none.
    """
    gamma = settings.request.kernel.gamma == "median-validation"
    extra: list[Event] = [ExactStatistic("gamma, a median distance of D_v")] if gamma else []
    try:
        check_spending(settings, [shared_event(settings.request, False), *extra])
    except BudgetError:
        with contextlib.suppress(BudgetError):
            check_spending(settings, [shared_event(settings.request, True), *extra])
            return
        raise


def check_spending(settings: ConsumerSettings, planned: Sequence[Event]) -> None:
    """Refuse what D_v cannot pay for, before anything of D_v is computed.

    Owners hear all that the curator hears, but for D_v itself where it is trusted with that.

    Raises:
        BudgetError: it cannot.
    """
    if settings.budget is None:
        return
    path = settings.output / "ledger.jsonl"
    spent = [entry.disclosure for entry in read_ledger(path)] if path.exists() else []
    check_budget(settings.budget, validation_of(settings.name), OWNERS, spent, planned)
