"""h1: random Fourier features of the RBF kernel (Sarpatwar 2019, Algorithm 1; Rahimi & Recht 2008).

k(x, y) = exp(-gamma ||x - y||^2) and omega ~ N(0, 2 gamma I). One draw per run, made from the run's
public seed, hence the same in every party.

Two forms, both with h1(x) . h1(y) ~ k(x, y):

- `offset`, as printed: sqrt(2/d) cos(omega_i . x + b_i), i <= d. Its norm varies between 0 and sqrt 2,
  so a sensitivity that assumes norm 1 would be no proof: `norm_bound` is sqrt 2.
- `paired`: sqrt(2/d) (cos omega_i . x, sin omega_i . x), i <= d/2. Norm exactly 1 and a lower variance.

A party that knows the draw can invert h1 if d >= n: these hashes hide rows only from a party that does not
know the seed. The curator does not know the draw of `fedkme.sealed.secret_fourier`.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import WIDTHS, FloatArray
from fedkme.errors import ConfigError
from fedkme.features.fixed_point import quantize_features

Kind = Literal["paired", "offset"]

_BLOCK_CELLS = 2**17
"""Number of features that are computed at a time: it bounds working memory for any number of rows."""
_COMMITMENT_BYTES = 32
_MAX_CELLS = 2**28
"""Largest omega of a secret draw: 2 GiB of float64."""


@dataclass(frozen=True, slots=True)
class FourierSpec:
    """Public values from which every party makes the same h1.

    Attributes:
        kind: `paired` or `offset`.
        dimension: d, coordinates of h1(x).
        gamma: gamma of the kernel, in units of 1 / squared distance in model space.
        width: n, columns of an encoded row.
        seed: the run's public seed, 0 <= seed < 2^64.
    """

    kind: Kind
    dimension: int
    gamma: float
    width: int
    seed: int

    def __post_init__(self) -> None:
        check_shape(self)


@dataclass(frozen=True, slots=True)
class SecretFourierSpec:
    """Public part of a secret draw: it travels, and the curator sees it too.

    It has no seed, so no party can draw public features in its place by mistake.

    Attributes:
        kind: `paired` or `offset`.
        dimension: d, coordinates of h1(x).
        gamma: gamma of the kernel, in units of 1 / squared distance in model space.
        width: n, columns of an encoded row.
        commitment: commitment to the group secret, 32 bytes.
    """

    kind: Kind
    dimension: int
    gamma: float
    width: int
    commitment: bytes

    def __post_init__(self) -> None:
        check_shape(self)
        if len(self.commitment) != _COMMITMENT_BYTES:
            cause = "a commitment to a group secret is of another length"
            raise ConfigError(cause, "Check the peer's software.")
        if self.width * self.dimension > _MAX_CELLS:
            raise ConfigError("the features of a secret draw are too many", "Ask for fewer dimensions.")


class FourierShape(Protocol):
    """Public shape of a map, the same for every draw."""

    @property
    def kind(self) -> Kind:
        """`paired` or `offset`."""

    @property
    def dimension(self) -> int:
        """Coordinates of h1(x), d."""

    @property
    def gamma(self) -> float:
        """Gamma of the kernel."""

    @property
    def width(self) -> int:
        """Columns of an encoded row, n."""


class FourierFeatures:
    """h1 under one draw, public or secret."""

    def __init__(self, shape: FourierShape, omega: FloatArray, offset: FloatArray | None) -> None:
        """Make h1 from a draw.

        Args:
            shape: form, dimensions and kernel.
            omega: (n, d/2) for `paired`, (n, d) for `offset`.
            offset: b, one per column of omega; None: no offset. It changes no inner product of the paired
                form.
        """
        self._shape = shape
        self._omega = omega
        self._offset = offset
        self.dimension = shape.dimension
        self.norm_bound = 1.0 if shape.kind == "paired" else math.sqrt(2.0)

    def normalised(self, rows: NDArray[np.floating]) -> FloatArray:
        """The cosines without the factor: h1(x) sqrt(d/2), each in [-1, 1].

        Args:
            rows: encoded rows, (m, n).

        Returns:
            (m, d) float64.
        """
        angles: FloatArray = rows.astype(np.float64) @ self._omega
        if self._offset is not None:
            angles += self._offset
        if self._shape.kind == "paired":
            return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.cos(angles)

    def __call__(self, rows: NDArray[np.floating]) -> FloatArray:
        """h1 of each row, (m, n) -> (m, d) float64 (Algorithm 1, line 5)."""
        return math.sqrt(2.0 / self._shape.dimension) * self.normalised(rows)

    def fixed_point(self, rows: NDArray[np.floating]) -> NDArray[np.int16]:
        """h1 as the parties use it: (m, n) -> (m, d) int16, see `fedkme.features.fixed_point`."""
        return quantize_features(self.normalised(rows))

    def block_rows(self) -> int:
        """Number of rows to hash at a time."""
        return max(1, _BLOCK_CELLS // max(self._shape.dimension, self._shape.width))


class RandomFourier(FourierFeatures):
    """One draw of h1 that every party can repeat by its spec."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([spec.seed])))
        frequencies = frequencies_of(spec)
        scale = math.sqrt(2.0 * spec.gamma)
        omega: FloatArray = scale * generator.standard_normal((spec.width, frequencies))
        offset: FloatArray = 2.0 * np.pi * generator.random(frequencies)
        super().__init__(spec, omega, offset if spec.kind == "offset" else None)


def frequencies_of(shape: FourierShape) -> int:
    """Columns of omega: d/2 for `paired`, d for `offset`."""
    return shape.dimension // 2 if shape.kind == "paired" else shape.dimension


def check_shape(shape: FourierShape) -> None:
    """Refuse an impossible map.

    Raises:
        ConfigError: dimensions or gamma are out of range.
    """
    if shape.kind == "paired" and shape.dimension % 2:
        cause = f"paired features need an even dimension, not {shape.dimension}"
        raise ConfigError(cause, "Choose an even dimension.")
    if shape.dimension < 1 or shape.width < 1:
        raise ConfigError("features need at least one dimension and one column", "Check the schema.")
    if not WIDTHS.low <= shape.gamma <= WIDTHS.high:
        cause = f"gamma must be positive and finite, from {WIDTHS.low:g} to {WIDTHS.high:g}"
        raise ConfigError(cause, "Give another gamma.")
