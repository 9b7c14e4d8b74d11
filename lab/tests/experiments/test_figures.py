"""Figures 1, 2, 3 and 5 of DP-HP and Table 4 of DP-MERF (issue 37, item 4)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from fedkme.tables.table import Table
from lab.experiments import approximation, images, mixture
from lab.experiments.curves import CurveValue, claimed_curve, holds
from lab.experiments.paper import figure_of, printed_numbers
from lab.papers.catalogue import EXPERIMENTS

SMALL = approximation.QUICK


def verdicts(figure: str, values: list[CurveValue]) -> list[bool]:
    return [holds(claim, claimed_curve(values, claim)) for claim in figure_of(figure).claims]


def test_hermite_features_approximate_the_kernel_and_decay_as_the_paper_says() -> None:
    # Deterministic: rows and random features come from the seed.
    errors = [value for piece in approximation.error_pieces(SMALL) for value in piece.measure()]
    assert verdicts("dphp-fig1", errors) == [True, True]
    exact = next(value for value in errors if (value.method, value.x) == ("hermite", 100))
    assert exact.value < 1e-14
    features = [value for piece in approximation.length_pieces(SMALL) for value in piece.measure()]
    assert verdicts("dphp-fig5", features) == [True, True]
    swapped = [
        CurveValue(v.panel, {"merf": "hermite", "hermite": "merf"}[v.method], v.x, v.seed, v.value)
        for v in errors
    ]
    assert verdicts("dphp-fig1", swapped)[0] is False


def test_the_likelihood_is_that_of_the_law() -> None:
    from scipy.stats import multivariate_normal

    drawn = mixture.draw_mixture(20_000, 0)
    assert drawn.labels is not None
    logs, nearest = mixture.log_likelihood(drawn.values, drawn.labels)
    law = [multivariate_normal(mean, mixture.DEVIATION**2) for mean in mixture.MEANS]
    for row in range(20):
        own = np.flatnonzero(drawn.labels[row] == mixture.CLASSES)
        density = sum(law[j].pdf(drawn.values[row]) for j in own) / 25.0
        assert math.isclose(logs[row], math.log(density), rel_tol=1e-9)
    # Entropy of 25 clusters apart: log 25 + log(2 pi e s^2) in nats, deviation of the mean 1/sqrt(20,000).
    entropy = math.log(25.0) + math.log(2.0 * math.pi * math.e * mixture.DEVIATION**2)
    assert abs(-logs.mean() - entropy) < 0.04
    assert set(nearest) == set(range(25))
    grid = mixture.CLASSES.reshape(5, 5)
    assert all(sorted(line) == [0, 1, 2, 3, 4] for line in (*grid, *grid.T))


def test_features_in_units_of_the_grid_keep_the_bounds_of_the_noise() -> None:
    # No two rows are farther apart than the spread that noise is calibrated to, and products give the kernel.
    points = np.random.default_rng(0).random((120, 2))
    for spec in (
        mixture.GridSumSpec(order=mixture.ORDER, length=mixture.LENGTH),
        mixture.GridProductSpec(order=mixture.ORDER, length=1.0, columns=(0, 1)),
    ):
        features = spec.make(mixture.SCHEMA)
        at = features.of_model(points)
        assert np.square(at).sum(axis=1).max() <= 1.0
        assert np.linalg.norm(at[:, None] - at, axis=2).max() <= features.spread
    squared = ((6.0 * points[:, None] - 6.0 * points) ** 2).sum(axis=2)
    assert np.abs(at @ at.T - np.exp(-squared / 2.0)).max() < 1e-3


def test_a_release_of_the_mixture_is_scored() -> None:
    pytest.importorskip("jax")
    effort = mixture.MixtureEffort(features=50, steps=2, rows=300, seeds=1)
    values = [value for piece in mixture.pieces(effort) for value in piece.measure()]
    scores = {(value.panel, value.method): value.value for value in values}
    assert scores["modes", "real"] == 25
    assert scores["nll", "real"] < min(scores["nll", "merf"], scores["nll", "hermite"])
    assert scores["epsilon", "merf"] == pytest.approx(1.0)
    assert scores["epsilon", "hermite"] == pytest.approx(1.0)


def test_images_are_scored_by_number_and_by_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(10), 40)
    values = np.clip(25.0 * labels[:, None] + rng.normal(0.0, 5.0, (400, 16)), 0, 255).round()
    table = Table(values, labels)
    asked: list[tuple[float, int]] = []

    def made(_m: str, _d: str, _o: object, epsilon: float, _s: int, size: images.ImageEffort) -> object:
        asked.append((epsilon, size.rows))
        return table.take(np.arange(min(size.rows, 400))), epsilon

    monkeypatch.setattr(images, "data_folder", lambda: Path())
    monkeypatch.setattr(images, "load_images", lambda *_: ((table,), table))
    monkeypatch.setattr(images, "synthesise_images", made)
    effort = images.QUICK.model_copy(update={"rows": 600, "names": ("GNB",)})
    sizes = [value for piece in images.size_pieces(effort) for value in piece.measure()]
    assert {value.x for value in sizes if value.panel == "mnist"} == {60, 600}
    assert set(asked) == {(1.0, 600)}
    asked.clear()
    table4 = [value for piece in images.epsilon_pieces(effort) for value in piece.measure()]
    assert [epsilon for epsilon, _ in asked] == [9.6, 2.9, 1.3] * 2
    assert {v.x for v in table4 if v.method == "real"} == {"no noise"}
    for figure, values_of in (("dphp-fig3", sizes), ("merf-table4", table4)):
        printed = printed_numbers(figure)
        assert all(
            (v.panel, v.method, v.x) in printed
            for v in values_of
            if figure == "merf-table4" or not v.panel.endswith("f1")
        )


def test_an_effort_below_the_least_number_of_images_has_one() -> None:
    made = EXPERIMENTS["dphp-fig3"]("quick", None, None, ("rows=20",))
    assert {dict(piece)["sizes"] for piece in made.pieces} == {(20,)}
