"""Inputs and outputs of the benchmark's methods: a draw with its pool, a question, and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.kernels import kernel_mean_at, mean_kernel, rbf
from lab.experiments.cells_draw import ExperimentDraw

DELTA = 1e-5
"""Delta of owners' rows, for every epsilon."""


@dataclass(frozen=True, slots=True)
class SummaryQuestion:
    """Question to a method.

    Attributes:
        p: rows of the summary.
        rho: rows accessed over p.
        epsilon: epsilon of owners' rows at DELTA, and of D_v.
        seed: seed of everything random.
    """

    p: int
    rho: float
    epsilon: float
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Summary by a method.

    Attributes:
        rows: encoded, (r, n).
        labels: (r,).
        weights: (r,), adding up to 1.
        accessed: rows of owners that another party saw.
        kendall: rank correlation of a private ranking of owners with the exact one; NaN for none.
    """

    rows: FloatArray
    labels: IntArray
    weights: FloatArray
    accessed: int
    kendall: float = float("nan")


def equal(rows: FloatArray, labels: IntArray, accessed: int) -> Chosen:
    """Make a summary of equal weights."""
    return Chosen(rows, labels, np.full(len(rows), 1.0 / len(rows)), accessed)


class PooledRows:
    """One draw of a layout; quantities that several methods share are computed once.

    Attributes:
        draw: rows of all parties.
        rows: rows of all owners, (N, n) float32.
        labels: labels of all owners, (N,).
        sizes: m_j, (K,).
    """

    def __init__(self, draw: ExperimentDraw) -> None:
        self.draw = draw
        self.rows = np.concatenate(draw.owners).astype(np.float32)
        self.labels = np.concatenate(draw.labels)
        self.sizes = np.array([len(own) for own in draw.owners], dtype=np.int64)

    @cached_property
    def closeness(self) -> FloatArray:
        """Mean kernel between each row and D_v, (N,)."""
        return kernel_mean_at(self.rows, self.draw.validation, self.draw.gamma)

    @cached_property
    def distances(self) -> FloatArray:
        """Squared MMD of each owner's rows to D_v, (K,); inf for an owner without rows."""
        draw, ends = self.draw, np.cumsum(self.sizes)
        squared = np.full(len(self.sizes), np.inf)
        for owner, own in enumerate(draw.owners):
            if len(own):
                cross = self.closeness[ends[owner] - len(own) : ends[owner]].mean()
                squared[owner] = mean_kernel(own, own, draw.gamma) - 2.0 * cross + draw.to_validation.own
        return squared

    def columns(self, chosen: IntArray) -> FloatArray:
        """Kernel between every row and the chosen ones, (N, r)."""
        return rbf(self.rows, self.rows[chosen], self.draw.gamma)

    def take(self, chosen: IntArray) -> tuple[FloatArray, IntArray]:
        """Rows and labels at these places of the pool."""
        return self.rows[chosen].astype(np.float64), self.labels[chosen]

    def drawn(self, question: SummaryQuestion) -> int:
        """Rows that the question allows to be accessed."""
        return min(round(question.rho * question.p), len(self.rows))
