"""Interface of an auction, which decides the rows that are asked for in a round.

An auction is a settings class (its parameters, and how to make it for K owners) and the object that the class
makes. To add an auction, write one module in this folder and a row in fedkme/protocols.py; another package
does the same by an entry point (docs/extending.md).

Winner only asks the best bidder alone: the fewest rows accessed, and no privacy. An owner that is asked
learns that it holds the best row of all; an owner that is not asked learns that it does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import SerializeAsAny

from curator.summary.market import Market
from fedkme.config import Settings
from fedkme.extensions import Registry
from fedkme.privacy.events import Event, ExactStatistic
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid
from fedkme.protocols import configured


class Auction(Protocol):
    """Auction of one run; it may remember earlier rounds."""

    public_rounds: ClassVar[bool]
    """True where a run always has p rounds, and a round with an empty pool adds a zero row; otherwise the run
    ends when no row is left."""

    async def hold(self, market: Market) -> None:
        """Fill the pool: steps 6, 7 and 11 to 14 of one round."""


class AuctionSettings(Settings):
    """Parameters of an auction."""

    kind: str = ""
    """Name in settings and in invitations to owners."""
    exchanged_rows: ClassVar[int] = 1
    """Rows of the summary that may change when one row of an owner is replaced and all messages to owners are
    fixed. An auction without a proof has an event without a finite epsilon, and its broadcasts are accounted
    for as published."""

    @abstractmethod
    def make(self, owners: int, noise: NoiseSource) -> Auction:
        """Make the auction of a run over `owners` owners; coins come from `noise`."""

    @abstractmethod
    def event(self, rows: int, owners: int) -> Event:
        """Event of what owners learn about others' rows from being asked, or not, in a run of `rows` rounds.

        The event is written once for every round in which owners are asked.
        """

    @abstractmethod
    def access_bound(self, rows: int, owners: int) -> float | None:
        """Bound on the expected points accessed for a summary of `rows` rows (Lemma 5), or None."""


AUCTIONS: Registry[AuctionSettings] = Registry(
    AuctionSettings, "auction", "kind", partial(configured, "auction")
)
"""Registry of auctions' settings, by kind."""
AnyAuction = Annotated[SerializeAsAny[AuctionSettings], AUCTIONS]


class RankAuction(ABC):
    """Auction by the order of bids: some bidders are asked for the row that they bid."""

    public_rounds: ClassVar[bool] = False

    def open_round(self, bids: Mapping[str, Bid]) -> None:  # noqa: B027  # most have nothing to remember
        """Take in the bids of a new round, once a round."""

    @abstractmethod
    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Choose the bidders whose row is asked for now; there is at least one bidder.

        The method is called again within a round, without the owners that failed, when no usable row came.
        """

    async def hold(self, market: Market) -> None:
        """Ask the chosen bidders; if all of them fail and the pool is empty, choose among the others."""
        bids = await market.bids()
        if bids:
            self.open_round(bids)
        while bids:
            names = self.asked(bids)
            await market.reveal({name: bids[name] for name in names})
            if len(market.pool):
                return
            bids = {name: bid for name, bid in bids.items() if name not in names}


def ranked(bids: Mapping[str, Bid]) -> list[str]:
    """Sort owners by decreasing bid (Algorithm 3, step 12); equal bids in the order of names."""
    return sorted(bids, key=lambda name: (-bids[name].value, name))


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
