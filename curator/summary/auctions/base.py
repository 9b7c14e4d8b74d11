"""The interface of an auction: which rows are asked for in a round.

An auction is a settings class (its parameters, and how to make it for K owners) and the object that it
makes. To add one, write one file beside this one and its row in fedkme/protocols.py; another package does the
same by an entry point (docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Protocol

from pydantic import SerializeAsAny

from curator.summary.market import Market
from fedkme.config import Settings
from fedkme.extensions import Registry
from fedkme.privacy.events import Event
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid
from fedkme.protocols import configured


class Auction(Protocol):
    """One run's auction; it may remember earlier rounds."""

    public_rounds: ClassVar[bool]
    """True for exactly p rounds whatever rows there are, of which one that finds no row left adds a zero row;
    else the run ends when nothing is left."""

    async def hold(self, market: Market) -> None:
        """Steps 6, 7 and 11 to 14 of one round: fill the pool."""


class AuctionSettings(Settings):
    """Parameters of an auction."""

    kind: str = ""
    """Name in settings, and in what owners are told."""
    exchanged_rows: ClassVar[int] = 1
    """Rows of the summary that replacing one row of an owner may replace, all said to owners being fixed. An
    auction without a proof has an event without a finite epsilon, and broadcasts are entered as published."""

    @abstractmethod
    def make(self, owners: int, noise: NoiseSource) -> Auction:
        """The auction of a run over `owners` owners; coins come from `noise`."""

    @abstractmethod
    def event(self, rows: int, owners: int) -> Event:
        """Event of what owners learn of others' rows from being asked, or not, in a run of `rows` rounds.

        It is written once for every round in which owners are asked.
        """

    @abstractmethod
    def access_bound(self, rows: int, owners: int) -> float | None:
        """Bound on the expected points accessed for a summary of `rows` rows, if there is one (Lemma 5)."""


AUCTIONS: Registry[AuctionSettings] = Registry(
    AuctionSettings, "auction", "kind", partial(configured, "auction")
)
"""Settings of every auction by its kind."""
AnyAuction = Annotated[SerializeAsAny[AuctionSettings], AUCTIONS]


class RankAuction(ABC):
    """An auction by the order of bids: some of the owners are asked for the row that they bid."""

    public_rounds: ClassVar[bool] = False

    def open_round(self, bids: Mapping[str, Bid]) -> None:  # noqa: B027  # most have nothing to remember
        """Learn the bids of a new round, once a round."""

    @abstractmethod
    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Owners whose row is asked for now, of those that made a bid; there is at least one.

        Called again within a round, without the owners that failed, when nothing usable came back.
        """

    async def hold(self, market: Market) -> None:
        """Ask, and ask the rest in turn when everybody who was asked fails and the pool is empty."""
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
    """Owners by decreasing bid (Algorithm 3, step 12); equal bids in the order of names."""
    return sorted(bids, key=lambda name: (-bids[name].value, name))
