"""The privacy list: published figures are the paper's, sound ones proven or infinite (DESIGN.md, 4)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fedkme.privacy.accounting import PrivacyStatement
from sim.config import SummaryTable
from sim.statements import statements

RECORD: dict[str, Any] = {
    "validation_points": 0,
    "accessed": {"a": 7, "b": 3},
    "selected": [["a", 0, 1, 0.5], ["b", 0, 2, 0.4], ["a", 1, 3, 0.3]],
}


def of(
    protected: str, observer: str, table: dict[str, Any] | None = None, **record: Any
) -> list[PrivacyStatement]:
    """Statements about one data set and one observer, at p = 100 and other settings by default."""
    settings = SummaryTable.model_validate({"p": 100, **(table or {})})
    found = statements(settings, RECORD | record)
    return [one for one in found if (one.protected, one.observer) == (protected, observer)]


def test_d_v_costs_what_the_paper_says_and_what_is_proven() -> None:
    # MATH.md, "Privacy of h2, honestly": 1.4006 by the paper's arithmetic, 3.308 by zCDP for replace-one.
    published, sound = of("D_v", "owners and curator")
    assert (published.accountant, sound.accountant) == ("published", "sound")
    assert published.epsilon == pytest.approx(1.4006, abs=5e-5)
    assert sound.epsilon == pytest.approx(3.308, abs=5e-4)
    assert published.delta == sound.delta == 0.01
    assert sound.neighbouring == "replace one row"
    assert sound.raw_points == 0


@pytest.mark.parametrize(
    ("target", "epsilon", "delta"),
    [
        ({"mechanism": "gaussian", "epsilon": 0.7, "delta": 1e-6}, 0.7, 1e-6),
        ({"mechanism": "exact"}, math.inf, 0.0),
    ],
)
def test_other_releases_of_d_v_cost_what_they_are_calibrated_for(
    target: dict[str, Any], epsilon: float, delta: float
) -> None:
    (sound,) = of("D_v", "owners and curator", {"target": target})
    assert (sound.accountant, sound.epsilon, sound.delta) == ("sound", epsilon, delta)


def test_gamma_from_d_v_is_a_release_without_noise() -> None:
    (sound,) = of("D_v", "owners and curator", {"kernel": {"gamma": "median-validation"}})
    assert sound.epsilon == math.inf
    assert "median" in sound.reason


def test_a_curator_that_is_trusted_with_d_v_sees_its_rows() -> None:
    # Issue 2, item 6, the option of the paper; owners still see g~ alone.
    (seen,) = of("D_v", "curator", {"share": "rows"}, validation_points=40)
    assert (seen.epsilon, seen.raw_points) == (math.inf, 40)
    assert [one.epsilon for one in of("D_v", "owners", {"share": "rows"}, validation_points=40)] == [
        pytest.approx(1.4006, abs=5e-5),
        pytest.approx(3.308, abs=5e-4),
    ]
    assert not of("D_v", "curator")


def test_privauction_claims_and_has_no_proof() -> None:
    # MATH.md: "labelled `published`, epsilon = inf under `sound`, with the reason". 0.0430 is the paper's
    # figure for the broadcasts, 1 at 1e-3 its claim for the auction.
    broadcasts, auction, sound = of("each owner", "other owners")
    assert broadcasts.epsilon == pytest.approx(0.0430, abs=5e-5)
    assert (auction.epsilon, auction.delta) == (1.0, 1e-3)
    assert (broadcasts.accountant, auction.accountant) == ("published", "published")
    assert (sound.accountant, sound.epsilon) == ("sound", math.inf)
    assert "not being asked" in sound.reason
    assert sound.to_json()["epsilon"] == "inf"


@pytest.mark.parametrize("kind", ["winner-only", "ask-everyone"])
def test_no_other_auction_is_given_the_claim(kind: str) -> None:
    broadcasts, sound = of("each owner", "other owners", {"auction": {"kind": kind}})
    assert broadcasts.accountant == "published"
    assert sound.epsilon == math.inf
    assert kind in sound.reason


def test_an_exact_broadcast_is_named_as_the_reason() -> None:
    sound = of("each owner", "other owners", {"broadcast": {"mechanism": "exact"}})[-1]
    assert sound.epsilon == math.inf
    assert "without noise" in sound.reason


def test_uniform_sampling_tells_owners_nothing_about_each_other() -> None:
    (sound,) = of("each owner", "other owners", {"protocol": "uniform"})
    assert (sound.accountant, sound.epsilon, sound.delta) == ("sound", 0.0, 0.0)
    (target,) = of("D_v", "owners and curator", {"protocol": "uniform"})
    assert target.epsilon == pytest.approx(3.308, abs=5e-4)


def test_who_sees_raw_rows_is_told_how_many() -> None:
    # DESIGN.md, decision 4: "where an observer sees raw rows, how many".
    rows = {(name, who): of(name, who)[0].raw_points for name in "ab" for who in ("curator", "consumer")}
    assert rows == {("a", "curator"): 7, ("a", "consumer"): 2, ("b", "curator"): 3, ("b", "consumer"): 1}
    assert all(of(name, who)[0].epsilon == math.inf for name, who in rows)


def test_every_figure_names_its_accountant_and_its_reason() -> None:
    # DESIGN.md, decision 4: a claim is either sound or labelled.
    every = statements(SummaryTable(p=100), RECORD)
    assert {one.accountant for one in every} == {"published", "sound"}
    assert all(one.reason for one in every)
