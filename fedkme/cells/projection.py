"""z(x): a short vector of norm at most 1 for each row, the same for every party, from public values only."""

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedkme.arrays import FloatArray, Rows
from fedkme.errors import ConfigError, DataError
from fedkme.tables.schema import Schema

Centre = Literal["row", "domain"]
"""Point that is subtracted from a row: its own mean (images), or the middle of the public domain (tables)."""

Z_UNIT = 2.0**-12
"""Unit of the coordinates of z, which are whole multiples, so that sums of their products are integers."""
_BLOCK_CELLS = 2**20
_SHRINK = 1.0 - 2.0**-30  # covers rounding in the norm by which a row is divided


@dataclass(frozen=True, slots=True)
class ProjectionSpec:
    """Public values that, with the public schema, give every party the same z.

    Attributes:
        seed: public seed, 0 <= seed < 2^64.
        width: n, columns of an encoded row.
        dimension: d <= n; with d = n rows are not projected.
        centre: point that is subtracted from a row first.
    """

    seed: int
    width: int
    dimension: int
    centre: Centre

    def __post_init__(self) -> None:
        numbers = (self.seed, self.width, self.dimension)
        sizes = all(type(each) is int for each in numbers)  # a peer's JSON may say 2.0, or true
        if not (sizes and 0 <= self.seed < 2**64 and 1 <= self.dimension <= self.width < 2**31):
            cause = f"no projection of {self.width} columns to {self.dimension} exists"
            raise ConfigError(cause, "Take 1 <= d <= n and a seed below 2^64.")
        if self.centre not in ("row", "domain"):
            raise ConfigError(f"rows cannot be centred by '{self.centre}'", "Take 'row' or 'domain'.")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"seed": self.seed, "width": self.width, "dimension": self.dimension, "centre": self.centre}


def spec_for(schema: Schema, seed: int, dimension: int = 128) -> ProjectionSpec:
    """Make the usual projection; rows of one block of like numbers (images) are centred by their means."""
    image = len(schema.columns) == 1 and schema.encoded_width > 1
    width = schema.encoded_width
    return ProjectionSpec(seed, width, min(dimension, width), "row" if image else "domain")


class Projection:
    """z(x) = R'(x - centre) / ||R'(x - centre)||, rounded towards zero to whole multiples of Z_UNIT.

    R has entries +-1 from SHAKE-256 of the seed: the same on every host and for every version of any
    library. Rounding towards zero keeps ||z(x)|| <= 1, exactly, for what is computed.
    """

    def __init__(self, spec: ProjectionSpec, schema: Schema) -> None:
        if schema.encoded_width != spec.width:
            cause = f"a projection of {spec.width} columns does not fit rows of {schema.encoded_width}"
            raise ConfigError(cause, "Compare the schemas of the parties.")
        self.spec = spec
        self.middle = _middle(schema)

    @property
    def _signs(self) -> FloatArray | None:
        return _signs_of(self.spec)

    @property
    def axes(self) -> FloatArray:
        """Direction in z of each column of an encoded row, (d, n), of length 1."""
        if self._signs is None:
            return np.eye(self.spec.width)
        axes: FloatArray = self._signs.T / np.sqrt(self.spec.dimension)
        return axes

    def steps(self, rows: Rows) -> FloatArray:
        """Coordinates of z in units of Z_UNIT: encoded rows (m, n) -> (m, d) float64 of whole numbers.

        A row that is its own centre has z = 0.

        Raises:
            DataError: a row is not finite; says how many, never which.
        """
        out = np.empty((len(rows), self.spec.dimension))
        block = max(1, _BLOCK_CELLS // self.spec.width)
        for start in range(0, len(rows), block):
            out[start : start + block] = self._block(np.asarray(rows[start : start + block], np.float64))
        infinite = int((~np.isfinite(out).all(axis=1)).sum())
        if infinite:
            raise DataError(f"rows that are not finite: {infinite}", "Encode rows by the public schema.")
        if len(out) and float(np.einsum("ij,ij->i", out, out).max()) > Z_UNIT**-2:
            raise DataError("a projected row is longer than 1", "Report it: the projection is wrong.")
        return out

    def _block(self, rows: FloatArray) -> FloatArray:
        if rows.ndim != 2 or rows.shape[1] != self.spec.width:
            raise DataError(f"rows of {rows.shape[1:]} columns do not fit", "Encode rows by the schema.")
        centred = rows - (rows.mean(axis=1, keepdims=True) if self.spec.centre == "row" else self.middle)
        projected = centred if self._signs is None else centred @ self._signs
        norms = np.sqrt(np.einsum("ij,ij->i", projected, projected))
        # A row that is its own centre up to rounding has no direction.
        scale = np.where(norms > 1e-9, _SHRINK / np.maximum(norms, 1e-9), 0.0) / Z_UNIT
        steps: FloatArray = np.trunc(projected * np.where(np.isnan(norms), np.nan, scale)[:, None])
        return steps

    def __call__(self, rows: Rows) -> FloatArray:
        """Project encoded rows to z, (m, n) -> (m, d) float64."""
        return self.steps(rows) * Z_UNIT


@functools.lru_cache(maxsize=2)
def _signs_of(spec: ProjectionSpec) -> FloatArray | None:
    """R, (n, d), cached for all owners of a process; None where rows are not projected."""
    if spec.dimension == spec.width:
        return None
    cells = spec.width * spec.dimension
    stream = hashlib.shake_256(b"fedkme cells projection 1\0" + spec.seed.to_bytes(8, "big"))
    bits = np.unpackbits(np.frombuffer(stream.digest((cells + 7) // 8), dtype=np.uint8))[:cells]
    signs = 1.0 - 2.0 * bits.reshape(spec.width, spec.dimension).astype(np.float64)
    signs.flags.writeable = False
    return signs


def _middle(schema: Schema) -> FloatArray:
    """Mean of the uniform law on the encoded public domain, (n,)."""
    parts = (part for column in schema.columns for part in column.parts)
    middles = [np.full(width, np.sqrt(0.5) / levels if levels else 0.5) for levels, width in parts]
    return np.concatenate(middles)
