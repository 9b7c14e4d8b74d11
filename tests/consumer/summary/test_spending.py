"""A consumer's budget over a window, and for many planned requests."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from consumer.requests import DONE, Requests
from consumer.settings import RequestSettings
from consumer.summary.offers import counting, shared_events
from consumer.summary.party import ConsumerParty
from curator.planning.formulas import validation_epsilon
from curator.runs.summary_families import declared_noise
from curator.summary.settings import SummarySettings
from fedkme.cells.histogram import GaussianNoise, HistogramNoise
from fedkme.cells.repeated_requests import costs_of_asks
from fedkme.errors import BudgetError
from fedkme.exchange import CellsPlan, Offer
from fedkme.margins.density import even_density
from fedkme.margins.model import PoolModel, make_model
from fedkme.margins.picks import margin_noise
from fedkme.party import noise_for
from fedkme.privacy.accountants import Sound, paid
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import CURATOR, OWNERS
from fedkme.privacy.presets import PrivacyTarget
from fedkme.store.sqlite import SqliteStore
from fedkme.wire.summaries import request_from_wire, request_to_wire
from tests.hostile import test_lying_plans as lying_plans
from tests.hostile.labs import plan
from tests.owner.consent.host import Clockwork
from tests.system.market import SCHEMA, rows

NAME = "hospital"


class Lab:
    """A consumer without a network, whose requests a curator plans at once.

    Attributes:
        clock: time of its store and its budget.
    """

    archiving: ClassVar = False
    """Archive all ended requests but the last."""

    def __init__(self, asks: int = 1, budget: WindowBudget | None = None) -> None:
        self.clock = Clockwork()
        self.store = SqliteStore(":memory:", NAME, clock=self.clock)
        self.party = ConsumerParty(
            requests=Requests(NAME, self.store),
            request=RequestSettings(p=5, asks=asks),
            schema=SCHEMA,
            validation=rows(30, 1),
            noise_for=noise_for(0, NAME),
            warn=lambda run, line: None,
            budget=budget,
            clock=self.clock,
        )
        self.requests_made = 0

    def ask(self) -> Offer:
        """Request one more summary, in a folder of its own."""
        self.requests_made += 1
        request = self.party.ask(self.party.document(Path(f"out-{self.requests_made}")))
        offer = self.party.offer(request, plan(self.requests_made, f"run-{self.requests_made}"))
        if self.archiving:
            self.clock.pass_days(1e-9)
            request.end(DONE)
            self.party.requests.archive(1)
        return offer

    def came(self, times: int) -> str:
        """Make several requests: `+` for an offer, `-` for a refusal by the budget."""
        outcomes = ""
        for _ in range(times):
            try:
                self.ask()
                outcomes += "+"
            except BudgetError:
                outcomes += "-"
        return outcomes


@pytest.fixture(autouse=True, params=["kept", "archived"])
def archiving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test also with archived requests."""
    monkeypatch.setattr(Lab, "archiving", request.param == "archived")


def test_a_budget_counts_what_lies_in_its_window() -> None:
    lab = Lab(budget=WindowBudget(epsilon=2.0, delta=1e-5, days=30))
    assert lab.came(3) == "++-"
    assert bool(lab.store.archives()) == lab.archiving
    lab.clock.pass_days(20)
    assert lab.came(1) == "-"
    lab.clock.pass_days(10.5)
    assert lab.came(3) == "++-"
    assert len(lab.party.requests.spent) == 8  # four draws, towards curator and owners
    assert Lab(budget=WindowBudget(epsilon=2.0, delta=1e-5)).came(3) == "++-"


@pytest.mark.parametrize("back", [1, 29, 400])
def test_a_clock_that_is_set_back_frees_nothing(back: float) -> None:
    lab = Lab(budget=WindowBudget(epsilon=2.0, delta=1e-5, days=30))
    assert lab.came(1) == "+"
    lab.clock.pass_days(-back)
    assert lab.came(2) == "+-"
    lab.clock.pass_days(back + 20)  # corrected
    assert lab.came(1) == "-"
    lab.clock.pass_days(11)  # the first is 31 days old, the second counts from when the clock was right
    assert lab.came(2) == "+-"
    lab.clock.pass_days(20)
    assert lab.came(2) == "+-"


def test_an_error_names_the_window() -> None:
    lab = Lab(budget=WindowBudget(epsilon=1.5, delta=1e-5, days=7))
    lab.ask()
    with pytest.raises(
        BudgetError, match=r"D_v of hospital towards owners in 7 days: epsilon 1 is spent of 1.5"
    ):
        lab.ask()


def test_twenty_announced_requests_cost_5_4() -> None:
    costs = costs_of_asks(PrivacyTarget(), 20)
    for asks, cost in ((1, costs.laplace), (20, costs.gaussian)):
        lab = Lab(asks)
        offers = [lab.ask() for _ in range(20)]
        for observer in (CURATOR, OWNERS):
            lines = [line for line in lab.party.requests.spent if line.observer == observer]
            assert len(lines) == len({line.nonce for line in lines}) == 20
            assert Sound().epsilon(tuple(paid(lines)), 1e-5).epsilon == pytest.approx(cost, rel=1e-9)
        noise = declared_noise(offers[0])
        assert isinstance(noise, HistogramNoise if asks == 1 else GaussianNoise)
        assert {line.sensitivity for line in offers[0].disclosures} == {2.0 if asks == 1 else math.sqrt(2)}


@pytest.mark.parametrize("asks", [1, 20])
def test_margins_have_one_noise_for_one_request_and_for_twenty(asks: int) -> None:
    request, public = RequestSettings(p=5, asks=asks), rows(200, 2)
    model = make_model(SCHEMA.encode(public.values), None, SCHEMA)
    cells = CellsPlan(even_density(SCHEMA, 1).to_json(), 1.0, 2.0, 0, 0.9, model.to_json())
    menu, how = counting(request, cells)
    assert isinstance(menu, PoolModel)
    assert how == margin_noise(request.privacy, menu.picks, menu.share)
    assert Sound().epsilon(20 * tuple(shared_events(request, cells)), 1e-5).epsilon < 5.5


def test_a_budget_of_8_lets_twenty_requests_through_where_the_usual_noise_ends_at_8() -> None:
    assert Lab(20, WindowBudget(epsilon=8.0, delta=1e-5)).came(20) == 20 * "+"
    assert Lab(1, WindowBudget(epsilon=8.0, delta=1e-5)).came(20) == 8 * "+" + 12 * "-"


@pytest.mark.parametrize(("delta", "margins"), [(1e-5, 4), (1e-6, 0)])
def test_no_plan_has_margins_that_the_budget_would_refuse(delta: float, margins: int) -> None:
    # Owners had paid for the release that margins are over when the plan was refused, at each request again.
    lab = Lab(budget=WindowBudget(epsilon=1.0, delta=delta))
    assert lab.party.document(Path("out")).request.margins == margins
    assert lab.came(1) == "+"


def test_the_curator_takes_cells_by_the_noise_that_it_is_told() -> None:
    settings = SummarySettings(protocol="cells")
    for asks, deviation, epsilon in ((1, 0.0, 1.0), (20, 5.28, 0.536)):
        lab = Lab(asks)
        request = request_from_wire(request_to_wire(lab.party.document(Path("out")).request))
        assert request.count_deviation == pytest.approx(deviation, abs=0.01)
        assert validation_epsilon(settings, request.count_deviation) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize(("menu", "picks", "lines"), [(True, 0, 1), (True, 4, 0), (False, 0, 0)])
def test_a_request_without_picks_says_what_that_costs(menu: bool, picks: int, lines: int) -> None:
    # A plan without a menu comes of a curator without picks, which has said so itself: once is enough.
    lab, said = Lab(), list[str]()
    request = lab.party.request.model_copy(update={"picks": picks})
    party = replace(lab.party, request=request, warn=lambda _, line: said.append(line))
    planned = lying_plans.plan()
    assert planned.cells is not None
    cells = replace(planned.cells, menu=planned.cells.menu if menu else None)
    party.offer(party.ask(party.document(Path("out"))), replace(planned, cells=cells))
    assert sum("'picks' = 0" in line for line in said) == lines
