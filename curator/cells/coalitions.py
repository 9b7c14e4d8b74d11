"""Orders to owners that counted in coalitions: each coalition's order, split over its members (decision 007).

Two lines are compared. On the first lie a coalition's members, each as long as its rows; on the second lie
the cells of the coalition's order, each as long as the rows ordered from the cell. An order of n rows puts n
/ LEAST_ORDER evenly spaced marks on the first line; each mark names a member. The named members divide the
second line into pieces as long as their orders. So each member is asked for few cells, and all pieces
together are the order. With the weight ELSEWHERE a member's order also names the coalition's other cells: a
member that has no row of its piece fills its order from these cells.

All functions take orders and public numbers: no function reads a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.cells.orders import LEAST_ORDER, Orders, uniform_rows, whole_rows
from fedkme.arrays import FloatArray, IntArray
from fedkme.exchange import Coalition

ELSEWHERE = 1e-3
_EMPTY = 1e-12


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class PooledCounts:
    """Counts of coalitions, scaled to the rows of the owners that are still in the run.

    Attributes:
        counts: counts as if owners that left had the same distribution as the others, (G, L B) int64.
        rows: rows of each coalition, (G,) int64.
        variance: variance of the noise on each count, its mean over coalitions.
    """

    counts: IntArray
    rows: IntArray
    variance: float


def pooled(coalitions: Sequence[Coalition], sizes: Mapping[str, int]) -> PooledCounts:
    """Scale each coalition's counts to the owners in `sizes`, rows by name: the owners still in the run."""
    rows = np.array(
        [sum(sizes.get(name, 0) for name in coalition.owners) for coalition in coalitions], dtype=np.int64
    )
    share = rows / np.array([coalition.rows for coalition in coalitions])
    counts = np.rint(np.array([coalition.counts for coalition in coalitions]) * share[:, None]).astype(
        np.int64
    )
    deviations = share * np.array([coalition.deviation for coalition in coalitions])
    return PooledCounts(counts, rows, float(np.mean(np.square(deviations))))


def split(orders: Orders, coalitions: Sequence[Coalition], sizes: Mapping[str, int]) -> Orders:
    """Split the orders to coalitions into orders to owners.

    Args:
        orders: orders to coalitions, from their `pooled` counts.
        coalitions: the coalitions that counted.
        sizes: rows of each owner that is still in the run, by name; an owner of no coalition gets no order.

    Returns:
        Orders to the owners of `sizes`, in that order; members share a coalition's weight by their rows.
    """
    place = {name: at for at, name in enumerate(sizes)}
    rows = np.array(list(sizes.values()), dtype=np.int64)
    count, drawn = np.zeros_like(rows), np.zeros_like(rows)
    cells, weights = np.zeros((len(rows), orders.cells.shape[1])), np.zeros(len(rows))
    for at, coalition in enumerate(coalitions):
        places = [place[name] for name in coalition.owners if name in place]
        own = rows[places]
        drawn[places] = uniform_rows(own, int(orders.uniform[at]))
        count[places] = chosen = pieces(int(orders.rows[at] - orders.uniform[at]), own - drawn[places])
        cells[places] = shares_of(chosen, orders.cells[at])
        weights[places] = orders.weights[at] * own / max(int(own.sum()), 1)
    return Orders(count + drawn, drawn, cells, weights, orders.dropped)


def pieces(count: int, sizes: IntArray) -> IntArray:
    """Split an order of `count` rows over members of `sizes` rows, (k,): about LEAST_ORDER rows from some.

    No member is asked for more rows than it has.
    """
    cuts = max(1, -(-count // LEAST_ORDER))
    marks = (np.arange(cuts) + 0.5) / cuts * int(sizes.sum())
    named = np.bincount(np.searchsorted(np.cumsum(sizes), marks, side="right"), minlength=len(sizes))
    wanted = named[: len(sizes)].astype(np.float64) * (count / cuts)
    return whole_rows(wanted, sizes, count)


def shares_of(rows: IntArray, shares: FloatArray) -> FloatArray:
    """Cells of each member's order, (k, L B), each adding up to 1, or 0 for no rows.

    Args:
        rows: rows of each member's order, (k,).
        shares: cells of the coalition's order, (L B,), adding up to 1 or 0.
    """
    ends = np.cumsum(rows)[:, None].astype(np.float64)
    line = np.concatenate([[0.0], np.cumsum(shares)]) * float(ends[-1, 0] if len(ends) else 0.0)
    starts = ends - rows[:, None]
    own = np.clip(line[1:], starts, ends) - np.clip(line[:-1], starts, ends)
    own = np.maximum(own, 0.0) + ELSEWHERE * rows[:, None] * shares
    total = own.sum(axis=1, keepdims=True)
    return np.where(total > _EMPTY, own / np.maximum(total, _EMPTY), 0.0)
