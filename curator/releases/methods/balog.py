"""Balog 2018, Algorithms 1 and 2, as methods of release: a noisy embedding becomes weighted points.

Both algorithms start from a `ReleasedEmbedding`, which alone depends on private rows. All functions here are
post-processing and cost nothing; no function takes rows of an owner.

Algorithm 1 (a `points` map, see `subspace`): the released coordinates beta = alpha + noise give weights
w = W^T beta = L^-T beta of the public points. Algorithm 2 (a `fourier` map of norm 1): locations and
weights are optimised against the released mean, see `reduced_set`.

Noise is calibrated by fedkme.privacy.sums from the map's own diameter, exactly (Balle and Wang 2018), and
not by the paper's sqrt(2 ln(1.25/delta))/epsilon, which has no theorem at epsilon >= 1.
"""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from curator.releases.files import card_of, distances, make_synthetic, make_weighted
from curator.releases.method import Making
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed, public_rows, settled_gamma
from curator.releases.subspace import gaussian_points, matched_tolerance, subspace
from curator.releases.synthetic import DataCard
from fedkme.arrays import FloatArray
from fedkme.embeddings.weight_fit import LIMIT, Constraint, fit_weights
from fedkme.embeddings.weighted_points import WeightedPoints, distribution, resample
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsMap, rbf
from fedkme.features.kernel_space import kernel_units, one_column, to_model, to_table
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, ReleasedEmbedding
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import Balog1Settings, Balog2Settings, GaussianPoints, GivenPoints, SeedPoints
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

_NEAR = 1e-9
_FIT_STEPS = 2000


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
    card = card_of(stored, mechanism, table, utility, making, points.weights)
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
        fit = fit_weights(at @ at.T, at @ beta, constraint, settings.bound, start=weights, limit=_FIT_STEPS)
        weights = fit.weights
    return WeightedPoints(model * gain + shift, weights), table


Weights = Literal["free", "l1", "simplex"]
"""Constraint on weights: none (line 8); sum |w| <= C (theorem 11); non-negative with sum 1."""


def algorithm1(
    released: ReleasedEmbedding,
    basis: PointsMap,
    weights: Weights = "free",
    bound: float = 1.0,
    points: FloatArray | None = None,
    limit: int = LIMIT,
) -> WeightedPoints:
    """Algorithm 1, lines 8 and 9, or theorem 11: weighted points from noisy coordinates.

    Args:
        released: coordinates beta in the basis, one column.
        basis: the map of these coordinates.
        weights: constraint on the weights. A constraint also removes noise: constrained weights can reach
            the mean embeddings of distributions, but not most noise.
        bound: C >= 1 for `l1`.
        points: points that get the weights, (M, n) in the basis's units; None: the points of the basis, which
            `free` weights always use.
        limit: most iterations for constrained weights.

    Raises:
        ConfigError: the embedding has several columns or is of another map, a bound below 1, or free
            weights with points of their own.
        DataError: the embedding is not finite.
    """
    beta = one_column(released, basis)
    own = basis.spec.matrix()
    free: FloatArray = basis.whitening.T @ beta
    if weights == "free":
        if points is not None:
            raise ConfigError("free weights belong to the points of the basis", "Leave the points out.")
        return WeightedPoints(own, free)
    if weights == "l1" and not bound >= 1.0:
        raise ConfigError(f"an L1 bound of {bound} excludes the data's own embedding", "Take at least 1.")
    chosen = own if points is None else points
    gamma = basis.spec.gamma
    # The target lies in the span of the own points, so these are exact inner products.
    target: FloatArray = rbf(chosen, own, gamma) @ free
    fit = fit_weights(rbf(chosen, chosen, gamma), target, weights, bound, limit=limit)
    return WeightedPoints(chosen, fit.weights)


ALGORITHM_1 = "Balog 2018, Algorithm 1"
_FINEST = 1e-8  # tolerance of a basis without noise
_MANY, _STEPS = 2000, 1000  # with more points than _MANY, weights are fitted in at most _STEPS steps


class Balog1(EmbeddingMethod[Balog1Settings]):
    """Release of coordinates in an orthonormal basis of the span of the k(z, .)."""

    def __init__(
        self, settings: Balog1Settings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        seed = as_seed(settings, public_seed)
        # z are rows of a table, so that the weights belong to exactly the points that a consumer receives.
        self._z = _rows_of_z(settings, schema, seeds, seed)
        rows = self._z if seeds is None or not len(seeds) else seeds.values
        gamma = settled_gamma(settings.gamma, _in_kernel(rows, schema, settings))
        super().__init__(settings, schema, seed=seed, gamma=gamma)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        settings = self.settings
        tolerance = settings.tolerance
        if isinstance(tolerance, str):
            noisy = math.isfinite(epsilon)
            tolerance = matched_tolerance(epsilon, settings.delta, rows) if noisy else _FINEST
        z = _in_kernel(self._z, self.schema, settings)
        spec = subspace(z, float(settings.gamma), tolerance, settings.units)
        return replace(_question(spec.make(self.schema), epsilon, settings.delta), public={"z": self._z})

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        settings = self.settings
        released = stored.embeddings[0]
        features = released.map_spec.make(self.schema)
        if not isinstance(features, PointsMap) or "z" not in stored.public:
            raise ConfigError("the release has no basis of points", "Take a release of balog1.")
        z = _in_kernel(stored.public["z"], self.schema, settings)
        making.tell("weights", f"finding weights over {features.dimension} basis functions", 0.0)
        points = algorithm1(
            released,
            features,
            settings.weights,
            settings.bound,
            points=None if settings.weights == "free" else z,
            limit=_STEPS if len(z) > _MANY else 5000,
        )
        making.tell("weights", f"{len(points)} points, sum |w| = {points.l1:.3g}", 1.0)
        make_points(stored, ALGORITHM_1, points, features, settings, making)


def _question(features: EmbeddingMap, epsilon: float, delta: float) -> Question:
    """Question for the embedding of all rows by one map; inf: without noise."""
    release = None
    if math.isfinite(epsilon):
        release = PooledRelease((embedding_query(features, Layout()),), epsilon, delta)
    return Question((features,), Layout(), False, release)


def _in_kernel(rows: NDArray[Any], schema: Schema, settings: Balog1Settings) -> FloatArray:
    """Convert rows of the schema to the kernel's units."""
    domain = Domain(schema)
    gain, shift = domain.affine(settings.units, None)
    return domain.encode(rows) * gain + shift


def _rows_of_z(settings: Balog1Settings, schema: Schema, seeds: Table | None, seed: int) -> FloatArray:
    """Z as rows of the schema, (M, c)."""
    match settings.z:
        case SeedPoints():
            if seeds is None or not len(seeds):
                cause = "release: 'z' are to be public seed rows and the curator has none"
                raise ConfigError(cause, "Set 'z.kind' to 'gaussian' or 'file', or give the curator 'seeds'.")
            rows = np.asarray(seeds.values, np.float64)
        case GaussianPoints(scale=scale):
            return _gaussian_rows(schema, settings.points, scale, seed)
        case GivenPoints():
            rows = settings.z.matrix(schema.width)
            schema.check(Table(rows), "public points")
        case _:
            cause = "release: 'z' names a file of the consumer, which was not read"
            raise ConfigError(cause, "Put its rows into the settings (read_points).")
    rows = rows[: settings.points]
    # An empty cell is its public `missing`: the numbers of a release are finite.
    return np.where(np.isfinite(rows), rows, schema.decode(schema.encode(rows)))


def _gaussian_rows(schema: Schema, count: int, scale: float, seed: int) -> FloatArray:
    """Draw N(middle, scale^2 I) in model space, folded at the bounds; all categories are equally likely."""
    domain = Domain(schema)
    drawn = gaussian_points(count, schema.encoded_width, scale, seed, 0.5)
    numbers = np.mod(drawn[:, domain.numbers], 2.0)
    drawn[:, domain.numbers] = np.minimum(numbers, 2.0 - numbers)
    return schema.decode(drawn)


ALGORITHM_2 = "Balog 2018, Algorithm 2"


class Balog2(EmbeddingMethod[Balog2Settings]):
    """Release of the mean of J random features; M points with nearly the same mean follow from it."""

    def __init__(
        self, settings: Balog2Settings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        seed = as_seed(settings, public_seed)
        gain, shift = Domain(schema).affine(settings.units, None)
        gamma = settled_gamma(settings.gamma, public_rows(schema, seeds, seed) * gain + shift)
        super().__init__(settings, schema, seed=seed, gamma=gamma)
        spec = FourierMapSpec(dimension=settings.features, gamma=gamma, seed=seed, units=settings.units)
        self._map = spec.make(schema)
        self.question(1, settings.of_row).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        return _question(self._map, epsilon, self.settings.delta)

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        from curator.releases.reduced_set import Step, algorithm2

        settings = self.settings
        released = stored.embeddings[0]
        features = released.map_spec.make(self.schema)

        def report(step: Step) -> None:
            fraction = (step.restart - 1) * step.steps + step.step
            making.tell("training", str(step), fraction / (step.restarts * step.steps))

        making.tell("training", "looking for first points", 0.0)
        points = algorithm2(released, features, settings, settings.seed or 0, report)
        make_points(stored, ALGORITHM_2, points, features, settings, making)
