"""`pooling`: an owner's sums of Fourier features against one pass over them in float32.

The pass makes the same features in float32 and adds them up, blockwise, as anybody would who needs no equal
bits. CPU time, BLAS on one thread, the best of a few takes.
"""

from __future__ import annotations

import numpy as np

from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMap, FourierMapSpec
from fedkme.features.sums import Layout, pooled_sum
from fedkme.tables.table import Table
from sim.bench.result import BenchSettings, Cell, Result, timed
from sim.bench.synthetic import synthetic_schema

COLUMNS = 14
FEATURES = 2000
_BLOCK = 262


def measure_pooling(settings: BenchSettings) -> Result:
    """The table of all numbers of rows."""
    rows = [_measure(count, settings.repeats) for count in settings.bid_rows]
    return Result("pooling", f"sums of {FEATURES} Fourier features of {COLUMNS} columns", rows)


def _measure(rows: int, repeats: int) -> dict[str, Cell]:
    schema = synthetic_schema(COLUMNS, largest=1.0)
    table = Table(np.random.default_rng(0).random((rows, COLUMNS)))
    phi = FourierMap(FourierMapSpec(dimension=FEATURES, gamma=1.0, seed=0), schema)
    pooled_sum(table.take(np.arange(2)), phi, Layout())  # the table of cosines is made once in a process
    omega = phi.omega.astype(np.float32)

    def float32() -> None:
        points, total = Domain(schema).encode(table.values).astype(np.float32), np.zeros(FEATURES)
        for start in range(0, rows, _BLOCK):
            angles = points[start : start + _BLOCK] @ omega
            total += np.concatenate([np.cos(angles), np.sin(angles)], axis=1).sum(axis=0)

    ours = min(timed(lambda: pooled_sum(table, phi, Layout()))[1] for _ in range(repeats))
    theirs = min(timed(float32)[1] for _ in range(repeats))
    return {"rows": rows, "sums CPU s": ours, "float32 CPU s": theirs, "sums / float32": ours / theirs}
