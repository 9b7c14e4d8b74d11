"""An owner's part of a summary by cells: the rows that fill an order.

Everything is computed from the owner's own rows and its order, which is a function of private releases. What
leaves are the picked rows themselves, always as many as were ordered, or all there are, so that their number
says nothing: where an owner has no row of the cells ordered, its other rows fill the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedkme.arrays import IntArray, Rows
from fedkme.directives import FillOrder
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Fill
from owner.cells.design import design
from owner.cells.herding import cell_weights, herd, target_scores


@dataclass(frozen=True, slots=True)
class FillRule:
    """Public choices by which all owners of a run pick rows.

    Attributes:
        fill: `design` or `herding`.
        gamma: of the kernel.
        seed: of what `design` samples.
    """

    fill: Fill
    gamma: float
    seed: int


def drawn_rows(rows: int, count: int, noise: NoiseSource) -> IntArray:
    """Indices of `count` of so many rows, (count,): drawn uniformly without replacement."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    return np.argsort(noise.uniform(rows), kind="stable")[:count]


def fill_order(rows: Rows, cells: IntArray, order: FillOrder, drawn: IntArray, rule: FillRule) -> IntArray:
    """Indices of the rows to send: those that were drawn, then rows that match the order's cells.

    Args:
        rows: own rows, encoded, (m_j, n).
        cells: of each, (m_j,).
        order: n_j, and shares over B cells.
        drawn: indices of rows that go in any case, (u,), u <= n_j.
        rule: how the others are picked.

    Returns:
        (min(n_j, m_j),) indices, all different.
    """
    weights = cell_weights(cells, order.shares)
    if rule.fill == "design":
        return design(rows, weights, order.count, rule.gamma, drawn, rule.seed)
    scores = target_scores(rows, rows, weights, rule.gamma)
    return np.concatenate([drawn, herd(rows, scores, order.count - len(drawn), rule.gamma, drawn)])
