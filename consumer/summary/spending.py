"""Cost of a request to D_v, checked before anything is computed from D_v."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from consumer.settings import RequestSettings
from fedkme.cells.directions import Menu, histogram_of, menu_from_json
from fedkme.cells.histogram import CountNoise, HistogramNoise
from fedkme.cells.repeated_requests import noise_of_asks
from fedkme.errors import BudgetError, ConfigError
from fedkme.exchange import CellsPlan
from fedkme.privacy.budget import WindowBudget, check_budget
from fedkme.privacy.events import OWNERS, Disclosure, Event, ExactStatistic, repeated, validation_of
from fedkme.privacy.settings import target_event


def counting(request: RequestSettings, cells: CellsPlan) -> tuple[Menu | None, CountNoise]:
    """Menu from which D_v picks directions, and the noise of its counts, by the plan.

    Picks cost a share of pure epsilon: there are none with Gaussian counts, or if the consumer wants none.

    Raises:
        ConfigError: the plan's menu is invalid, or has more picks than this consumer allows.
    """
    how = noise_of_asks(request.privacy, request.asks)
    menu = None if cells.menu is None else menu_from_json(cells.menu)
    if menu is None or not isinstance(how, HistogramNoise) or not request.picks:
        return None, how
    if menu.picks > request.picks:
        raise ConfigError(
            f"the plan lets D_v pick {menu.picks} directions, and the consumer allows {request.picks}",
            "Raise 'picks' of the request, or ask a curator whose 'cells.picks' is no more.",
        )
    return menu, histogram_of(menu, request.privacy.of_row)


def shared_events(request: RequestSettings, cells: CellsPlan | None) -> list[Event]:
    """Events that disclose D_v's mean, or its picks and histogram, to curator and owners, by the plan."""
    if cells is None:
        return [target_event(request.target)]
    menu, how = counting(request, cells)
    picks = [] if menu is None else menu.events(request.privacy.of_row)
    return [*picks, how.event]


def check_asks(consumer: str, budget: WindowBudget | None, request: RequestSettings) -> None:
    """Refuse a budget that is too small for all planned requests, by cells.

    Raises:
        BudgetError: the budget is too small.
    """
    every = repeated(noise_of_asks(request.privacy, request.asks).event, request.asks)
    check_spending(consumer, budget, [], [every])


def check_request(
    consumer: str, budget: WindowBudget | None, request: RequestSettings, spent: Sequence[Disclosure]
) -> None:
    """Refuse a request that exceeds D_v's budget in every protocol, before the curator hears of it.

    Raises:
        BudgetError: the request exceeds the budget in every protocol.
    """
    gamma = request.kernel.gamma == "median-validation"
    extra: list[Event] = [ExactStatistic("gamma, a median distance of D_v")] if gamma else []
    try:
        check_spending(consumer, budget, spent, [target_event(request.target), *extra])
    except BudgetError:
        with contextlib.suppress(BudgetError):
            by_cells = noise_of_asks(request.privacy, request.asks).event
            check_spending(consumer, budget, spent, [by_cells, *extra])
            return
        raise


def check_spending(
    consumer: str, budget: WindowBudget | None, spent: Iterable[Disclosure], planned: Sequence[Event]
) -> None:
    """Refuse planned events that exceed D_v's budget; `spent` has D_v's disclosures in the window.

    Owners hear all that the curator hears, except D_v itself if the curator is trusted with it.

    Raises:
        BudgetError: the events exceed the budget.
    """
    if budget is not None:
        check_budget(budget, validation_of(consumer), OWNERS, spent, planned)
