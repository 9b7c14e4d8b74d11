"""Ranking of owners by private histograms: the distance, its noise, and histograms that do not fit."""

import numpy as np
import pytest

from curator.payouts.payout import rank_owners
from fedkme.cells.histogram import HistogramNoise
from fedkme.errors import ConfigError
from fedkme.privacy.noise import simulated

ALMOST_NONE = 1e-3
"""Scale at which discrete Laplace noise is 0 in every draw."""


def test_owners_stand_in_the_order_of_their_squared_distance() -> None:
    """The head of the module: ||c_j / m_j - v||^2; an owner without rows has no distribution to compare."""
    histograms = {"a": [10, 0, 0], "b": [0, 5, 5], "c": [0, 40, 0], "nobody": [0, 0, 0]}
    sizes = {"a": 10, "b": 10, "c": 40, "nobody": 0}
    standings = rank_owners(histograms, sizes, [0, 3, 1], 4, ALMOST_NONE)
    assert [standing.owner for standing in standings] == ["b", "c", "a"]
    assert [standing.distance for standing in standings] == pytest.approx(
        [2 / 16, 2 / 16, 1 + 9 / 16 + 1 / 16]
    )


def test_counts_by_class_and_cell_are_summed_over_classes() -> None:
    """Classes of a label are classes of the owner's alone where D_v counts by cell."""
    by_class = rank_owners({"a": [3, 1, 0, 2]}, {"a": 6}, [2, 2], 4, ALMOST_NONE)
    plain = rank_owners({"a": [3, 3]}, {"a": 6}, [2, 2], 4, ALMOST_NONE)
    assert by_class[0].distance == pytest.approx(plain[0].distance)
    noisy = rank_owners({"a": [3, 1, 0, 2]}, {"a": 6}, [2, 2], 4, 1.0)[0]
    assert noisy.margin > rank_owners({"a": [3, 3]}, {"a": 6}, [2, 2], 4, 1.0)[0].margin


def test_the_same_part_of_another_class_is_half_as_far() -> None:
    """Cells are two parts of class 0, then of class 1; D_v is of part 0 in class 0."""
    histograms = {"own": [4, 0, 0, 0], "class": [0, 0, 4, 0], "part": [0, 4, 0, 0], "both": [0, 0, 0, 4]}
    sizes = dict.fromkeys(histograms, 4)
    standings = rank_owners(histograms, sizes, [3, 0, 0, 0], 3, ALMOST_NONE, classes=2)
    distances = {standing.owner: standing.distance for standing in standings}
    assert distances == pytest.approx({"own": 0.0, "class": 1.0, "part": 2.0, "both": 2.0})


def test_counts_of_d_v_below_zero_are_not_cut_off() -> None:
    """The noise on D_v's counts has mean 0: cut off at 0, it favours owners in cells that D_v has not."""
    histograms, sizes = {"a": [10, 0, 0], "b": [0, 10, 0]}, {"a": 10, "b": 10}
    standings = rank_owners(histograms, sizes, [-2, -1, 7], 4, ALMOST_NONE)
    assert [standing.owner for standing in standings] == ["b", "a"]
    assert standings[1].distance - standings[0].distance == pytest.approx(2 * 1 / 4)


@pytest.mark.parametrize("classes", [1, 2])
def test_noise_is_taken_out_and_its_margin_holds(classes: int) -> None:
    """2,000 draws: the mean is the exact distance to 4 standard errors; 19 of 20 lie inside the margin."""
    exact, rows, target = np.array([30, 10, 0, 20]), 60, [25, 25, 25, 25]
    how = HistogramNoise(3.0)
    noise = simulated(0, "owner", "ranking")
    apart = (exact / rows - 0.25).reshape(classes, -1)
    true = float(np.square(apart).sum() + np.square(apart.sum(axis=0)).sum()) / 2
    standings = []
    for draw in noise.discrete_laplace(how.scale, 4 * 2000).reshape(2000, 4):
        counts = {"a": (exact + draw).tolist()}
        standings += rank_owners(counts, {"a": rows}, target, 100, how.scale, classes)
    distances = np.array([standing.distance for standing in standings])
    assert abs(distances.mean() - true) < 4 * distances.std() / np.sqrt(2000)
    inside = [abs(standing.distance - true) <= standing.margin for standing in standings]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(("target", "classes"), [([], 1), ([1, 2], 1), ([1, 2, 3], 2)])
def test_histograms_of_other_cells_are_refused(target: list[int], classes: int) -> None:
    with pytest.raises(ConfigError, match="do not fit"):
        rank_owners({"a": [1, 2, 3]}, {"a": 6}, target, 3, 1.0, classes)
