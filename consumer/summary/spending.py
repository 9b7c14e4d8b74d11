"""Cost of a request to D_v, looked at before anything of D_v is computed."""

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
    """Menu from which D_v picks directions, and the noise of its counts, as the plan says.

    Picks are paid for with a share of pure epsilon: with Gaussian counts there are none, nor where this
    consumer wants none.

    Raises:
        ConfigError: the plan's menu is none, or of more picks than this consumer allows.
    """
    how = noise_of_asks(request.privacy, request.asks)
    menu = None if cells.menu is None else menu_from_json(cells.menu)
    if menu is None or not isinstance(how, HistogramNoise) or not request.picks:
        return None, how
    if menu.picks > request.picks:
        raise ConfigError(
            f"the plan lets D_v pick {menu.picks} directions, and its consumer allows {request.picks}",
            "Raise 'picks' of the request, or ask a curator whose 'cells.picks' is no more.",
        )
    return menu, histogram_of(menu, request.privacy.of_row)


def shared_events(request: RequestSettings, cells: CellsPlan | None) -> list[Event]:
    """Events by which curator and owners get D_v's mean, or its picks and its histogram, as the plan says."""
    if cells is None:
        return [target_event(request.target)]
    menu, how = counting(request, cells)
    picks = [] if menu is None else menu.events(request.privacy.of_row)
    return [*picks, how.event]


def check_asks(consumer: str, budget: WindowBudget | None, request: RequestSettings) -> None:
    """Refuse a budget that ends before the requests that are meant to be made, all by cells.

    Raises:
        BudgetError: it does.
    """
    every = repeated(noise_of_asks(request.privacy, request.asks).event, request.asks)
    check_spending(consumer, budget, [], [every])


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
    """Refuse what D_v cannot pay for, before anything of it is computed; `spent` is its ledger in the window.

    Owners hear all that the curator hears, but for D_v itself where it is trusted with that.

    Raises:
        BudgetError: it cannot.
    """
    if budget is not None:
        check_budget(budget, validation_of(consumer), OWNERS, spent, planned)
