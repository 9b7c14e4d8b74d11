"""Random Fourier features as embedding maps: of all columns, or of numbers beside one-hot categories.

Paired form, sqrt(2/d) (cos omega_i . x, sin omega_i . x) with i <= d/2 and omega ~ N(0, 2 gamma I), as in
fedkme.features.fourier and with the same draw for the same seed: its norm is 1 for every x, and inner
products estimate exp(-gamma ||x - y||^2) without bias (Rahimi & Recht 2008).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.errors import ConfigError
from fedkme.features.domain import Domain, Units
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema

FloatArray = NDArray[np.float64]
_MAX_DIMENSION = 2**20
_MAX_DRAW = 2**28  # frequencies: 2 GiB of float64


class _Draw(MapSpec):
    dimension: int = Field(ge=2, le=_MAX_DIMENSION, multiple_of=2)
    """d, Fourier features: twice the number of frequencies."""
    gamma: FiniteFloat = Field(gt=0)
    """Parameter of the kernel; 1 / (2 l^2) for a length scale l."""
    seed: int = Field(ge=0, lt=2**64)
    """Public."""
    scales: tuple[FiniteFloat, ...] | None = None
    """A factor for each column of the schema, before the kernel; none: 1."""

    @override
    def numbers(self, schema: Schema) -> tuple[int, int]:
        return schema.encoded_width * self.dimension // 2, self.dimension


class FourierMapSpec(_Draw):
    """Paired features of the whole row, homogeneous (DP-MERF, section 3; Balog 2018, Algorithm 2).

    A category takes part as one-hot / sqrt(2), two categories being at distance 1.
    """

    kind: Literal["fourier"] = "fourier"
    units: Units = "model"
    """Units of gamma."""

    @override
    def make(self, schema: Schema) -> FourierMap:
        return FourierMap(self, schema)


class MixedSpec(_Draw):
    """Paired features of the numbers beside scaled one-hot codes of the categories (DP-MERF, section 3.3)."""

    kind: Literal["mixed"] = "mixed"
    weight: FiniteFloat = Field(default=1.0, gt=0)
    """Weight of the one-hot part: a public choice, paid for in the spread."""

    @model_validator(mode="after")
    def _bounded(self) -> MixedSpec:
        if self.weight > 1e6:
            raise ValueError("a weight is at most a million")
        return self

    @override
    def make(self, schema: Schema) -> MixedMap:
        return MixedMap(self, schema)


def frequencies(width: int, dimension: int, gamma: float, seed: int) -> FloatArray:
    """omega, (width, d/2): the draw that `RandomFourier` makes from the same seed.

    Raises:
        ConfigError: more than 2^28 of them.
    """
    if width * dimension // 2 > _MAX_DRAW:
        raise ConfigError(
            f"{dimension} Fourier features of {width} columns need too large a draw", "Use fewer features."
        )
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    omega: FloatArray = math.sqrt(2.0 * gamma) * generator.standard_normal((width, dimension // 2))
    return omega


class FourierMap(EmbeddingMap):
    """phi(x) of norm 1 exactly; replace-one therefore moves a sum by at most 2.

    Attributes:
        dimension: J = d.
        norm_bound: 1: sum over i of (2/d) (cos^2 + sin^2).
        spread: 2. Inner products may be negative, so nothing smaller holds for every draw.
    """

    def __init__(self, spec: FourierMapSpec, schema: Schema) -> None:
        self.spec = spec
        self.schema = schema
        self.dimension = spec.dimension
        self.norm_bound = 1.0
        self.spread = 2.0
        self.domain = Domain(schema)
        # The shift of table units rotates each pair by a constant angle and changes no inner product.
        gain, _ = self.domain.affine(spec.units, spec.scales)
        omega = frequencies(len(gain), spec.dimension, spec.gamma, spec.seed)
        self.omega: FloatArray = gain[:, None] * omega

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        return paired(points, self.omega, xp)


class MixedMap(EmbeddingMap):
    """phi(x) = (paired features of the numbers, weight * one-hot of the categories / sqrt(W)).

    W is the number of 0/1 columns (the paper's d_dis), c of the columns are categories. Norm: one of a
    category's columns is 1, so ||phi||^2 = 1 + weight^2 c / W, at most 1 + weight^2. Spread: the first part
    moves by at most 2, a category's code in two columns of 1 each, so ||phi(x) - phi(y)||^2 <= 4 + 2 weight^2
    c' / W with c' categories of at least two names; c' <= W / 2, so at weight 1 at most 5: sqrt(5), reached
    where every category is a 0/1 code, and not the 2 sqrt(2) of the paper. Codes come from the public schema,
    never as integers: an integer code is longer than 1 and no bound holds.

    Attributes:
        dimension: J = d + W; d counts only where there are numbers.
        norm_bound: B, above.
        spread: above.
    """

    def __init__(self, spec: MixedSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        domain = self.domain
        numbers, codes = len(domain.numbers), len(domain.codes)
        fourier = 1.0 if numbers else 0.0
        share = spec.weight**2 / max(codes, 1)
        varying = sum(1 for d in domain.dimensions if d.levels > 1)
        self.dimension = (spec.dimension if numbers else 0) + codes
        self.norm_bound = math.sqrt(fourier + share * domain.categories)
        self.spread = math.sqrt(4.0 * fourier + 2.0 * share * varying)
        gain, _ = domain.affine("model", spec.scales)
        omega = frequencies(numbers, spec.dimension, spec.gamma, spec.seed)
        self.omega: FloatArray = gain[domain.numbers][:, None] * omega
        self.code_scale = math.sqrt(2.0 * share)  # model space holds one-hot / sqrt(2)

    def of_model(self, points: Any, xp: Any = np) -> Any:
        """Phi of points of model space, (k, n) -> (k, J), in their own dtype; Fourier features first."""
        parts = []
        if len(self.domain.numbers):
            parts.append(paired(points[:, self.domain.numbers], self.omega, xp))
        if len(self.domain.codes):
            parts.append(points[:, self.domain.codes] * self.code_scale)
        return xp.concatenate(parts, axis=1)


def paired(points: Any, omega: FloatArray, xp: Any = np) -> Any:
    """sqrt(2/d) (cos, sin) of points @ omega, (k, n) -> (k, d)."""
    angles = points @ xp.asarray(omega, dtype=points.dtype)
    return xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=1) * omega.shape[1] ** -0.5
