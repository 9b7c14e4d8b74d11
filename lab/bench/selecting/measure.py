"""`select`: rows that stand for all rows, by `fk.select` and by others, on the same rows and one thread.

MMD^2 is to all rows, in float64 and of the kernel itself, for rows alike and with the best weights on the
simplex; both in units of greedy choice of rows alike in float64. CPU seconds count what each needs from the
rows on: greedy choice and ProtoDash the mean embedding, which is computed once here and charged to both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from fedkme.embeddings.kernels import kernel_mean_at, median_gamma, rbf
from fedkme.embeddings.selection import select_rows
from fedkme.tables.files import read_arrays
from lab.bench.result import BenchSettings, Cell, Result, timed
from lab.bench.selecting.peers import installed, missing
from lab.bench.selecting.task import Rows, Selecting
from lab.market.published.prototypes import protodash
from sim.evaluation.baselines import exact_kernel_greedy
from sim.scenarios.base import place

COLUMNS = 784
_CLUSTERS = 40
_SAMPLE = 32
"""Rows of the sample for each to be selected."""


def measure_select(settings: BenchSettings) -> Result:
    """The table of all methods that are installed."""
    rows, whence = _rows(settings.select_rows)
    gamma = median_gamma(rows)
    means, means_s = timed(lambda: kernel_mean_at(rows, rows, gamma))
    task = Selecting(rows, min(settings.select_p, len(rows)), gamma, means, means_s)
    lines = [*_ours(task), *_written(task), *installed(task)]
    greedy = next(line["alike"] for line in lines if line["method"] == "greedy, float64")
    for line in lines:
        for form in ("alike", "weighted"):
            line[f"{form} / greedy"] = float(line[form]) / float(greedy)
    without = f"; without {', '.join(missing())}" if missing() else ""
    return Result("select", f"{task.p} of {len(rows):,} rows of {whence}{without}", lines)


def _rows(count: int) -> tuple[Rows, str]:
    """Rows of MNIST where it is; else clusters of its width, whose variances fall as those of images do."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    file = place(Path("$FEDKME_DATA") / "mnist.npz", None)
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


def _written(task: Selecting) -> Iterator[dict[str, Cell]]:
    """Yardsticks that are written here, one from its paper."""
    greedy, seconds = timed(lambda: exact_kernel_greedy(task.rows, task.rows, None, task.p, task.gamma))
    yield task.judged("greedy, float64", seconds, greedy)
    (prototypes, _), seconds = timed(
        lambda: protodash(task.means, lambda at: rbf(task.rows, task.rows[at], task.gamma), task.p)
    )
    yield task.judged("ProtoDash", seconds + task.means_s, prototypes, alike=False)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(1)))
    yield task.judged("uniform", 0.0, random.choice(len(task.rows), task.p, replace=False))
