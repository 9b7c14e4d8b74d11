"""Contracts of fedkme that this package keeps to; it has to be installed."""

import pytest
from fedkme_example.best_two import BestTwoSettings
from fedkme_example.laplace import LaplaceSettings
from fedkme_example.moments import MomentsSpec
from fedkme_example.settings import NormalSettings

from audit.contracts import AuctionContract, FeatureMapContract, MechanismContract, ReleaseContract


class TestBestTwo(AuctionContract):
    @pytest.fixture
    def settings(self) -> BestTwoSettings:
        return BestTwoSettings()


class TestMoments(FeatureMapContract):
    @pytest.fixture
    def spec(self) -> MomentsSpec:
        return MomentsSpec()


class TestLaplace(MechanismContract):
    @pytest.fixture
    def settings(self) -> LaplaceSettings:
        return LaplaceSettings(epsilon=1e5)


class TestNormal(ReleaseContract):
    @pytest.fixture
    def settings(self) -> NormalSettings:
        return NormalSettings()
