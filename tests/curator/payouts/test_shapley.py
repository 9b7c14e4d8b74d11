"""Shapley's axioms, exactly and for samples."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.payouts.shapley import MixtureGame, by_shapley, exact_shapley, sampled_shapley, shapley
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError


def game(players: int, seed: int, cells: int = 8) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(cells, 0.4), players), rng.dirichlet(np.full(cells, 0.7))


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_efficiency_and_no_negative_value(players: int, seed: int) -> None:
    """Values add up to what all are worth; v grows with the coalition, so nobody is worth less than 0."""
    own = MixtureGame(*game(players, seed))
    found = exact_shapley(own)
    assert found.values.sum() == pytest.approx(own.worth((1 << players) - 1), abs=1e-9)
    assert (found.values >= -1e-9).all()


@settings(max_examples=15)
@given(st.integers(2, 5), st.integers(0, 1000))
def test_symmetry_and_order_does_not_matter(players: int, seed: int) -> None:
    """Two owners with the same histogram get the same, and renaming owners renames values."""
    x, t = game(players, seed)
    twins = np.concatenate([x, x[:1]])
    values = exact_shapley(MixtureGame(twins, t)).values
    assert values[0] == pytest.approx(values[-1], abs=1e-9)
    order = np.random.default_rng(seed).permutation(players)
    assert exact_shapley(MixtureGame(x[order], t)).values == pytest.approx(
        exact_shapley(MixtureGame(x, t)).values[order], abs=1e-9
    )


@settings(max_examples=15)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_dummies_get_nothing(players: int, seed: int) -> None:
    """An owner without rows, or with cells of which D_v has nothing and others neither, adds nothing."""
    x, t = game(players, seed)
    x, t = np.pad(x, ((0, 0), (0, 1))), np.append(t, 0.0)
    foreign = np.zeros(len(t))
    foreign[-1] = 1.0
    values = exact_shapley(MixtureGame(np.stack([*x, np.zeros(len(t)), foreign]), t)).values
    assert values[-2:] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert values[:-2] == pytest.approx(exact_shapley(MixtureGame(x, t)).values, abs=1e-9)


def test_exact_values_are_the_average_over_all_orders() -> None:
    own = MixtureGame(*game(4, 3))
    total = np.zeros(4)
    for order in permutations(range(4)):
        mask = 0
        for player in order:
            total[player] += own.worth(mask | 1 << player) - own.worth(mask)
            mask |= 1 << player
    assert exact_shapley(own).values == pytest.approx(total / 24, abs=1e-12)


def test_worth_is_the_distance_to_the_best_mixture() -> None:
    """Two points and a reference: the minimum over the triangle, against a grid."""
    x, t = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.7, 0.5])
    reference = np.array([0.1, -0.2])
    own = MixtureGame(x, t, reference)
    grid = np.linspace(0, 1, 201)
    a, b = (side.ravel() for side in np.meshgrid(grid, grid))
    inside = a + b <= 1
    points = np.outer(a, x[0]) + np.outer(b, x[1]) + np.outer(1 - a - b, reference)
    nearest = np.square(points[inside] - t).sum(axis=1).min()
    assert own.worth(3) == pytest.approx(np.square(reference - t).sum() - nearest, abs=1e-4)
    assert own.worth(0) == 0.0


def test_samples_are_efficient_deterministic_and_cover_the_exact_values() -> None:
    """95 % intervals, 20 seeds of 7 owners: at least 115 of 140 cover (133 expected)."""
    x, t = game(7, 5)
    exact = exact_shapley(MixtureGame(x, t)).values
    covered = 0
    for seed in range(20):
        own = MixtureGame(x, t)
        found = sampled_shapley(own, seed, 60)
        assert found.values.sum() == pytest.approx(own.worth(127), abs=1e-9)
        covered += int((np.abs(found.values - exact) <= found.margins + 1e-12).sum())
    assert covered >= 115
    again = sampled_shapley(MixtureGame(x, t), 19, 60)
    assert (again.values == found.values).all()


def test_above_twelve_owners_values_are_sampled_with_an_interval() -> None:
    x, t = game(14, 1)
    histograms = {f"owner-{i:02}": row.tolist() for i, row in enumerate(x)}
    payout = by_shapley(histograms, t.tolist(), 10_000, seed=4, pairs=20)
    assert payout.margins is not None
    assert max(payout.margins.values()) > 0
    assert sum(payout.amounts.values()) == 10_000
    assert by_shapley(histograms, t.tolist(), 10_000, seed=4, pairs=20) == payout
    assert shapley(MixtureGame(x[:12], t)).errors.max() == 0
    with pytest.raises(ConfigError):
        exact_shapley(MixtureGame(x, t))


def test_shapes_that_do_not_fit_are_refused() -> None:
    for x, t in (((2, 3), (4,)), ((0, 3), (3,)), ((3,), (3,))):
        with pytest.raises(ConfigError):
            MixtureGame(np.ones(x), np.ones(t))
