"""Figure 2 of DP-HP: synthetic rows of a mixture of 25 Gaussians in five classes, by their likelihood.

The rows are drawn by the seed: 90,000 of a 5 x 5 grid at distance 1, deviation .2, each class once in every
line and column. The paper prints neither the means nor the classes, so both are our choice, and the score of
rows of the law itself says how theirs differ: see `reasons` of releases.toml.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from curator.releases.joint import JointPlan, fit
from fedkme.arrays import FloatArray, IntArray
from fedkme.config import Settings
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.hermite import (
    HermiteProduct,
    HermiteProductSpec,
    HermiteSum,
    HermiteSumSpec,
    hermite_functions,
)
from fedkme.features.maps import MapSpec
from fedkme.privacy.noise import simulated
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments.curves import CurveValue
from lab.experiments.piece import Piece
from lab.experiments.synthesis import DELTA, paid, pooled

ROWS, SIDE, DEVIATION = 90_000, 5, 0.2
EPSILON = 1.0
OWNERS = 5
MEANS = np.array([(x, y) for x in range(SIDE) for y in range(SIDE)], np.float64)
CLASSES = (MEANS[:, 1] + 2 * MEANS[:, 0]).astype(np.int64) % SIDE
SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(-1.0, SIDE), count=2),),
    label=Label(name="class", classes=tuple("01234")),
)


class MixtureEffort(Settings):
    """Size of the experiment."""

    features: int = 4000
    """Random features of DP-MERF; the paper's: 30,000."""
    steps: int = 4000
    """Steps of training."""
    rows: int = 20_000
    """Synthetic rows that are scored."""
    seeds: int = 5
    """Seeds of rows, noise and training."""


QUICK = MixtureEffort(features=1000, steps=1000, rows=5000, seeds=1)
FULL = MixtureEffort(features=30_000, steps=10_000, rows=ROWS)
ORDER, LENGTH, SUM_SHARE, PRODUCT_WEIGHT = 24, 0.2, 0.2, 5.0
"""DP-HP: 25 orders of each number and 25^2 of both, as in the paper; the length is in units of the grid."""


GAMMA = 200.0
"""Parameter of DP-MERF's kernel, in units of the range of 6."""


class GridSumSpec(HermiteSumSpec):
    """The sum kernel over rows in units of the grid, as the paper's."""

    @override
    def make(self, schema: Schema) -> HermiteSum:
        return GridSum(self, schema)


class GridProductSpec(HermiteProductSpec):
    """A product kernel over rows in units of the grid, as the paper's."""

    @override
    def make(self, schema: Schema) -> HermiteProduct:
        return GridProduct(self, schema)


class GridSum(HermiteSum):
    """Hermite features of numbers in units of the grid: no spread of a truncation is above sqrt 2."""

    def __init__(self, spec: HermiteSumSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        self.spread = math.sqrt(2.0)

    @override
    def _numbers(self, values: Any, xp: Any) -> Any:
        return _on_grid(values, self.rho, xp)


class GridProduct(HermiteProduct):
    """Products of the same."""

    def __init__(self, spec: HermiteProductSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        self.spread = math.sqrt(2.0)

    @override
    def _numbers(self, values: Any, xp: Any) -> Any:
        return _on_grid(values, self.rho, xp)


def _on_grid(values: Any, rho: float, xp: Any) -> Any:
    """Features of numbers in [0, 1] in units of the grid. The product's, over a range of 1, see waves of .9.

    24 orders have wave numbers up to sqrt(2 * 24 + 1) = 7, and the range has six clusters.
    """
    return hermite_functions((values - 0.5) * (SIDE + 1.0), ORDER, rho, xp)


class MixturePiece(Piece):
    """Likelihood of the rows of one release, or of fresh rows of the law itself."""

    method: Literal["merf", "hermite", "real"]
    effort: MixtureEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the negative log-likelihood as of 90,000 rows, and the clusters that got a row."""
        size = self.effort
        if self.method == "real":
            made, epsilon = draw_mixture(size.rows, self.seed + 1000), math.inf
        else:
            whole = draw_mixture(ROWS, self.seed)
            owners = [whole.take(part) for part in np.array_split(np.arange(ROWS), OWNERS)]
            made, epsilon = self._made(owners)
        assert made.labels is not None
        logs, nearest = log_likelihood(made.values, made.labels)
        yield CurveValue("nll", self.method, "mixture", self.seed, -ROWS * float(logs.mean()))
        shares = np.bincount(nearest, minlength=len(MEANS)) / len(nearest)
        reached = float((shares >= 0.1 / len(MEANS)).sum())
        yield CurveValue("modes", self.method, "mixture", self.seed, reached)
        yield CurveValue("epsilon", self.method, "mixture", self.seed, epsilon)

    def _made(self, owners: Sequence[Table]) -> tuple[Table, float]:
        """Release, train and sample evenly over classes."""
        from curator.releases.generators import Training
        from curator.releases.networks import TableNetwork

        size, seed = self.effort, self.seed
        specs: tuple[MapSpec, ...] = (FourierMapSpec(dimension=size.features, gamma=GAMMA, seed=seed),)
        shares: tuple[float, ...] = (1.0,)
        gammas: tuple[float, ...] = (1.0,)
        if self.method == "hermite":
            product = GridProductSpec(order=ORDER, length=LENGTH, columns=(0, 1))
            specs = (GridSumSpec(order=ORDER, length=LENGTH), product)
            shares, gammas = (SUM_SHARE, 1.0 - SUM_SHARE), (1.0, PRODUCT_WEIGHT)
        plan = JointPlan(SCHEMA, specs, EPSILON, DELTA, False, shares, gammas)
        sums = [pooled(owners, phi, plan.layout) for phi in plan.maps]
        released = plan.release(sums, ROWS, simulated(seed, "curator", f"mixture {self.method}"))
        network = TableNetwork(SCHEMA, plan.layout.columns, hidden=(256, 256))
        training = Training(steps=size.steps, learning_rate=3e-3, seed=seed)
        even = np.full(SIDE, 1.0 / SIDE)
        return fit(plan, released, network, training, masses=even).sample(size.rows, seed), paid(
            released.event
        )


def pieces(effort: MixtureEffort) -> Iterator[MixturePiece]:
    """Pieces of the figure: the law itself, and each method, under every seed."""
    methods = ("real", "merf", "hermite")
    for seed in range(effort.seeds):
        each = {"effort": effort, "seed": seed}
        yield from (MixturePiece.model_validate(each | {"method": method}) for method in methods)


def draw_mixture(rows: int, seed: int) -> Table:
    """Rows of the law; the few beyond the bounds are moved to them."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 5]))
    cluster = rng.integers(0, len(MEANS), rows)
    values = MEANS[cluster] + DEVIATION * rng.standard_normal((rows, 2))
    return Table(np.clip(values, -1.0, SIDE), CLASSES[cluster])


def log_likelihood(values: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    """Log p(x, y) of each row, and its nearest cluster of its class."""
    squared = ((values[:, None] - MEANS) ** 2).sum(axis=2)
    logs = -squared / (2.0 * DEVIATION**2)
    logs -= math.log(2.0 * math.pi * DEVIATION**2) + math.log(len(MEANS))
    logs = np.where(labels[:, None] == CLASSES, logs, -np.inf)
    highest = logs.max(axis=1)
    total = highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
    return total, logs.argmax(axis=1)
