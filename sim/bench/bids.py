"""`bids`: one bid of an owner against one pass over a feature matrix of its shape.

The passes, each with BLAS on one thread as in an owner's process: a matrix-vector product in float32, and the
same product from int16 features, which are converted block by block. The bids are those of `ScoredFeatures`,
after all coordinates of g changed and after five did, as with the default h2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from fedkme.features.fixed_point import ScoredFeatures
from sim.bench.result import BenchSettings, Cell, Result

DIMENSION = 140
CHANGED = 5
_BLOCK_S = 0.02
_BLOCK_ROWS = 1024


def measure_bids(settings: BenchSettings) -> Result:
    """The table of all numbers of rows."""
    rows = [_measure(count, settings.repeats) for count in settings.bid_rows]
    return Result("bids", f"one bid against one pass over the features, d = {DIMENSION}", rows)


def _measure(rows: int, repeats: int) -> dict[str, Cell]:
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    features = rng.integers(-(2**14), 2**14, (rows, DIMENSION), dtype=np.int16, endpoint=True)
    target, mean = rng.integers(-(2**20), 2**20, (2, DIMENSION), dtype=np.int32)
    scored = ScoredFeatures(DIMENSION, target, capacity=rows)
    scored.append(features)
    whole, vector = features.astype(np.float32), mean.astype(np.float32)

    def bid(coordinates: slice) -> None:
        mean[coordinates] += 1
        scored.best(mean, 100)

    def from_int16() -> None:
        for start in range(0, rows, _BLOCK_ROWS):
            features[start : start + _BLOCK_ROWS].astype(np.float32) @ vector

    ms = _medians(
        repeats,
        {
            "float32 pass": lambda: whole @ vector,
            "int16 pass": from_int16,
            "all changed": lambda: bid(slice(None)),
            "5 changed": lambda: bid(slice(CHANGED)),
        },
    )
    ratios = {
        f"{what} / {which}": ms[what] / ms[f"{which} pass"]
        for what in ("all changed", "5 changed")
        for which in ("float32", "int16")
    }
    return {"m": rows, **{f"{what} ms": value for what, value in ms.items()}, **ratios}


def _medians(repeats: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median CPU milliseconds of a call; the calls take turns, for a fiftieth of a second each."""
    blocks: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(repeats):
        for what, call in calls.items():
            call()  # what the others left in the caches is not this one's fault
            count, started = 0, time.process_time()
            while (elapsed := time.process_time() - started) < _BLOCK_S:
                call()
                count += 1
            blocks[what].append(1e3 * elapsed / count)
    return {what: float(np.median(times)) for what, times in blocks.items()}
