"""Herding: picks rows of an owner whose mean represents the ordered cells.

All rows are scored and herded, whatever cells were ordered: the time depends on numbers of rows and columns,
not on cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import BLOCK_ROWS, rbf
from fedkme.errors import DataError

_DIGITS = 12
"""Gains are compared to so many decimals: equal rows tie, and a tie goes to the lowest index on every
host."""


def cell_weights(cells: IntArray, order: FloatArray) -> FloatArray:
    """Weight of each own row in the target: its cell's share of the order, spread evenly over the cell.

    Args:
        cells: cell of each own row, (m_j,).
        order: A_j, (B,), >= 0; shares of cells without rows of the owner are left out.

    Returns:
        (m_j,) adding up to 1; uniform if the owner has no row in any ordered cell.
    """
    sizes = np.bincount(cells, minlength=len(order))
    share = np.where(sizes > 0, order, 0.0)
    total = float(share.sum())
    if total <= 0.0:
        return np.full(len(cells), 1.0 / max(len(cells), 1))
    weights: FloatArray = (share / total / np.maximum(sizes, 1))[cells]
    return weights


def target_scores(at: Rows, rows: Rows, weights: FloatArray, gamma: float) -> FloatArray:
    """t_j(x) = sum_y weight(y) k(x, y) at some own rows x, (c,); memory does not grow with c m_j.

    Args:
        at: rows x, encoded, (c, n).
        rows: all own rows, encoded, (m_j, n).
        weights: of `cell_weights`, (m_j,).
        gamma: of the kernel.
    """
    scores = np.zeros(len(at))
    for start in range(0, len(at), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        for first in range(0, len(rows), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            scores[block] += rbf(at[block], rows[part], gamma) @ weights[part]
    return scores


def herd(
    rows: Rows, scores: FloatArray, count: int, gamma: float, taken: IntArray | Sequence[int] = ()
) -> IntArray:
    """Greedy herding: each next row is argmax of t(x) - (1/(q+1)) sum over the q rows picked of k(x, s).

    Computes one kernel column per pick. The first rows are also the answer for a smaller count.

    Args:
        rows: own rows, encoded, (m_j, n).
        scores: t at each of them, (m_j,).
        count: rows to pick.
        gamma: of the kernel.
        taken: indices of rows that cannot be picked, all different.

    Returns:
        (min(count, m_j - taken),) indices, all different, in the order of picking.

    Raises:
        DataError: a score is not finite, or scores and rows differ in number.
    """
    if scores.shape != (len(rows),) or not np.isfinite(scores).all():
        raise DataError("rows to herd have no finite scores", "Encode rows by the public schema.")
    picks = min(max(count, 0), len(rows) - len(taken))
    points = np.asarray(rows, np.float64)
    norms = np.einsum("ij,ij->i", points, points)
    crowding = np.zeros(len(rows))
    free = np.ones(len(rows), dtype=np.bool_)
    free[np.asarray(taken, dtype=np.int64)] = False
    chosen = np.empty(picks, dtype=np.int64)
    for size in range(picks):
        gain = np.round(scores - crowding / (size + 1), _DIGITS)
        chosen[size] = best = int(np.argmax(np.where(free, gain, -np.inf)))
        free[best] = False
        squared = norms + norms[best] - 2.0 * (points @ points[best])
        crowding += np.exp(-gamma * np.maximum(squared, 0.0))
    return chosen
