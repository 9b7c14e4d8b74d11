"""Laws of most entropy, which give variances to answers."""

from __future__ import annotations

import numpy as np

from fedkme.releases.max_entropy import max_entropy_weights


def test_known_moments_are_met_and_the_others_are_those_of_most_entropy() -> None:
    # Among laws with a given mean and variance, the normal law has most entropy: third moment 0, fourth 3.
    points = np.linspace(-8.0, 8.0, 4001)
    tests = np.column_stack([points / 4.0, points**2 / 16.0])
    weights = max_entropy_weights(
        tests, np.array([0.25, 2.0 / 16.0]), np.full(2, 1e-4)
    )  # mean 1, mean square 2
    moments = [float(weights @ (points - 1.0) ** k) for k in (1, 2, 3, 4)]
    assert np.allclose(moments, [0.0, 1.0, 0.0, 3.0], atol=0.01)


def test_a_mean_with_a_large_error_changes_nothing_and_an_impossible_mean_is_approached() -> None:
    points = np.linspace(-1.0, 1.0, 401)
    tests = np.column_stack([points, points**2])
    weights = max_entropy_weights(tests, np.array([0.3, 5.0]), np.array([1e-3, 1e6]))
    assert abs(float(weights @ points) - 0.3) < 1e-3
    outside = max_entropy_weights(tests[:, :1], np.array([2.0]), np.array([0.1]))
    assert float(outside @ points) > 0.9
    assert np.isfinite(outside).all()
    assert (outside >= 0.0).all()
