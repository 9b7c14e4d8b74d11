"""Histograms of rows over public cells with discrete Laplace noise.

Relation: replace one row, their number public. Sensitivity: the row leaves one cell and enters another, so
two counts change by 1 each: L1 sensitivity 2, whatever B is (cells partition the space). Discrete Laplace
noise of scale b, P(k) ~ exp(-|k|/b) on the integers, is (2/b, 0)-DP.

More exactly, the two changed counts are two releases of a count that moves by 1, and each has the
log-likelihood ratio +1/b or -1/b and no other, +1/b with probability 1/(1 + e^(-1/b)) under the first
neighbour: a pair of randomised responses of epsilon 1/b. So the event `PureDp(1/b, count=2)`, which
accountants take for exactly that pair, is the histogram's privacy loss, exact and not only a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.weight_fit import project
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.events import PureDp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SENSITIVITY = 2
"""L1, replace-one, of the counts."""


@runtime_checkable
class IntegerNoise(Protocol):
    """Noise on whole numbers; SecureNoise and SimulatedNoise have it."""

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        """(size,) int64 with P(k) proportional to exp(-|k| / scale)."""
        ...


@dataclass(frozen=True)
class HistogramNoise:
    """Noise with which a histogram is released."""

    scale: float
    """b."""

    def __post_init__(self) -> None:
        if not 0.0 < self.scale < 1e15:
            raise ConfigError(f"noise of scale {self.scale} on counts", "Take a positive, finite epsilon.")

    @property
    def epsilon(self) -> float:
        """Pure epsilon of one histogram, replace-one."""
        return SENSITIVITY / self.scale

    @property
    def event(self) -> PureDp:
        """Event of one histogram for the ledger; see the head of this module."""
        return PureDp(1.0 / self.scale, count=2)

    @property
    def variance(self) -> float:
        """Variance of the noise on one count: 2 q / (1 - q)^2 with q = e^(-1/b)."""
        q = float(np.exp(-1.0 / self.scale))
        return 2.0 * q / (1.0 - q) ** 2


def histogram_noise(epsilon: float) -> HistogramNoise:
    """The noise that makes one histogram (epsilon, 0)-DP under replace-one."""
    if not epsilon > 0.0:
        raise ConfigError(f"epsilon {epsilon} of a histogram is not positive", "Take epsilon > 0.")
    return HistogramNoise(SENSITIVITY / epsilon)


def counts(cells: IntArray, size: int) -> IntArray:
    """Exact rows per cell, (B,) int64.

    Raises:
        DataError: a cell that the code book does not have.
    """
    if len(cells) and not (int(cells.min()) >= 0 and int(cells.max()) < size):
        raise DataError("a row is in no cell of the code book", "Compare the parties' code books.")
    return np.bincount(cells, minlength=size).astype(np.int64)


def noisy_counts(cells: IntArray, size: int, how: HistogramNoise | None, noise: IntegerNoise) -> IntArray:
    """Counts that a party sends: with noise, (B,) int64, negative ones included; None adds no noise."""
    exact = counts(cells, size)
    return exact if how is None else exact + noise.discrete_laplace(how.scale, size)


def shares(noisy: IntArray, rows: int) -> FloatArray:
    """The nearest distribution over cells to noisy counts / rows, (B,) float64 (post-processing)."""
    return project(noisy / max(rows, 1), "simplex")
