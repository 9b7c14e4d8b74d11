"""Budgets of an owner towards consumers, by name and together; clocks that were set back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import BudgetError, ConfigError, FedkmeError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Composed, Gaussian
from fedkme.protocols import PROTOCOLS
from owner.consent.history import History, archive_runs, seen_by_consumer
from owner.consent.status import read_status
from owner.settings import PeriodBudget
from tests.owner.consent import host as consent_host
from tests.owner.consent.host import CHEAP, NAME, Clockwork, Host, configured, host, rows
from tests.owner.sums.owner_parties import Asker


@pytest.fixture(autouse=True, params=["kept", "archived"])
def archiving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test also with all ended runs but the last archived."""

    def archived(at: Host, run: str) -> None:
        at.forget(run)
        at.clock.pass_days(1e-9)
        archive_runs(NAME, at.store, 1)

    if request.param == "archived":
        monkeypatch.setattr(Host, "end", archived)


EACH = {"observer": "consumer", "epsilon": 2.0, "delta": 1e-5}
TOGETHER = EACH | {"together": True}
ONE = (Gaussian(3.0),)
"""Epsilon of two such plans is 1.87 at delta 1e-5, of three 2.34."""


def release(at: Host, run: str, consumer: str = "hospital") -> FedkmeError | None:
    """Ask for a release; if the owner takes part, one vector leaves and the run ends."""
    curator = Asker(at, run)
    error = curator.enlist(planned=ONE, consumer=consumer)
    if error is None:
        curator.embed(1)
        at.end(run)
    return error


def admitted(at: Host, consumers: str) -> str:
    """Ask for a release for each letter's consumer; `-` replaces the letter for a refusal over a budget."""
    names = {"h": "hospital", "c": "clinic", "s": "school"}
    came = ""
    for letter in consumers:
        error = release(at, f"r-{len(at.store.runs())}", names[letter])
        assert error is None or type(error) is BudgetError
        came += "-" if error else letter
    return came


@pytest.mark.parametrize(
    ("budgets", "requests", "came"),
    [
        ([EACH], "hhhccch", "hh-cc--"),  # each consumer by itself
        ([EACH | {"consumers": ["hospital"]}], "hhhccc", "hh-ccc"),  # nobody else has a limit
        (
            [EACH, EACH | {"consumers": ["clinic"], "epsilon": 1.5}],
            "hhhccs",
            "hh-c-s",
        ),  # in place of the default
        ([TOGETHER], "hchs", "hc--"),  # if all tell each other everything
        ([TOGETHER | {"consumers": ["hospital", "clinic"]}], "hchcsss", "hc--sss"),  # if these two do
        ([EACH, TOGETHER | {"epsilon": 2.4}], "hhhccc", "hh-c--"),  # both hold
    ],
)
def test_consumers_of_releases_have_budgets(
    tmp_path: Path, budgets: list[dict[str, Any]], requests: str, came: str
) -> None:
    with host(tmp_path, budgets=budgets, runs_at_once=9) as at:
        assert admitted(at, requests) == came


def test_a_budget_towards_a_consumer_holds_over_restarts_and_is_stated(tmp_path: Path) -> None:
    for run, kind in (("r-1", type(None)), ("r-2", type(None)), ("r-3", BudgetError)):
        with host(tmp_path, budgets=[EACH, TOGETHER]) as at:
            assert type(release(at, run)) is kind
            lines = at.lines
    ((name, error),) = at.refusals
    assert name == "r-3"
    assert error.code == 52
    assert "rows of owner-1 towards hospital: epsilon 1.866 is spent of 2" in error.cause
    assert lines == 4
    with host(tmp_path, budgets=[EACH, TOGETHER]) as at:
        each, together, others = read_status(at.settings, at.store).spent
        assert (each.period, together.period) == ("hospital in all", "all consumers together in all")
        assert each.figure.epsilon == together.figure.epsilon == others.figure.epsilon > 1.8
    (tmp_path / "none").mkdir()
    with host(tmp_path / "none", budgets=[EACH]) as at:
        assert read_status(at.settings, at.store).spent[0].figure.epsilon == 0


def test_consumers_of_summaries_see_rows_which_no_budget_covers(tmp_path: Path) -> None:
    # The sketch, which a summary follows, is refused before anything is computed, too.
    finite = {name for name in PROTOCOLS if not Sound().refusal(Composed(seen_by_consumer(name, ONE)))}
    assert finite == {name for name, row in PROTOCOLS.items() if row.family == "sums"} - {"sketch"}
    with host(tmp_path, budgets=[EACH | {"consumers": ["hospital"]}]) as at:
        for protocol in ("clock", "uniform"):
            assert type(at.prepare(f"r-{protocol}", protocol=protocol)) is BudgetError
        assert type(Asker(at, "sketched").enlist(protocol="sketch", planned=ONE)) is BudgetError
        assert (at.loaded, at.lines) == ([], 0)
        assert at.prepare("r-clinic", consumer="clinic") is None


@pytest.mark.parametrize("days", [{}, {"days": 30}])
def test_a_clock_that_is_set_back_frees_nothing(tmp_path: Path, days: dict[str, float]) -> None:
    clock = Clockwork()
    policy: dict[str, Any] = {"budgets": [EACH | days], "runs_at_once": 9}
    with host(tmp_path, clock, **policy) as at:
        assert admitted(at, "h") == "h"
        clock.pass_days(-400)
        assert admitted(at, "hh") == "h-"
        clock.pass_days(20)
        assert admitted(at, "h") == "-"
        clock.pass_days(400)  # corrected: 20 days after the first
        assert admitted(at, "h") == "-"
    with host(tmp_path, clock, **policy) as at:
        clock.pass_days(11)  # the first is 31 days ago, the second counts from when the clock was right
        assert admitted(at, "hh") == ("h-" if days else "--")
        clock.pass_days(20)
        assert admitted(at, "hh") == ("h-" if days else "--")


def test_a_run_that_ends_while_the_clock_is_back_ends_when_it_is_right_again(tmp_path: Path) -> None:
    # The run's own lines are older than the wrong time: only its place in the ledger shows that it ended
    # later.
    clock = Clockwork()
    with host(tmp_path, clock, budgets=[EACH | {"days": 30}], runs_at_once=9) as at:
        curators = [Asker(at, run) for run in ("slow-1", "slow-2")]
        for curator in curators:
            assert curator.enlist(planned=ONE) is None
            curator.embed(1)
        clock.pass_days(100)
        assert admitted(at, "c") == "c"
        clock.pass_days(-60)
        at.end("slow-1")
        at.end("slow-2")
        clock.pass_days(60)
        assert admitted(at, "h") == "-"
        clock.pass_days(29)
        assert admitted(at, "h") == "-"
        clock.pass_days(2)
        assert admitted(at, "hhh") == "hh-"


def test_another_data_file_does_not_begin_a_budget_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Budgets belong to the store: the same people may be in both files, whatever the digests are.
    with host(tmp_path, budgets=[EACH]) as at:
        assert admitted(at, "h") == "h"
        before = at.wired.runs
    monkeypatch.setattr(consent_host, "rows", lambda: rows(25))
    with host(tmp_path, budgets=[EACH]) as at:
        assert at.wired.runs == before == []
        assert admitted(at, "hhc") == "h-c"


def test_observers_of_budgets_are_checked(tmp_path: Path) -> None:
    for wrong in (
        {"observer": "owners", "together": True},
        {"observer": "curator", "consumers": ["hospital"]},
    ):
        with pytest.raises(ConfigError, match="belong to a budget with observer = 'consumer'"):
            configured(tmp_path, budgets=[EACH | wrong])
    with pytest.raises(ConfigError, match="stands for something else"):
        configured(tmp_path, budgets=[EACH | {"consumers": ["owners"]}])
    assert PeriodBudget(epsilon=1.0, delta=1e-5).counted("hospital") is None


def test_a_budget_towards_consumers_leaves_other_owners_theirs(tmp_path: Path) -> None:
    budgets = [EACH | {"consumers": ["clinic"]}, {"observer": "owners", "epsilon": 2.0, "delta": 1e-5}]
    with host(tmp_path, budgets=budgets) as at:
        assert at.prepare("r-1") is None
        assert type(at.prepare("r-2", planned=2 * CHEAP)) is BudgetError


def test_a_history_that_reads_incrementally_equals_a_fresh_one(tmp_path: Path) -> None:
    # `fedkme bench soak` found that times of archived lines stayed in memory, 1.3 kB a run.
    def held(history: History) -> tuple[object, ...]:
        readings = {name: value for name, value in vars(history.readings).items() if name != "_store"}
        return readings, history.disclosures, history.admitted, history.archived

    with host(tmp_path) as at:
        at.clock.pass_days(1.0)
        going = History(NAME, at.store)
        for number in range(6):
            assert release(at, f"run-{number}") is None
            going.read()
            beginning = History(NAME, at.store)
            beginning.read()
            assert held(going) == held(beginning)
