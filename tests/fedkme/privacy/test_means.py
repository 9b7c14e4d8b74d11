"""Released means: the contract of all mechanisms, then properties of each."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.contracts.mechanisms import GRID_STEP, D, MechanismContract, grid_rows
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.gaussian import gaussian_delta
from fedkme.privacy.means import ExactMean, GaussianMean, MwemMean
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.privacy.settings import (
    ExactSettings,
    GaussianSettings,
    MechanismSettings,
    MwemSettings,
    MwemTargetSettings,
)


def noise(seed: int = 0) -> NoiseSource:
    return simulated(seed, "curator", "means")


def mwem(source: NoiseSource, epsilon: float | None = None) -> MwemMean:
    return MwemMean(
        D,
        source,
        grid_step=GRID_STEP,
        initial_epsilon=epsilon,
        initial_iterations=400,
        epsilon=epsilon,
        iterations=100,
    )


def gaussian(source: NoiseSource, releases: int = 2, epsilon: float = 1e4) -> GaussianMean:
    return GaussianMean(D, source, norm_bound=math.sqrt(2), epsilon=epsilon, delta=1e-5, releases=releases)


FAINT: list[MechanismSettings] = [
    ExactSettings(),
    MwemSettings(
        grid_step=GRID_STEP, initial_epsilon=50.0, initial_iterations=400, epsilon=50.0, iterations=100
    ),
    MwemTargetSettings(grid_step=GRID_STEP, iterations=400, epsilon=50.0),
    GaussianSettings(epsilon=1e4),
]


@pytest.mark.parametrize("settings", FAINT, ids=lambda settings: type(settings).__name__)
class TestEveryMean(MechanismContract):
    pass


@given(st.lists(st.lists(st.integers(-(2**14), 2**14), min_size=D, max_size=D), min_size=1))
def test_exact_sums_have_no_rounding(rows: list[list[int]]) -> None:
    # Rows are multiples of 2^-14, so the float64 sum is the integer sum.
    mean = ExactMean(D)
    for row in rows:
        mean.add(np.array([row]) * 2.0**-14)
    expected = np.array(rows).sum(axis=0) * 2.0**-14 / len(rows)
    assert np.array_equal(mean.release(), expected)


class CountingNoise:
    """A source that delegates its draws and records the requests."""

    def __init__(self) -> None:
        self.source = noise()
        self.calls: list[tuple[str, float, int]] = []

    def uniform(self, size: int) -> FloatArray:
        self.calls.append(("uniform", 1.0, size))
        return self.source.uniform(size)

    def laplace(self, scale: float, size: int) -> FloatArray:
        self.calls.append(("laplace", scale, size))
        return self.source.laplace(scale, size)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        self.calls.append(("gaussian", scale, size))
        return self.source.gaussian(scale, size)


def counted_mean(source: CountingNoise) -> MwemMean:
    return MwemMean(
        D, source, grid_step=0.5, initial_epsilon=0.05, initial_iterations=70, epsilon=0.01, iterations=5
    )


def test_without_a_seed_set_no_private_row_gets_the_initial_budget() -> None:
    # T_init belongs to the first call, which reads public seeds; with none it is spent on nothing.
    source = CountingNoise()
    mean = counted_mean(source)
    assert not mean.release().any()
    mean.add(np.zeros((1, D)))
    mean.release()
    assert [size for kind, _, size in source.calls if kind == "laplace"] == [5]


def test_mwem_spends_the_initial_parameters_once_and_quantizes_once() -> None:
    # Section 4: T_init and its epsilon for the first call, T_sub and the other epsilon after it. In
    # steps of the grid Lap(1/epsilon) has the scale 1/(epsilon eta).
    source = CountingNoise()
    mean = counted_mean(source)
    mean.add(np.zeros((3, D)))
    mean.release()
    mean.add(np.zeros((1, D)))
    mean.release()
    mean.release()
    assert source.calls == [
        ("uniform", 1.0, 3 * D),
        ("uniform", 1.0, 70),
        ("laplace", pytest.approx(40.0), 70),
        ("uniform", 1.0, D),
        ("uniform", 1.0, 5),
        ("laplace", pytest.approx(200.0), 5),
        ("uniform", 1.0, 5),
        ("laplace", pytest.approx(200.0), 5),
    ]


def test_mwem_passes_the_estimate_on() -> None:
    # The average over the iterations is shrunk towards the uniform start, the last iterate less so.
    means = []
    for estimate in ("average", "last"):
        mean = MwemMean(
            D,
            noise(),
            grid_step=0.5,
            initial_epsilon=None,
            initial_iterations=30,
            epsilon=None,
            iterations=1,
            estimate=estimate,
        )
        mean.add(np.full((4, D), 0.5))
        means.append(mean.release())
    assert np.all(means[0] < means[1])


@pytest.mark.parametrize("releases", [1, 7])
@pytest.mark.parametrize("norm_bound", [1.0, math.sqrt(2)])
def test_gaussian_noise_is_the_least_for_the_plan(norm_bound: float, releases: int) -> None:
    # Replace-one: two rows of h1 differ by at most 2 B, in normalised units by 2 B sqrt(d/2). r releases
    # have the privacy loss of one with the noise divided by sqrt(r).
    d, epsilon, delta = 140, 1.0, 1e-5
    mean = GaussianMean(d, noise(), norm_bound=norm_bound, epsilon=epsilon, delta=delta, releases=releases)
    sensitivity = 2 * norm_bound * math.sqrt(d / 2)
    together = mean._scale / sensitivity / math.sqrt(releases)
    assert together == pytest.approx(3.7306, rel=2e-5)
    assert gaussian_delta(together, epsilon) <= delta
    assert gaussian_delta(0.9999 * together, epsilon) > delta


def test_gaussian_noise_has_the_stated_scale() -> None:
    # 600 x 6 draws: the deviation is right to 10 % but for 1e-15; fixed seed.
    mean = gaussian(noise(), releases=600, epsilon=1.0)
    mean.add(np.zeros((50, D)))
    draws = np.array([mean.release() for _ in range(600)]) * 50
    assert draws.std() == pytest.approx(mean._scale, rel=0.1)


def test_gaussian_refuses_more_releases_than_planned() -> None:
    mean = gaussian(noise(), releases=2)
    mean.add(grid_rows(3))
    mean.release()
    mean.release()
    with pytest.raises(ConfigError, match="2 releases"):
        mean.release()


def test_gaussian_refuses_a_row_over_the_norm_bound() -> None:
    # Coordinates within [-1, 1] do not bound the norm: all ones has ||h1|| = sqrt(2), over the bound 1.
    mean = GaussianMean(D, noise(), norm_bound=1.0, epsilon=1.0, delta=1e-5, releases=1)
    with pytest.raises(DataError, match="norm bound"):
        mean.add(np.ones((1, D)))
    mean.add(np.full((1, D), math.sqrt(0.5) * (1 + 1e-7)))  # float32 rounding is not a fault
    assert mean.size == 1
