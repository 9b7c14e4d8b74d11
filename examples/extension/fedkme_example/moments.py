"""Moments of single columns as a feature map: phi(x) = (u, u_j^2 for every number j).

u is the row in model space: numbers in [0, 1], a category as one-hot / sqrt(2). **Neighbouring relation**
replace one row by another of the public domain. **Bounds** with a numbers and c categories:

- norm: a number adds u^2 + u^4 <= 2, a category 1/2: B = sqrt(2 a + c / 2).
- spread: a number moves by at most 1 in both of its coordinates, a category by sqrt(1/2) in two:
  sqrt(2 a + c'), with c' categories of at least two names. From 0 to 1 in every number this is reached.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema


class MomentsSpec(MapSpec):
    """First moments of all columns of model space, and second moments of the numbers among them."""

    kind: Literal["moments"] = "moments"

    @override
    def make(self, schema: Schema) -> Moments:
        return Moments(self, schema)


class Moments(EmbeddingMap):
    """The map of a schema.

    Attributes:
        dimension: J, columns of model space and numbers among them.
        norm_bound: see the head of this module.
        spread: likewise.
    """

    def __init__(self, spec: MomentsSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        numbers = len(self.domain.numbers)
        free = sum(dimension.levels > 1 for dimension in self.domain.dimensions)
        self.dimension = schema.encoded_width + numbers
        self.norm_bound = math.sqrt(2 * numbers + self.domain.categories / 2)
        self.spread = math.sqrt(2 * numbers + free)

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        """Phi of points of model space, (k, n) -> (k, J)."""
        return xp.concatenate([points, points[:, self.domain.numbers] ** 2], axis=1)
