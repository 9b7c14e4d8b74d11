"""Negative log-likelihood of mixtures fitted to releases, on held-out rows of the data of Balog 2018.

Rows are a mixture of ten Gaussians in 2 or 5 dimensions. A mixture of ten is fitted to synthetic rows of each
release at (1, 1e-5), and to real training rows; the figure is its mean negative log-likelihood of a
held-out real row, in nats. DP-HP prints the same kind of figure for data of its own (ANCHORS, B.3), so no
number of a paper stands beside.

Balog's Algorithm 2 releases weighted points; rows are drawn from them by their weights, which the simplex
keeps non-negative. Where there are few points a fitted component may stand on one of them: covariances are
at least that of a ball of deviation RIDGE, a public number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from fedkme.config import Settings
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.experiments.balog import BOUND, balog_data
from sim.experiments.synthesis import DELTA, Choice, paid, pooled, rkhs_distance, synthesise
from sim.papers.curves import CurveValue
from sim.papers.piece import Piece

EPSILON = 1.0
COMPONENTS = 10
RIDGE = 5.0
HELD_OUT = 10_000
Release = Literal["merf", "hermite", "balog2"]
RELEASES: tuple[Release, ...] = ("merf", "hermite", "balog2")
CHOICE = Choice(
    gamma=100.0,
    hermite={
        "epochs": 1, "product_columns": 2, "product_order": 40, "product_length": 0.04, "sum_order": 60,
        "sum_length": 0.03, "gamma": 10.0, "sum_share": 0.2,
    },
)  # fmt: skip
"""Numbers are scaled from [-1000, 1000] to [0, 1]; components have a deviation of 0.015 there."""


OWNERS = 5


class MixtureEffort(Settings):
    """Size of an experiment: how much work it is."""

    steps: int = 1500
    """Steps of training a generator."""
    rows: int = 20_000
    """Synthetic rows, and real ones, that a mixture is fitted to."""
    points: int = 300
    """Points of Algorithm 2."""
    features: int = 2000
    """Fourier features of Algorithm 2."""
    dimensions: tuple[int, ...] = (2, 5)
    """Data sets."""
    seeds: int = 5
    """Seeds of the releases."""


QUICK = MixtureEffort(steps=200, rows=5000, points=100, features=1000, dimensions=(2,), seeds=1)


class MixturePiece(Piece):
    """Likelihood of held-out rows under a mixture fitted to the rows of one release, or to real ones."""

    dimension: int
    method: Release | Literal["real"]
    effort: MixtureEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the figure in nats, and the RKHS distance of what a mixture was fitted to."""
        values = balog_data(self.dimension).rows
        columns = (Numeric(name="x", bounds=(-BOUND, BOUND), count=self.dimension, clip=True),)
        schema, size = Schema(columns=columns), self.effort
        order = np.random.default_rng(np.random.SeedSequence([self.seed, 6])).permutation(len(values))
        held, training = values[order[:HELD_OUT]], values[order[HELD_OUT:]]
        owners = [Table(part) for part in np.array_split(training, OWNERS)]
        cost = float("inf")
        if self.method == "real":
            drawn = Table(training[: size.rows])
        elif self.method == "balog2":
            drawn, cost = _balog(schema, owners, size, self.seed)
        else:
            drawn, cost = synthesise(
                self.method, schema, owners, len(training), EPSILON, self.seed, size.steps, size.rows, CHOICE
            )
        nll = mixture_nll(np.asarray(drawn.values, np.float64), held, self.seed)
        found = {"nll": nll, "distance": rkhs_distance(owners, drawn, schema, self.seed), "epsilon": cost}
        for panel, value in found.items():
            yield CurveValue(panel, self.method, self.dimension, self.seed, value)


def pieces(effort: MixtureEffort) -> Iterator[MixturePiece]:
    """Pieces: real rows and each release, for each data set under every seed."""
    for seed in range(effort.seeds):
        for dimension in effort.dimensions:
            for method in ("real", *RELEASES):
                values = {"dimension": dimension, "method": method, "effort": effort, "seed": seed}
                yield MixturePiece.model_validate(values)


def mixture_nll(rows: Any, held: Any, seed: int) -> float:
    """Mean negative log-likelihood of held-out rows under a mixture fitted to rows, in nats a row."""
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(COMPONENTS, reg_covar=RIDGE**2, n_init=3, random_state=seed)
    return -float(mixture.fit(rows).score(held))


def _balog(schema: Schema, owners: Sequence[Table], size: MixtureEffort, seed: int) -> tuple[Table, float]:
    from curator.releases.reduced_set import algorithm2

    # A length scale of 100 a column: fine enough for components 30 wide, coarse enough for the noise.
    spec = FourierMapSpec(dimension=size.features, gamma=0.5e-4, seed=seed, units="table")
    features = spec.make(schema)
    plan = PooledRelease((embedding_query(features, Layout()),), EPSILON, DELTA)
    total = pooled(owners, features, Layout())
    released = release_embedding(total, features, Layout(), plan.sigmas[0], simulated(seed, "curator", "nll"))
    settings = Balog2Settings(points=size.points, weights="simplex", restarts=1)
    points = algorithm2(released, features, settings, seed)
    generator = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    chosen = generator.choice(len(points), size=size.rows, p=points.weights / points.weights.sum())
    clipped = np.clip(points.points[chosen], -BOUND, BOUND)
    return Table(clipped), paid(plan.event)
