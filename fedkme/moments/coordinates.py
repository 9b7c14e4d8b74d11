"""Public coordinates of model space: an orthonormal map that depends on the schema alone.

The discrete cosine transform turns each long block of like numbers, such as the pixels of an image or the
samples of a signal, so that few coordinates carry most of the block. The transform has two dimensions where
the length of the block is a square. Every other column of model space stays unchanged. No row is read.

Edges are further coordinates of images: the size of the change at each pixel, along four directions, turned
by the same transform. Edges separate classes that pixels do not separate. The inverse map leaves edges out.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.releases.choice import LONG_BLOCK
from fedkme.tables.schema import Column, Numeric, Schema

IntArray = NDArray[np.intp]


DIRECTIONS = 4
"""Directions of edges."""
_TURNS = [math.pi * turn / DIRECTIONS for turn in range(DIRECTIONS)]


def is_image(column: Column) -> bool:
    """Check whether a column is a long block of like numbers whose length is a square."""
    long = isinstance(column, Numeric) and column.count >= LONG_BLOCK
    return long and math.isqrt(column.encoded_width) ** 2 == column.encoded_width


def coordinate_count(schema: Schema, edges: bool) -> int:
    """Number of coordinates of a schema, with or without the edges of its images."""
    images = sum(column.encoded_width for column in schema.columns if is_image(column))
    return schema.encoded_width + (DIRECTIONS * images if edges else 0)


@dataclass(frozen=True, eq=False)
class _Block:
    """Neighbouring columns of model space that are transformed together, and their basis, (size, size)."""

    start: int
    basis: FloatArray | None
    size: int


class Coordinates:
    """Orthonormal map of a schema's model space from n columns to n coordinates, followed by edges.

    Attributes:
        width: number of coordinates, edges included.
        bands: groups of bands; a band has coordinates whose variances are expected to be alike. The group of
            a block has the octaves of its frequencies, the lowest first. All coordinates outside of blocks
            are one band in a group of its own.
        rank: (n,) place of each coordinate in its block by frequency, 0 outside of blocks.
        turned: columns of model space of each block that is transformed.
    """

    def __init__(self, schema: Schema, edges: bool = False) -> None:
        self.width = coordinate_count(schema, edges)
        self.bands: list[list[IntArray]] = []
        self.rank = np.zeros(self.width, dtype=np.intp)
        self.turned: list[slice] = []
        self._blocks: list[_Block] = []
        self._images: list[_Block] = []
        start, others = 0, list[int]()
        for column in schema.columns:
            size = column.encoded_width
            if isinstance(column, Numeric) and column.count >= LONG_BLOCK:
                self._add_block(start, size)
            else:
                self._blocks.append(_Block(start, None, size))
                others += range(start, start + size)
            start += size
        if others:
            self.bands.append([np.array(others)])
        if edges:
            self._images = [
                b for b in self._blocks if b.basis is not None and math.isqrt(b.size) ** 2 == b.size
            ]
            for block, _ in itertools.product(self._images, _TURNS):
                self._add_bands(start, block.size)
                start += block.size

    def _add_block(self, start: int, size: int) -> None:
        basis, frequency = _cosines(size)
        order = np.argsort(frequency, kind="stable")
        self._blocks.append(_Block(start, basis[:, order], size))
        self.turned.append(slice(start, start + size))
        self._add_bands(start, size)

    def _add_bands(self, start: int, size: int) -> None:
        """Add the bands of a block of coordinates: the octaves of its frequencies."""
        self.rank[start : start + size] = np.arange(size)
        ends = [0, *(2**power - 1 for power in range(1, size.bit_length() + 1) if 2**power - 1 < size), size]
        self.bands.append([np.arange(start + low, start + high) for low, high in itertools.pairwise(ends)])

    def of_model(self, points: Any, xp: Any = np) -> Any:
        """Coordinates of points of model space, (k, n) -> (k, width), in their dtype."""
        parts = []
        for block in self._blocks:
            columns = points[:, block.start : block.start + block.size]
            turned = block.basis is not None
            parts.append(columns @ xp.asarray(block.basis, dtype=points.dtype) if turned else columns)
        for block in self._images:
            basis = xp.asarray(block.basis, dtype=points.dtype)
            parts += [
                edges @ basis for edges in _edges(points[:, block.start : block.start + block.size], xp)
            ]
        return parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=1)

    def to_model(self, coordinates: FloatArray) -> FloatArray:
        """Points of model space, the inverse of `of_model`; edges are left out."""
        parts = []
        for block in self._blocks:
            columns = coordinates[:, block.start : block.start + block.size]
            parts.append(columns if block.basis is None else columns @ block.basis.T)
        return np.concatenate(parts, axis=1)


def _edges(pixels: Any, xp: Any) -> list[Any]:
    """Absolute differences across each pixel of images, (k, size), for each direction."""
    side = math.isqrt(pixels.shape[1])
    image = pixels.reshape(-1, side, side)
    along = xp.pad(image[:, :, 2:] - image[:, :, :-2], ((0, 0), (0, 0), (1, 1)))
    down = xp.pad(image[:, 2:] - image[:, :-2], ((0, 0), (1, 1), (0, 0)))
    turns = [(math.cos(at), math.sin(at)) for at in _TURNS]
    return [xp.abs(across * along + up * down).reshape(pixels.shape) for across, up in turns]


def _cosines(size: int) -> tuple[FloatArray, FloatArray]:
    """Orthonormal cosine basis of `size` numbers, a vector in each column, and the squared frequencies."""
    side = math.isqrt(size)
    if side * side != size:
        return _cosines_1d(size), np.arange(size, dtype=np.float64) ** 2
    line, frequency = _cosines_1d(side), np.arange(side, dtype=np.float64) ** 2
    plane: FloatArray = np.einsum("ik,jl->ijkl", line, line).reshape(size, size)
    both: FloatArray = np.add.outer(frequency, frequency).ravel()
    return plane, both


def _cosines_1d(size: int) -> FloatArray:
    places = np.arange(size)
    basis: FloatArray = math.sqrt(2.0 / size) * np.cos(np.pi / size * np.outer(places + 0.5, places))
    basis[:, 0] = size**-0.5
    return basis
