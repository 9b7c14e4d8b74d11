"""Packages of others that select rows, as far as they are installed; none of them is ours to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from fedkme.arrays import IntArray
from fedkme.embeddings.kernels import rbf
from lab.bench.result import Cell, timed
from lab.bench.selecting.task import Selecting


def missing() -> list[str]:
    """Names of the packages that are not here."""
    return list(dict.fromkeys(_package(name) for name in _PEERS if not _is_here(name)))


def installed(task: Selecting) -> Iterator[dict[str, Cell]]:
    """Methods of packages that are here; each computes once before, so that no compiler is timed."""
    for name, method in _PEERS.items():
        if _is_here(name):
            small = Selecting(task.rows[: 4 * task.p], task.p // 4, task.gamma, task.means, 0.0)
            method(small)
            indices, seconds = timed(partial(method, task))
            yield task.judged(name, seconds, np.asarray(indices, np.int64))


def _package(name: str) -> str:
    return name.partition(" ")[0]


def _is_here(name: str) -> bool:
    return importlib.util.find_spec(_package(name)) is not None


def _compressed(task: Selecting, oversampling: int) -> IntArray:
    """Compress++ with kernel thinning; of N rows it takes the root of the power of 4 below, not p."""
    from goodpoints import compress

    kernel: dict[str, Any] = {"kernel_type": b"gaussian", "k_params": np.array([1.0 / task.gamma])}
    rows = np.ascontiguousarray(task.rows, np.float64)
    return np.asarray(compress.compresspp_kt(rows, g=oversampling, seed=0, **kernel))


def _herded(task: Selecting) -> IntArray:
    from coreax import Data
    from coreax.kernels import SquaredExponentialKernel
    from coreax.solvers import KernelHerding

    kernel = SquaredExponentialKernel(length_scale=float(1.0 / np.sqrt(2.0 * task.gamma)))
    solver = KernelHerding(coreset_size=task.p, kernel=kernel, block_size=1000)
    reduced, _ = solver.reduce(Data(task.rows))
    return np.asarray(reduced.indices.data).reshape(-1)


def _facilities(task: Selecting) -> IntArray:
    from apricot import FacilityLocationSelection

    gram = rbf(task.rows, task.rows, task.gamma)
    selection = FacilityLocationSelection(task.p, metric="precomputed", optimizer="lazy").fit(gram)
    return np.asarray(selection.ranking)


_PEERS: dict[str, Callable[[Selecting], IntArray]] = {
    "goodpoints Compress++ g=0": lambda task: _compressed(task, 0),
    "goodpoints Compress++ g=4": lambda task: _compressed(task, 4),
    "coreax KernelHerding": _herded,
    "apricot FacilityLocation": _facilities,
}
"""Packages of others, each with one of its methods."""
