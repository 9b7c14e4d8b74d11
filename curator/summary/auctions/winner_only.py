"""Auction that asks the best bidder alone: the fewest rows accessed, and no privacy.

An owner that is asked learns that it holds the best row of all; an owner that is not asked learns that it
does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from curator.summary.auctions.base import AuctionSettings, RankAuction, ranked
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class WinnerOnlySettings(AuctionSettings):
    """Settings of winner-only, which has no parameters."""

    kind: Literal["winner-only"] = "winner-only"

    def make(self, owners: int, noise: NoiseSource) -> WinnerOnly:
        """Make the auction of one run."""
        return WinnerOnly()

    def event(self, rows: int, owners: int) -> ExactStatistic:
        """Event of telling exactly who won."""
        return ExactStatistic("the winner of a round")

    def access_bound(self, rows: int, owners: int) -> float:
        """Bound of one accessed row per selected row."""
        return float(rows)


class WinnerOnly(RankAuction):
    """Auction that asks the first in rank."""

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Choose the owner with the highest bid."""
        return ranked(bids)[:1]
