"""`select`: rows that represent all rows, by `fk.select` and by other methods, on one thread.

MMD^2 is to all rows, in float64 and of the kernel itself, for rows alike and with the best weights on the
simplex; both in units of greedy choice of rows alike in float64. CPU seconds count what each needs from the
rows on: greedy choice and ProtoDash the mean embedding, which is computed once here and charged to both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.kernels import kernel_mean_at, median_gamma, rbf
from fedkme.embeddings.selection import select_rows
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.tables.files import read_arrays
from lab.bench.result import BenchSettings, Cell, Result, timed
from lab.market.published.prototypes import protodash
from sim.data.folder import data_file
from sim.evaluation.baselines import exact_kernel_greedy

Rows = NDArray[np.float32]
COLUMNS = 784
_CLUSTERS = 40
_SAMPLE = 32
"""Rows of the sample for each to be selected."""


@dataclass(frozen=True, eq=False, slots=True)
class Selecting:
    """Rows to select from, and what a selection is judged by.

    Attributes:
        rows: (N, n).
        p: rows to select.
        gamma: gamma of the kernel.
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


def measure(settings: BenchSettings) -> Result:
    """A line for each method."""
    rows, source = _rows(settings.select_rows)
    gamma = median_gamma(rows)
    means, means_s = timed(lambda: kernel_mean_at(rows, rows, gamma))
    task = Selecting(rows, min(settings.select_p, len(rows)), gamma, means, means_s)
    lines = [*_ours(task), *_others(task)]
    greedy = next(line["alike"] for line in lines if line["method"] == "greedy, float64")
    for line in lines:
        for form in ("alike", "weighted"):
            line[f"{form} / greedy"] = float(line[form]) / float(greedy)
    return Result("select", f"{task.p} of {len(rows):,} rows of {source}", lines)


def _rows(count: int) -> tuple[Rows, str]:
    """Rows of MNIST where it is; else clusters of its width, whose variances fall as those of images do."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    file = data_file("mnist.npz")
    if file.is_file():
        images = read_arrays(file, "bench")["x_train"].reshape(-1, COLUMNS)
        chosen = random.choice(len(images), min(count, len(images)), replace=False)
        return (images[chosen] / 255.0).astype(np.float32), "MNIST"
    scales = 1.0 / np.arange(1, COLUMNS + 1)
    centres = random.normal(size=(_CLUSTERS, COLUMNS)) * scales
    noise = random.normal(size=(count, COLUMNS)) * scales
    return (centres[random.integers(_CLUSTERS, size=count)] + 0.5 * noise).astype(np.float32), "clusters"


def _ours(task: Selecting) -> Iterator[dict[str, Cell]]:
    names = {None: "fk.select", _SAMPLE * task.p: f"fk.select of {_SAMPLE} p"}
    for sample, name in names.items():
        selection, seconds = timed(partial(select_rows, task.rows, task.p, task.gamma, sample=sample))
        line = task.judged(name, seconds, selection.alike.indices)
        yield line | {"weighted": task.mmd2(selection.weighted.indices, selection.weighted.weights)}


def _others(task: Selecting) -> Iterator[dict[str, Cell]]:
    """Greedy choice, ProtoDash and chance."""
    greedy, seconds = timed(lambda: exact_kernel_greedy(task.rows, task.rows, None, task.p, task.gamma))
    yield task.judged("greedy, float64", seconds, greedy)
    (prototypes, _), seconds = timed(
        lambda: protodash(task.means, lambda at: rbf(task.rows, task.rows[at], task.gamma), task.p)
    )
    yield task.judged("ProtoDash", seconds + task.means_s, prototypes, alike=False)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(1)))
    yield task.judged("uniform", 0.0, random.choice(len(task.rows), task.p, replace=False))
