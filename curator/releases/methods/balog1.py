"""Balog 2018, Algorithm 1, as a method of release: public points with released weights."""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from curator.releases.balog import algorithm1
from curator.releases.method import Making
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed, settled_gamma
from curator.releases.methods.points import make_points
from curator.releases.subspace import gaussian_points, matched_tolerance, subspace
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.kernel_points import PointsMap, PointsSpec
from fedkme.features.sums import Layout
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import Balog1Settings, GaussianPoints, GivenPoints, SeedPoints
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

NAME = "Balog 2018, Algorithm 1"
_FINEST = 1e-8  # tolerance of a basis without noise
_MANY, _STEPS = 2000, 1000  # with more points than _MANY, weights are fitted in at most _STEPS steps


class Balog1(EmbeddingMethod[Balog1Settings]):
    """Release of coordinates in an orthonormal basis of the span of the k(z, .)."""

    def __init__(
        self, settings: Balog1Settings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        seed = as_seed(settings, public_seed)
        domain = Domain(schema)
        gain, shift = domain.affine(settings.units, None)
        # z are rows of a table, so that the weights belong to exactly the points that a consumer receives.
        self._z = _public_rows(settings, schema, seeds, seed)
        scale = domain.encode(self._z if seeds is None or not len(seeds) else seeds.values)
        gamma = settled_gamma(settings.gamma, scale * gain + shift)
        super().__init__(settings.model_copy(update={"seed": seed, "gamma": gamma}), schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        settings = self.settings
        quiet = math.isinf(epsilon)
        tolerance = settings.tolerance
        if isinstance(tolerance, str):
            tolerance = _FINEST if quiet else matched_tolerance(epsilon, settings.delta, rows)
        spec = subspace(
            _in_kernel(self._z, self.schema, settings),
            float(settings.gamma),
            settings.basis,
            tolerance,
            settings.units,
        )
        if settings.basis == "cholesky":  # every party computes L^-1 itself, so the matrix need not travel
            spec = PointsSpec.of(spec.matrix(), spec.gamma, None, spec.units)
        features = spec.make(self.schema)
        layout = Layout()
        release = None
        if not quiet:
            release = PooledRelease((embedding_query(features, layout),), epsilon, settings.delta)
        return Question((features,), layout, False, release, {"z": self._z})

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
            prior=z if settings.prior and len(z) > 1 else None,
            limit=_STEPS if len(z) > _MANY else 5000,
        )
        making.tell("weights", f"{len(points)} points, sum |w| = {points.l1:.3g}", 1.0)
        make_points(stored, NAME, points, features, settings, making)


def _in_kernel(rows: FloatArray, schema: Schema, settings: Balog1Settings) -> FloatArray:
    """Convert rows of the schema to the kernel's units."""
    domain = Domain(schema)
    gain, shift = domain.affine(settings.units, None)
    return domain.encode(rows) * gain + shift


def _public_rows(settings: Balog1Settings, schema: Schema, seeds: Table | None, seed: int) -> FloatArray:
    """Z as rows of the schema, (M, c)."""
    match settings.z:
        case SeedPoints():
            if seeds is None or not len(seeds):
                raise ConfigError(
                    "release: 'z' are to be public seed rows and the curator has none",
                    "Set 'z.kind' to 'gaussian' or 'file', or give the curator 'seeds'.",
                )
            rows = np.asarray(seeds.values, np.float64)
        case GaussianPoints(scale=scale):
            return _gaussian_rows(schema, settings.points, scale, seed)
        case GivenPoints():
            rows = settings.z.matrix(schema.width)
            schema.check(Table(rows), "public points")
        case _:
            raise ConfigError(
                "release: 'z' names a file of the consumer, which was not read",
                "Put its rows into the settings (read_points).",
            )
    return rows[: settings.points]


def _gaussian_rows(schema: Schema, count: int, scale: float, seed: int) -> FloatArray:
    """Draw N(middle, scale^2 I) in model space, folded at the bounds; all categories are equally likely."""
    domain = Domain(schema)
    drawn = gaussian_points(count, schema.encoded_width, scale, seed, 0.5)
    numbers = np.mod(drawn[:, domain.numbers], 2.0)
    drawn[:, domain.numbers] = np.minimum(numbers, 2.0 - numbers)
    return schema.decode(drawn)
