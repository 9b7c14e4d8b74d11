"""The accounting of marginals: what a measurement costs, and that nothing goes over."""

from __future__ import annotations

import pytest

from curator.releases.marginals.budget import BudgetFilter, measurement_cost, measurement_sigma
from fedkme.errors import BudgetError, ConfigError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import leaves


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-9)])
def test_what_is_spent_never_exceeds_the_target_by_the_sound_accountant(epsilon: float, delta: float) -> None:
    budget = BudgetFilter(epsilon, delta)
    piece = budget.total / 12
    for _ in range(6):
        budget.measure([measurement_sigma((1.0 - 1e-12) * piece)] * 2)
    sound = Sound()
    assert sound.epsilon([budget.event], delta).epsilon <= epsilon * (1 + 1e-9)
    assert sound.epsilon([budget.pieces], delta).epsilon <= epsilon * (1 + 1e-3)  # a grid of losses rounds up
    assert sound.epsilon([budget.event], delta).epsilon >= epsilon * (1 - 1e-6)  # and nothing is given away
    assert measurement_cost(measurement_sigma(piece)) == pytest.approx(piece)


def test_a_budget_refuses_before_it_pays() -> None:
    budget = BudgetFilter(1.0, 1e-5)
    budget.measure([measurement_sigma(0.6 * budget.total)])
    spent = budget.spent
    with pytest.raises(BudgetError, match="over its epsilon"):
        budget.measure([measurement_sigma(0.6 * budget.total)])
    assert budget.spent == spent
    assert len(list(leaves([budget.pieces]))) == 1


def test_a_budget_of_no_epsilon_is_refused() -> None:
    with pytest.raises(ConfigError):
        BudgetFilter(-1.0, 1e-5)
    with pytest.raises(ConfigError):
        BudgetFilter(1.0, 0.0)
