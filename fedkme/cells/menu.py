"""The menu of directions that a plan offers D_v (fedkme.cells.directions), as post-processing of a sketch.

Two kinds. The leading eigenvectors of the noisy covariance; and, where rows are not projected, the axes of
the encoded row: D_v of a rare category is far from the pool along its axis, which no principal direction is.

**An axis of a category** takes two values. Centred by its middle, a category of W names is sqrt 1/2 (1 - 1/W)
where a row has it and -sqrt 1/2 / W where not, over the length of the centred row. That length is
S = sum over categories of (1 - 1/W) / 2, and what numbers add, at most 1/4 each. So h, the mean of
1/length^2, is within [1/(S + numbers/4), 1/S], and it is the noisy trace over categories over S; sqrt h times
the two values are where the axis' values are, about. From them: the cut half way, a width within which no
value falls, and the pool's share of ones from its noisy mean, whose deviation is that of the sketch over N.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.codebook import CodeBook, principal
from fedkme.cells.directions import Menu
from fedkme.cells.sketch import Sketch
from fedkme.tables.schema import Category, Schema

FloatArray = NDArray[np.float64]

LEADING_OFFERED = 24
"""Eigenvectors of a menu."""
WIDTH = 1.5
"""Width of a direction in deviations of the pool along it."""
CLOSE = 0.6
"""Correlation in the pool above which two directions say the same."""
KEPT = 0.9
"""Correlation above which a direction says the same as one that the code book has anyway."""


def make_menu(sketch: Sketch, book: CodeBook, schema: Schema, picks: int, share: float) -> Menu | None:
    """The menu for a code book; None where the book has no bit, or nothing is left to choose from.

    Directions that are close to those that stay in the book are not offered.

    Args:
        sketch: with noise, from which the book is.
        book: of it.
        schema: of the rows.
        picks: k, at most; fewer where the book has fewer bits.
        share: of D_v's epsilon for each.
    """
    origin, rows = book.arrays["origin"], float(sketch.rows)
    bits = book.arrays["directions"].shape[1]
    covariance = sketch.second / rows - np.outer(origin, origin)
    kept = book.arrays["directions"][:, : max(0, bits - picks)]
    leading, axes = principal(covariance, LEADING_OFFERED), _axes(book)
    vectors = np.concatenate([leading, np.eye(len(origin))[:, axes], kept], axis=1)
    products = vectors.T @ covariance @ vectors
    deviation = np.sqrt(np.maximum(np.diagonal(products), 2.0 * max(sketch.deviation, 1e-9) / rows))
    correlation = np.abs(products) / np.outer(deviation, deviation)
    size = leading.shape[1] + len(axes)
    offered = np.flatnonzero(~(correlation[:size, size:] > KEPT).any(axis=1))
    picks = min(picks, bits, len(offered))
    if not picks:
        return None
    cuts, widths, levels = np.zeros(size), WIDTH * deviation[:size], np.zeros(size)
    for place, axis in enumerate(axes, leading.shape[1]):
        if (of_category := _category(axis, sketch, origin, schema)) is not None:
            cuts[place], widths[place], levels[place] = of_category
    near = correlation[np.ix_(offered, offered)] > CLOSE
    return Menu(
        leading[:, offered[offered < leading.shape[1]]],
        tuple(axes[place - leading.shape[1]] for place in offered if place >= leading.shape[1]),
        cuts[offered],
        widths[offered],
        levels[offered],
        tuple(tuple(np.flatnonzero(each).tolist()) for each in near),
        picks,
        share,
    )


def _axes(book: CodeBook) -> list[int]:
    """Coordinates of z that are columns of the encoded row."""
    spec = book.spec
    plain = spec.dimension == spec.width and spec.centre == "domain"
    return list(range(spec.width)) if plain else []


def _category(
    axis: int, sketch: Sketch, origin: FloatArray, schema: Schema
) -> tuple[float, float, float] | None:
    """Cut, width and level of an axis; None for one of numbers."""
    start, found, length, numbers, trace = 0, 0, 0.0, 0, 0.0
    for column in schema.columns:
        end = start + column.encoded_width
        if isinstance(column, Category):
            length += 0.5 * (1.0 - 1.0 / column.encoded_width)
            trace += float(np.diagonal(sketch.second)[start:end].sum()) / sketch.rows
            found = column.encoded_width if start <= axis < end else found
        else:
            numbers += column.encoded_width
        start = end
    if found < 2:
        return None
    inverse = min(max(trace / length, 1.0 / (length + 0.25 * numbers)), 1.0 / length)
    gap = math.sqrt(0.5 * inverse)
    low = -gap / found
    share = min(max((origin[axis] - low) / gap, 0.0), 1.0)
    return low + gap / 2.0 - float(origin[axis]), gap / 4.0, share - 0.5
