"""DP-HP: Hermite features, a sum kernel over all columns and product kernels over a few (Vinaroz 2022).

The sum kernel fixes the distribution of each column (given the class), the product kernel the joint
distribution of the drawn columns, which are drawn afresh in every epoch from a public seed. Each epoch needs
one pooled embedding and its noise. Three choices differ from the paper, and each gains accuracy under the
same guarantee:

- All releases are one Gaussian (curator.releases.joint), instead of two budgets of epsilon/2 and delta/2, the
  second composed by a moments accountant.
- A truncated Hermite expansion is a projection of the kernel's feature map, so a row moves a sum by at most
  sqrt(2), instead of 2 (fedkme.features.hermite).
- Since draws are public, the releases of all epochs exist before training starts, and training uses all of
  them at every step; the paper forgets an epoch's embedding when the next is drawn, although the embedding is
  paid for.

Categories take part by their one-hot codes, so a product over categories is their joint marginal. The product
embedding is class conditional, as the paper writes (the tabular code of the paper is not, docs/errata.md).
"""

from __future__ import annotations

import math

from curator.releases.joint import JointPlan
from fedkme.features.domain import Domain
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec, draw_dimensions
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.schema import Schema

NAME = "DP-HP (Vinaroz 2022)"


def drawn_columns(width: int, count: int, seed: int, epochs: int) -> tuple[tuple[int, ...], ...]:
    """Draw the columns of every epoch; a repeated draw is redrawn while other sets of columns are left."""
    possible = math.comb(width, min(count, width))
    drawn: list[tuple[int, ...]] = []
    attempt = 0
    while len(drawn) < epochs:
        columns = draw_dimensions(width, count, seed, attempt)
        attempt += 1
        seen = drawn[len(drawn) // possible * possible :]  # draws of the current pass through all sets
        if columns not in seen:
            drawn.append(columns)
    return tuple(drawn)


def hermite_plan(schema: Schema, epsilon: float | None, settings: HermiteSettings) -> JointPlan:
    """Plan DP-HP at an epsilon (None: no noise): the sum kernel, then a product kernel for each epoch."""
    seed, epochs, share = settings.seed or 0, settings.epochs, settings.sum_share
    products = tuple(
        HermiteProductSpec(order=settings.product_order, length=settings.product_length, columns=columns)
        for columns in drawn_columns(len(Domain(schema).dimensions), settings.product_columns, seed, epochs)
    )
    return JointPlan(
        schema,
        (HermiteSumSpec(order=settings.sum_order, length=settings.sum_length), *products),
        epsilon,
        settings.delta,
        settings.class_weights,
        (share, *[(1.0 - share) / max(epochs, 1)] * epochs),
        (1.0, *[settings.gamma / max(epochs, 1)] * epochs),
    )
