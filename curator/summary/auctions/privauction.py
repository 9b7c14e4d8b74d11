"""PRIVAUCTION as published (Sarpatwar 2019, Algorithm 3, steps 11 to 16).

PRIVAUCTION is NOT differentially private, contrary to the paper's Theorem 6: rank 1 is asked with probability
1, so an owner that is *not* asked learns with certainty that another owner holds a better row. The proof
bounds the ratio for being asked and forgets the event of not being asked. Under sound accounting
PRIVAUCTION's epsilon is infinite; the module exists to reproduce the paper. See docs/errata.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from curator.summary.auctions.base import AuctionSettings, RankAuction, ranked
from fedkme.privacy import events
from fedkme.privacy.accounting import lemma5_bound, privauction_patience, privauction_rate
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class PrivAuctionSettings(AuctionSettings):
    """Parameters of PRIVAUCTION, by default the paper's eps_auc and tau at (1, 10^-3)."""

    kind: Literal["privauction"] = "privauction"
    epsilon: float = Field(1.0, gt=0)
    """The epsilon that Theorem 6 claims for the whole run."""
    delta: float = Field(1e-3, gt=0, lt=1)
    """The delta that Theorem 6 claims for the whole run."""
    rate: float | None = Field(None, gt=0)
    """eps_auc; by default epsilon / (3 sqrt 2 log(1/delta)) K^(-1/3)."""
    patience: float | None = Field(None, ge=1)
    """tau: a row is asked for once it was its owner's best row this often; by default K^(2/3)."""

    def parameters(self, owners: int) -> tuple[float, float]:
        """Compute (eps_auc, tau) for K owners."""
        rate = self.rate if self.rate is not None else privauction_rate(self.epsilon, self.delta, owners)
        return rate, self.patience if self.patience is not None else privauction_patience(owners)

    def make(self, owners: int, noise: NoiseSource) -> PrivAuction:
        """Make the auction of one run."""
        return PrivAuction(*self.parameters(owners), noise)

    def event(self, rows: int, owners: int) -> events.PrivAuction:
        """Event with the claim of Theorem 6, which does not hold."""
        rate, patience = self.parameters(owners)
        return events.PrivAuction(rate, patience, rows, self.epsilon, self.delta)

    def access_bound(self, rows: int, owners: int) -> float:
        """Bound of Lemma 5, corrected: p (K / tau + 1 + 1 / eps_auc)."""
        rate, patience = self.parameters(owners)
        return lemma5_bound(rows, owners, rate, patience)


class PrivAuction(RankAuction):
    """Auction by rank coins and the tau rule."""

    def __init__(self, rate: float, patience: float, noise: NoiseSource) -> None:
        self._rate = rate
        self._patience = patience
        self._noise = noise
        self._times_best: Counter[tuple[str, int]] = Counter()

    def open_round(self, bids: Mapping[str, Bid]) -> None:
        """Count how often each row was its owner's best (step 14; per row, over all rounds)."""
        self._times_best.update((name, bid.token) for name, bid in bids.items())

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Choose by steps 12 to 14: rank r with probability exp(-eps_auc (r - 1)), or after tau times."""
        order = ranked(bids)
        coins = self._noise.uniform(len(order))
        return [
            name
            for rank, (name, coin) in enumerate(zip(order, coins, strict=True))
            if coin < math.exp(-self._rate * rank)
            or self._times_best[name, bids[name].token] >= self._patience
        ]
