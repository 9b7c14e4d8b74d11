"""Contract tests for extensions: the properties that other parts rely on, as classes of pytest tests.

A package subclasses the contract of its extension and gives its settings by a fixture (docs/extending.md).
This repository's own auctions, maps, mechanisms and releases pass the same contracts.
"""

from audit.contracts.auctions import AuctionContract
from audit.contracts.feature_maps import FeatureMapContract
from audit.contracts.mechanisms import MechanismContract
from audit.contracts.releases import ReleaseContract
from audit.contracts.rows import MIXED, corners, random_table
from audit.in_memory import OwnersInMemory

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
