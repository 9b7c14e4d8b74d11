"""Task of a selection, and how a selection is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.simplex_fit import fit_simplex
from lab.bench.result import Cell

Rows = NDArray[np.float32]
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False, slots=True)
class Selecting:
    """Rows to select from, and what a selection is judged by.

    Attributes:
        rows: (N, n).
        p: rows to select.
        gamma: of the kernel.
        means: mean embedding at each row, in float64, (N,).
        means_s: CPU seconds that it took.
    """

    rows: Rows
    p: int
    gamma: float
    means: FloatArray
    means_s: float

    def mmd2(self, indices: IntArray, weights: FloatArray) -> float:
        """MMD^2 of rows with weights that sum to 1, to all rows."""
        there = self.means[indices]
        value = weights @ self.gram(indices) @ weights - 2.0 * weights @ there + self.means.mean()
        return max(float(value), 0.0)

    def gram(self, indices: IntArray) -> FloatArray:
        """Kernel of some rows with each other."""
        return rbf(self.rows[indices], self.rows[indices], self.gamma)

    def judged(self, name: str, seconds: float, indices: IntArray, alike: bool = True) -> dict[str, Cell]:
        """Line of the table: the rows alike, unless they were not chosen for it, and with weights."""
        best = fit_simplex(self.gram(indices), self.means[indices]).weights
        equal = np.full(len(indices), 1.0 / len(indices))
        return {
            "method": name,
            "rows": len(indices),
            "CPU s": seconds,
            "alike": self.mmd2(indices, equal) if alike else float("nan"),
            "weighted": self.mmd2(indices, best),
        }
