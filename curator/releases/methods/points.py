"""Files of releases that are weighted points in a kernel's units (Balog 2018)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from curator.releases.files import card_of, distances, make_synthetic, make_weighted
from curator.releases.method import Making
from curator.releases.synthetic import DataCard
from fedkme.embeddings.distribution import distribution, resample
from fedkme.embeddings.weight_fit import Constraint, fit_weights
from fedkme.embeddings.weighted_points import WeightedPoints
from fedkme.features.domain import Domain
from fedkme.features.kernel_space import kernel_units, one_column, to_model, to_table
from fedkme.features.maps import EmbeddingMap
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import Balog1Settings, Balog2Settings
from fedkme.tables.table import Table

_NEAR = 1e-9
_STEPS = 2000


def make_points(
    stored: StoredRelease,
    mechanism: str,
    points: WeightedPoints,
    features: EmbeddingMap,
    settings: Balog1Settings | Balog2Settings,
    making: Making,
) -> None:
    """Make the files of weighted points, and of rows drawn from the points where the settings ask for rows.

    Args:
        stored: the release.
        mechanism: name of the mechanism, for the card.
        points: points in the kernel's units.
        features: feature map of the release.
        settings: settings of the method.
        making: takes the files.
    """
    points, table = _on_rows(stored, points, features, settings)

    def utility() -> dict[str, float]:
        beta = one_column(stored.embeddings[0], features)
        at = features.of_model(to_model(points.points, features)).T @ points.weights
        squares = float(np.square(at - beta).sum()), len(beta) * stored.embeddings[0].sigma ** 2
        return {**distances(*squares), "sum of |weight|": points.l1}

    gamma = kernel_units(features)[2]
    card = card_of(stored, mechanism, len(table), utility, making)
    make_weighted(table, points.weights, gamma, card, making)
    if settings.rows is not None:
        count = settings.rows
        making.step(
            "rows of equal weight", lambda: _make_rows(points, table, gamma, settings, count, card, making)
        )


def _make_rows(
    points: WeightedPoints,
    table: Table,
    gamma: float,
    settings: Balog1Settings | Balog2Settings,
    count: int,
    card: DataCard,
    making: Making,
) -> None:
    """Make rows of equal weight, drawn from the points."""
    drawn, seed = distribution(points, gamma), settings.seed or 0
    order = np.random.default_rng(np.random.SeedSequence([seed, 0x0D])).permutation(count)
    rows = table.take(resample(drawn.points, count, seed)[order])
    utility = {**card.utility, "moved by equal weights": drawn.moved}
    notes = (f"Rows repeat: they are drawn from {len(table)} weighted points, see weighted.card.md.",)
    make_synthetic(rows, replace(card, rows=len(rows), utility=utility, notes=notes), making)


def _on_rows(
    stored: StoredRelease,
    points: WeightedPoints,
    features: EmbeddingMap,
    settings: Balog1Settings | Balog2Settings,
) -> tuple[WeightedPoints, Table]:
    """Move points to the nearest rows of the schema, with the weights that fit these rows best.

    An optimiser's point may lie between whole numbers or between categories; if a point moves, all weights
    are fitted again.
    """
    table, weights = to_table(points, features)
    model = Domain(features.schema).encode(table.values)
    gain, shift, _ = kernel_units(features)
    moved = float(np.abs(model - to_model(points.points, features)).max())
    if moved > _NEAR and settings.weights != "uniform":
        at = features.of_model(model)
        beta = one_column(stored.embeddings[0], features)
        constraint: Constraint = "l1" if settings.weights == "l1" else "simplex"
        fit = fit_weights(at @ at.T, at @ beta, constraint, settings.bound, start=weights, limit=_STEPS)
        weights = fit.weights
    return WeightedPoints(model * gain + shift, weights), table
