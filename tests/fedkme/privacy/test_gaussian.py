"""The exact calibration of the Gaussian mechanism."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedkme.errors import ConfigError
from fedkme.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "sigma"),
    [
        (1, 1e-5, 1, 3.7306),
        (1, 1e-6, 1, 4.2247),
        (0.1, 1e-6, 1, 36.305),
        (0.01, 1e-6, 1, 306.35),
        (0.2, 1e-5, 1, 16.304),
        (0.3, 1e-5, 1, 11.238),
        (1, 1e-5, 2, 5.2759),
    ],
)
def test_reference_values(epsilon: float, delta: float, releases: int, sigma: float) -> None:
    # Figures of an independent implementation of Balle and Wang 2018, to all the digits given.
    assert float(f"{gaussian_sigma(epsilon, delta, releases):.5g}") == sigma


@pytest.mark.parametrize(
    ("sigma", "epsilon"), [(0.5, 0.0), (0.5, 3.0), (1.0, 1.0), (3.7306, 1.0), (20.0, 0.1)]
)
def test_delta_is_the_expected_excess_of_the_privacy_loss(sigma: float, epsilon: float) -> None:
    # delta(eps) = E max(0, 1 - e^(eps - L)), L ~ N(1/(2 s^2), 1/s^2): the definition, integrated.
    mean, deviation = 0.5 / sigma**2, 1.0 / sigma

    def excess(loss: float) -> float:
        return -math.expm1(epsilon - loss) * float(norm.pdf(loss, mean, deviation))

    expected, _ = quad(excess, epsilon, mean + 12 * deviation, epsabs=1e-14, epsrel=1e-10, limit=200)
    assert gaussian_delta(sigma, epsilon) == pytest.approx(expected, rel=1e-7)


@given(st.floats(1e-3, 50), st.floats(-12, -0.5))
@settings(max_examples=40, deadline=None)
def test_sigma_is_the_smallest_noise_within_the_bound(epsilon: float, log_delta: float) -> None:
    delta = 10**log_delta
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(sigma, epsilon) <= delta
    assert gaussian_delta(sigma * (1 - 1e-4), epsilon) > delta
    assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("sigma", "epsilon"), [(1e-3, 0.0), (1e-3, 1e6), (1e8, 0.0), (1e8, 1e3), (1e-160, 1.0)]
)
def test_extreme_arguments_stay_finite(sigma: float, epsilon: float) -> None:
    # Stable in logarithms: neither overflow nor a delta outside [0, 1].
    assert 0 <= gaussian_delta(sigma, epsilon) <= 1


def test_epsilon_is_zero_where_delta_alone_covers_the_shift() -> None:
    assert gaussian_epsilon(1e6, 1e-3) == 0


def test_epsilon_zero_has_a_finite_sigma() -> None:
    sigma = gaussian_sigma(0.0, 1e-3)
    assert gaussian_delta(sigma, 0.0) <= 1e-3
    assert sigma == pytest.approx(1 / (math.sqrt(2 * math.pi) * 1e-3), rel=1e-5)


def test_impossible_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match="delta"):
        gaussian_sigma(1.0, 0.0)
    with pytest.raises(ConfigError, match="epsilon"):
        gaussian_sigma(-1.0, 1e-5)
    with pytest.raises(ConfigError, match="releases"):
        gaussian_sigma(1.0, 1e-5, 0)
    with pytest.raises(ConfigError, match="sigma"):
        gaussian_epsilon(0.0, 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-18, 1e-15, 1e-12, 1e-9, 1e-5, 0.1])
def test_calibrated_noise_keeps_to_delta_where_floats_cannot_tell_the_terms_apart(
    epsilon: float, delta: float
) -> None:
    # Against 80 digits. Plain floats give 111 times the delta at (0, 1e-18), and any delta at (1e-12, 1e-30).
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(80 + int(-math.log10(delta))):
        sigma, e = mpmath.mpf(gaussian_sigma(epsilon, delta)), mpmath.mpf(epsilon)
        half = 1 / (2 * sigma)
        true = mpmath.ncdf(half - e * sigma) - mpmath.exp(e) * mpmath.ncdf(-half - e * sigma)
        assert true <= delta * (1 + 1e-9)
        assert true >= delta * (0.9 if delta > 1e-200 else 0.3)  # and little is given away
