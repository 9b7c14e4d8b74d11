"""Greedy selection with exact kernels and no privacy: a yardstick that needs every row in one place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import Rows
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.errors import NotEnoughRowsError


def exact_kernel_greedy(
    rows: Rows, validation: Rows, seeds: Rows | None, p: int, gamma: float
) -> NDArray[np.int64]:
    """Pick p different rows, each the exact argmax of J(S + x) (Sarpatwar 2019, eq. 3).

    One pass over the data per pick: the kernel sum of the summary at every row grows by one column.
    No N x N matrix. float32 rows are not copied to float64: a kernel value is then off by about 1e-6.

    Args:
        rows: all owners' rows in model space, (N, n).
        validation: D_v, (m, n), m >= 1.
        seeds: D_init, (s, n), counted as part of S from the start and never returned; None or empty for none.
        p: rows to pick.
        gamma: of the RBF kernel.

    Returns:
        (p,) indices into `rows` in the order of picking; of equal rows the first.

    Raises:
        NotEnoughRowsError: p is larger than N.
    """
    if p > len(rows):
        raise NotEnoughRowsError(
            f"a summary of {p} rows was asked for and there are {len(rows)}", "Ask for a smaller summary."
        )
    closeness = kernel_mean_at(rows, validation, gamma)
    size = 0 if seeds is None else len(seeds)
    # sum_{j in S} k(x_j, x) at every row x
    crowding = np.zeros(len(rows)) if seeds is None or not size else size * kernel_mean_at(rows, seeds, gamma)
    norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    free = np.ones(len(rows), dtype=np.bool_)
    chosen = np.empty(p, dtype=np.int64)
    for pick in range(p):
        # J(S + x) up to a positive factor and terms without x: v(x) - q/(q+1) s(x), with s = crowding / q
        gain = closeness - crowding / (size + 1)
        best = int(np.argmax(np.where(free, gain, -np.inf)))
        chosen[pick] = best
        free[best] = False
        squared = norms + norms[best] - 2.0 * (rows @ rows[best])
        crowding += np.exp(-gamma * np.maximum(squared, 0.0))
        size += 1
    return chosen
