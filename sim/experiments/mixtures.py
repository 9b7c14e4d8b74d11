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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedkme.errors import DataError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, embedding_query, release_embedding
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.experiments.balog import BOUND
from sim.experiments.seeds import Figures, require
from sim.experiments.synthesis import DELTA, Choice, pooled, rkhs_distance, synthesise

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


@dataclass(frozen=True)
class MixtureEffort:
    """Size of an experiment: how much work it is.

    Attributes:
        steps: of training a generator.
        rows: synthetic rows, and real ones, that a mixture is fitted to.
        points: of Algorithm 2.
        features: Fourier features of Algorithm 2.
        dimensions: data sets.
        seeds: how many.
        owners: who hold the rows.
    """

    steps: int = 1500
    rows: int = 20_000
    points: int = 300
    features: int = 2000
    dimensions: tuple[int, ...] = (2, 5)
    seeds: int = 3
    owners: int = 5


QUICK = MixtureEffort(steps=200, rows=5000, points=100, features=1000, dimensions=(2,), seeds=1)


def run(releases: Sequence[Release], folder: Path, quick: bool, out: Path | None) -> None:
    """The figure of real rows and of each release, for each file that is there.

    Raises:
        DataError: a file is not there, or holds other rows.
    """
    size = QUICK if quick else MixtureEffort()
    figures = Figures(range(size.seeds), {})
    paths = {dimension: folder / f"balog_mixture_D{dimension}.npz" for dimension in size.dimensions}
    for dimension, path in paths.items():
        if not path.exists():
            continue
        values = np.asarray(read_arrays(path, path.name).get("X_private"), np.float64)
        if values.ndim != 2 or values.shape[1] != dimension or len(values) <= HELD_OUT:
            raise DataError(f"{path} does not hold the paper's rows", "Take the file of the data folder.")
        figures.compare(f"mixture D{dimension}, NLL", (None, *releases), partial(score, values, size), out)
    require(list(paths.values()))


def score(values: Any, size: MixtureEffort, release: Release | None, seed: int) -> dict[str, float]:
    """NLL of held-out rows, and the RKHS distance of what a mixture was fitted to."""
    schema = Schema(columns=(Numeric(name="x", bounds=(-BOUND, BOUND), count=values.shape[1], clip=True),))
    order = np.random.default_rng(np.random.SeedSequence([seed, 6])).permutation(len(values))
    held, training = values[order[:HELD_OUT]], values[order[HELD_OUT:]]
    owners = [Table(part) for part in np.array_split(training, size.owners)]
    paid = float("inf")
    if release is None:
        drawn = Table(training[: size.rows])
    elif release == "balog2":
        drawn, paid = _balog(schema, owners, size, seed)
    else:
        drawn, paid = synthesise(
            release, schema, owners, len(training), EPSILON, seed, size.steps, size.rows, CHOICE
        )
    return {
        "nll": mixture_nll(np.asarray(drawn.values, np.float64), held, seed),
        "distance": rkhs_distance(owners, drawn, schema, seed),
        "epsilon": paid,
    }


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
    return Table(clipped), Sound().epsilon([plan.event], DELTA).epsilon
