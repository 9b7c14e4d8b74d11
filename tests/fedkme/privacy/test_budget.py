"""Budgets: a plan that exceeds a budget is refused before anything is computed."""

from __future__ import annotations

import math

import pytest

from curator.summary.settings import SummarySettings
from fedkme.errors import BudgetError
from fedkme.privacy.budget import WindowBudget, check_budget
from fedkme.privacy.events import Clock, Disclosure, Event, ExactStatistic, Gaussian, MwemCall, RawRows
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.settings import (
    ExactSettings,
    GaussianSettings,
    MwemSettings,
    MwemTargetSettings,
    broadcast_events,
    target_event,
)

ONE = Gaussian(gaussian_sigma(1.0, 1e-5))


def spent(*events: Event, protected: str = "D_v") -> list[Disclosure]:
    return [
        Disclosure("run-1", 0, protected, "curator", event, "replace-one", 1.0, str(index))
        for index, event in enumerate(events)
    ]


def test_a_release_within_the_budget_is_allowed() -> None:
    budget = WindowBudget(epsilon=1.0 + 1e-9, delta=1e-5)
    check_budget(budget, "D_v", "curator", [], [ONE])
    check_budget(budget, "D_v", "curator", spent(ONE, protected="owner-1"), [ONE])  # another data set's


@pytest.mark.parametrize("planned", [ONE, ExactStatistic("x"), RawRows(3), MwemCall(0.01, 1656)])
def test_past_disclosures_count_towards_the_budget(planned: Event) -> None:
    # The whole of the ledger and the plan together, by the sound accountant; inf is over every budget.
    with pytest.raises(BudgetError, match=r"epsilon 1 is spent of 1\.3 at delta 1e-05"):
        check_budget(WindowBudget(epsilon=1.3, delta=1e-5), "D_v", "curator", spent(ONE), [planned])


def test_planned_events_equal_the_events_of_the_mechanisms() -> None:
    # Before anything is computed: the same events as the gates write, for the whole run.
    assert target_event(GaussianSettings()) == ONE
    assert target_event(MwemTargetSettings()) == MwemCall(0.01, 1656)
    assert isinstance(target_event(ExactSettings()), ExactStatistic)
    (gaussian,) = broadcast_events(GaussianSettings(), 100, 2)
    assert isinstance(gaussian, Gaussian)
    assert gaussian.count == 100
    assert gaussian.noise_multiplier == pytest.approx(gaussian_sigma(1.0, 1e-5, 100) / 2)
    assert broadcast_events(MwemSettings(), 100, 1) == [MwemCall(0.01 / math.sqrt(500), 500)]


def test_the_default_plan_is_within_its_own_target() -> None:
    planned = SummarySettings(protocol="algorithm3").between_owners(100, 5)
    assert [type(event) for event in planned] == [Gaussian, Clock]
    check_budget(WindowBudget(epsilon=1.0, delta=1e-5), "owners", "owners", [], planned)
    with pytest.raises(BudgetError):
        check_budget(WindowBudget(epsilon=0.9, delta=1e-5), "owners", "owners", [], planned)
    assert SummarySettings(protocol="uniform").between_owners(100, 5) == []
