"""An owner's part of a summary by cells: choosing the rows that fill an order.

The choice depends on the owner's own rows and its order, and the order is a function of private releases. The
picked rows themselves leave. They are always as many as were ordered, or all rows of the owner, so that their
number says nothing: an owner without rows in the ordered cells fills the order with its other rows.
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
    """Public rule by which all owners of a run pick rows.

    Attributes:
        fill: `design` or `herding`.
        gamma: of the kernel.
        seed: seed of the samples of `design`.
    """

    fill: Fill
    gamma: float
    seed: int


def drawn_rows(rows: int, count: int, noise: NoiseSource) -> IntArray:
    """Draw `count` out of `rows` rows uniformly without replacement; indices, (count,)."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    return np.argsort(noise.uniform(rows), kind="stable")[:count]


def fill_order(rows: Rows, cells: IntArray, order: FillOrder, drawn: IntArray, rule: FillRule) -> IntArray:
    """Choose the rows to send: first the drawn rows, then rows that match the ordered cells.

    Args:
        rows: own rows, encoded, (m_j, n).
        cells: cell of each row, (m_j,).
        order: n_j, and shares over B cells.
        drawn: indices of the rows that are sent in any case, (u,), u <= n_j.
        rule: how the other rows are picked.

    Returns:
        (min(n_j, m_j),) indices, all different.
    """
    weights = cell_weights(cells, order.shares)
    if rule.fill == "design":
        return design(rows, weights, order.count, rule.gamma, drawn, rule.seed)
    scores = target_scores(rows, rows, weights, rule.gamma)
    return np.concatenate([drawn, herd(rows, scores, order.count - len(drawn), rule.gamma, drawn)])
