"""Lower bounds of epsilon: they hold, they find what they say, degenerate samples do not break them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.attacks.confidence import (
    Scores,
    clopper_pearson,
    smallest_factor,
    smallest_gaussian_factor,
    split_bound,
)
from fedkme.privacy.gaussian import gaussian_epsilon


def test_clopper_pearson_is_exact_at_its_ends() -> None:
    # No hit in n: the upper bound solves (1 - p)^n = alpha; all hits: p^n = alpha.
    low, high = clopper_pearson(np.array([0, 50]), 50, 0.01)
    assert low[0] == 0
    assert high[1] == 1
    assert (1 - high[0]) ** 50 == pytest.approx(0.01)
    assert low[1] ** 50 == pytest.approx(0.01)


def responses(epsilon: float, size: int, seed: int) -> tuple[Scores, Scores]:
    """Randomised response, which has no slack: every bound must stay below epsilon."""
    random = np.random.default_rng(seed)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return (random.random(size) >= truth).astype(np.float64), (random.random(size) < truth).astype(np.float64)


def test_the_bound_holds_as_often_as_it_says() -> None:
    # One-sided at alpha = 0.05 over 400 repetitions, a mechanism without slack: more than 40 failures of an
    # expected 20 at most have probability below 1e-4.
    failures = sum(split_bound(*responses(1.0, 2000, seed), 0.0, 0.05).epsilon > 1.0 for seed in range(400))
    assert failures <= 40


def test_the_bound_finds_a_violation_of_the_stated_factor() -> None:
    # `power`: a true epsilon of that factor times the claim is found with probability 0.9 or more. Of 100
    # repetitions at least 80: fewer have probability below 2e-3.
    first, second = responses(1.0, 4000, 0)
    bound = split_bound(first, second, 0.0, 0.01)
    factor = smallest_factor(1.0, 0.0, bound, 0.01)
    assert 1.0 < factor < 1.5
    found = [split_bound(*responses(factor, 4000, seed), 0.0, 0.01).epsilon > 1.0 for seed in range(100)]
    assert sum(found) >= 80


def test_the_gaussian_bound_holds_and_is_tighter() -> None:
    # ANCHORS.md, part E: GDP .92 against Clopper-Pearson .51 at n = 1e5, epsilon = 1, delta = 1e-5.
    random = np.random.default_rng(1)
    mu = 0.268
    exact = gaussian_epsilon(1 / mu, 1e-5)
    assert exact == pytest.approx(1.0, abs=0.01)
    first, second = random.normal(0, 1, 100_000), random.normal(mu, 1, 100_000)
    gaussian = split_bound(first, second, 1e-5, 0.05, gaussian=True).epsilon
    free = split_bound(first, second, 1e-5, 0.05).epsilon
    assert free < gaussian <= exact
    assert gaussian > 0.85
    assert 1.0 < smallest_gaussian_factor(1.0, 1e-5, 50_000, 0.05) < 1.2


@pytest.mark.parametrize("gaussian", [False, True])
def test_degenerate_samples_bound_nothing_that_is_not_there(gaussian: bool) -> None:
    # ANCHORS.md: another library's estimate raised on a degenerate draw. Equal samples: epsilon >= 0.
    same = np.zeros(100)
    assert split_bound(same, same, 1e-5, 0.05, gaussian).epsilon == 0
    apart = split_bound(same, same + 1, 0.0 if not gaussian else 1e-5, 0.05, gaussian)
    assert 2.0 < apart.epsilon < 40.0
    assert apart.rate == 1


def test_a_claim_that_cannot_be_refuted_has_no_power() -> None:
    # A factor beyond 1000 is no power: inf, not a number that looks like one.
    first, second = responses(1.0, 40, 0)
    assert smallest_factor(50.0, 0.0, split_bound(first, second, 0.0, 0.01), 0.01) == math.inf
