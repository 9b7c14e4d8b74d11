"""Figures 1 and 2 of Balog 2018: RKHS distance to the private embedding against the number of points M.

N = 100,000 rows of a mixture in 2 and 5 dimensions, k = exp(-1e-4/D r^2), delta = 1e-6 (appendix B).
Figure 1: z are the first M private rows, published. Figure 2: z ~ N(0, 500^2 I)
for Algorithm 1; Algorithm 2 finds its own.

What differs from the original code: noise is calibrated exactly and to the diameter sqrt(2)/N that kernel
functions have (theirs: the classical formula and 2/N); the basis is cut where noise makes more of it
useless (theirs: at 1e-5); features have norm exactly 1 (theirs: up to sqrt 2);
locations are optimised together and not one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from curator.releases.balog import algorithm1
from curator.releases.subspace import gaussian_points, matched_tolerance, subset_points, subspace
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.embeddings.weighted_points import WeightedPoints, inner, uniform_points
from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsMap, rbf
from fedkme.features.maps import ROW_UNIT, EmbeddingMap
from fedkme.features.sums import Layout, PooledSum, pool, pooled_sum
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.scenarios.base import place

FloatArray = NDArray[np.float64]
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

ORIGINAL: Mapping[tuple[Scenario, int, str], Mapping[int, float]] = {
    ("fig1", 2, "projection"): {1: 0.29267, 10: 0.13950, 104: 0.01031, 977: 0.00006, 10000: 0.00002},
    ("fig1", 2, "uniform"): {1: 0.70769, 10: 0.24795, 104: 0.10628, 977: 0.02778, 10000: 0.00779},
    ("fig1", 2, "alg1 0.01"): {1: 0.29327, 10: 0.14375, 104: 0.08793, 977: 0.11348, 10000: 0.13069},
    ("fig1", 2, "alg1 0.1"): {1: 0.29267, 10: 0.13954, 104: 0.01306, 977: 0.01273, 10000: 0.01331},
    ("fig1", 2, "alg1 1"): {1: 0.29267, 10: 0.13950, 104: 0.01034, 977: 0.00109, 10000: 0.00123},
    ("fig1", 5, "projection"): {1: 0.27894, 10: 0.18223, 104: 0.01474, 977: 0.00042, 10000: 0.00002},
    ("fig1", 5, "uniform"): {1: 0.75431, 10: 0.32906, 104: 0.07645, 977: 0.02711, 10000: 0.00820},
    ("fig1", 5, "alg1 0.01"): {1: 0.27956, 10: 0.18550, 104: 0.11313, 977: 0.28068, 10000: 0.45272},
    ("fig1", 5, "alg1 0.1"): {1: 0.27894, 10: 0.18226, 104: 0.01834, 977: 0.02852, 10000: 0.04542},
    ("fig1", 5, "alg1 1"): {1: 0.27894, 10: 0.18223, 104: 0.01478, 977: 0.00284, 10000: 0.00463},
    ("fig2", 2, "projection"): {1: 0.46061, 10: 0.34199, 104: 0.11804, 977: 0.00018, 10000: 0.00009},
    ("fig2", 2, "alg1 0.01"): {1: 0.46062, 10: 0.34391, 104: 0.16309, 977: 0.28955, 10000: 0.44073},
    ("fig2", 2, "alg1 0.1"): {1: 0.46061, 10: 0.34200, 104: 0.11838, 977: 0.02838, 10000: 0.04272},
    ("fig2", 2, "alg1 1"): {1: 0.46061, 10: 0.34199, 104: 0.11805, 977: 0.00287, 10000: 0.00437},
    ("fig2", 2, "alg2 0.01"): {1: 0.28653, 10: 0.13955, 100: 0.17985, 1000: 0.24239, 10000: 0.32103},
    ("fig2", 2, "alg2 0.1"): {1: 0.28468, 10: 0.11845, 100: 0.03423, 1000: 0.01881, 10000: 0.02087},
    ("fig2", 2, "alg2 1"): {1: 0.28467, 10: 0.11867, 100: 0.03182, 1000: 0.00897, 10000: 0.00251},
    ("fig2", 5, "projection"): {1: 0.40902, 10: 0.40892, 104: 0.40467, 977: 0.31260, 10000: 0.20740},
    ("fig2", 5, "alg1 0.01"): {1: 0.40902, 10: 0.41252, 104: 0.41908, 977: 0.45389, 10000: 1.0736},
    ("fig2", 5, "alg1 0.1"): {1: 0.40903, 10: 0.40893, 104: 0.40479, 977: 0.31437, 10000: 0.23246},
    ("fig2", 5, "alg1 1"): {1: 0.40902, 10: 0.40892, 104: 0.40468, 977: 0.31262, 10000: 0.20767},
    ("fig2", 5, "alg2 0.01"): {1: 0.41041, 10: 0.37155, 100: 0.48009, 1000: 0.85415, 10000: 1.0318},
    ("fig2", 5, "alg2 0.1"): {1: 0.40918, 10: 0.35861, 100: 0.33716, 1000: 0.08717, 10000: 0.09734},
    ("fig2", 5, "alg2 1"): {1: 0.40910, 10: 0.35831, 100: 0.33371, 1000: 0.03798, 10000: 0.03407},
}
"""Distances that the original code stored (results/*.json; one draw of noise each)."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the figures: how much of them is computed.

    Attributes:
        basis: M of Algorithm 1, ascending.
        reduced: M of Algorithm 2.
        features: J of Algorithm 2.
        draws: of noise, per point of a curve of Algorithm 1; the mean is reported.
        restarts: of Algorithm 2.
        constrained: points up to which Algorithm 1 is also tried with weights on the simplex.
        owners: who hold the rows; any number gives the same curves.
    """

    basis: tuple[int, ...] = (1, 10, 104, 977, 3000)
    reduced: tuple[int, ...] = (1, 10, 100, 1000)
    features: int = 10_000
    draws: int = 5
    restarts: int = 2
    constrained: int = 1500
    owners: int = 5


QUICK = Sizes((1, 10, 104, 977), (1, 10, 100), features=2000, draws=3, restarts=1, constrained=200)
"""A minute or two on two cores."""
FULL = Sizes((1, 10, 104, 977, 10_000), (1, 10, 100, 1000, 10_000), features=10_000, draws=5, restarts=1)
"""Up to the 10^4 points of the paper: some GB of memory, and hours for Figure 2."""


@dataclass(frozen=True)
class CurvePoint:
    """One point of a curve.

    Attributes:
        figure: `fig1` or `fig2`.
        dimension: D.
        curve: `projection` (no noise), `uniform`, `alg1 EPS` (free weights), `alg1 simplex EPS`,
            `alg1 prior EPS` (shrunk to the public rows), `alg2 EPS` (sum |w| <= 1); inf: no noise.
        size: M.
        distance: RKHS distance to the private embedding.
        original: what the paper's code stored, or None.
    """

    figure: Scenario
    dimension: int
    curve: str
    size: int
    distance: float
    original: float | None


@dataclass
class Curves:
    """Curves that were computed, and what was left out and why."""

    points: list[CurvePoint] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"points": [asdict(point) for point in self.points], "skipped": list(self.skipped)}

    def table(self) -> str:
        """Lines of text: distance, and that of the original code in brackets."""
        lines = [
            f"{point.figure} D{point.dimension} {point.curve:<18} M={point.size:<6} {point.distance:.5f}"
            + ("" if point.original is None else f"  ({point.original:.5f})")
            for point in self.points
        ]
        return "\n".join([*lines, *self.skipped])


def _silent(line: str) -> None:
    """Report no progress."""


def reproduce(
    figures: Sequence[Scenario] = ("fig1", "fig2"),
    dimensions: Sequence[int] = (2, 5),
    quick: bool = False,
    seed: int = 0,
    sizes: Sizes | None = None,
    progress: Callable[[str], None] = _silent,
) -> Curves:
    """The curves of the figures, for data sets of D = 2 and 5.

    Raises:
        DataError: a file is there and is not the paper's.
    """
    sizes = sizes or (QUICK if quick else Sizes())
    curves = Curves()
    for dimension in dimensions:
        path = place(Path(f"$FEDKME_DATA/balog_mixture_D{dimension}.npz"), None)
        if not path.is_file():
            curves.skipped.append(f"D{dimension}: there is no {path.name}")
            continue
        rows = read_arrays(path, "balog")["X_private"]
        setting = BalogData(rows, sizes, seed)
        for figure in figures:
            for curve, size, distance in setting.curves(figure):
                original = ORIGINAL.get((figure, dimension, curve), {}).get(size)
                point = CurvePoint(figure, dimension, curve, size, distance, original)
                curves.points.append(point)
                progress(Curves([point]).table())
    return curves


class BalogData:
    """One data set of appendix B, as owners, a schema and a kernel."""

    def __init__(self, rows: FloatArray, sizes: Sizes, seed: int) -> None:
        self.dimension = rows.shape[1]
        if self.dimension not in SELF_KERNEL or len(rows) != ROWS:
            raise DataError("this is not a data set of Balog 2018", "Take the files of the data folder.")
        self.rows = np.asarray(rows, np.float64)
        self.sizes = sizes
        self.seed = seed
        self.gamma = 1e-4 / self.dimension
        self.schema = Schema(columns=(Numeric(name="x", bounds=(-BOUND, BOUND), count=self.dimension),))
        self.owners = [Table(part) for part in np.array_split(self.rows, sizes.owners)]

    def curves(self, figure: Scenario) -> Iterator[tuple[str, int, float]]:
        """Curve, M and distance, one after the other."""
        if figure == "fig1":
            z = subset_points(self.rows, self.sizes.basis[-1])
        else:
            z = gaussian_points(self.sizes.basis[-1], self.dimension, 500.0, self.seed)
        means = kernel_mean_at(z, self.rows, self.gamma)
        for size in self.sizes.basis:
            yield from self._algorithm1(figure, z[:size], means[:size])
        if figure == "fig2":
            yield from self._algorithm2()

    def _algorithm1(
        self, figure: Scenario, z: FloatArray, means: FloatArray
    ) -> Iterator[tuple[str, int, float]]:
        M = len(z)
        if figure == "fig1":
            yield "uniform", M, self._distance(uniform_points(z), means)
        yield "projection", M, math.sqrt(self.projected(z, means, FINEST)[3])
        for epsilon in EPSILONS:
            tolerance = matched_tolerance(epsilon, DELTA, len(self.rows))
            features, pooled, alpha, outside = self.projected(z, means, tolerance)
            sigma = PooledRelease((embedding_query(features, Layout()),), epsilon, DELTA).sigmas[0]
            found: dict[str, list[float]] = {}
            for draw in range(self.sizes.draws):
                noise = simulated(self.seed, "curator", f"{figure} {M} {epsilon} {draw}")
                released = release_embedding(pooled, features, Layout(), sigma, noise)
                # Pythagoras: the noise lies in the span, and what is outside is at right angles to it.
                error = released.mean[:, 0] - alpha
                found.setdefault("alg1", []).append(math.sqrt(outside + float(error @ error)))
                if draw or M == 1:
                    continue
                if self.sizes.constrained >= M:
                    fitted = algorithm1(released, features, "simplex", points=z, limit=1000)
                    found["alg1 simplex"] = [self._distance(fitted, means)]
                if figure == "fig1":
                    shrunk = algorithm1(released, features, prior=z)
                    error = features.whitening @ self._kernel(features, shrunk) - alpha
                    found["alg1 prior"] = [math.sqrt(outside + float(error @ error))]
            for name, distances in found.items():
                yield f"{name} {epsilon:g}", M, float(np.mean(distances))

    def projected(
        self, z: FloatArray, means: FloatArray, tolerance: float
    ) -> tuple[PointsMap, PooledSum, FloatArray, float]:
        """A basis, the sums and the mean in it, and the squared distance from it to the rows' embedding.

        Coordinates are linear in the k(z, .), so one pass over the rows, for `means`, does for every basis.
        """
        features = subspace(z, self.gamma, tolerance=tolerance, units="table").make(self.schema)
        assert isinstance(features, PointsMap)
        place_of = {row.tobytes(): index for index, row in enumerate(z)}
        own = [place_of[row.tobytes()] for row in features.spec.matrix()]
        sums = features.whitening @ means[own] * (len(self.rows) / ROW_UNIT)
        pooled = PooledSum(np.rint(sums)[:, None].astype(np.int64), np.array([len(self.rows)]))
        alpha: FloatArray = pooled.sum[:, 0] / pooled.rows
        return features, pooled, alpha, max(SELF_KERNEL[self.dimension] - float(alpha @ alpha), 0.0)

    def _kernel(self, features: PointsMap, points: WeightedPoints) -> FloatArray:
        product: FloatArray = rbf(features.spec.matrix(), points.points, self.gamma) @ points.weights
        return product

    def _algorithm2(self) -> Iterator[tuple[str, int, float]]:
        from curator.releases.reduced_set import algorithm2  # jax: only where it is needed

        spec = FourierMapSpec(dimension=self.sizes.features, gamma=self.gamma, seed=self.seed, units="table")
        features = spec.make(self.schema)
        pooled = self._pooled(features)
        query = embedding_query(features, Layout())
        for epsilon in (*EPSILONS, math.inf):
            sigma = 0.0 if math.isinf(epsilon) else PooledRelease((query,), epsilon, DELTA).sigmas[0]
            noise = simulated(self.seed, "curator", f"alg2 {epsilon}")
            released = release_embedding(pooled, features, Layout(), sigma, noise)
            for size in self.sizes.reduced:
                settings = Balog2Settings(points=size, restarts=self.sizes.restarts)
                points = algorithm2(released, features, settings, self.seed)
                means = kernel_mean_at(points.points, self.rows, self.gamma)
                yield f"alg2 {epsilon:g}", size, self._distance(points, means)

    def _pooled(self, features: EmbeddingMap) -> PooledSum:
        return pool((pooled_sum(table, features, Layout()) for table in self.owners), features, Layout())

    def _distance(self, points: WeightedPoints, means: FloatArray) -> float:
        """Distance to the private rows, of points at which their mean kernel is known."""
        squared = SELF_KERNEL[self.dimension] - 2.0 * float(points.weights @ means)
        return math.sqrt(max(squared + inner(points, points, self.gamma), 0.0))
