"""Auction that asks every bidder: being asked tells owners nothing, and the curator sees K rows a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from curator.summary.auctions.base import AuctionSettings, RankAuction, ranked
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class AskEveryoneSettings(AuctionSettings):
    """Settings of ask-everyone, which has no parameters."""

    kind: Literal["ask-everyone"] = "ask-everyone"

    def make(self, owners: int, noise: NoiseSource) -> AskEveryone:
        """Make the auction of one run."""
        return AskEveryone()

    def event(self, rows: int, owners: int) -> ExactStatistic:
        """Event that leaves the whole protocol without a figure.

        Being asked says nothing, as every bidder is asked. But no proof bounds how far one row changes the
        pool and hence the summary, so no figure for the broadcasts would hold.
        """
        return ExactStatistic("what the pool holds when everyone is asked")

    def access_bound(self, rows: int, owners: int) -> float:
        """Bound of K rows a round."""
        return float(rows * owners)


class AskEveryone(RankAuction):
    """Auction that asks every rank."""

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Choose every owner that bid."""
        return ranked(bids)
