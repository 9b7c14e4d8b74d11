"""Auctions: the contract of every one of them, then what is particular to each."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit.contracts import AuctionContract
from curator.summary.auctions.base import AUCTIONS, AskEveryoneSettings, WinnerOnlySettings, ranked
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Bid

NOBODY_BY_COIN = 1e6  # a rate at which exp(-rate) is 0: only rank 1 is asked by its coin
NEVER = 1e9  # a patience that no test lives to see

owner_bids = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Bid, st.sampled_from([-1.0, 0.0, 0.25, 0.5]), st.integers(0, 2)),
    min_size=1,
)


def coins() -> NoiseSource:
    return simulated(3, "curator", "auction")


@pytest.mark.parametrize("settings", [kind() for kind in AUCTIONS.classes()], ids=list(AUCTIONS.table()))
class TestEveryAuction(AuctionContract):
    pass


@given(owner_bids)
def test_ranks_follow_bids_and_equal_bids_follow_names(bids: dict[str, Bid]) -> None:
    # Algorithm 3, step 12; DESIGN.md, decision 1: canonical order of owners, whatever order bids came in.
    order = ranked(bids)
    assert sorted(order) == sorted(bids)
    for first, second in pairwise(order):
        assert (bids[first].value, second) > (bids[second].value, first)
    assert order == ranked(dict(reversed(bids.items())))


@given(owner_bids)
def test_winner_only_and_ask_everyone(bids: dict[str, Bid]) -> None:
    assert WinnerOnlySettings().make(6, coins()).asked(bids) == ranked(bids)[:1]
    assert AskEveryoneSettings().make(6, coins()).asked(bids) == ranked(bids)
    assert WinnerOnlySettings().access_bound(10, 6) == 10
    assert AskEveryoneSettings().access_bound(10, 6) == 60


def test_the_law_of_ranks() -> None:
    # Algorithm 3, step 13: rank r is asked with probability exp(-eps_auc (r - 1)), by a coin of its own.
    # Chi-square over ranks 2 to 6 and, for the coins' independence, over pairs of them; 20000 rounds.
    # Wrong with probability 1e-6 each.
    rate, rounds = 0.4, 20_000
    auction = PrivAuctionSettings(rate=rate, patience=NEVER).make(6, coins())
    bids = {name: Bid(-rank, 0) for rank, name in enumerate("fbdace")}
    chosen = np.array([[name in auction.asked(bids) for name in bids] for _ in range(rounds)])
    assert chosen[:, 0].all()
    expected = np.exp(-rate * np.arange(1, 6))
    scores = (chosen[:, 1:].sum(axis=0) - rounds * expected) / np.sqrt(rounds * expected * (1 - expected))
    assert stats.chi2.sf((scores**2).sum(), 5) > 1e-6
    correlations = np.corrcoef(chosen[:, 1:], rowvar=False)[np.triu_indices(5, 1)]
    assert stats.chi2.sf(rounds * (correlations**2).sum(), len(correlations)) > 1e-6


@given(st.lists(owner_bids, max_size=12), st.floats(1, 6))
def test_a_row_that_was_best_tau_times_is_asked_for(rounds: list[dict[str, Bid]], tau: float) -> None:
    # Algorithm 3, step 14. Errata 22: counted per row and over all rounds, consecutive or not.
    auction = PrivAuctionSettings(rate=NOBODY_BY_COIN, patience=tau).make(6, coins())
    times_best: Counter[tuple[str, int]] = Counter()
    for bids in rounds:
        auction.open_round(bids)
        times_best.update((name, bid.token) for name, bid in bids.items())
        patient = {name for name, bid in bids.items() if times_best[name, bid.token] >= tau}
        assert set(auction.asked(bids)) == patient | {ranked(bids)[0]}
        assert set(auction.asked(bids)) == patient | {ranked(bids)[0]}  # asking again is not another round


def test_parameters_are_those_that_theorem_6_states() -> None:
    # eps_auc = eps / (3 sqrt 2 ln(1/delta)) K^(-1/3) and tau = K^(2/3), natural logarithm (errata 15).
    rate, tau = PrivAuctionSettings().parameters(8)
    assert rate == pytest.approx(1 / (3 * math.sqrt(2) * math.log(1000)) / 2, rel=1e-12)
    assert tau == pytest.approx(4.0, rel=1e-12)
    assert PrivAuctionSettings(rate=0.5, patience=3).parameters(8) == (0.5, 3)
    assert PrivAuctionSettings(rate=0.5, patience=3).access_bound(10, 6) == pytest.approx(
        10 * (6 / 3 + 1 + 2)
    )
