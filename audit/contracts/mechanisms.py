"""The contract of a mechanism that releases a mean of h1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkme.arrays import FloatArray
from fedkme.errors import DataError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import event_from_json
from fedkme.privacy.means import MeanRelease
from fedkme.privacy.noise import NoiseSource, SecureNoise, simulated
from fedkme.privacy.settings import MEANS, TARGETS, MechanismSettings

D = 6
"""Coordinates of a row."""
GRID_STEP = 0.25


def grid_rows(k: int) -> FloatArray:
    """Rows whose coordinates are multiples of GRID_STEP, (k, D): no coin decides how they are rounded."""
    return np.random.default_rng(1).integers(-4, 5, (k, D)).astype(np.float64) * np.float64(GRID_STEP)


class MechanismContract:
    """Tests of any mechanism; a subclass gives the fixture `settings`, with hardly any noise for 200 rows."""

    @pytest.fixture
    def settings(self) -> MechanismSettings:
        """Settings of the mechanism."""
        raise NotImplementedError

    @pytest.fixture(params=["simulated", "secure"])
    def noise(self, request: pytest.FixtureRequest) -> NoiseSource:
        """Either source of noise."""
        return simulated(0, "curator", "means") if request.param == "simulated" else SecureNoise()

    def test_it_is_registered_under_its_name(self, settings: MechanismSettings) -> None:
        """Settings that name it are read back as they were."""
        kinds = (MEANS, TARGETS)
        assert type(settings) in [kind[settings.mechanism] for kind in kinds]
        assert any(kind.model_validate(settings.model_dump(mode="json")) == settings for kind in kinds)

    def test_its_cost_is_an_event_that_accountants_know(self, settings: MechanismSettings) -> None:
        """Two rows that are replaced at once cost no less than one."""
        cost = _made(settings).cost
        assert event_from_json(cost.event.to_json()) == cost.event
        one, two = (Sound().epsilon((cost.of_rows(count).event,), 1e-5) for count in (1, 2))
        assert one.epsilon <= two.epsilon
        assert two.epsilon < math.inf or two.reason

    def test_no_rows_release_zeros_and_cost_nothing(
        self, settings: MechanismSettings, noise: NoiseSource
    ) -> None:
        """A release of nothing counts as none, however often it is asked for."""
        mean = _made(settings, noise)
        for _ in range(5):  # more than there are releases planned
            assert np.array_equal(mean.release(), np.zeros(D))
        mean.add(np.zeros((0, D)))
        assert mean.size == 0
        mean.add(grid_rows(40))
        assert np.any(mean.release() != 0)

    def test_a_release_is_near_the_mean_of_the_rows(
        self, settings: MechanismSettings, noise: NoiseSource
    ) -> None:
        """A tolerance of 0.05 is above 6 deviations of all that is random in the built-in ones."""
        mean, rows = _made(settings, noise), grid_rows(200)
        mean.add(rows[:150])
        mean.add(rows[150:])
        assert mean.size == 200
        released = mean.release()
        assert released.shape == (D,)
        assert released.dtype == np.float64
        assert released == pytest.approx(rows.mean(axis=0), abs=0.05)

    def test_the_order_and_grouping_of_rows_do_not_matter(self, settings: MechanismSettings) -> None:
        """A release has the same bytes in every order of the owners' answers."""
        rows = grid_rows(30)
        together, apart = _made(settings), _made(settings)
        together.add(rows)
        for row in rows[::-1]:
            apart.add(row[None])
        assert np.array_equal(together.release(), apart.release())

    def test_the_same_seed_gives_the_same_releases(self, settings: MechanismSettings) -> None:
        """A simulation is repeated to the bit."""
        first, second = _made(settings), _made(settings)
        for mean in (first, second):
            mean.add(grid_rows(10))
        assert np.array_equal(first.release(), second.release())
        assert np.array_equal(first.release(), second.release())

    @pytest.mark.parametrize(
        "rows", [np.zeros(D), np.zeros((1, D + 1)), np.full((1, D), 1.001), np.full((1, D), math.nan)]
    )
    def test_rows_that_do_not_fit_are_refused_and_leave_no_trace(
        self, settings: MechanismSettings, noise: NoiseSource, rows: FloatArray
    ) -> None:
        """The refusal names no value."""
        mean = _made(settings, noise)
        with pytest.raises(DataError) as caught:
            mean.add(rows)
        assert "1.001" not in str(caught.value)
        assert mean.size == 0
        assert np.array_equal(mean.release(), np.zeros(D))

    def test_a_release_is_the_callers_own(self, settings: MechanismSettings, noise: NoiseSource) -> None:
        """Writing into a release changes no later one."""
        mean = _made(settings, noise)
        mean.add(grid_rows(200))
        mean.release()[:] = 77.0
        assert np.all(np.abs(mean.release()) < 2)


def _made(settings: MechanismSettings, noise: NoiseSource | None = None) -> MeanRelease:
    """The mechanism for two releases."""
    return settings.make(D, math.sqrt(2), 2, noise or simulated(0, "curator", "means"))
