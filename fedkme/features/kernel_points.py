"""Features k(z_m, x) of public points z, in coordinates of an orthonormal basis (Balog 2018, Algorithm 1).

phi(x) = W k_z(x) with k_z(x) = (k(z_1, x), ..., k(z_M, x)), k = exp(-gamma r^2), and W = L^-1 for the
Cholesky factor of K_zz = L L^T. Coordinate i is the inner product of k_x with e_i = sum_m W_im k(z_m, .),
whose Gram matrix is G = W K_zz W^T = I. So with b^2 the largest eigenvalue of G as computed, about 1,
||phi(x)|| <= b ||k_x|| = b, and ||phi(x) - phi(y)|| <= b ||k_x - k_y||, which is at most
b sqrt(2 - 2 min k) < b sqrt(2): a projection lengthens no vector, and two kernel functions are less than
sqrt(2) apart (the paper counts 2). Every party computes W and b itself.

**Rounding.** Distances are sums of squared differences. The expansion |x|^2 + |y|^2 - 2 x.y has an error
relative to |x|^2, which in a table far from 0 is any multiple of r^2. The lower bounds of a table's columns
are first subtracted from points and rows. So r^2 has a relative error of (n + 4) 2^-53. Then k = exp(-t), t =
gamma r^2, has an error of t e^-t (n + 4) 2^-53 <= (n + 4) 2^-54, and its own rounding of 2^-53, in which is
what t cut to FARTHEST changes: `_entry_error`. The effect of this error and of the product with W on phi is
added to norm and spread wherever SLACK of `fedkme.features.sums` does not cover it.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.arrays import LEAST, FloatArray, Numbers
from fedkme.embeddings.kernels import FARTHEST
from fedkme.errors import ConfigError
from fedkme.features.domain import Units, gaussian_spread
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema

_LARGEST_ERROR = 1e-2
_ENTRIES = Numbers(-(2.0**120), 2.0**120)
"""Range of the entries of points, in a table's own units: squares and products stay finite."""
_UNIT_SLACK = 1e-6  # a b^2 this close to 1 counts as 1: fedkme.features.sums.SLACK covers the difference


class PointsSpec(MapSpec):
    """Public points, well apart; make it with `PointsSpec.of`."""

    kind: Literal["points"] = "points"
    gamma: FiniteFloat = Field(ge=2.0**-700, le=2.0**700)  # times squared distances it is finite, and normal
    units: Units = "model"
    """Units of points and gamma."""
    count: int = Field(ge=1, le=2**16)
    """M."""
    points: str
    """z, (M, n): base64 of little-endian float64, row after row."""
    whitening: None = Field(None, exclude=True)
    """Null in files of 0.2.0: W is L^-1."""

    @model_validator(mode="after")
    def _shaped(self) -> PointsSpec:
        values = _unpack(self.points)
        if not values.size or values.size % self.count:
            raise ValueError("points are a matrix of `count` points")
        try:
            _ENTRIES.array(values, (None,), "points")
        except ConfigError as error:
            raise ValueError(error.cause) from None
        return self

    @override
    def make(self, schema: Schema) -> PointsMap:
        return PointsMap(self, schema)

    @override
    def numbers(self, schema: Schema) -> tuple[int, int]:
        return self.count**2, 0

    @classmethod
    def of(cls, points: FloatArray, gamma: float, units: Units = "model") -> PointsSpec:
        """Make a spec from points, (M, n)."""
        packed = base64.b64encode(np.ascontiguousarray(points, dtype="<f8").tobytes()).decode("ascii")
        return cls(gamma=gamma, units=units, count=len(points), points=packed)

    def matrix(self) -> FloatArray:
        """z, (M, n)."""
        return _unpack(self.points).reshape(self.count, -1)


class PointsMap(EmbeddingMap):
    """phi(x) = W k_z(x); see the head of this module for the bounds.

    Attributes:
        dimension: M.
        norm_bound: b.
        spread: b sqrt(2 - 2 min k) over the domain.
        whitening: W, (M, M).
    """

    spec: PointsSpec

    def __init__(self, spec: PointsSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        self._gain, shift = self.domain.affine(spec.units, None)
        points = spec.matrix()
        if points.shape[1] != schema.encoded_width:
            cause = f"the points have {points.shape[1]} columns and model space {schema.encoded_width}"
            raise ConfigError(cause, "Give points of the schema's model space.")
        points = points - shift
        self._points: FloatArray = np.where(np.abs(points) < LEAST * self._gain, 0.0, points)
        gram = rbf(self._points, self._points, spec.gamma)
        basis = _inverse_factor(gram)
        self.whitening: FloatArray = np.where(np.abs(basis) < LEAST, 0.0, basis)
        self.dimension = len(self.whitening)
        entry = _entry_error(schema.encoded_width)
        norm2 = _largest_norm2(self.whitening, gram, entry)
        self.norm_bound = 1.0 if abs(norm2 - 1.0) <= _UNIT_SLACK else math.sqrt(norm2)
        self.spread = self.norm_bound * gaussian_spread(self.domain.extents(self._gain), spec.gamma)
        product = (len(gram) + 2.0) * np.finfo(np.float64).eps
        error = float(np.linalg.norm(self.whitening)) * math.sqrt(len(gram)) * (entry + product)
        if not 8.0 * error <= _UNIT_SLACK * self.spread:
            self.norm_bound += error
            self.spread += 2.0 * error

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        dtype = points.dtype
        x, z = points * xp.asarray(self._gain, dtype=dtype), xp.asarray(self._points, dtype=dtype)
        if xp is np:
            kernel = rbf(x, z, self.spec.gamma)
        else:  # released rows, for gradients
            squares = (x * x).sum(axis=1)[:, None] + (z * z).sum(axis=1) - 2.0 * (x @ z.T)
            kernel = xp.exp(-self.spec.gamma * xp.maximum(squares, 0.0))
        return kernel @ xp.asarray(self.whitening.T, dtype=dtype)


def rbf(x: FloatArray, y: FloatArray, gamma: float) -> FloatArray:
    """exp(-gamma ||x - y||^2) of all pairs, (k, n) and (m, n) -> (k, m), at least e^-FARTHEST.

    The head bounds its error.
    """
    from scipy.spatial.distance import cdist  # takes a quarter of a second: not at an owner's start

    kernel: FloatArray = np.exp(-np.minimum(gamma * cdist(x, y, "sqeuclidean"), FARTHEST))
    return kernel


def _entry_error(width: int) -> float:
    """Largest error of a computed kernel value of rows with `width` columns; see the head of this module."""
    return (width + 8.0) * 2.0**-54


def _largest_norm2(whitening: FloatArray, gram: FloatArray, entry: float) -> float:
    """Upper bound of b^2: the largest eigenvalue of G, plus a bound of its rounding.

    Entries of K_zz have an error of at most `entry`, hence the matrix an error of M entry in norm, and G that
    times ||W||^2; the eigenvalue is computed to M 2^-52 ||W||^2.
    """
    off = len(gram) * (entry + np.finfo(np.float64).eps)
    error = off * float(np.linalg.norm(whitening, 2)) ** 2
    largest = float(np.linalg.eigvalsh(whitening @ gram @ whitening.T)[-1])
    if not error <= _LARGEST_ERROR * largest:
        raise _dependence_error()
    return largest + error


def _inverse_factor(gram: FloatArray) -> FloatArray:
    """L^-1, (M, M)."""
    from scipy.linalg import solve_triangular  # takes a fifth of a second: not at a party's start

    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        raise _dependence_error() from None
    inverse: FloatArray = solve_triangular(factor, np.eye(len(gram)), lower=True)
    return inverse


def _dependence_error() -> ConfigError:
    cause = "some of the points of a basis depend on the others to rounding error"
    return ConfigError(cause, "Leave them out by a pivoted decomposition.")


def _unpack(text: str) -> FloatArray:
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    except (binascii.Error, ValueError):
        raise ValueError("points are base64 of little-endian float64") from None
