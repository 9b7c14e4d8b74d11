"""The paper's variant of a run: its figures are the paper's, sound ones proven or infinite (DESIGN.md, 4)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fedkme.privacy.accounting import PrivacyStatement
from sim.config import SummaryTable
from sim.evaluation.metrics import published_variant

PUBLISHED = {"preset": "published"}


def of(protected: str, observer: str, table: dict[str, Any]) -> list[PrivacyStatement]:
    """Statements about one data set and one observer, at p = 100 and K = 2."""
    claims = published_variant(SummaryTable.model_validate({"p": 100, **table}), 2)
    return [one for one in claims if (one.protected, one.observer) == (protected, observer)]


@pytest.mark.parametrize("table", [PUBLISHED, PUBLISHED | {"auction": {"kind": "winner-only"}}])
def test_d_v_costs_what_the_paper_says_and_what_is_proven(table: dict[str, Any]) -> None:
    # MATH.md, "Privacy of h2, honestly": 1.4006 by the paper's arithmetic, 3.104 by PLD for replace-one.
    published, sound = of("D_v", "owners and curator", table)
    assert (published.accountant, sound.accountant) == ("published", "sound")
    assert published.epsilon == pytest.approx(1.4006, abs=5e-5)
    assert sound.epsilon == pytest.approx(3.104, abs=5e-4)
    assert published.delta == sound.delta == 0.01
    assert sound.neighbouring == "replace-one"
    assert sound.raw_points == 0


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
    (sound,) = of("each owner", "other owners", PUBLISHED | {"auction": {"kind": kind}})
    assert (sound.accountant, sound.epsilon) == ("sound", math.inf)
    assert "without noise" in sound.reason


@pytest.mark.parametrize("table", [{}, {"auction": {"kind": "privauction"}, "preset": "sound"}])
def test_a_run_outside_the_papers_variant_has_no_published_claims(table: dict[str, Any]) -> None:
    # "lines only where a paper's variant runs".
    assert published_variant(SummaryTable.model_validate({"p": 100, **table}), 2) == []


def test_every_figure_names_its_accountant_and_its_reason() -> None:
    # DESIGN.md, decision 4: a claim is either sound or labelled.
    every = published_variant(SummaryTable(p=100, preset="published"), 2)
    assert {one.accountant for one in every} == {"published", "sound"}
    assert all(one.reason for one in every)
