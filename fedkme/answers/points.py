"""Points at which functions are computed: values in a bin, with the share of the bin that each has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.features.counts import Clique
from fedkme.tables.axis import Axis

_WHOLE = 16
"""Whole numbers of a bin up to which functions are computed at each of them."""


@dataclass(frozen=True, eq=False, slots=True)
class CellPoints:
    """Values of a column in each of its codes, and the share of the code that each value has: (codes, s)."""

    values: FloatArray
    shares: FloatArray

    def replaced(self, points: Mapping[int, tuple[FloatArray, FloatArray]]) -> CellPoints:
        """Copy these points, with other values and shares for some codes: `points` by code."""
        more = max([0, *(len(own) - self.values.shape[1] for own, _ in points.values())])
        values = np.pad(self.values, ((0, 0), (0, more)), mode="edge")
        shares = np.pad(self.shares, ((0, 0), (0, more)))
        for code, (own, parts) in points.items():
            values[code, : len(own)], values[code, len(own) :] = own, own[-1]
            shares[code, : len(own)], shares[code, len(own) :] = parts, 0.0
        return CellPoints(values, shares)


@dataclass(frozen=True, eq=False, slots=True)
class OnGrid:
    """Functions at the points of the cells of their columns.

    Attributes:
        clique: places of the columns.
        values: values of each function at the points; two axes for each column, its codes and their points.
        means: mean of each function over each cell; one axis for each column, its codes.
    """

    clique: Clique
    values: list[FloatArray]
    means: list[FloatArray]


def cell_points(points: Sequence[tuple[FloatArray, FloatArray]]) -> CellPoints:
    """Points of each code as arrays: shorter ones are filled with their last value, of share 0."""
    size = max(len(values) for values, _ in points)
    none = CellPoints(np.zeros((len(points), size)), np.zeros((len(points), size)))
    return none.replaced(dict(enumerate(points)))


def cell_means(values: FloatArray, grid: Sequence[CellPoints]) -> FloatArray:
    """Mean of a function over each cell; one axis for each column, its codes."""
    for axis in reversed(range(len(grid))):
        shares = grid[axis].shares
        shape = [1] * values.ndim
        shape[2 * axis : 2 * axis + 2] = shares.shape
        values = (values * shares.reshape(shape)).sum(axis=2 * axis + 1)
    return values


def split(tables: Sequence[FloatArray], clique: Clique) -> Iterator[tuple[Clique, FloatArray]]:
    """Parts in V_A of tables over a clique, for each set A of its columns; an axis for each column of A."""
    stacked, axes = np.array(tables), range(len(clique))
    for size in range(len(clique) + 1):
        for chosen in itertools.combinations(axes, size):
            parts = _mean(stacked, tuple(axis + 1 for axis in axes if axis not in chosen))
            for axis in range(1, size + 1):
                parts = parts - _mean(parts, (axis,), keepdims=True)
            yield tuple(clique[axis] for axis in chosen), parts


def _mean(tables: FloatArray, axes: tuple[int, ...], keepdims: bool = False) -> FloatArray:
    """Mean over some axes, equal to numpy's in each bit and faster for small tables."""
    total = tables.sum(axis=axes, keepdims=keepdims)
    return np.asarray(total / math.prod(tables.shape[axis] for axis in axes))


def combined_tables(coefficients: Sequence[float], tables: Sequence[FloatArray]) -> FloatArray:
    """Linear combination of tables."""
    total: FloatArray = np.sum([a * each for a, each in zip(coefficients, tables, strict=True)], axis=0)
    return total


def largest(tables: Sequence[FloatArray]) -> float:
    """Largest absolute value in tables; above 0."""
    return max(1e-300, *(float(np.abs(table).max()) for table in tables))


@lru_cache(maxsize=2**13)
def points_of_bin(
    axis: Axis,
    atoms: tuple[float, ...],
    start: float,
    end: float,
    last: bool,
    cuts: tuple[float, ...],
    pieces: int,
) -> tuple[FloatArray, FloatArray]:
    """Values of the bin [start, end) without atoms, and the share of the bin that each has; 0 for its ends.

    The results are cached, as most bins of a question have no cut and are equal in the next question.
    """
    values, shares = _inside(axis, start, end, last, cuts, pieces)
    plain = ~np.isin(values, atoms)  # no row of this bin has the value of an atom
    total = float(shares[plain].sum())
    return (values[plain], shares[plain] / total) if total else (values[:1], np.ones(1))


def _inside(
    axis: Axis, start: float, end: float, last: bool, cuts: tuple[float, ...], pieces: int
) -> tuple[FloatArray, FloatArray]:
    inner = list(cuts)
    if axis.whole:
        if end - start <= max(_WHOLE, pieces):
            edges = np.arange(start, end + 1.0)
            return edges[:-1], _widths(axis, edges)
        # A cut moves the numbers on both sides of it into groups of their own.
        inner = [each for cut in inner for each in (math.floor(cut), math.floor(cut) + 1, math.ceil(cut) + 1)]
    first, final = axis.bend(np.array([start, end])).tolist()
    even = axis.unbend(np.linspace(first, final, pieces + 1))
    edges = np.unique([start, end, *(each for each in (*even[1:-1], *inner) if start < each < end)])
    if axis.whole:
        edges = np.unique(np.ceil(edges))
        below, extreme = edges[1:] - 1.0, edges[:-1]
    else:
        below = np.array([end if last else np.nextafter(end, start)])
        extreme = np.array([start, *inner])
    middle = axis.between(edges[:-1], edges[1:], np.full(len(edges) - 1, 0.5))
    values = np.concatenate([middle, extreme, below])
    return values, np.pad(_widths(axis, edges), (0, len(values) - len(middle)))


def _widths(axis: Axis, edges: FloatArray) -> FloatArray:
    widths = np.diff(axis.bend(edges))
    return np.asarray(widths / widths.sum())
