"""Privacy targets are bounds: plans of presets keep to them, and plans beyond them are refused."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import BudgetError
from fedkme.ops.supervision import StatusReporter, run_party
from fedkme.party import PartySettings
from fedkme.privacy.accountants import Sound
from fedkme.privacy.accountants.pld import numerical_epsilon
from fedkme.privacy.budget import check_target, warn_of_unbounded
from fedkme.privacy.events import Clock, Event, ExactStatistic, Gaussian, Laplace, PureDp
from fedkme.privacy.presets import PrivacyTarget, large_epsilons
from fedkme.privacy.settings import MwemSettings, MwemTargetSettings
from owner.settings import OwnerSettings, PeriodBudget, PolicySettings
from sim.config import SummaryTable
from sim.engines.inprocess import KeptRecords, run_in_process
from tests.curator.summary.fakes import owners, small_market, table
from tests.parties import owner_values

SETTINGS: dict[str, dict[str, Any]] = {
    "algorithm 3": {"protocol": "algorithm3"},
    "a sketch and histograms": {"protocol": "cells"},
    "histograms": {"protocol": "cells", "cells": {"code_book": "seeds"}},
}


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=20, deadline=None)
@given(
    epsilon=st.sampled_from([0.1, 1.0, 10.0, 200.0, 1000.0]),
    rows=st.integers(1, 500),
    group=st.integers(1, 5),
)
def test_plans_of_presets_cost_no_more_than_the_target(
    name: str, epsilon: float, rows: int, group: int
) -> None:
    # Large epsilons too: by zCDP alone the accountant would give 5,534 for 200, and 127,780 for 1,000.
    target = PrivacyTarget(epsilon=epsilon, group=group)
    summary_settings = SummarySettings.model_validate({"privacy": target, **SETTINGS[name]})
    check_target(target, "owners", summary_settings.between_owners(rows, 5))


@pytest.mark.parametrize(
    "written",
    [
        {"auction": {"epsilon": 0.6}},
        {"broadcast": {"epsilon": 3.0}},
        {"broadcast": {"mechanism": "mwem", "epsilon": 1.0}},
    ],
)
def test_named_mechanisms_must_keep_to_the_target_too(written: dict[str, object]) -> None:
    summary_settings = SummarySettings.model_validate(written)
    planned = summary_settings.between_owners(20, 3)
    with pytest.raises(
        BudgetError, match=r"owners: epsilon .* is planned at delta 1e-05, and the target is 1\. Give"
    ):
        check_target(summary_settings.privacy, "owners", planned)
    check_target(PrivacyTarget(epsilon=2000.0), "owners", planned)


def test_a_mechanism_without_a_proof_passes_the_target_with_a_warning() -> None:
    warnings: list[str] = []
    for planned in ([ExactStatistic("best marginal gain"), Gaussian(9.0)], [Gaussian(9.0)], []):
        check_target(PrivacyTarget(), "owners", planned)
        warn_of_unbounded(PrivacyTarget(), "owners", planned, warnings.append)
    assert warnings == [
        "owners: the target of epsilon 1 does not bound this plan: released without noise: best marginal gain"
    ]


@pytest.mark.parametrize(
    ("summary", "request_", "whose"),
    [
        ({}, {}, []),
        ({"protocol": "cells"}, {}, []),
        ({"auction": {"kind": "winner-only"}}, {}, ["owners towards owners"]),
        ({"preset": "published"}, {}, ["owners towards owners"]),
        ({}, {"target": {"mechanism": "exact"}}, ["D_v of consumer towards owners"]),
        ({"protocol": "cells"}, {"target": {"mechanism": "exact"}}, []),
    ],
)
def test_a_run_warns_once_of_mechanisms_without_a_bound(
    summary: dict[str, Any], request_: dict[str, Any], whose: list[str]
) -> None:
    # Each party warns of its own settings: the curator of owners' rows, the consumer of D_v.
    heard: list[str] = []

    def hear(event: str, **fields: Any) -> None:
        if event == "warning" and "does not bound" in fields["line"]:
            heard.append(fields["line"].partition(":")[0])

    summary_settings = SummarySettings.model_validate(
        {"protocol": "algorithm3", "features": {"dimension": 16}, **summary}
    )
    request = RequestSettings.model_validate({"p": 3, "kernel": {"gamma": 1.0}, **request_})
    market = small_market(owners(8, 8))
    asyncio.run(run_in_process(market, table(8, 900), summary_settings, request, KeptRecords(), hear))
    assert heard == whose


@settings(max_examples=40, deadline=None)
@given(
    sigma=st.floats(0.5, 50.0),
    pure=st.lists(st.tuples(st.floats(0.01, 2.0), st.integers(1, 5)), min_size=1, max_size=3),
    delta=st.sampled_from([1e-9, 1e-5, 1e-2]),
)
def test_gaussians_with_pure_mechanisms_agree_with_loss_distributions(
    sigma: float, pure: list[tuple[float, int]], delta: float
) -> None:
    # The grid only raises what it approximates: the exact sum is below it, and close.
    events: list[Event] = [Gaussian(sigma), *(PureDp(epsilon, count) for epsilon, count in pure)]
    (exact,) = (f for f in Sound().figures(events, delta) if f.method.startswith("Gaussian"))
    counts = ((Gaussian(sigma), 1), *((PureDp(epsilon), count) for epsilon, count in pure))
    by_grid = numerical_epsilon(counts, delta)
    assert exact.epsilon <= by_grid + 1e-9
    assert exact.epsilon >= by_grid * 0.98 - 0.01


def test_too_many_losses_are_bounded_by_their_sum() -> None:
    events = [Gaussian(5.0), Clock(0.01), Laplace(100.0, count=5_000)]
    (figure,) = (f for f in Sound().figures(events, 1e-5) if f.method.startswith("Gaussian"))
    gaussian = Sound().epsilon([Gaussian(5.0)], 1e-5).epsilon
    assert figure.epsilon == pytest.approx(gaussian + 50.02, abs=1e-6)
    assert math.isinf(Sound().epsilon(events, 0.0).epsilon)


def test_a_party_warns_of_large_epsilons_at_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budgets = (PeriodBudget(epsilon=12.0, delta=1e-5),)
    values = owner_values(tmp_path, "north", "127.0.0.1:7700", policy=PolicySettings(budgets=budgets))

    async def nothing(settings: OwnerSettings, reporter: StatusReporter) -> None:
        pass

    assert run_party(lambda: OwnerSettings(**values), False, nothing) == 0
    warnings = capsys.readouterr().err
    assert "an epsilon over 10 promises next to nothing: policy.budgets.epsilon = 12" in warnings


def test_large_epsilons_are_named_with_their_keys() -> None:
    assert large_epsilons(PartySettings()) == []
    assert large_epsilons(SummarySettings(privacy=PrivacyTarget(epsilon=10.0))) == []
    lines = large_epsilons(SummarySettings(privacy=PrivacyTarget(epsilon=200.0)))
    assert lines[0] == "privacy.epsilon = 200"
    policy = PolicySettings(budgets=(PeriodBudget(epsilon=11.0, delta=1e-5),))
    assert large_epsilons(policy) == ["budgets.epsilon = 11"]


def test_the_published_preset_has_the_papers_features_and_averages_as_printed() -> None:
    # As printed, h1 is cos(w.x + b), and Algorithm 2 returns P_avg, line 8.
    summary_settings = SummaryTable.model_validate({"p": 5, "preset": "published"})
    assert (summary_settings.features.kind, summary_settings.features.dimension) == ("offset", 140)
    assert summary_settings.target == MwemTargetSettings(estimate="average")
    assert summary_settings.broadcast == MwemSettings(estimate="average")
    smaller = SummaryTable.model_validate({"p": 5, "preset": "published", "features": {"dimension": 16}})
    assert (smaller.features.kind, smaller.features.dimension) == ("offset", 16)


def test_the_published_preset_leaves_named_settings() -> None:
    named = {
        "features": {"kind": "paired"},
        "target": {"estimate": "last"},
        "broadcast": {"mechanism": "mwem", "estimate": "last", "iterations": 7},
    }
    summary_settings = SummaryTable.model_validate({"p": 5, "preset": "published", **named})
    assert summary_settings.features.kind == "paired"
    assert summary_settings.target == MwemTargetSettings()
    assert summary_settings.broadcast == MwemSettings(iterations=7)
    sound = SummaryTable.model_validate({"p": 5})
    assert sound.features.kind == "paired"
