"""Marginals of discretised Adult, pooled over owners: Table 1 of DP-HP.

Figures: total variation of 3- and 4-way marginals, exactly and as the paper measures it
(lab.experiments.marginals). Everything is (epsilon, 1e-5) under replace-one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedkme.config import Settings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from lab.experiments import marginals
from lab.experiments.curves import CurveValue
from lab.experiments.datasets import load_codes
from lab.experiments.piece import Piece, data_folder
from lab.experiments.synthesis import Choice, Method, synthesise

FILE = "adult_discretized/dphp_sdgym_simple_adult.npz"
METHODS: tuple[Method, ...] = ("merf", "hermite", "hermite-sum")
OWNERS = 5


class CodesEffort(Settings):
    """Size of an experiment."""

    steps: int = 2000
    """Steps of training."""
    tuples: int | None = None
    """Tuples of columns in a metric, at most; none: all."""
    seeds: int = 5
    """Seeds of the releases."""
    epsilons: tuple[float, ...] = (0.3, 0.1)
    """Epsilons of the table."""


QUICK = CodesEffort(steps=300, tuples=100, seeds=1)


class CodesPiece(Piece):
    """Rows of one release, as many as the table has, against the table's."""

    method: Method
    epsilon: float
    effort: CodesEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield distances of marginals, by both metrics."""
        schema, table = load_codes(data_folder() / FILE)
        real = table.values.astype(np.int64)
        synthetic, epsilon = self._made(schema, table)
        for ways in (3, 4):
            for panel, metric in (("published", marginals.as_published), ("exact", marginals.exact)):
                value = metric(real, synthetic, ways, self.effort.tuples)
                yield CurveValue(f"{panel} {self.epsilon:g}", self.method, ways, self.seed, value)
        yield CurveValue("epsilon", self.method, self.epsilon, self.seed, epsilon)

    def _made(self, schema: Schema, table: Table) -> tuple[np.ndarray, float]:
        """Synthetic codes, and the epsilon that they cost."""
        rows = len(table)
        order = np.random.default_rng(np.random.SeedSequence([self.seed, 2])).permutation(rows)
        parts = [table.take(part) for part in np.array_split(order, OWNERS)]
        synthetic, cost = synthesise(
            self.method, schema, parts, rows, self.epsilon, self.seed, self.effort.steps, rows, Choice()
        )
        return synthetic.values.astype(np.int64), cost


def pieces(effort: CodesEffort) -> Iterator[CodesPiece]:
    """Pieces: every method at every epsilon under every seed."""
    for seed in range(effort.seeds):
        for epsilon in effort.epsilons:
            for method in METHODS:
                yield CodesPiece(method=method, epsilon=epsilon, effort=effort, seed=seed)
