"""Budgets: over them nothing is computed (issue 3, item 3)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curator.summary.settings import SummarySettings
from fedkme.errors import BudgetError
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.budget import Budget, check_budget
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
from fedkme.protocol import AuctionTerms, Invitation
from owner.consent.gate import Allowance, OwnerGate

ONE = Gaussian(gaussian_sigma(1.0, 1e-5))


def spent(*events: Event, protected: str = "D_v") -> list[Disclosure]:
    return [
        Disclosure("run-1", 0, protected, "curator", event, "replace-one", 1.0, str(index))
        for index, event in enumerate(events)
    ]


def test_a_release_within_the_budget_is_none_of_our_business() -> None:
    budget = Budget(epsilon=1.0 + 1e-9, delta=1e-5)
    check_budget(budget, "D_v", "curator", [], [ONE])
    check_budget(budget, "D_v", "curator", spent(ONE, protected="owner-1"), [ONE])  # another data set's


@pytest.mark.parametrize("planned", [ONE, ExactStatistic("x"), RawRows(3), MwemCall(0.01, 1656)])
def test_what_was_spent_counts(planned: Event) -> None:
    # The whole of the ledger and the plan together, by the sound accountant; inf is over every budget.
    with pytest.raises(BudgetError, match=r"epsilon 1 is spent of 1\.3 at delta 1e-05"):
        check_budget(Budget(epsilon=1.3, delta=1e-5), "D_v", "curator", spent(ONE), [planned])


def test_a_plan_is_what_the_mechanisms_will_say() -> None:
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
    planned = SummarySettings().between_owners(100, 5)
    assert [type(event) for event in planned] == [Gaussian, Clock]
    check_budget(Budget(epsilon=1.0, delta=1e-5), "owners", "owners", [], planned)
    with pytest.raises(BudgetError):
        check_budget(Budget(epsilon=0.9, delta=1e-5), "owners", "owners", [], planned)
    assert SummarySettings(protocol="uniform").between_owners(100, 5) == []


def test_an_owner_sends_no_more_rows_than_may_leave() -> None:
    # Over its lifetime: earlier runs count; a request that goes over lets nothing out.
    gate = OwnerGate("a", allowance=Allowance(rows=2, most=5))
    terms = AuctionTerms(FourierSpec("paired", 2, 0.1, 1, 1), np.zeros(2, dtype=np.int32))
    run = Invitation("run-2", "", "consumer", "ask-everyone", (), terms)
    gate.open(run)
    gate.pass_rows("run-2", 1, [0, 1])
    gate.pass_rows("run-2", 2, [1])  # again: no new row
    with pytest.raises(BudgetError, match="4 of 5 rows that may leave in all have left, and 2 more"):
        gate.pass_rows("run-2", 3, [2, 3])
    assert gate.rows_sent == 2
    gate.pass_rows("run-2", 3, [2])
    with pytest.raises(BudgetError):
        gate.open(run)
