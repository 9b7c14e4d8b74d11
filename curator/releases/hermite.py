"""DP-HP: Hermite features, a sum kernel over all columns and product kernels over a few (Vinaroz 2022).

The sum kernel fixes the distribution of each column (given the class), the product kernel that of the drawn
columns together; the latter are drawn afresh in every epoch, from a public seed. Each epoch needs one pooled
embedding and its noise. Three things differ from the paper, and each buys accuracy under the same guarantee:

- All releases are one Gaussian (curator.releases.joint) and not two budgets of epsilon/2 and delta/2, the
  second composed by a moments accountant.
- A truncated Hermite expansion is a projection of the kernel's feature map, so a row moves a sum by
  sqrt(2) at most and not by 2 (fedkme.features.hermite).
- Since draws are public, the releases of all epochs exist before training starts. Training then uses all
  of them at every step; the paper forgets an epoch's embedding when the next is drawn, although it is
  paid for.

Categories take part by their one-hot codes, so a product over categories is their joint marginal. The product
embedding is class conditional, as the paper writes (the tabular code of the paper is not, docs/errata.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from typing_extensions import override

from curator.releases.joint import JointPlan
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec, draw_dimensions
from fedkme.features.maps import MapSpec
from fedkme.tables.schema import Schema

NAME = "DP-HP (Vinaroz 2022)"


def drawn_columns(width: int, count: int, seed: int, epochs: int) -> tuple[tuple[int, ...], ...]:
    """The columns of every epoch: a draw that was made before is made again while others are left."""
    possible = math.comb(width, min(count, width))
    drawn: list[tuple[int, ...]] = []
    attempt = 0
    while len(drawn) < epochs:
        columns = draw_dimensions(width, count, seed, attempt)
        attempt += 1
        seen = drawn[len(drawn) // possible * possible :]  # of this pass through all of them
        if columns not in seen:
            drawn.append(columns)
    return tuple(drawn)


@dataclass(frozen=True)
class HermitePlan(JointPlan):
    """Plan of DP-HP, beside what every `JointPlan` has.

    Attributes:
        seed: public, of the drawn columns.
        epochs: draws of columns; 0: the sum kernel alone.
        product_columns: D_prod.
        sum_order: C of the sum kernel.
        sum_length: its length scale, in units of a column's range.
        product_order: C of the product kernel.
        product_length: its length scale.
        sum_share: of the budget, 1 / sigma^2, for the sum kernel; the epochs share the rest evenly.
        gamma: weight of all product kernels together in the objective.
    """

    schema: Schema
    epsilon: float | None
    delta: float = 1e-5
    seed: int = 0
    epochs: int = 5
    product_columns: int = 3
    sum_order: int = 30
    sum_length: float = 0.1
    product_order: int = 5
    product_length: float = 0.3
    sum_share: float = 0.5
    gamma: float = 1.0
    class_weights: bool = True

    def __post_init__(self) -> None:
        if self.epochs < 0 or self.product_columns < 1 or self.gamma < 0 or not 0 < self.sum_share < 1:
            raise ConfigError(
                "epochs and gamma are not negative, a product has a column, sum_share lies in (0, 1)",
                "Correct the settings of the release.",
            )

    @cached_property
    @override
    def specs(self) -> tuple[MapSpec, ...]:  # the sum kernel, then a product for each epoch
        products = tuple(
            HermiteProductSpec(order=self.product_order, length=self.product_length, columns=columns)
            for columns in drawn_columns(
                len(Domain(self.schema).dimensions), self.product_columns, self.seed, self.epochs
            )
        )
        return (HermiteSumSpec(order=self.sum_order, length=self.sum_length), *products)

    @property
    @override
    def shares(self) -> Sequence[float]:
        return (self.sum_share, *[(1.0 - self.sum_share) / max(self.epochs, 1)] * self.epochs)

    @property
    @override
    def gammas(self) -> Sequence[float]:
        return (1.0, *[self.gamma / max(self.epochs, 1)] * self.epochs)
