"""Features k(z_m, x) of public points z, in coordinates of an orthonormal basis (Balog 2018, Algorithm 1).

phi(x) = W k_z(x) with k_z(x) = (k(z_1, x), ..., k(z_M, x)), k = exp(-gamma r^2). Coordinate i is the inner
product of k_x with e_i = sum_m W_im k(z_m, .), whose Gram matrix is G = W K_zz W^T. So with b^2 the largest
eigenvalue of G, ||phi(x)|| <= b ||k_x|| = b, and ||phi(x) - phi(y)|| <= b ||k_x - k_y||, which is at most
b sqrt(2 - 2 min k) < b sqrt(2): a projection lengthens no vector, and two kernel functions are less than
sqrt(2) apart (the paper counts 2). With W = L^-1, K_zz = L L^T, G is I and b is 1. b is computed from W by
every party: a curator that sends another W does not get less noise for it. What is computed of k is off by at
most (n + 4) u gamma 4 R^2, R the length of the longest point: a curator that names gamma or points by which
this moves phi by more than the slack of sums counts is refused, whatever the rows are.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.arrays import COORDINATES, FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Units, gaussian_spread
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.tables.schema import Schema

_LARGEST_ERROR = 1e-2
_LARGEST_BLUR = 2.5e-7  # of b: a quarter of the slack of fedkme.features.sums
_UNIT_SLACK = 1e-6  # b^2 within this of 1 is 1: the slack of fedkme.features.pooling covers it


class PointsSpec(MapSpec):
    """Public points and a basis of their span; make it with `PointsSpec.of`."""

    kind: Literal["points"] = "points"
    gamma: FiniteFloat = Field(gt=0, le=COORDINATES.high)
    units: Units = "model"
    """Units of points and gamma."""
    count: int = Field(ge=1, le=2**16)
    """M."""
    points: str
    """z, (M, n): base64 of little-endian float64, row after row."""
    whitening: str | None = None
    """W, (J, M), likewise; none: L^-1 of the Cholesky factor, for which the points must be well apart."""

    @model_validator(mode="after")
    def _shaped(self) -> PointsSpec:
        for text in (self.points, self.whitening):
            if text is not None:
                values = _unpacked(text)
                if not values.size or values.size % self.count:
                    raise ValueError("points and whitening are matrices of `count` points")
                try:
                    COORDINATES.array(values, (None,), "points and whitening")
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
    def of(
        cls, points: FloatArray, gamma: float, whitening: FloatArray | None = None, units: Units = "model"
    ) -> PointsSpec:
        """Make a spec of matrices: points (M, n), whitening (J, M) or None."""
        return cls(
            gamma=gamma,
            units=units,
            count=len(points),
            points=_packed(points),
            whitening=None if whitening is None else _packed(whitening),
        )

    def matrix(self) -> FloatArray:
        """z, (M, n)."""
        return _unpacked(self.points).reshape(self.count, -1)

    def basis(self) -> FloatArray | None:
        """W, (J, M)."""
        return None if self.whitening is None else _unpacked(self.whitening).reshape(-1, self.count)


class PointsMap(EmbeddingMap):
    """phi(x) = W k_z(x); see the head of this module for the bounds.

    Attributes:
        dimension: J, rows of W.
        norm_bound: b.
        spread: b sqrt(2 - 2 min k) over the domain.
        whitening: W, (J, M).
    """

    spec: PointsSpec

    def __init__(self, spec: PointsSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        self._gain, self._shift = self.domain.affine(spec.units, None)
        self._points = spec.matrix()
        if self._points.shape[1] != schema.encoded_width:
            raise ConfigError(
                f"the points have {self._points.shape[1]} columns and model space {schema.encoded_width}",
                "Give points of the schema's model space.",
            )
        gram = rbf(self._points, self._points, spec.gamma)
        basis = spec.basis()
        self.whitening = _inverse_factor(gram) if basis is None else basis
        self.dimension = len(self.whitening)
        norm2 = _largest_norm2(self.whitening, gram)
        self.norm_bound = 1.0 if abs(norm2 - 1.0) <= _UNIT_SLACK else math.sqrt(norm2)
        self._check_rounding()
        self.spread = self.norm_bound * gaussian_spread(self.domain.extents(self._gain), spec.gamma)

    def _check_rounding(self) -> None:
        """Refuse a kernel whose rounding could move phi by more than _LARGEST_BLUR of b, of any row.

        |W dk| is at most |W| sqrt(M) |dk|_max.
        """
        corners = np.maximum(np.abs(self._shift), np.abs(self._gain + self._shift))
        longest = max(float((corners**2).sum()), float((self._points**2).sum(axis=1).max()))
        off = 4.0 * self.spec.gamma * longest * (len(corners) + 4) * 2.0**-53
        moved = float(np.linalg.norm(self.whitening, 2)) * math.sqrt(len(self._points)) * off
        if not moved <= _LARGEST_BLUR * self.norm_bound:
            raise ConfigError(
                "points and gamma of a kernel are such that rounding decides its values",
                "Take a smaller gamma, or points and columns of smaller numbers.",
            )

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        dtype = points.dtype
        moved = points * xp.asarray(self._gain, dtype=dtype) + xp.asarray(self._shift, dtype=dtype)
        kernel = rbf(moved, xp.asarray(self._points, dtype=dtype), self.spec.gamma, xp)
        return kernel @ xp.asarray(self.whitening.T, dtype=dtype)


def principal_basis(gram: FloatArray, tolerance: float) -> FloatArray:
    """W = D^-1/2 V^T, (J, M), of K_zz = V D V^T over eigenvalues above `tolerance`, ascending."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > tolerance
    basis: FloatArray = vectors[:, kept].T / np.sqrt(values[kept])[:, None]
    return basis


def rbf(x: Any, y: Any, gamma: float, xp: Any = np) -> Any:
    """exp(-gamma ||x - y||^2) of all pairs, (k, n) and (m, n) -> (k, m)."""
    squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2.0 * (x @ y.T)
    return xp.exp(-gamma * xp.maximum(squares, 0.0))


def _largest_norm2(whitening: FloatArray, gram: FloatArray) -> float:
    """b^2: the largest eigenvalue of G, and what rounding may have hidden of it.

    Entries of K_zz are off by about 2^-53, hence the matrix by M 2^-53 in norm, and G by that times ||W||^2.
    """
    error = len(gram) * np.finfo(np.float64).eps * float(np.linalg.norm(whitening, 2)) ** 2
    largest = float(np.linalg.eigvalsh(whitening @ gram @ whitening.T)[-1])
    if not error <= _LARGEST_ERROR * largest:
        raise _dependent()
    return largest + error


def _inverse_factor(gram: FloatArray) -> FloatArray:
    """L^-1, (M, M)."""
    from scipy.linalg import solve_triangular  # a fifth of a second that a start need not wait for

    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        raise _dependent() from None
    inverse: FloatArray = solve_triangular(factor, np.eye(len(gram)), lower=True)
    return inverse


def _dependent() -> ConfigError:
    return ConfigError(
        "some of the points of a basis depend on the others to rounding error",
        "Leave them out by a pivoted decomposition, or truncate the basis earlier.",
    )


def _packed(matrix: FloatArray) -> str:
    return base64.b64encode(np.ascontiguousarray(matrix, dtype="<f8").tobytes()).decode("ascii")


def _unpacked(text: str) -> FloatArray:
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    except (binascii.Error, ValueError):
        raise ValueError("points and whitening are base64 of little-endian float64") from None
