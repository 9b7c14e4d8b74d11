"""Random Fourier features as embedding maps: of all columns, or of numbers next to one-hot categories.

Paired form, sqrt(2/d) (cos omega_i . x, sin omega_i . x) with i <= d/2 and omega ~ N(0, 2 gamma I), as in
fedkme.features.fourier and with the same draw for the same seed: its norm is 1 for every x, and inner
products estimate exp(-gamma ||x - y||^2) without bias (Rahimi & Recht 2008).

**Owners' sums** (`Turns`) round each angle to the nearest of 2^16 steps of a turn, and take cos and sin from
a table of whole multiples of ROW_UNIT that is computed in integers alone. Points and frequencies are rounded
first, so that products and their sums are whole numbers below 2^52. All processors and libraries compute such
numbers exactly, so the features of a row are the same bits everywhere. At every step of a turn
cos^2 + sin^2 = 1: phi has norm 1 and spread 2 exactly, before the rounding to ROW_UNIT, which
`fedkme.features.sums.counted` counts.
The step changes a feature by at most pi / 2^16 of its length; the rounding of the point changes the angle by
at most 2^-19 times the frequency's length in L1, in radians.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.arrays import COORDINATES, FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain, Units
from fedkme.features.maps import ROW_UNIT, EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema

_MAX_DIMENSION = 2**20
_MAX_DRAW = 2**28  # frequencies: 2 GiB of float64
STEPS = 2**16
"""Steps of a turn."""
_POINT_BITS = 18
_EXACT_BITS = 52
_TABLE_BITS = 128


class _Draw(MapSpec):
    dimension: int = Field(ge=2, le=_MAX_DIMENSION, multiple_of=2)
    """d, Fourier features: twice the number of frequencies."""
    gamma: FiniteFloat = Field(gt=0, le=COORDINATES.high)
    """Parameter of the kernel; 1 / (2 l^2) for a length scale l."""
    seed: int = Field(ge=0, lt=2**64)
    """Public seed of the draw."""
    scales: tuple[Annotated[float, Field(ge=COORDINATES.low, le=COORDINATES.high)], ...] | None = None
    """A factor for each column of the schema, before the kernel; none: 1 for all."""

    @override
    def numbers(self, schema: Schema) -> tuple[int, int]:
        return schema.encoded_width * self.dimension // 2, self.dimension


class FourierMapSpec(_Draw):
    """Paired features of the whole row, homogeneous (DP-MERF, section 3; Balog 2018, Algorithm 2).

    A category is encoded as one-hot / sqrt(2), so two categories are at distance 1.
    """

    kind: Literal["fourier"] = "fourier"
    gamma: FiniteFloat = Field(gt=0, le=2.0**700)
    """Parameter of the kernel in `units`; `FourierMap` bounds it in model space."""
    units: Units = "model"
    """Units of gamma."""

    @override
    def make(self, schema: Schema) -> FourierMap:
        return FourierMap(self, schema)


class MixedSpec(_Draw):
    """Paired features of the numbers, and scaled one-hot codes of the categories (DP-MERF, section 3.3)."""

    kind: Literal["mixed"] = "mixed"
    weight: FiniteFloat = Field(default=1.0, gt=0)
    """Weight of the one-hot part, a public choice; a larger weight has a larger spread."""

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
        ConfigError: there would be more than 2^28 frequencies.
    """
    if width * dimension // 2 > _MAX_DRAW:
        cause = f"{dimension} Fourier features of {width} columns need too large a draw"
        raise ConfigError(cause, "Use fewer features.")
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
        if not np.abs(self.omega).max(initial=0.0) <= COORDINATES.high:
            cause = "gamma and scales make frequencies beyond 2^40 a column's range"
            raise ConfigError(cause, "Take a smaller gamma.")

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        return paired(points, self.omega, xp)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.omega)

    @override
    def steps(self, points: FloatArray) -> FloatArray:
        return self._turns.steps(points)

    @override
    def arranged(self, sums: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([sums[::2], sums[1::2]])


class MixedMap(EmbeddingMap):
    """phi(x) = (paired features of the numbers, weight * one-hot of the categories / sqrt(W)).

    W is the number of 0/1 columns (the paper's d_dis); c of the table's columns are categories. Norm: exactly
    one 0/1 column of a category is 1, so ||phi||^2 = 1 + weight^2 c / W, at most 1 + weight^2. Spread: the
    first part moves by at most 2, a category's code by 1 in each of two columns, so ||phi(x) - phi(y)||^2 <=
    4 + 2 weight^2 c' / W with c' categories of at least two names. Since c' <= W / 2, this is at most 5 at
    weight
    1: the spread is sqrt(5), reached where every category is a 0/1 code, and not the 2 sqrt(2) of the paper.
        Codes
    are one-hot and come from the public schema: an integer code could be longer than 1, and then no bound
    holds.

    Attributes:
        dimension: J = d + W, or W where there are no numbers.
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
        """Phi of points of model space, (k, n) -> (k, J), in the points' dtype; Fourier features first."""
        parts = []
        if len(self.domain.numbers):
            parts.append(paired(points[:, self.domain.numbers], self.omega, xp))
        if len(self.domain.codes):
            parts.append(points[:, self.domain.codes] * self.code_scale)
        return xp.concatenate(parts, axis=1)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.omega)

    @override
    def steps(self, points: FloatArray) -> FloatArray:
        parts = [self._turns.steps(points[:, self.domain.numbers])] if len(self.domain.numbers) else []
        codes = points[:, self.domain.codes] * (self.code_scale / ROW_UNIT)
        return np.concatenate([*parts, np.rint(codes)], axis=1)

    @override
    def arranged(self, sums: NDArray[Any]) -> NDArray[Any]:
        end = self.dimension - len(self.domain.codes)
        return np.concatenate([sums[:end:2], sums[1:end:2], sums[end:]])


class Turns:
    """Paired features in whole steps of ROW_UNIT, from frequencies (n, d/2); see the head of the module."""

    def __init__(self, omega: FloatArray) -> None:
        with np.errstate(over="ignore"):
            turns = omega * (STEPS / (2.0 * math.pi))
            most = float(np.abs(turns).sum(axis=0).max(initial=1.0))
        self._is_finite = math.isfinite(most)
        bits = _EXACT_BITS - _POINT_BITS - math.ceil(math.log2(most)) if self._is_finite else 0
        self._omega: FloatArray = np.rint(np.ldexp(turns, bits))
        self._unit = math.ldexp(1.0, -_POINT_BITS - bits)
        self._table = _table(omega.shape[1])

    def steps(self, points: FloatArray) -> FloatArray:
        """Cosine and sine of each angle by turns, (k, n) -> (k, d); NaN where frequencies are not finite."""
        if not self._is_finite:
            return np.full((len(points), 2 * self._omega.shape[1]), np.nan)
        angles = np.rint(points * 2.0**_POINT_BITS) @ self._omega
        angles *= self._unit
        angles += 1.5 * 2.0**52  # rounds to whole steps, which are now the last bits of the float64
        places = angles.view(np.int64)
        places &= STEPS - 1
        features: FloatArray = self._table[places].view(np.float64)
        return features


@lru_cache(maxsize=8)
def _table(count: int) -> NDArray[np.complex128]:
    """Cos + i sin of every step of a turn over sqrt(count), in whole multiples of ROW_UNIT, (STEPS,)."""
    one, quarter = 1 << _TABLE_BITS, STEPS // 4
    cosine = 0
    for _ in range(quarter.bit_length() - 1):  # from a quarter turn down to a step, by halves
        cosine = math.isqrt((one + cosine) * one // 2)
    sine = math.isqrt(one * one - cosine * cosine)
    scale = math.isqrt((1 << 2 * (_TABLE_BITS + 28)) // count)  # ROW_UNIT is 2^-28
    x, y, first = one, 0, np.empty(quarter + 1)
    for place in range(quarter + 1):
        first[place] = (x * scale + (1 << 2 * _TABLE_BITS - 1)) >> 2 * _TABLE_BITS
        x, y = (x * cosine - y * sine) >> _TABLE_BITS, (x * sine + y * cosine) >> _TABLE_BITS
    half = np.concatenate([first, -first[-2::-1]])  # 0 to half a turn
    turn = np.concatenate([half, half[-2:0:-1]])
    table: NDArray[np.complex128] = turn + 1j * np.roll(turn, quarter)
    return table


def paired(points: Any, omega: FloatArray, xp: Any = np) -> Any:
    """sqrt(2/d) (cos, sin) of points @ omega, (k, n) -> (k, d)."""
    angles = points @ xp.asarray(omega, dtype=points.dtype)
    return xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=1) * omega.shape[1] ** -0.5
