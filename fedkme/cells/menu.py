"""The menu of directions that a plan offers D_v (fedkme.cells.directions), as post-processing of a sketch.

Two kinds. The leading eigenvectors of the noisy covariance; and, where rows are not projected, the axes of
the encoded row: D_v of a rare category is far from the pool along its axis, which no principal direction is.

**An axis of a category** takes two values. Centred by its middle, a category of W names is sqrt 1/2 (1 - 1/W)
where a row has it and -sqrt 1/2 / W where not, over the length of the centred row. That length is
S = sum over categories of (1 - 1/W) / 2, and what numbers add, at most 1/4 each. So h, the mean of
1/length^2, is within [1/(S + numbers/4), 1/S], and it is the noisy trace over categories over S; sqrt h times
the two values are where the axis' values are, about. From them: the cut half way, a width within which no
value falls, and the pool's share of ones from its noisy mean, whose deviation is that of the sketch over N.

**An axis of a number** is offered as other directions are, by how far D_v's mean is, and with cuts in its
tails (docs/decisions/031): where D_v is what lies beyond a threshold, a cut at the pool's mean leaves half of
the pool with it. A cut is t deviations from the pool's noisy mean, its level the share of a normal law beyond
it; by Cantelli's inequality the pool's own share is at most 1 / (1 + t^2) whatever its law is, which bounds
how far a D_v like the pool can seem. Cuts beyond what a number can be (1/2 over the least length of a centred
row) are not offered. Two cuts on one side of one number do not say the same: both may be picked, and D_v's
part of the axis is in cells of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.codebook import CodeBook, principal
from fedkme.cells.directions import MOST_OFFERED, Menu
from fedkme.cells.projection import ProjectionSpec
from fedkme.cells.sketch import Sketch
from fedkme.tables.schema import Category, Schema

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LEADING_OFFERED = 24
"""Eigenvectors of a menu."""
WIDTH = 1.5
"""Width of a direction in deviations of the pool along it."""
CLOSE = 0.6
"""Correlation in the pool above which two directions say the same."""
TAILS = (1.5, -1.5, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0)
"""Cuts of a number in deviations from the pool's mean; the first where a menu has no room for all."""
STEEP = 0.1
"""Width of a cut in a tail, in deviations: nearly a sign bit."""
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
    least = 2.0 * max(sketch.deviation, 1e-9) / rows
    kept = book.arrays["directions"][:, : max(0, bits - picks)]
    leading = principal(covariance, LEADING_OFFERED)
    of_axes = np.sqrt(np.maximum(np.diagonal(covariance), least))
    cuts = _cuts_of(sketch, book, schema, of_axes, MOST_OFFERED - leading.shape[1])
    vectors = np.concatenate([leading, np.eye(len(origin))[:, [cut.axis for cut in cuts]], kept], axis=1)
    products = vectors.T @ covariance @ vectors
    deviation = np.sqrt(np.maximum(np.diagonal(products), least))
    correlation = np.abs(products) / np.outer(deviation, deviation)
    whole = [_AxisCut(-1, 0.0, 0.0, WIDTH * each, 0.0) for each in deviation[: leading.shape[1]]]
    size, known = len(whole) + len(cuts), [*whole, *cuts]
    tails = np.array([cut.tail for cut in known])
    offered = np.flatnonzero(~(correlation[:size, size:] > KEPT).any(axis=1) | (tails != 0.0))
    picks = min(picks, bits, len(offered))
    if not picks:
        return None
    near = (correlation[:size, :size] > CLOSE) & ~_apart(np.array([cut.axis for cut in known]), tails)
    chosen = [known[place] for place in offered]
    return Menu(
        leading[:, offered[offered < len(whole)]],
        tuple(cut.axis for cut in chosen if cut.axis >= 0),
        np.array([cut.cut for cut in chosen]),
        np.array([cut.width for cut in chosen]),
        np.array([cut.level for cut in chosen]),
        tuple(tuple(np.flatnonzero(each).tolist()) for each in near[np.ix_(offered, offered)]),
        picks,
        share,
    )


@dataclass(frozen=True, slots=True)
class _AxisCut:
    """A direction of the menu along `axis`, or -1 for no axis.

    `tail` is how far the cut is in a tail, in deviations; 0 if it is in none. Cut, width and level are those
    of fedkme.cells.directions.
    """

    axis: int
    tail: float
    cut: float
    width: float
    level: float


def _apart(axes: IntArray, tails: FloatArray) -> NDArray[np.bool_]:
    """Pairs of unlike cuts in one tail of one number, (M, M)."""
    one_side = np.sign(tails)[:, None] * np.sign(tails) > 0
    apart: NDArray[np.bool_] = (axes[:, None] == axes) & one_side & (tails[:, None] != tails)
    return apart


def has_axes(spec: ProjectionSpec) -> bool:
    """Check whether coordinates of z are columns of the encoded row: rows are not projected."""
    return spec.dimension == spec.width and spec.centre == "domain"


def _cuts_of(
    sketch: Sketch, book: CodeBook, schema: Schema, deviation: FloatArray, room: int
) -> list[_AxisCut]:
    """Cuts of all axes, at most `room`."""
    if not has_axes(book.spec):
        return []
    origin, domain = book.arrays["origin"], _Domain.of(schema, sketch)
    numbers, cuts = domain.names.count(1), list[_AxisCut]()
    tails = TAILS[: max(0, room - len(domain.names)) // max(numbers, 1)]
    for axis, names in enumerate(domain.names):
        mean, spread = float(origin[axis]), float(deviation[axis])
        if names > 1:
            cuts.append(_AxisCut(axis, 0.0, *domain.of_category(names, mean)))
            continue
        cuts.append(_AxisCut(axis, 0.0, 0.0, WIDTH * spread, 0.0))
        for tail in tails:
            if abs(mean + tail * spread) < domain.reach:
                level = 0.5 * math.erfc(tail / math.sqrt(2.0)) - 0.5
                cuts.append(_AxisCut(axis, tail, tail * spread, STEEP * spread, level))
    return cuts


@dataclass(frozen=True, slots=True)
class _Domain:
    """Values that the axes of a row that is not projected can take.

    Attributes:
        names: by axis, the names of its category; 1 for a number.
        inverse: h, of the head of this module; 0 without categories.
        reach: of a number's axis: it is within +- reach.
    """

    names: tuple[int, ...]
    inverse: float
    reach: float

    @classmethod
    def of(cls, schema: Schema, sketch: Sketch) -> _Domain:
        names = tuple(
            column.encoded_width if isinstance(column, Category) else 1
            for column in schema.columns
            for _ in range(column.encoded_width)
        )
        of_names = np.array(names) > 1
        length = sum(0.5 * (1.0 - 1.0 / each) / each for each in names if each > 1)
        if length == 0.0:
            return cls(names, 0.0, 1.0)
        trace = float(np.diagonal(sketch.second)[of_names].sum()) / sketch.rows
        inverse = min(max(trace / length, 1.0 / (length + 0.25 * names.count(1))), 1.0 / length)
        return cls(names, inverse, min(1.0, 0.5 / math.sqrt(length)))

    def of_category(self, names: int, mean: float) -> tuple[float, float, float]:
        """Cut, width and level of an axis of a category."""
        gap = math.sqrt(0.5 * self.inverse)
        low = -gap / names
        share = min(max((mean - low) / gap, 0.0), 1.0)
        return low + gap / 2.0 - mean, gap / 4.0, share - 0.5
