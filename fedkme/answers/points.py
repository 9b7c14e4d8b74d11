"""Values of a bin at which functions are computed, with the share of the bin that each has."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.tables.axis import Axis

_WHOLE = 16
"""Whole numbers of a bin up to which functions are computed at each of them."""


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
