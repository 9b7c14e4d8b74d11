"""The interface of an auction: whose row is asked for, given every owner's bid.

An auction is a settings class (its parameters, and how to make it for K owners) and the object that it
makes. To add one, write one file beside this one and name it in `auctions/__init__.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol

from fedkme.config import Settings
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Bid


class Auction(Protocol):
    """One run's auction; it may remember earlier rounds."""

    def open_round(self, bids: Mapping[str, Bid]) -> None:
        """Learn the bids of a new round, once a round."""

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Owners whose row is asked for now.

        Called again within a round, without the owners that failed, when nothing usable came back.

        Args:
            bids: bid of every owner that made one, by name; never empty.
        """


class AuctionSettings(Settings):
    """Parameters of an auction."""

    @abstractmethod
    def make(self, owners: int, noise: NoiseSource) -> Auction:
        """The auction of a run over `owners` owners; coins come from `noise`."""

    @abstractmethod
    def access_bound(self, rows: int, owners: int) -> float:
        """Bound on the expected points accessed for a summary of `rows` rows (Lemma 5 and its kin)."""


def ranked(bids: Mapping[str, Bid]) -> list[str]:
    """Owners by decreasing bid (Algorithm 3, step 12); equal bids in the order of names."""
    return sorted(bids, key=lambda name: (-bids[name].value, name))
