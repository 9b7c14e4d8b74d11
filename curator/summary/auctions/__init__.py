"""Auctions: who is asked for a row. One file each; `AnyAuction` lists them."""

from typing import Annotated

from pydantic import Field

from curator.summary.auctions.ask_everyone import AskEveryoneSettings
from curator.summary.auctions.base import Auction, AuctionSettings
from curator.summary.auctions.clock import ClockSettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from curator.summary.auctions.winner_only import WinnerOnlySettings

AnyAuction = Annotated[
    PrivAuctionSettings | WinnerOnlySettings | AskEveryoneSettings | ClockSettings,
    Field(discriminator="kind"),
]

__all__ = [
    "AnyAuction",
    "AskEveryoneSettings",
    "Auction",
    "AuctionSettings",
    "ClockSettings",
    "PrivAuctionSettings",
    "WinnerOnlySettings",
]
