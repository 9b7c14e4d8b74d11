"""Orders of a run by margins: rows like D_v, from the owners that have most of them. Post-processing.

An owner has counted, with noise, c_1 rows like D_v and c_0 others, of m_j in all: (c_1 + m_j - c_0) / 2 is
the number of the first with half of the variance of c_1. Owners are asked in proportion to it, and few of
them: owners that are asked for a few rows of one law send the same ones. So where D_v is near the pool, a
share of the rows is drawn at random by all owners, and noisy counts decide by as much less.
"""

import numpy as np

from curator.cells.orders import USABLE, Orders, uniform_rows, whole_rows
from fedkme.arrays import IntArray

MARGINS_ORDER = 25
"""Rows that each asked owner sends, about."""


def orders_by_density(counts: IntArray, sizes: IntArray, total: int, absent: float, uniform: float) -> Orders:
    """Make orders for `total` rows over all owners.

    Args:
        counts: noisy counts of each owner's rows unlike D_v and like it, (K, 2).
        sizes: m_j, (K,).
        total: rows to order, at most all that there are.
        absent: share of D_v in bins where the model of the pool has no row, for the report.
        uniform: share of the rows that owners draw uniformly.
    """
    drawn = uniform_rows(sizes, round(uniform * total))
    total -= int(drawn.sum())
    alike = np.clip(0.5 * (counts[:, 1] + sizes - counts[:, 0]), 0.0, sizes)
    by_size = sizes / max(int(sizes.sum()), 1)
    weights = alike / alike.sum() if alike.sum() > 0 else by_size
    masses = (1.0 - uniform) * weights + uniform * by_size
    masses[np.argsort(-masses, kind="stable")[max(1, total // MARGINS_ORDER) :]] = 0.0
    wanted = total * masses / max(float(masses.sum()), 1e-12)
    rows = whole_rows(np.minimum(wanted, USABLE * sizes), sizes - drawn, total) + drawn
    cells = np.zeros((len(sizes), 2))
    cells[rows > drawn, 1] = 1.0
    return Orders(rows, drawn, cells, weights, absent)
