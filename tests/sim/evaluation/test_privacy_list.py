"""The privacy list: published figures are the paper's, sound ones proven or infinite (DESIGN.md, 4)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fedkme.privacy.accounting import PrivacyStatement
from sim.config import SummaryTable
from sim.evaluation.privacy_list import privacy_list

RECORD: dict[str, Any] = {
    "owner_rows": {"a": 9, "b": 9},
    "validation_points": 0,
    "accessed": {"a": 7, "b": 3},
    "selected": [["a", 0, 1, 0.5], ["b", 0, 2, 0.4], ["a", 1, 3, 0.3]],
}


PUBLISHED = {"preset": "published"}


def of(
    protected: str, observer: str, table: dict[str, Any] | None = None, **record: Any
) -> list[PrivacyStatement]:
    """Statements about one data set and one observer, at p = 100 and other settings by default."""
    settings = SummaryTable.model_validate({"p": 100, **(table or {})})
    found = privacy_list(settings, RECORD | record)
    return [one for one in found if (one.protected, one.observer) == (protected, observer)]


def test_the_default_is_sound_and_keeps_to_its_target() -> None:
    # Issue 3, item 4: a run states a total per pair, its parameters are derived from it; sound by default.
    for privacy in ({}, {"epsilon": 0.3, "delta": 1e-6}, {"epsilon": 4.0, "clock_share": 0.2}):
        epsilon, delta = privacy.get("epsilon", 1.0), privacy.get("delta", 1e-5)
        for pair in (("D_v", "owners and curator"), ("each owner", "other owners")):
            (sound,) = of(*pair, {"privacy": privacy})
            assert (sound.accountant, sound.delta) == ("sound", delta)
            assert 0.9 * epsilon < sound.epsilon <= epsilon * (1 + 1e-9)


def test_d_v_costs_what_the_paper_says_and_what_is_proven() -> None:
    # MATH.md, "Privacy of h2, honestly": 1.4006 by the paper's arithmetic, 3.104 by PLD for replace-one.
    published, sound = of("D_v", "owners and curator", PUBLISHED)
    assert (published.accountant, sound.accountant) == ("published", "sound")
    assert published.epsilon == pytest.approx(1.4006, abs=5e-5)
    assert sound.epsilon == pytest.approx(3.104, abs=5e-4)
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
    assert (sound.accountant, sound.delta) == ("sound", delta)
    assert sound.epsilon == pytest.approx(epsilon, rel=1e-9)


def test_gamma_from_d_v_is_a_release_without_noise() -> None:
    (sound,) = of("D_v", "owners and curator", {"kernel": {"gamma": "median-validation"}})
    assert sound.epsilon == math.inf
    assert "median" in sound.reason


def test_a_curator_that_is_trusted_with_d_v_sees_its_rows() -> None:
    # Issue 2, item 6, the option of the paper; owners still see g~ alone.
    (seen,) = of("D_v", "curator", PUBLISHED | {"share": "rows"}, validation_points=40)
    assert (seen.epsilon, seen.raw_points) == (math.inf, 40)
    assert [
        one.epsilon for one in of("D_v", "owners", PUBLISHED | {"share": "rows"}, validation_points=40)
    ] == [
        pytest.approx(1.4006, abs=5e-5),
        pytest.approx(3.104, abs=5e-4),
    ]
    assert not of("D_v", "curator")


def test_privauction_claims_and_has_no_proof() -> None:
    # MATH.md: "labelled `published`, epsilon = inf under `sound`, with the reason". 0.0430 is the paper's
    # figure for the broadcasts, 1 at 1e-3 its claim for the auction.
    claimed, sound = of("each owner", "other owners", PUBLISHED)
    assert claimed.epsilon == pytest.approx(1.0 + 0.0430, abs=5e-5)
    assert claimed.delta == pytest.approx(1e-4 + 1e-3)
    assert claimed.accountant == "published"
    assert (sound.accountant, sound.epsilon) == ("sound", math.inf)
    assert "not being asked" in sound.reason
    assert sound.to_json()["epsilon"] == "inf"


@pytest.mark.parametrize("kind", ["winner-only", "ask-everyone"])
def test_no_other_auction_is_given_the_claim(kind: str) -> None:
    (sound,) = of("each owner", "other owners", {"auction": {"kind": kind}})
    assert (sound.accountant, sound.epsilon) == ("sound", math.inf)
    assert "without noise" in sound.reason


def test_an_exact_broadcast_is_named_as_the_reason() -> None:
    sound = of("each owner", "other owners", {"broadcast": {"mechanism": "exact"}})[-1]
    assert sound.epsilon == math.inf
    assert "without noise" in sound.reason


def test_uniform_sampling_tells_owners_nothing_about_each_other() -> None:
    (sound,) = of("each owner", "other owners", {"protocol": "uniform"})
    assert (sound.accountant, sound.epsilon, sound.delta) == ("sound", 0.0, 0.0)
    (target,) = of("D_v", "owners and curator", {"protocol": "uniform"})
    assert target.epsilon == pytest.approx(1.0, rel=1e-9)  # g~ is sent all the same


def test_who_sees_raw_rows_is_told_how_many() -> None:
    # DESIGN.md, decision 4: "where an observer sees raw rows, how many".
    rows = {(name, who): of(name, who)[0].raw_points for name in "ab" for who in ("curator", "consumer")}
    assert rows == {("a", "curator"): 7, ("a", "consumer"): 2, ("b", "curator"): 3, ("b", "consumer"): 1}
    assert all(of(name, who)[0].epsilon == math.inf for name, who in rows)


def test_every_figure_names_its_accountant_and_its_reason() -> None:
    # DESIGN.md, decision 4: a claim is either sound or labelled.
    every = privacy_list(SummaryTable(p=100, preset="published"), RECORD)
    assert {one.accountant for one in every} == {"published", "sound"}
    assert all(one.reason for one in every)
