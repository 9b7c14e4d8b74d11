"""The gate enforces the owner's policy before computing; refusals are typed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from curator.summary.auctions.base import AUCTIONS
from fedkme.cells.histogram import HistogramNoise
from fedkme.errors import (
    ApprovalError,
    BudgetError,
    ConfigError,
    FedkmeError,
    OwnerFaultError,
    PolicyError,
    ProtocolError,
    StoreError,
)
from fedkme.ops.supervision import StatusReporter
from fedkme.party import noise_for
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import CURATOR, Clock, Composed, Disclosure, Gaussian, PrivAuction, PureDp, RawRows
from fedkme.privacy.ledger import stored_ledger
from fedkme.protocol import AuctionTerms, CellTerms, Security
from fedkme.protocols import PROTOCOLS, names
from fedkme.tables.schema import Numeric, Schema
from owner.agent import join
from owner.consent.history import History
from owner.consent.policy import Policy, check_columns, shown_to_curator
from owner.consent.pools import RowPools
from owner.settings import PolicySettings
from tests.owner.consent.host import (
    CHEAP,
    NAME,
    SCHEMA,
    Clockwork,
    Host,
    configured,
    heard,
    host,
    invitation,
    rows,
)

BUDGET = {"observer": "owners", "epsilon": 2.0, "delta": 1e-5}
"""Enough for two runs of `CHEAP`, not for three."""

REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[FedkmeError], str]] = [
    ({"protocols": ["uniform"]}, {}, PolicyError, "take part in the protocol 'clock', but in uniform"),
    ({"consumers": ["clinic"]}, {}, PolicyError, "for the consumer 'hospital'"),
    ({"columns": ["x", "age"]}, {}, PolicyError, "column 'ill' of the public schema"),
    ({"columns": ["x", "ill"]}, {}, PolicyError, "column 'age' of the public schema"),
    ({"rows": "hashed"}, {}, PolicyError, "no more than h1 of a row may leave owner-1"),
    ({"rows": "none"}, {"protocol": "uniform"}, PolicyError, "no more than numbers about all its rows"),
    ({"most_rows": 0}, {}, BudgetError, "0 of 0 rows that may leave in all"),
    ({"most_rows_per_run": 0}, {}, BudgetError, "0 rows may leave in one run"),
    ({"budgets": [BUDGET]}, {"planned": 3 * CHEAP}, BudgetError, r"epsilon 0 is spent of 2 at delta 1e-05"),
    (
        {"budgets": [BUDGET]},
        {"protocol": "privauction", "planned": (PrivAuction(1.0, 1.0, 9, 1.0, 1e-5),)},
        BudgetError,
        "would make it inf",
    ),
    ({"budgets": [BUDGET]}, {"planned": (), "heard": heard("r", CHEAP)}, PolicyError, "is not told what"),
    ({"budgets": [BUDGET | {"observer": "curator"}]}, {}, BudgetError, "towards the curator: epsilon 0 is"),
    ({"approval": "manual"}, {}, ApprovalError, "has approved none of 100 rows for hospital"),
    ({}, {"protocol": "algorithm3"}, PolicyError, "'algorithm3' is no protocol"),
    ({}, {"protocol": "best-two"}, PolicyError, "install the package that brings it"),
    ({}, {"consumer": "two words\n"}, PolicyError, "is asked for a run without a valid consumer"),
]


@pytest.mark.parametrize(("policy", "run", "kind", "words"), REFUSED)
def test_a_refusal_comes_before_anything_is_computed_or_written(
    tmp_path: Path, policy: dict[str, Any], run: dict[str, Any], kind: type[FedkmeError], words: str
) -> None:
    with host(tmp_path, **policy) as at:
        error = at.prepare("r", **run)
        assert type(error) is kind
        assert error is not None
        assert at.loaded == []
        assert at.lines == 0
        assert at.store.keys("admitted/") == []
        # The owner's log has the reason; the curator is not told what was spent.
        ((name, logged),) = at.refusals
        assert (name, logged.code) == ("r", kind.code)
        with pytest.raises(kind, match=words):
            raise logged
        spent = "the limits and budgets of owner-1 do not allow r"
        assert error.cause == (spent if kind is BudgetError else logged.cause)
        assert at.bid("r").HasField("fault")  # a curator that ignores the refusal gets nothing
        assert at.lines == 0


@pytest.mark.parametrize(("may_leave", "refused"), [("none", True), ("raw", False)])
@pytest.mark.parametrize("protocol", [name for name in names() if PROTOCOLS[name].family != "sums"])
def test_a_policy_without_rows_refuses_every_protocol_of_rows(
    tmp_path: Path, protocol: str, may_leave: str, refused: bool
) -> None:
    # docs/owners.md, "Only non-personal data": no row leaves, sealed and hashed rows included.
    cells = (
        {"terms": CellTerms({}, 1.0, HistogramNoise(1.0), 100)}
        if PROTOCOLS[protocol].family == "cells"
        else {}
    )
    invited = invitation("r", protocol=protocol, **cells)
    with host(tmp_path, rows=may_leave) as at:
        history, settings = History(NAME, at.store), at.settings.policy
        pools = RowPools(at.store, rows().digest(), len(rows()), noise_for(0, NAME)("pool"), settings)
        policy = Policy(NAME, settings, SCHEMA, at.store, history, pools, at.settings.approvals)
        words = "no more than numbers about all its rows may leave owner-1"
        with pytest.raises(PolicyError, match=words) if refused else contextlib.nullcontext():
            policy.admit(invited)
        assert (at.store.keys("admitted/") == []) is refused


def test_a_run_that_the_policy_allows_is_computed(tmp_path: Path) -> None:
    # The counterpart of the test above: each setting allows the run.
    with host(
        tmp_path,
        protocols=["clock"],
        consumers=["hospital"],
        columns=["x", "age", "ill"],
        rows="raw",
        most_rows=1,
        most_rows_per_run=1,
        budgets=[BUDGET],
    ) as at:
        assert at.prepare("r") is None
        assert at.loaded == ["r"]
        assert at.bid("r").HasField("counts")
        assert at.lines == 1
        assert at.refusals == []


def test_the_empty_policy_lets_any_run_in(tmp_path: Path) -> None:
    with host(tmp_path) as at:
        for protocol in (row.name for row in PROTOCOLS.values() if row.rows == "raw"):
            assert at.prepare(f"r-{protocol}"[:40], protocol=protocol) is None or len(at.wired.runs) == 4
        assert at.settings.policy.runs_at_once == 4


def test_owners_know_the_protocols_that_curators_have() -> None:
    kinds = set(AUCTIONS.table())
    raw = kinds | {"cells", "uniform"}
    sealed = {f"{kind}-hashed" for kind in kinds} | {"cells-sealed", "uniform-sealed"}
    assert set(PROTOCOLS) - set(names("sums")) == raw | sealed


def test_no_more_runs_are_open_than_may_be(tmp_path: Path) -> None:
    with host(tmp_path, runs_at_once=1) as at:
        assert at.prepare("r-1") is None
        assert "in 1 runs, as many as it takes part in at once" in str(at.prepare("r-2"))
        assert at.loaded == ["r-1"]
        at.end("r-1")
        assert at.prepare("r-3") is None


def test_a_limit_never_ends_a_run_that_was_begun(tmp_path: Path) -> None:
    # A run's pool has only the rows that may leave, so nothing is refused during the run.
    with host(tmp_path, most_rows_per_run=3) as at:
        at.prepare("r-1", protocol="uniform", planned=())
        assert len(at.draw("r-1", 3, 2).rows.rows) == 3
        assert len(at.draw("r-1", 1, 3).rows.rows) == 0
        assert at.refusals == []
        at.prepare("r-2", protocol="uniform", planned=())  # another run has rows of its own
        assert len(at.draw("r-2", 3, 2).rows.rows) == 3


def test_rows_in_all_are_counted_over_restarts(tmp_path: Path) -> None:
    with host(tmp_path, most_rows=5) as at:
        at.prepare("r-1", protocol="uniform", planned=())
        at.draw("r-1", 3, 2)
    with host(tmp_path, most_rows=5) as at:
        assert len(at.draw("r-1", 3, 3).rows.rows) == 2
    with host(tmp_path, most_rows=3) as at:
        assert type(at.prepare("r-2")) is BudgetError


def spend(at: Host, run: str) -> FedkmeError | None:
    """Run a summary in which counts leave; return the error of a refusal."""
    if (error := at.prepare(run)) is None:
        at.bid(run)
        at.end(run)
    return error


def test_epsilon_is_counted_over_runs_and_restarts(tmp_path: Path) -> None:
    # By the sound accountant, which is less than the sum: 0.99 + 0.99 makes 1.7, and a third 2.3.
    for run, kind in (("r-1", type(None)), ("r-2", type(None)), ("r-3", BudgetError)):
        with host(tmp_path, budgets=[BUDGET]) as at:
            assert type(spend(at, run)) is kind


def test_periods_expire_by_the_end_of_runs(tmp_path: Path) -> None:
    clock = Clockwork()
    policy = {"budgets": [BUDGET | {"days": 30}]}
    with host(tmp_path, clock, **policy) as at:
        spend(at, "r-1")
        clock.pass_days(20)
        spend(at, "r-2")
        assert type(at.prepare("r-3")) is BudgetError
    clock.pass_days(9.9)
    with host(tmp_path, clock, **policy) as at:
        assert type(at.prepare("r-4")) is BudgetError
    clock.pass_days(0.2)  # r-1 ended 30.1 days ago
    with host(tmp_path, clock, **policy) as at:
        assert at.prepare("r-5") is None
    with host(tmp_path, clock, budgets=[*policy["budgets"], BUDGET]) as at:  # every budget holds
        assert type(at.prepare("r-6")) is BudgetError


def test_the_time_of_a_runs_last_line_decides_nothing(tmp_path: Path) -> None:
    # The time of the last line may depend on rows; the curator's end of the run does not.
    clock = Clockwork()
    with host(tmp_path, clock, budgets=[BUDGET | {"days": 30}]) as at:
        for run in ("r-1", "r-2"):
            at.prepare(run)
            at.bid(run)
        clock.pass_days(40)
        at.end("r-1")
        at.end("r-2")
        clock.pass_days(29)
        assert type(at.prepare("r-3")) is BudgetError
        clock.pass_days(2)
        assert at.prepare("r-4") is None


def test_open_runs_count_in_full_before_anything_left_in_them(tmp_path: Path) -> None:
    with host(tmp_path, budgets=[BUDGET]) as at:
        at.prepare("r-1")
        at.prepare("r-2")
        assert at.lines == 0
    with host(tmp_path, budgets=[BUDGET]) as at:
        assert type(at.prepare("r-3")) is BudgetError
        at.end("r-1")  # nothing left in it: it cost nothing
        assert at.prepare("r-4") is None


def test_a_run_counts_its_plan_however_early_the_owner_was_lost_to_it(tmp_path: Path) -> None:
    # The owner's rows are in every later broadcast, which it does not hear: its single line measures nothing.
    one = (Gaussian(70.0), Clock(0.25))
    with host(tmp_path, budgets=[BUDGET]) as at:
        for run in ("r-1", "r-2"):
            assert at.prepare(run, heard=heard(run, one)) is None
            at.bid(run)
            at.end(run)
        assert type(at.prepare("r-3")) is BudgetError


def test_a_name_of_a_run_that_is_over_is_refused(tmp_path: Path) -> None:
    # Lines of two runs with one name could hide each other. The journal of r-1 is gone.
    with host(tmp_path) as at:
        assert spend(at, "r-1") is None
        at.end("r-1")
        assert not at.store.entries("r-1")
        before = at.lines
        assert type(at.prepare("r-1")) is OwnerFaultError
    with host(tmp_path) as at:
        assert type(at.prepare("r-1")) is OwnerFaultError
        # A ledger whose store has no such run, as after a move to another store.
        gone = RawRows(1)
        line = Disclosure("r-2", 1, NAME, CURATOR, gone, "replace-one", None, "row 0")
        stored_ledger(NAME, at.store).extend([line])
        refused = at.prepare("r-2")
        assert type(refused) is PolicyError
        assert "holds a run called 'r-2'" in refused.cause
        assert at.prepare("r-3") is None
        assert at.lines == before + 1


def test_the_cost_towards_the_curator_is_finite_for_sealed_cells_and_noisy_sums() -> None:
    # The epsilon towards the curator is finite exactly where its statement is.
    noise = (PureDp(0.5, count=2),)
    shown = {name: shown_to_curator(name, noise, None) for name in PROTOCOLS}
    finite = {name for name, events in shown.items() if not Sound().refusal(Composed(events))}
    assert finite == {"cells-sealed", "uniform-sealed"}
    assert shown["cells-sealed"] == noise
    sums = {name for name, row in PROTOCOLS.items() if row.family == "sums"}
    assert {shown_to_curator(name, noise, Security()) for name in sums} == {noise}


def test_a_run_that_costs_other_owners_nothing_is_let_in_over_budget(tmp_path: Path) -> None:
    with host(tmp_path, budgets=[BUDGET]) as at:
        spend(at, "r-1")
    with host(tmp_path, budgets=[BUDGET | {"epsilon": 0.1}]) as at:
        assert at.prepare("r-2", protocol="uniform", planned=()) is None
        assert type(at.prepare("r-3")) is BudgetError


def test_a_refused_run_costs_nothing(tmp_path: Path) -> None:
    with host(tmp_path, budgets=[BUDGET], runs_at_once=9) as at:
        for run in ("r-1", "r-2", "r-3"):
            assert type(at.prepare(run, planned=3 * CHEAP)) is BudgetError
        assert at.prepare("r-4") is None


def test_a_run_goes_on_under_the_policy_that_let_it_in(tmp_path: Path) -> None:
    with host(tmp_path) as at:
        at.prepare("r-1")
    with host(tmp_path, consumers=["clinic"]) as at:
        assert at.bid("r-1").HasField("counts")
        assert type(at.prepare("r-2")) is PolicyError


def test_ledger_lines_that_are_not_about_owners_are_refused(tmp_path: Path) -> None:
    # Lines in the curator's words would count against the owner's rows.
    strange = Disclosure("r", 1, NAME, CURATOR, RawRows(10**6), "replace-one", None, "mean")
    with host(tmp_path) as at:
        assert type(at.prepare("r", heard=(strange,))) is ProtocolError
        assert at.loaded == []
        assert at.lines == 0


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"protocols": ["clok"]}, "'clok' is no protocol; did you mean 'clock'"),
        ({"protocols": ["x"]}, "known are ask-everyone, ask-"),
        ({"consumers": ["owners"]}, "stands for something else"),
        ({"budgets": [BUDGET | {"observer": "hospital"}]}, "consumers of summaries see rows as they are"),
        ({"budgets": [BUDGET | {"day": 3}]}, "'policy.budgets.0.day' is not a key"),
        ({"most_row": 3}, "'policy.most_row' is not a key. Did you mean 'policy.most_rows'"),
        ({"rows": "cooked"}, "'policy.rows' is wrong"),
        ({"runs_at_once": 0}, "'policy.runs_at_once' is wrong"),
    ],
)
def test_a_wrong_policy_is_refused_at_the_start(tmp_path: Path, policy: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, **policy)
    assert words in str(caught.value)


async def test_an_owner_with_a_forbidden_column_does_not_start(tmp_path: Path) -> None:
    # The owner stops before it reads rows: the file does not exist.
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    with pytest.raises(PolicyError, match="column 'age'"):
        await join(configured(tmp_path, columns=["x", "ill"]), StatusReporter(NAME, supervised=False))
    assert not (tmp_path / "journal.db").exists()


def test_a_schema_with_a_forbidden_column_is_refused_by_name() -> None:
    settings = PolicySettings(columns=("x", "ill"))
    with pytest.raises(PolicyError, match="column 'age'"):
        check_columns(NAME, settings, SCHEMA)
    allowed = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=3),))
    check_columns(NAME, settings, allowed)


def test_the_invitation_of_these_tests_has_the_planned_events() -> None:
    terms = invitation("r").terms
    assert isinstance(terms, AuctionTerms)
    assert terms.heard[0].event == CHEAP[0]


def test_a_full_disk_is_in_the_owners_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The curator heard of it and went on without this owner, whose own log had no line. Later curator and
    # consumer heard the path, and "see to the disk": their own, they thought.
    def fails(*line: object) -> None:
        raise StoreError("the store /srv/journal.db could not be written", "Make room.")

    with host(tmp_path) as at:
        assert at.prepare("run-1") is None
        with monkeypatch.context() as patched:
            patched.setattr(at.store, "append", fails)
            told = [at.bid("run-1").fault]
        assert [(run, error.code) for run, error in at.refusals] == [("run-1", StoreError.code)]
        assert "/srv/journal.db" in at.refusals[0][1].cause
        told.append(at.bid("run-1").fault)  # a refused answer does not leave when the directive comes again
        said = "the store of owner-1 failed", "Tell its operator, whose log says why."
        assert [(fault.cause, fault.remedy) for fault in told] == [said, said]
        at.wired.welcome(["run-1"])  # another stream: the curator may not have heard the refusal
        assert at.bid("run-1").HasField("counts")
        assert len(at.refusals) == 1
