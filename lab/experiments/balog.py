"""Figures 1 and 2 of Balog 2018: RKHS distance to the private embedding against the number of points M.

N = 100,000 rows of a mixture in 2 and 5 dimensions, k = exp(-1e-4/D r^2), delta = 1e-6 (appendix B).
Figure 1: z are the first M private rows, published. Figure 2: z ~ N(0, 500^2 I), or those of a file,
for Algorithm 1; Algorithm 2 finds its own.

What differs from the original code: noise is calibrated exactly and to the diameter sqrt(2)/N that kernel
functions have (theirs: the classical formula and 2/N); the basis is cut where noise makes more of it
useless (theirs: at 1e-5); features have norm exactly 1 (theirs: up to sqrt 2);
locations are optimised together and not one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from audit.in_memory import pool
from curator.releases.methods.balog import algorithm1
from curator.releases.subspace import gaussian_points, matched_tolerance, pivoted, subspace
from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.embeddings.weighted_points import WeightedPoints, inner, uniform_points
from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsMap
from fedkme.features.maps import ROW_UNIT, EmbeddingMap
from fedkme.features.sums import Layout, PooledSum, ReleasedEmbedding, pooled_sum
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments.curves import CurveValue
from lab.experiments.piece import Piece, data_folder

Scenario = Literal["fig1", "fig2"]

ROWS = 100_000
DELTA = 1e-6
EPSILONS = (0.01, 0.1, 1.0)
BOUND = 1000.0
"""Public bounds of every column; no row of the data is outside."""
SELF_KERNEL: Mapping[int, float] = {2: 0.21215986369427045, 5: 0.1672984963245975}
"""Mean of k over all pairs of rows of the two files (MATH.md, section 2): 10^10 kernel values."""
FINEST = 1e-8
"""Tolerance of the basis of the curve without noise."""
FILES = tuple(f"balog_mixture_D{dimension}.npz" for dimension in SELF_KERNEL)


class BalogEffort(Settings):
    """Sizes of the figures: how much of them is computed."""

    basis: tuple[int, ...] = (1, 10, 104, 977)
    """M of Algorithm 1, ascending."""
    reduced: tuple[int, ...] = (1, 10, 100, 1000)
    """M of Algorithm 2."""
    features: int = 10_000
    """J of Algorithm 2."""
    draws: int = 5
    """Draws: of noise, and where z are random of z, too."""
    steps: int = 500
    """Steps of Algorithm 2."""
    constrained: int = 1500
    """Points up to which Algorithm 1 is also tried with weights on the simplex."""


MANY = 2000
"""Points beyond which one draw does."""
QUICK = BalogEffort(basis=(1, 10, 104, 977), reduced=(1, 10, 100), features=2000, draws=3, constrained=200)
FULL = BalogEffort(basis=(1, 10, 104, 977, 10_000), reduced=(1, 10, 100, 1000, 10_000))
"""Up to the 10^4 points of the paper: some GB of memory, and for Figure 2 hours."""


class BalogPiece(Piece):
    """One number of points of one algorithm on one data set."""

    figure: Scenario
    dimension: int
    algorithm: int
    size: int
    """M."""
    epsilon: float = 0.0
    """Epsilon of Algorithm 2; 0: Algorithm 1, by all of them."""
    z: Path | None = None
    """A .npz with arrays `D2` and `D5` of points z of Figure 2; none: drawn by the seed."""
    effort: BalogEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the distances of every curve."""
        data = balog_data(self.dimension)
        if self.algorithm == 2:
            points = data.algorithm2(self.size, self.epsilon, self.effort, self.seed)
            yield self._value("alg2", self.epsilon, self.seed, data.distance(points))
            return
        z = data.points(self.figure, self.size, self.seed, self.z)
        at = BalogSpan(data, z)
        draws = self.effort.draws if self._fixed else 1
        for epsilon in EPSILONS:
            yield self._value("projection", epsilon, self.seed, math.sqrt(at.outside(FINEST)))
            if self.figure == "fig1":
                yield self._value("uniform", epsilon, self.seed, data.distance(uniform_points(z), at.means))
            for draw in range(draws):
                seed = self.seed * draws + draw
                yield self._value("alg1", epsilon, seed, at.released(epsilon, f"{self.figure} {seed}"))
            if 1 < self.size <= self.effort.constrained:
                yield from self._constrained(at, epsilon)

    @property
    def _fixed(self) -> bool:
        """Check whether one draw of z is all that there is."""
        return self.figure == "fig1" or self.z is not None or self.size > MANY

    def _constrained(self, at: BalogSpan, epsilon: float) -> Iterator[CurveValue]:
        """Yield what other weights come to, by the product's own map and release."""
        released, features = at.by_product(epsilon, f"{self.figure} {self.seed}")
        points = algorithm1(released, features, "simplex", points=at.z, limit=1000)
        yield self._value("alg1 simplex", epsilon, self.seed, at.data.distance(points))

    def _value(self, method: str, epsilon: float, seed: int, distance: float) -> CurveValue:
        return CurveValue(f"D{self.dimension} {epsilon:g}", method, self.size, seed, distance)


def pieces(figure: Scenario, effort: BalogEffort, z: Path | None) -> Iterator[BalogPiece]:
    """Pieces of a figure, the quick ones first."""
    for dimension in SELF_KERNEL:
        common = {"figure": figure, "dimension": dimension, "effort": effort}
        for size in effort.basis:
            one = figure == "fig1" or z is not None or size > MANY
            for seed in range(1 if one else effort.draws):
                yield BalogPiece.model_validate(common | {"algorithm": 1, "size": size, "seed": seed, "z": z})
        for size in effort.reduced if figure == "fig2" else ():
            for seed in range(1 if size > MANY else effort.draws):
                for epsilon in EPSILONS:
                    own = {"algorithm": 2, "size": size, "epsilon": epsilon, "seed": seed}
                    yield BalogPiece.model_validate(common | own)


@lru_cache(maxsize=2)
def balog_data(dimension: int) -> BalogData:
    """One of the two data sets.

    Raises:
        DataError: the file is not there, or not the paper's.
    """
    rows = read_arrays(data_folder() / f"balog_mixture_D{dimension}.npz", "balog")["X_private"]
    return BalogData(rows)


class BalogData:
    """One data set of appendix B, as owners, a schema and a kernel."""

    def __init__(self, rows: FloatArray) -> None:
        self.dimension = rows.shape[1]
        if self.dimension not in SELF_KERNEL or len(rows) != ROWS:
            raise DataError("this is not a data set of Balog 2018", "Take the files of the data folder.")
        self.rows = np.asarray(rows, np.float64)
        self.gamma = 1e-4 / self.dimension
        self.schema = Schema(columns=(Numeric(name="x", bounds=(-BOUND, BOUND), count=self.dimension),))
        self.owners = [Table(part) for part in np.array_split(self.rows, 5)]

    def points(self, figure: Scenario, size: int, seed: int, z: Path | None) -> FloatArray:
        """Public points z of a figure, (size, D)."""
        if figure == "fig1":
            return self.rows[:size]
        if z is None:
            return gaussian_points(size, self.dimension, 500.0, seed)
        points = read_arrays(z, "z").get(f"D{self.dimension}")
        if points is None or points.shape[1:] != (self.dimension,) or len(points) < size:
            raise DataError(
                f"{z} has no array 'D{self.dimension}' of {size} rows of {self.dimension} numbers",
                "Make it as lab/results/releases.md says.",
            )
        return np.asarray(points[:size], np.float64)

    def algorithm2(self, size: int, epsilon: float, effort: BalogEffort, seed: int) -> WeightedPoints:
        """Weighted points of Algorithm 2."""
        from curator.releases.reduced_set import algorithm2  # jax: only where it is needed

        features, pooled = _pooled(self.dimension, effort.features)
        sigma = PooledRelease((embedding_query(features, Layout()),), epsilon, DELTA).sigmas[0]
        noise = simulated(seed, "curator", f"alg2 {epsilon}")
        released = release_embedding(pooled, features, Layout(), sigma, noise)
        settings = Balog2Settings(points=size, restarts=1, steps=effort.steps)
        return algorithm2(released, features, settings, seed)

    def distance(self, points: WeightedPoints, means: FloatArray | None = None) -> float:
        """Distance to the private rows; `means`: their mean kernel at the points, where it is known."""
        if means is None:
            means = kernel_mean_at(points.points, self.rows, self.gamma)
        squared = SELF_KERNEL[self.dimension] - 2.0 * float(points.weights @ means)
        return math.sqrt(max(squared + inner(points, points, self.gamma), 0.0))


@lru_cache(maxsize=2)
def _pooled(dimension: int, count: int) -> tuple[EmbeddingMap, PooledSum]:
    """Random features and the owners' sum, the same for every epsilon, M and seed."""
    data = balog_data(dimension)
    features = FourierMapSpec(dimension=count, gamma=data.gamma, seed=0, units="table").make(data.schema)
    return features, pool(pooled_sum(table, features, Layout()) for table in data.owners)


@dataclass(frozen=True)
class BalogSpan:
    """The span of kernel functions at some z, and the private rows' embedding in it.

    A basis of a coarser tolerance is the beginning of that of a finer one: pivots come in the same order. So
    one factorisation does for every epsilon, and coordinates are those of the product's map
    (`by_product`), which is made where it is needed: it also inverts the factor.
    """

    data: BalogData
    z: FloatArray

    @cached_property
    def means(self) -> FloatArray:
        """Mean kernel of the private rows at z, (M,)."""
        return kernel_mean_at(self.z, self.data.rows, self.data.gamma)

    @cached_property
    def _factored(self) -> tuple[FloatArray, FloatArray]:
        """Squared distance of each pivot to the span of those before, and the embedding's coordinates."""
        from scipy.linalg import solve_triangular

        order, lower = pivoted(self.z, self.data.gamma, FINEST)
        return np.diag(lower) ** 2, solve_triangular(lower, self.means[order], lower=True)

    def coordinates(self, tolerance: float) -> FloatArray:
        """Coordinates of the embedding in the basis of a tolerance, (J,)."""
        factor, alpha = self._factored
        return alpha[: int((factor > tolerance).sum())]

    def outside(self, tolerance: float) -> float:
        """Squared distance of the embedding to the span of a tolerance."""
        alpha = self.coordinates(tolerance)
        return max(SELF_KERNEL[self.data.dimension] - float(alpha @ alpha), 0.0)

    def released(self, epsilon: float, stream: str) -> float:
        """Distance of a release: its noise lies in the span, what is outside is at right angles to it."""
        tolerance = matched_tolerance(epsilon, DELTA, len(self.data.rows))
        one = subspace(self.z[:1], self.data.gamma, units="table").make(
            self.data.schema
        )  # all have its bounds
        sigma = PooledRelease((embedding_query(one, Layout()),), epsilon, DELTA).sigmas[0]
        noise = simulated(0, "curator", f"{stream} {len(self.z)} {epsilon}")
        error = noise.gaussian(sigma / len(self.data.rows), len(self.coordinates(tolerance)))
        return math.sqrt(self.outside(tolerance) + float(error @ error))

    def by_product(self, epsilon: float, stream: str) -> tuple[ReleasedEmbedding, PointsMap]:
        """Release by the product's own map, from sums that the mean kernels at its points give."""
        tolerance = matched_tolerance(epsilon, DELTA, len(self.data.rows))
        features = subspace(self.z, self.data.gamma, tolerance=tolerance, units="table").make(
            self.data.schema
        )
        assert isinstance(features, PointsMap)
        place_of = {row.tobytes(): index for index, row in enumerate(self.z)}
        own = [place_of[row.tobytes()] for row in features.spec.matrix()]
        sums = features.whitening @ self.means[own] * (len(self.data.rows) / ROW_UNIT)
        pooled = PooledSum(np.rint(sums)[:, None].astype(np.int64), np.array([len(self.data.rows)]))
        sigma = PooledRelease((embedding_query(features, Layout()),), epsilon, DELTA).sigmas[0]
        noise = simulated(0, "curator", f"{stream} {len(self.z)} {epsilon} by weights")
        return release_embedding(pooled, features, Layout(), sigma, noise), features
