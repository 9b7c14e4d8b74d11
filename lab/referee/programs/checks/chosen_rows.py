"""Rows that stand for all rows: `fk.select` and tools of others, one function each; writes their indices."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def ours(rows: Any, p: int, gamma: float) -> dict[str, Any]:
    """Choose by `fk.select`: rows for equal weights, and rows with weights."""
    import fedkme as fk

    picks = fk.select(rows, p, gamma=gamma)
    return {"indices": picks.rows.index, "weighted": picks.weighted.index, "weights": picks.weights}


def goodpoints(rows: Any, p: int, gamma: float) -> dict[str, Any]:
    """Choose by kernel thinning, as its authors' Compress++ does it: of 4,096 rows it takes 64."""
    compress = importlib.import_module("goodpoints.compress")
    kernel = {"kernel_type": b"gaussian", "k_params": np.array([1.0 / gamma])}
    indices = compress.compresspp_kt(np.ascontiguousarray(rows, np.float64), g=4, seed=0, **kernel)
    return {"indices": np.asarray(indices)}


def coreax(rows: Any, p: int, gamma: float) -> dict[str, Any]:
    """Choose by kernel herding."""
    kernels, solvers = importlib.import_module("coreax.kernels"), importlib.import_module("coreax.solvers")
    kernel = kernels.SquaredExponentialKernel(length_scale=float(1.0 / np.sqrt(2.0 * gamma)))
    solver = solvers.KernelHerding(coreset_size=p, kernel=kernel, block_size=1000)
    reduced, _ = solver.reduce(importlib.import_module("coreax").Data(rows))
    return {"indices": np.asarray(reduced.indices.data).reshape(-1)}


def apricot(rows: Any, p: int, gamma: float) -> dict[str, Any]:
    """Choose by facility location."""
    squares = np.square(rows).sum(axis=1)
    gram = np.exp(-gamma * np.maximum(squares[:, None] + squares - 2.0 * (rows @ rows.T), 0.0))
    selection = importlib.import_module("apricot").FacilityLocationSelection
    fitted = selection(p, metric="precomputed", optimizer="lazy").fit(gram)
    return {"indices": np.asarray(fitted.ranking)}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    tool = json.loads((folder / "task.json").read_text(encoding="utf-8"))["options"]["tool"]
    given = np.load(folder / "rows.npz")
    choose = {"ours": ours, "goodpoints": goodpoints, "coreax": coreax, "apricot": apricot}[tool]
    np.savez(folder / "chosen.npz", **choose(given["rows"], int(given["p"]), float(given["gamma"])))
