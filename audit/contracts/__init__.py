"""Contract tests for extensions: what the other parts rely on, as classes of pytest tests.

A package subclasses the contract of what it brings and gives its settings by a fixture (docs/extending.md).
Everything of these kinds in this repository is held to the same contracts.
"""

from audit.contracts.auctions import AuctionContract
from audit.contracts.feature_maps import FeatureMapContract
from audit.contracts.mechanisms import MechanismContract
from audit.contracts.releases import ReleaseContract
from audit.contracts.rows import MIXED, corners, random_table
from curator.releases.in_memory import OwnersInMemory

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
