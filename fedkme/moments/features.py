"""Moments of a row as a feature map: u u' for u = (alpha, z), where z are public coordinates of norm <= 1.

With t = alpha^2 and |z| <= 1 by clipping, the coordinates of phi(x) are those of the symmetric matrix u u',

    phi = (t,  sqrt(2 t) z_i,  z_i^2,  sqrt(2) z_i z_j for i < j),        <phi(x), phi(y)> = (t + z.y)^2.

**Sensitivity.** Replace one row (with its label) by another, N public: the sum by class moves by at most
sqrt(2) (1 + t) in L2, and this bound is reached. Labels and class counts cost nothing.
*Proof.* |phi|^2 = (t + |z|^2)^2 <= (1 + t)^2, and <phi(x), phi(y)> >= 0 as a square; for two classes the
parts lie in two columns and their product is 0. So |f - f'|^2 <= |f|^2 + |f'|^2 <= 2 (1 + t)^2. The bound is
reached by unit vectors with z.y = -t, and by any two unit vectors of different classes.

**Cells.** The bound stays the same where a public partition of the domain gives each cell columns of its own,
as products between two cells are 0. `ShellsSpec` uses this: each row is scaled by the radius of its shell, so
one question finds the scale of the rows. `ShellsSpec` leaves the z_i z_j out; that is a projection, which
lengthens no vector.

**Edges** of images (fedkme.moments.coordinates) are further coordinates of z. The proof needs only that z is
a public function of one row, of norm <= 1 after clipping. The first question has shells of their own for
edges, as edges lie further out than pixels: phi = (phi_1, phi_2) / sqrt(2). The sensitivity is the same.
*Proof.* |phi|^2 = (|phi_1|^2 + |phi_2|^2) / 2 <= (1 + t)^2, and <phi(x), phi(y)> is the mean of two numbers
>= 0; the rest is as above.
"""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from typing_extensions import override

from fedkme.arrays import COORDINATES, LEAST, FloatArray
from fedkme.errors import ConfigError
from fedkme.features.maps import EmbeddingMap, MapSpec
from fedkme.moments.coordinates import Coordinates, coordinate_count
from fedkme.tables.schema import Schema

T = 0.5
"""alpha^2, a public constant; errors of rows and classifiers made from moments hardly depend on alpha."""
MOST_COORDINATES = 1024
"""Most coordinates of a second-moment map, which give half a million numbers for each class."""


class _CoordinatesSpec(MapSpec):
    """Base of both specs, which says whether edges are among the public coordinates."""

    edges: bool = Field(default=False, exclude_if=lambda edges: not edges)
    """Flag: edges of images take part; the JSON of a spec without edges lacks this key."""


class ShellsSpec(_CoordinatesSpec):
    """Counts, first moments and squares of all coordinates, by the shell around the middle of the domain."""

    kind: Literal["shells"] = "shells"
    shells: int = Field(default=5, ge=1, le=32)
    """Number of shells; each has half the radius of the next larger shell, and the innermost is a ball."""

    @override
    def make(self, schema: Schema) -> ShellMoments:
        return ShellMoments(self, schema)

    @override
    def numbers(self, schema: Schema) -> tuple[int, int]:
        width = coordinate_count(schema, self.edges)
        return schema.encoded_width**2, self.shells * (1 + self.edges + 2 * width)


class SecondMomentsSpec(_CoordinatesSpec):
    """Second moments of some coordinates, about a public centre and within a public radius."""

    kind: Literal["second-moments"] = "second-moments"
    chosen: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    """Public coordinates that take part, ascending (fedkme.moments.coordinates)."""
    centre: tuple[Annotated[float, Field(ge=COORDINATES.low, le=COORDINATES.high)], ...]
    """Point at which z is 0: a number for each chosen coordinate."""
    scale: tuple[Annotated[FiniteFloat, Field(gt=1e-9, lt=1e9)], ...]
    """Divisors of (coordinate - centre), one for each chosen coordinate; z is scaled to |z| = 1 if |z| >
    1."""

    @model_validator(mode="after")
    def _together(self) -> SecondMomentsSpec:
        width = len(self.chosen)
        if len(self.centre) != width or len(self.scale) != width or width > MOST_COORDINATES:
            raise ValueError(f"it has a number for each chosen coordinate, {MOST_COORDINATES} at most")
        if any(a >= b for a, b in zip(self.chosen, self.chosen[1:], strict=False)):
            raise ValueError("coordinates are named once each, in order")
        return self

    @override
    def make(self, schema: Schema) -> SecondMoments:
        return SecondMoments(self, schema)

    @override
    def numbers(self, schema: Schema) -> tuple[int, int]:
        width = len(self.chosen)
        return schema.encoded_width**2, (width + 1) * (width + 2) // 2


class _Moments(EmbeddingMap):
    """Base of both maps.

    Attributes:
        coordinates: the public coordinates.
        norm_bound: 1 + t.
        spread: sqrt(2) (1 + t); see the head of the module.
    """

    def __init__(self, spec: _CoordinatesSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        self.coordinates = Coordinates(schema, spec.edges)
        if spec.edges and self.coordinates.width == schema.encoded_width:
            raise ConfigError("the schema has no image, hence no edges", "Leave edges out.")
        self.norm_bound = 1.0 + T
        self.spread = math.sqrt(2.0) * (1.0 + T)


class ShellMoments(_Moments):
    """Features of each shell: (t, sqrt(2 t) w, w_i^2) for rows in the shell, |w| <= 1; zeros for other rows.

    Attributes:
        dimension: J = shells (parts + 2 width).
        middle: (width,) coordinates of the middle of the domain.
        edges: whether there are edges.
        parts: coordinates that share shells (those of model space, and edges), with the outer radii of the
            shells, (shells,); the first shell holds the whole domain.
        weight: factor on each part, 1 over the square root of the number of parts.
    """

    def __init__(self, spec: ShellsSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        middle, *reaches = _middle(self)
        self.middle: FloatArray = self.coordinates.of_model(middle[None])[0]
        halves = 0.5 ** np.arange(spec.shells)
        ends = [0, schema.encoded_width, self.coordinates.width][: 3 if spec.edges else 2]
        self.parts = [
            (slice(low, high), reach * halves)
            for (low, high), reach in zip(itertools.pairwise(ends), reaches, strict=False)
        ]
        self.edges = spec.edges
        self.weight = len(self.parts) ** -0.5
        self.dimension = spec.shells * (len(self.parts) + 2 * self.coordinates.width)

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        every = self.coordinates.of_model(points, xp) - xp.asarray(self.middle, dtype=points.dtype)
        features = []
        for columns, radii in self.parts:
            away = every[:, columns]
            length = xp.sqrt((away**2).sum(axis=1, keepdims=True))
            inside = [length <= radius for radius in radii[1:]]
            for place, radius in enumerate(radii):
                member = xp.ones_like(length, dtype=bool) if place == 0 else inside[place - 1]
                if place < len(inside):
                    member = member & ~inside[place]
                w = xp.where(member, away / xp.maximum(radius, length), 0.0)
                features += [xp.where(member, T, 0.0), math.sqrt(2.0 * T) * w, w**2]
        return (self.weight * xp.concatenate(features, axis=1)).astype(points.dtype)


class SecondMoments(_Moments):
    """phi of the chosen coordinates: t, then the z_i, then the z_i z_j by rows of the upper triangle.

    Attributes:
        dimension: J = (k + 1)(k + 2)/2.
        centre: (n,) point of model space at which z is 0; coordinates that do not take part are those of the
            middle of the domain.
    """

    def __init__(self, spec: SecondMomentsSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        width = len(spec.chosen)
        if spec.chosen[-1] >= self.coordinates.width:
            cause = f"moments of coordinate {spec.chosen[-1]} of a schema with {self.coordinates.width}"
            raise ConfigError(cause, f"Coordinates are counted from 0 to {self.coordinates.width - 1}.")
        self.dimension = (width + 1) * (width + 2) // 2
        self._chosen = np.asarray(spec.chosen)
        self._centre, self._scale = np.asarray(spec.centre), np.asarray(spec.scale)
        self._centre = np.where(np.abs(self._centre) < LEAST, 0.0, self._centre)
        self._rows, self._columns = np.triu_indices(width)
        self._weights = np.where(self._rows == self._columns, 1.0, math.sqrt(2.0))
        turned = self.coordinates.of_model(_middle(self)[0][None])
        turned[0, self._chosen] = self._centre
        self.centre = self.coordinates.to_model(turned)[0]

    def z(self, points: Any, xp: Any = np) -> Any:
        """The chosen coordinates of points of model space, centred and clipped, (m, n) -> (m, k)."""
        turned = self.coordinates.of_model(points, xp)[:, self._chosen]
        away = (turned - xp.asarray(self._centre, dtype=points.dtype)) / xp.asarray(
            self._scale, dtype=points.dtype
        )
        length = xp.sqrt((away**2).sum(axis=1, keepdims=True))
        return away / xp.maximum(length, 1.0)

    @override
    def of_model(self, points: Any, xp: Any = np) -> Any:
        z = self.z(points, xp)
        products = z[:, self._rows] * z[:, self._columns] * xp.asarray(self._weights, dtype=z.dtype)
        ones = xp.full((len(points), 1), T, dtype=z.dtype)
        return xp.concatenate([ones, math.sqrt(2.0 * T) * z, products], axis=1)


def _middle(features: _Moments) -> tuple[FloatArray, float, float]:
    """Middle of the domain in model space, (n,), and the largest distances of a row and of edges from it."""
    middle = np.full(features.schema.encoded_width, 0.5)
    squared = 0.25 * len(features.domain.numbers)
    for dimension in features.domain.dimensions:
        if dimension.levels:
            share = 1.0 / dimension.levels
            middle[dimension.start : dimension.start + dimension.levels] = math.sqrt(0.5) * share
            squared += 0.5 * (1.0 - share)
    # Squares along four directions sum to twice those along two, and a difference is at most 1.
    edges = max(float(features.coordinates.width - features.schema.encoded_width), 1e-12)
    return middle, math.sqrt(max(squared, 1e-12)) * (1.0 + 1e-9), math.sqrt(edges) * (1.0 + 1e-9)
