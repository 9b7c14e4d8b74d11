"""The menu of directions that a plan offers D_v (fedkme.cells.directions), as post-processing of a sketch.

Two kinds. The leading eigenvectors of the noisy covariance; and the axes of the encoded row: D_v of a rare
category is far from the pool along its axis, which no principal direction is.

**An axis of a category** takes two values. Centred by its middle, a category of W names is sqrt 1/2 (1 - 1/W)
where a row has it and -sqrt 1/2 / W where not, over the length of the centred row. That length is
S = sum over categories of (1 - 1/W) / 2, and what numbers add, at most 1/4 each. So h, the mean of
1/length^2, is within [1/(S + numbers/4), 1/S], and it is the noisy trace over categories over S; sqrt h times
the two values are where the axis' values are, about. From them: the cut half way, a width within which no
value falls, and the pool's share of ones from its noisy mean, whose deviation is that of the sketch over N.

**An axis of a number** is offered as other directions are, by how far D_v's mean is, and with cuts in its
tails (docs/decisions/009): where D_v is what lies beyond a threshold, a cut at the pool's mean leaves half of
the pool with it. A cut is t deviations from the pool's noisy mean, its level the share beyond it of the beta
law on the number's domain with that mean and deviation (docs/decisions/009); of a number whose noisy
deviation is more than its mean allows, of which most rows are 0, that is its mean. Without categories h is
not known, and the law is normal; by Cantelli's inequality the pool's own share is at most 1 / (1 + t^2)
whatever its law is, which bounds how far a D_v like the pool can seem. Cuts beyond what a number can be (1/2
over the least length of a centred row) are not offered. Two cuts on one side of one number do not say the
same: both may be picked, and D_v's part of the axis is in cells of its own.

**Projected rows** have columns of the encoded row on the menu (docs/decisions/009), where values are known:
0 and sqrt 1/2 for a category, 0 to 1 for a number, cut at PARTS. Their means are decoded from the noisy mean
of z, d numbers for n columns: with k the mean of 1/length, E z is about k (E x - centre) R / sqrt d, E x is
not negative, and shares of one category add up to 1. So: least squares over y = k E x >= 0 and k, a row for
each category that says its sum, and one that k is near what the schema says, with 1/8 for a number. Where
most means are near 0, d numbers are enough: on 500 columns of a census shares are .05 off, the worst .3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray
from fedkme.cells.codebook import CodeBook, principal
from fedkme.cells.directions import MOST_OFFERED, Menu
from fedkme.cells.projection import Projection, ProjectionSpec
from fedkme.cells.sketch import Sketch
from fedkme.features.domain import Domain
from fedkme.tables.schema import Schema

LEADING_OFFERED = 24
"""Eigenvectors of a menu."""
WIDTH = 1.5
"""Width of a direction in deviations of the pool along it."""
CLOSE = 0.6
"""Correlation in the pool above which two directions say the same."""
TAILS = (1.5, -1.5, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0)
"""Cuts of a number in deviations from the pool's mean; the first where a menu has no room for all."""
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Cuts of a number of projected rows, as parts of its domain."""
UNSURE = 1.0
"""Sharpness of the beta law of such a number, whose deviation is not known: it has half the variance of one
that is 0 or 1."""
STEEP = 0.1
"""Width of a cut in a tail, in deviations: nearly a sign bit."""
KEPT = 0.9
"""Correlation above which a direction says the same as one that the code book has anyway."""
_EDGE = 1e-3
"""Least mean of a number in its domain, and least k."""
_HELD = math.sqrt(0.5)
"""Value of a column of the encoded row where a row has the category."""


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
    projected, seen = not _has_axes(book.spec), Projection(book.spec, schema).axes
    if projected:
        cuts = _columns_of(sketch, book.spec, schema)
    else:
        cuts = _cuts_of(sketch, schema, of_axes, MOST_OFFERED - leading.shape[1])
    vectors = np.concatenate([leading, seen[:, [cut.axis for cut in cuts]], kept], axis=1)
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
    axes = tuple(cut.axis for cut in chosen if cut.axis >= 0)
    return Menu(
        leading[:, offered[offered < len(whole)]],
        () if projected else axes,
        np.array([cut.cut for cut in chosen]),
        np.array([cut.width for cut in chosen]),
        np.array([cut.level for cut in chosen]),
        tuple(tuple(np.flatnonzero(each).tolist()) for each in near[np.ix_(offered, offered)]),
        picks,
        share,
        axes if projected else (),
    )


@dataclass(frozen=True, slots=True)
class _AxisCut:
    """A direction of the menu along the column `axis` of the encoded row, or -1 for none.

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


def offers_columns(spec: ProjectionSpec, schema: Schema) -> bool:
    """Check whether a menu has columns: rows are not projected, or their means can be decoded."""
    names = _names(schema)
    numbers = names.count(1)
    directions = len(names) - numbers + numbers * len(PARTS)
    few = directions <= MOST_OFFERED - LEADING_OFFERED and numbers <= spec.dimension // 2
    return _has_axes(spec) or (spec.centre == "domain" and few and numbers < len(names))


def _has_axes(spec: ProjectionSpec) -> bool:
    return spec.dimension == spec.width and spec.centre == "domain"


def _names(schema: Schema) -> tuple[int, ...]:
    """Names of the category that each column of the encoded row is of, (n,); 1 for a number."""
    parts = (part for column in schema.columns for part in column.parts)
    return tuple(name for levels, width in parts for name in [max(1, levels)] * width)


def _columns_of(sketch: Sketch, spec: ProjectionSpec, schema: Schema) -> list[_AxisCut]:
    """Cuts of columns where rows are projected."""
    if not offers_columns(spec, schema):
        return []
    cuts = list[_AxisCut]()
    means = decoded_means(sketch, Projection(spec, schema), schema)
    for at, (names, mean) in enumerate(zip(_names(schema), means.tolist(), strict=True)):
        if names > 1:
            cuts.append(_AxisCut(at, 0.0, _HELD / 2.0, _HELD / 4.0, mean / _HELD - 0.5))
        else:
            levels = [_beyond(mean, UNSURE, part) - 0.5 for part in PARTS]
            cuts += [
                _AxisCut(at, part, part, STEEP * part, level)
                for part, level in zip(PARTS, levels, strict=True)
            ]
    return cuts


def decoded_means(sketch: Sketch, projection: Projection, schema: Schema) -> FloatArray:
    """Mean of each column of the encoded row over the pool, by the noisy mean of z, (n,).

    The head of this module says how.
    """
    from scipy.optimize import nnls  # a second that a curator's start need not wait for

    width = projection.spec.width
    blocks = [(d.start, d.start + d.levels) for d in Domain(schema).dimensions if d.levels]
    sums = np.zeros((len(blocks) + 1, width + 1))
    for row, (start, end) in zip(sums, blocks, strict=False):
        row[start:end], row[-1] = 1.0, -_HELD
    sums[-1, -1] = 1.0
    length = sum(0.5 - 0.5 / (end - start) for start, end in blocks) + _names(schema).count(1) / 8.0
    centre = projection.axes @ projection.middle
    design = np.concatenate([np.concatenate([projection.axes, -centre[:, None]], axis=1), sums])
    goal = np.concatenate([sketch.sums.sum(axis=0) / sketch.rows, np.zeros(len(blocks)), [length**-0.5]])
    found, _ = nnls(design, goal, maxiter=20 * width)
    most = np.where(np.array(_names(schema)) > 1, _HELD, 1.0)
    means: FloatArray = np.minimum(found[:-1] / max(float(found[-1]), _EDGE), most)
    return means


def _beyond(mean: float, sharpness: float, cut: float) -> float:
    """Share above a cut of the beta law on [0, 1] whose variance is mean (1 - mean) / (1 + sharpness)."""
    from scipy.special import betaincc

    middle = min(max(mean, _EDGE), 1.0 - _EDGE)
    return float(betaincc(middle * sharpness, (1.0 - middle) * sharpness, min(max(cut, 0.0), 1.0)))


def _cuts_of(sketch: Sketch, schema: Schema, deviation: FloatArray, room: int) -> list[_AxisCut]:
    """Cuts of all axes, at most `room`."""
    origin, domain = sketch.sums.sum(axis=0) / float(sketch.rows), _Domain.of(schema, sketch)
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
                level = domain.beyond(mean, spread, tail) - 0.5
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
        names = _names(schema)
        of_names = np.array(names) > 1
        length = sum(0.5 * (1.0 - 1.0 / each) / each for each in names if each > 1)
        if length == 0.0:
            return cls(names, 0.0, 1.0)
        trace = float(np.diagonal(sketch.second)[of_names].sum()) / sketch.rows
        inverse = min(max(trace / length, 1.0 / (length + 0.25 * names.count(1))), 1.0 / length)
        return cls(names, inverse, min(1.0, 0.5 / math.sqrt(length)))

    def beyond(self, mean: float, spread: float, tail: float) -> float:
        """Share of rows above mean + tail spread, along the axis of a number of that mean and deviation."""
        if not self.inverse:
            return 0.5 * math.erfc(tail / math.sqrt(2.0))
        scale = math.sqrt(self.inverse)
        middle = min(max(0.5 + mean / scale, _EDGE), 1.0 - _EDGE)
        most = middle * (1.0 - middle)  # variance of a number that is 0 or 1
        sharpness = most / min(spread**2 / self.inverse, (1.0 - _EDGE) * most) - 1.0
        return _beyond(middle, sharpness, 0.5 + (mean + tail * spread) / scale)

    def of_category(self, names: int, mean: float) -> tuple[float, float, float]:
        """Cut, width and level of an axis of a category."""
        gap = math.sqrt(0.5 * self.inverse)
        low = -gap / names
        share = min(max((mean - low) / gap, 0.0), 1.0)
        return low + gap / 2.0 - mean, gap / 4.0, share - 0.5
