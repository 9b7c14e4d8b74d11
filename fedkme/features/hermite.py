"""Scaled Hermite features of the Gaussian kernel, as a sum over dimensions or a product (DP-HP, section 3).

In one dimension, with rho in (0, 1) and 1/(2 l^2) = rho/(1 - rho^2),

    phi_0 = (1 - rho^2)^(1/4) exp(-rho/(1 + rho) x^2),    phi_1 = sqrt(2 rho) x phi_0,
    phi_{k+1} = sqrt(rho) 2 x / sqrt(2 (k + 1)) phi_k - rho sqrt(k/(k + 1)) phi_{k-1},

and the sum over all k of phi_k(x) phi_k(y) is exp(-(x - y)^2/(2 l^2)) (Mehler); at y = x it is 1. The
normalisation printed in the paper's eq. 5 agrees with ours: (1 - rho) sqrt((1 + rho)/(1 - rho)) is
sqrt(1 - rho^2).

Norm and spread of a truncation. Orders 0 to C are a projection of the whole sequence, which is a feature
map of the kernel k, and a projection lengthens no vector: ||phi(x)||^2 <= k(x, x) = 1, and
||phi(x) - phi(y)||^2 <= 2 - 2 k(x, y) < 2. So replacing a row by a row of the same class moves a sum by less
than sqrt(2), where the paper (appendix F) counts 2. The same holds for tensor products, which are projections
of feature maps of the product kernel, and for concatenations over D dimensions scaled by 1/sqrt(D), which are
projections of feature maps of the mean of the kernels.

A category is a dimension with the kernel [x = y]. Its feature map is one-hot, with norm 1 and spread sqrt(2).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.arrays import LEAST
from fedkme.errors import ConfigError
from fedkme.features.domain import Dimension, gaussian_spread
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema

_MAX_DIMENSION = 2**22


class _Series(MapSpec):
    order: int = Field(ge=0, le=10_000)
    """C: orders 0 to C, C + 1 features of a number."""
    length: FiniteFloat = Field(gt=1e-4, lt=1e4)
    """l, the length scale, in units of a column's range. (The paper's code calls l^2 the kernel length.)"""
    origin: FiniteFloat = Field(default=0.5, ge=-1.0, le=2.0)
    """Point of [0, 1] at which x = 0. The kernel does not depend on it; a truncation is best near it."""


class HermiteSumSpec(_Series):
    """Features of each dimension side by side, scaled by 1/sqrt(D) (DP-HP, eq. 10)."""

    kind: Literal["hermite-sum"] = "hermite-sum"

    @override
    def make(self, schema: Schema) -> HermiteSum:
        return HermiteSum(self, schema)


class HermiteProductSpec(_Series):
    """Tensor product over a few dimensions (DP-HP, eq. 8), which `draw_dimensions` draws by a public seed."""

    kind: Literal["hermite-product"] = "hermite-product"
    columns: tuple[int, ...] = Field(min_length=1)
    """Dimensions of the domain, each once: a column of the table, or the category of a number's atoms."""

    @model_validator(mode="after")
    def _distinct(self) -> HermiteProductSpec:
        if len(set(self.columns)) < len(self.columns) or min(self.columns) < 0:
            raise ValueError("columns of a product are counted from 0 and named once each")
        return self

    @override
    def make(self, schema: Schema) -> HermiteProduct:
        return HermiteProduct(self, schema)


def draw_dimensions(width: int, count: int, seed: int, epoch: int) -> tuple[int, ...]:
    """Draw D_prod = `count` of the `width` dimensions for an epoch, ascending, or all if there are fewer."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
    return tuple(sorted(generator.choice(width, min(count, width), replace=False).tolist()))


def rho_of_length(length: float) -> float:
    """The root in (0, 1) of 1/(2 l^2) = rho/(1 - rho^2)."""
    inverse = 0.5 / length**2
    return 2.0 * inverse / (1.0 + math.sqrt(1.0 + 4.0 * inverse**2))


def hermite_functions(x: Any, order: int, rho: float, xp: Any = np) -> Any:
    """phi_0 to phi_order of numbers x of any shape; the orders are a new last axis."""
    previous = (1.0 - rho**2) ** 0.25 * xp.exp(-rho / (1.0 + rho) * x**2)
    series = [previous]
    if order > 0:
        current = math.sqrt(2.0 * rho) * x * previous
        series.append(current)
        for k in range(1, order):
            rise, fall = math.sqrt(2.0 * rho / (k + 1)), rho * math.sqrt(k / (k + 1))
            previous, current = current, rise * x * current - fall * previous
            series.append(current)
    return xp.stack(series, axis=-1)


class _Hermite(EmbeddingMap):
    def __init__(self, spec: _Series, schema: Schema) -> None:
        super().__init__(spec, schema)
        self.rho = rho_of_length(spec.length)
        self._series = spec

    def _numbers(self, values: Any, xp: Any) -> Any:
        x = _without_tiny(values - self._series.origin, xp)
        return _without_tiny(hermite_functions(x, self._series.order, self.rho, xp), xp)

    def _squared_spread(self, dimension: Dimension) -> float:
        """Squared spread of one dimension's features: two numbers are at most 1 apart in model space."""
        if dimension.levels:
            return 2.0 if dimension.levels > 1 else 0.0
        return gaussian_spread(1.0, 0.5 / self._series.length**2) ** 2


class HermiteSum(_Hermite):
    """The sum kernel, (1/D) sum of k_d(x_d, y_d), over all D columns of a table.

    Numbers come first, C + 1 features each, then one-hot codes, all over sqrt(D).

    Attributes:
        dimension: J = (C + 1) * numbers + names of all categories.
        norm_bound: 1.
        spread: sqrt of the mean over dimensions of 2 - 2 exp(-1/(2 l^2)), or 2 for a category: below sqrt(2).
    """

    def __init__(self, spec: HermiteSumSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        domain = self.domain
        self.dimension = (spec.order + 1) * len(domain.numbers) + len(domain.codes)
        self.norm_bound = 1.0
        self.spread = math.sqrt(
            sum(self._squared_spread(d) for d in domain.dimensions) / len(domain.dimensions)
        )
        _check_dimension(self.dimension)

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        domain = self.domain
        scale = len(domain.dimensions) ** -0.5
        parts = []
        if len(domain.numbers):
            series = self._numbers(points[:, domain.numbers], xp)
            parts.append(series.reshape(len(points), -1) * scale)
        if len(domain.codes):
            parts.append(points[:, domain.codes] * (math.sqrt(2.0) * scale))
        return xp.concatenate(parts, axis=1)


class HermiteProduct(_Hermite):
    """The product kernel over a few columns; coordinates as in a C-ordered tensor, first column slowest.

    Attributes:
        dimension: J, product over the columns of C + 1, or of the number of names.
        norm_bound: 1.
        spread: sqrt(2 - 2 prod of least k_d), at most sqrt(2).
    """

    def __init__(self, spec: HermiteProductSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        width = len(self.domain.dimensions)
        if max(spec.columns) >= width:
            cause = f"a product names column {max(spec.columns)}, and the schema has {width} columns"
            raise ConfigError(cause, f"Columns are counted from 0 to {width - 1}.")
        self._factors = [self.domain.dimensions[column] for column in spec.columns]
        self.dimension = math.prod(factor.levels or spec.order + 1 for factor in self._factors)
        self.norm_bound = 1.0
        least = math.prod(1.0 - 0.5 * self._squared_spread(factor) for factor in self._factors)
        self.spread = math.sqrt(max(0.0, 2.0 - 2.0 * least))
        _check_dimension(self.dimension)

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        tensor = xp.ones((len(points), 1), dtype=points.dtype)
        for factor in self._factors:
            block = points[:, factor.start : factor.start + factor.width]
            series = block * math.sqrt(2.0) if factor.levels else self._numbers(block[:, 0], xp)
            tensor = (tensor[:, :, None] * series[:, None, :]).reshape(len(points), -1)
            tensor = _without_tiny(tensor, xp)
        return tensor


def _without_tiny(values: Any, xp: Any) -> Any:
    """Put 0 for numbers below LEAST, whose products would be denormal (`fedkme.arrays`)."""
    return xp.where(xp.abs(values) < LEAST, 0.0, values) if xp is np else values


def _check_dimension(dimension: int) -> None:
    if dimension > _MAX_DIMENSION:
        cause = f"an embedding of {dimension} features is larger than {_MAX_DIMENSION}"
        raise ConfigError(cause, "Use a lower order or fewer columns.")
