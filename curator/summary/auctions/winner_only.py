"""Ask the best bidder alone: as parsimonious as can be, and not private at all.

Being asked tells an owner that it holds the best row of all, not being asked that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from curator.summary.auctions.base import AuctionSettings, RankAuction, ranked
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class WinnerOnlySettings(AuctionSettings):
    """Winner only has no parameters."""

    kind: Literal["winner-only"] = "winner-only"

    def make(self, owners: int, noise: NoiseSource) -> WinnerOnly:
        """The auction of one run."""
        return WinnerOnly()

    def event(self, rows: int, owners: int) -> ExactStatistic:
        """Event of telling exactly who won."""
        return ExactStatistic("the winner of a round")

    def access_bound(self, rows: int, owners: int) -> float:
        """One row per row used."""
        return float(rows)


class WinnerOnly(RankAuction):
    """The first in rank."""

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """The owner with the highest bid."""
        return ranked(bids)[:1]
