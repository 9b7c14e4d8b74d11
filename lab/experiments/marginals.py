"""Distance of alpha-way marginals between two tables of integer codes.

`exact` is total variation over all alpha-column tuples and the cells of the data. `as_published` repeats
the metric behind Table 1 of DP-HP, whose code (marginals_eval.py) takes alpha + 1 columns for alpha, one
bin less than a column has codes, and each table's own smallest and largest code as the ends of the bins:
two codes share a bin, and bins of the two tables do not line up where one lacks an extreme code.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
_DENSE_CELLS = 1 << 22


def exact(
    real: NDArray[Any], synthetic: NDArray[Any], alpha: int, limit: int | None = None, seed: int = 0
) -> float:
    """Mean total variation of alpha-way marginals.

    Args:
        real: (m, c) integer codes.
        synthetic: (k, c).
        alpha: columns of a marginal, 1 to c.
        limit: at most this many tuples, drawn without replacement; None: all.
        seed: seed of the drawn tuples.
    """
    low = np.minimum(real.min(axis=0), synthetic.min(axis=0))
    sizes = np.maximum(real.max(axis=0), synthetic.max(axis=0)) - low + 1
    return _mean((real - low).astype(np.int64), (synthetic - low).astype(np.int64), sizes, alpha, limit, seed)


def as_published(
    real: NDArray[Any], synthetic: NDArray[Any], alpha: int, limit: int | None = None, seed: int = 0
) -> float:
    """The figure that Table 1 of DP-HP calls alpha-way; same arguments as `exact`, alpha < c."""
    bins = (real.max(axis=0) - real.min(axis=0)).astype(np.int64)
    inside = np.clip(np.rint(synthetic), real.min(axis=0), real.max(axis=0))
    return _mean(_binned(real, bins), _binned(inside, bins), bins, alpha + 1, limit, seed)


def _binned(codes: NDArray[Any], bins: NDArray[np.int64]) -> Codes:
    """Bins of numpy.histogramdd over each column's own range."""
    columns = []
    for column, count in zip(codes.T.astype(np.float64), bins, strict=True):
        edges = np.histogram_bin_edges(column, int(count))
        columns.append(np.clip(np.searchsorted(edges, column, side="right") - 1, 0, count - 1))
    return np.stack(columns, axis=1).astype(np.int64)


def _mean(
    real: Codes, synthetic: Codes, sizes: NDArray[Any], ways: int, limit: int | None, seed: int
) -> float:
    tuples: Sequence[tuple[int, ...]] = list(itertools.combinations(range(real.shape[1]), ways))
    if limit is not None and limit < len(tuples):
        chosen = np.random.default_rng(seed).choice(len(tuples), size=limit, replace=False)
        tuples = [tuples[int(i)] for i in np.sort(chosen)]
    return float(np.mean([_variation(real, synthetic, sizes, columns) for columns in tuples]))


def _variation(real: Codes, synthetic: Codes, sizes: NDArray[Any], columns: tuple[int, ...]) -> float:
    shape = [int(sizes[c]) for c in columns]
    cells = int(np.prod(shape, dtype=np.float64))
    one, two = (_cells(table, columns, shape) for table in (real, synthetic))
    if cells > _DENSE_CELLS:
        _, both = np.unique(np.concatenate([one, two]), return_inverse=True)
        one, two, cells = both[: len(one)], both[len(one) :], int(both.max()) + 1
    p = np.bincount(one, minlength=cells) / len(one)
    q = np.bincount(two, minlength=cells) / len(two)
    return 0.5 * float(np.abs(p - q).sum())


def _cells(table: Codes, columns: tuple[int, ...], shape: list[int]) -> Codes:
    index = np.zeros(len(table), dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        index = index * size + table[:, column]
    return index
