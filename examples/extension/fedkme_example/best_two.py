"""Ask the two best bidders of a round: a second row for the pool, should the first owner fail.

**Neighbouring relation** replace one row of one owner, seen by the other owners. **Claim** none: being asked
tells an owner that its row is among the two best of all, exactly. No proof bounds that, so the event is an
exact statistic and the sound accountant reports epsilon = inf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from typing_extensions import override

from curator.summary.auctions.base import AuctionSettings, RankAuction, ranked
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class BestTwoSettings(AuctionSettings):
    """Best two has no parameters."""

    kind: Literal["best-two"] = "best-two"

    @override
    def make(self, owners: int, noise: NoiseSource) -> BestTwo:
        return BestTwo()

    @override
    def event(self, rows: int, owners: int) -> ExactStatistic:
        return ExactStatistic("the two best bidders of a round")

    @override
    def access_bound(self, rows: int, owners: int) -> float:
        return float(rows * min(2, owners))


class BestTwo(RankAuction):
    """The first two in rank."""

    @override
    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        return ranked(bids)[:2]
