"""Contract tests for extensions: what the other parts rely on, as classes of pytest tests.

A package subclasses the contract of what it brings and gives its settings by a fixture (docs/extending.md).
Everything of these kinds in this repository is held to the same contracts.
"""

from curator.releases.in_memory import OwnersInMemory
from fedkme.testing.auctions import AuctionContract
from fedkme.testing.feature_maps import FeatureMapContract
from fedkme.testing.mechanisms import MechanismContract
from fedkme.testing.releases import ReleaseContract
from fedkme.testing.rows import MIXED, corners, random_table

__all__ = [
    "MIXED",
    "AuctionContract",
    "FeatureMapContract",
    "MechanismContract",
    "OwnersInMemory",
    "ReleaseContract",
    "corners",
    "random_table",
]
