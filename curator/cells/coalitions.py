"""Orders where owners counted in coalitions: each coalition's order, split over its members (decision 007).

Both lie on a line: a coalition's members, each as long as its rows, and the cells of its order, each as long
as the rows ordered of it. Of n rows, every n / LEAST_ORDER-th place of the first line names a member, and the
members named share out the second in pieces as long as their orders: each is asked for few cells, and all
pieces together are the order. With the weight ELSEWHERE a member's order names the coalition's other cells:
one that has no row of its piece fills its order with those.

Functions of orders and of public numbers: nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.cells.orders import LEAST_ORDER, Orders, uniform_rows, whole_rows
from fedkme.arrays import FloatArray, IntArray
from fedkme.exchange import Coalition

ELSEWHERE = 1e-3
_EMPTY = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class PooledCounts:
    """Counts of coalitions, for the rows of owners that are here.

    Attributes:
        counts: as if those that left had been like the others, (G, L B) int64.
        rows: of each coalition, (G,) int64.
        variance: of the noise on each count, its mean over coalitions.
    """

    counts: IntArray
    rows: IntArray
    variance: float


def pooled(coalitions: Sequence[Coalition], sizes: Mapping[str, int]) -> PooledCounts:
    """Counts of coalitions, as those of an owner each; `sizes` has the rows of owners that are here."""
    rows = np.array([sum(sizes.get(name, 0) for name in each.owners) for each in coalitions], dtype=np.int64)
    left = rows / np.array([each.rows for each in coalitions])
    counts = np.rint(np.array([each.counts for each in coalitions]) * left[:, None]).astype(np.int64)
    deviations = left * np.array([each.deviation for each in coalitions])
    return PooledCounts(counts, rows, float(np.mean(np.square(deviations))))


def split(orders: Orders, coalitions: Sequence[Coalition], sizes: Mapping[str, int]) -> Orders:
    """Orders to owners, of those to their coalitions.

    Args:
        orders: to coalitions, of their `pooled` counts.
        coalitions: that counted.
        sizes: rows of each owner that is here, by name; one that is in no coalition gets no order.

    Returns:
        Orders to the owners of `sizes`, in its order; a coalition's weight is its members' by their rows.
    """
    place = {name: at for at, name in enumerate(sizes)}
    rows = np.array(list(sizes.values()), dtype=np.int64)
    count, drawn = np.zeros_like(rows), np.zeros_like(rows)
    cells, weights = np.zeros((len(rows), orders.cells.shape[1])), np.zeros(len(rows))
    for at, each in enumerate(coalitions):
        who = [place[name] for name in each.owners if name in place]
        own = rows[who]
        drawn[who] = uniform_rows(own, int(orders.uniform[at]))
        count[who] = chosen = pieces(int(orders.rows[at] - orders.uniform[at]), own - drawn[who])
        cells[who] = shares_of(chosen, orders.cells[at])
        weights[who] = orders.weights[at] * own / max(int(own.sum()), 1)
    return Orders(count + drawn, drawn, cells, weights, orders.dropped)


def pieces(count: int, sizes: IntArray) -> IntArray:
    """Split an order of `count` rows over members with so many rows, (k,): LEAST_ORDER each of some.

    None is asked for more than it has.
    """
    cuts = max(1, -(-count // LEAST_ORDER))
    marks = (np.arange(cuts) + 0.5) / cuts * int(sizes.sum())
    named = np.bincount(np.searchsorted(np.cumsum(sizes), marks, side="right"), minlength=len(sizes))
    wanted = named[: len(sizes)].astype(np.float64) * (count / cuts)
    return whole_rows(wanted, sizes, count)


def shares_of(rows: IntArray, shares: FloatArray) -> FloatArray:
    """Cells of each member's order, (k, L B), each adding up to 1, or 0 for no rows.

    Args:
        rows: of each member's order, (k,).
        shares: of the coalition's order, (L B,), adding up to 1 or 0.
    """
    ends = np.cumsum(rows)[:, None].astype(np.float64)
    line = np.concatenate([[0.0], np.cumsum(shares)]) * float(ends[-1, 0] if len(ends) else 0.0)
    starts = ends - rows[:, None]
    own = np.clip(line[1:], starts, ends) - np.clip(line[:-1], starts, ends)
    own = np.maximum(own, 0.0) + ELSEWHERE * rows[:, None] * shares
    total = own.sum(axis=1, keepdims=True)
    return np.where(total > _EMPTY, own / np.maximum(total, _EMPTY), 0.0)
