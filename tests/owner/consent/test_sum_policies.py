"""The owner's policy in runs of sums, where it differs from that in runs of rows (test_policy.py)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedkme.errors import ApprovalError, BudgetError, ConfigError, FedkmeError, PolicyError
from fedkme.privacy.events import Gaussian
from fedkme.protocol import Security
from fedkme.protocols import PROTOCOLS, names
from owner.consent.approvals import approve
from owner.consent.status import Status, read_status, show
from tests.owner.consent.host import Clockwork, host
from tests.owner.sums.owner_parties import NOISY, VECTOR, Asker, parameters

BUDGET = {"observer": "owners", "epsilon": 2.0, "delta": 1e-5}
CURATORS = BUDGET | {"observer": "curator"}
ONE = (Gaussian(3.0),)
"""Epsilon 1.27 at delta 1e-5; of two such plans 1.9."""

REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[FedkmeError], str]] = [
    ({"protocols": ["uniform"]}, {}, PolicyError, "take part in the protocol 'merf', but in uniform"),
    ({"sums": "noisy"}, {}, PolicyError, "under secure aggregation alone"),
    ({"colluders": 1}, {"security": NOISY}, PolicyError, "for 1 owners that side with the curator"),
    ({"budgets": [BUDGET]}, {"planned": (Gaussian(1.0),)}, BudgetError, "rows of owner-1 towards others"),
    ({"budgets": [BUDGET]}, {"planned": ()}, BudgetError, "would make it inf"),
    (
        {"budgets": [CURATORS]},
        {},
        BudgetError,
        "rows of owner-1 towards the curator: epsilon 0 is spent of 2",
    ),
    ({"approval": "manual"}, {}, ApprovalError, "has approved none by merf for hospital"),
    ({}, {"protocol": "clock"}, PolicyError, "asked for sums in the protocol 'clock'"),
]


@pytest.mark.parametrize(("policy", "run", "kind", "words"), REFUSED)
def test_a_refusal_comes_before_anything_is_computed_or_written(
    tmp_path: Path, policy: dict[str, Any], run: dict[str, Any], kind: type[FedkmeError], words: str
) -> None:
    with host(tmp_path, **policy) as at:
        curator = Asker(at)
        error = curator.enlist(**run)
        assert type(error) is kind
        assert at.lines == 0
        assert at.store.keys("admitted/") == []
        ((name, logged),) = at.refusals
        assert name == "r"
        assert words in logged.cause
        assert kind is BudgetError or logged.cause == error.cause
        out = (
            "is not in a run" if kind is ApprovalError else "does not take part"
        )  # a waiting run may still be approved
        assert out in str(curator.embed(1))
        assert at.lines == 0


@pytest.mark.parametrize(
    ("sums", "security"), [("exact", None), ("exact", NOISY), ("noisy", NOISY), ("noisy", Security(1, 2))]
)
def test_a_release_that_the_policy_allows_is_let_in(
    tmp_path: Path, sums: str, security: Security | None
) -> None:
    # Releases send no rows, so limits of rows do not concern them.
    with host(
        tmp_path, sums=sums, rows="none", most_rows=0, most_rows_per_run=0, protocols=["merf"],
        consumers=["hospital"], budgets=[BUDGET], columns=["x", "age", "ill"],
        colluders=0 if security is None else security.colluders,
    ) as at:  # fmt: skip
        assert Asker(at).enlist(security=security, planned=ONE) is None
        assert at.refusals == []


def test_every_release_is_a_run_of_sums_and_of_nothing_else(tmp_path: Path) -> None:
    # docs/owners.md, "Only non-personal data": owners that send no rows take part in every release.
    with host(tmp_path, runs_at_once=len(PROTOCOLS), rows="none") as at:
        for protocol in names("sums"):
            assert Asker(at, f"sums-{protocol}").enlist(protocol=protocol) is None
            assert type(at.prepare(f"rows-{protocol}", protocol=protocol)) is PolicyError
            assert PROTOCOLS[protocol].questions == {"embed", "aggregate"}
            assert PROTOCOLS[protocol].rows == "none"


def test_a_vector_above_most_sums_is_refused(tmp_path: Path) -> None:
    for most, kind in ((VECTOR.length, type(None)), (VECTOR.length - 1, PolicyError)):
        folder = tmp_path / str(most)
        folder.mkdir()
        with host(folder, most_sums=most) as at:
            secure, plain = Asker(at), Asker(at, "plain")
            assert secure.enlist(security=NOISY) is None
            assert plain.enlist() is None
            for answer in (secure.propose(1, parameters()), plain.embed(1)):
                assert isinstance(answer, PolicyError) is (kind is PolicyError)


def test_budgets_towards_the_curator_count_sums_under_secure_aggregation(tmp_path: Path) -> None:
    # A finite epsilon towards the curator can have a limit, over runs and restarts.
    for run, kind in (("r-1", type(None)), ("r-2", type(None)), ("r-3", BudgetError)):
        with host(tmp_path, budgets=[CURATORS]) as at:
            curator = Asker(at, run)
            assert type(curator.enlist(planned=ONE, security=NOISY)) is kind
    with host(tmp_path, budgets=[CURATORS]) as at:
        status = read_status(at.settings, at.store)
        (named, *_) = status.spent
        assert (named.observer, named.period) == ("curator", "the curator in all")
        assert 1.8 < named.figure.epsilon < 2.0
        assert [each["observer"] for each in status.to_json()["epsilon"]] == ["curator", "owners"]


def test_releases_count_towards_budgets_over_runs_and_restarts(tmp_path: Path) -> None:
    # A release costs its whole plan as soon as a vector left, in the same budget as summaries.
    for run, kind in (("r-1", type(None)), ("r-2", type(None)), ("r-3", BudgetError)):
        with host(tmp_path, budgets=[BUDGET]) as at:
            curator = Asker(at, run)
            assert type(curator.enlist(planned=ONE)) is kind
            if kind is type(None):
                curator.embed(1)
                at.end(run)
    with host(tmp_path, budgets=[BUDGET]) as at:
        assert type(at.prepare("summary")) is BudgetError


def test_a_release_of_which_nothing_left_costs_nothing(tmp_path: Path) -> None:
    with host(tmp_path, budgets=[BUDGET]) as at:
        for number in range(5):
            curator = Asker(at, f"r-{number}")
            assert curator.enlist(planned=ONE) is None
            at.end(f"r-{number}")


def test_a_release_is_approved_by_hand(tmp_path: Path) -> None:
    # The command in the refusal lets one run in.
    with host(tmp_path, approval="manual") as at:
        error = Asker(at, "r-1").enlist()
        assert error is not None
        command = "fedkme owner approve OWNER.toml --consumer hospital --protocol merf'"
        assert command in error.remedy
        approve(at.settings.approvals, "hospital", "merf", 0, 1)
        assert type(at.prepare("rows", protocol="clock")) is ApprovalError
        assert Asker(at, "r-2").enlist(protocol="balog1") is not None
        assert Asker(at, "r-3").enlist() is None
        assert type(Asker(at, "r-4").enlist()) is ApprovalError


def test_an_approval_of_a_summary_lets_no_release_in(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual") as at:
        approve(at.settings.approvals, "hospital", "clock", 100, 1)
        assert type(Asker(at).enlist()) is ApprovalError


def text_of(status: Status) -> str:
    out = Console(file=io.StringIO(), width=100, highlight=False)
    show(status, out)
    file = out.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_status_says_what_releases_took(tmp_path: Path) -> None:
    clock = Clockwork()
    with host(tmp_path, clock, approval="manual", budgets=[BUDGET]) as at:
        approve(at.settings.approvals, "hospital", "merf", 0, 2)
        curator = Asker(at, "release-1")
        assert curator.enlist(planned=ONE) is None
        curator.embed(1)
        curator.embed(2)
        assert Asker(at, "release-2").enlist(protocol="hermite") is not None
        status = read_status(at.settings, at.store, clock())
        run = next(run for run in status.runs if run.run == "release-1")
        assert (run.protocol, run.asked, run.rows, run.sums) == ("merf", 0, 0, 2)
        assert run.cost.epsilon == pytest.approx(1.2, abs=0.3)
        text = text_of(status)
        assert "releases for hospital by merf: 1" in text
        assert "approve OWNER.toml --consumer hospital --protocol hermite\n" in text
        assert "epsilon to others" in text
        assert "sums exact" in text
        assert all(len(line) <= 100 for line in text.splitlines())
        assert status.to_json()["runs"][0]["sums"] == 2


def test_an_unknown_level_of_sums_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sums"), host(tmp_path, sums="plain"):
        pass
    # The error of the withdrawn level says what it was, why it was withdrawn, and what to use.
    withdrawn = "'policy.sums' is wrong: 'aggregated' is withdrawn: .* exact sums .*; use \"noisy\""
    with pytest.raises(ConfigError, match=withdrawn), host(tmp_path, sums="aggregated"):
        pass
