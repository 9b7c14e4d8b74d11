"""The menu of directions that a plan offers D_v (fedkme.cells.directions), as post-processing of a sketch.

Directions are the axes of the encoded row: a D_v of a rare category is far from the pool along the axis of
the category, which is no principal direction.

**An axis of a category** takes two values. For a column with W categories, centred by its middle, the value
is sqrt 1/2 (1 - 1/W) in rows of the category and -sqrt 1/2 / W in other rows, over the length of the centred
row. The squared length is S = sum over categorical columns of (1 - 1/W) / 2, plus at most 1/4 for each
number. So h, the mean of 1/length^2, lies in [1/(S + numbers/4), 1/S]; its estimate is the noisy trace over
the axes of categories, divided by S. The two values of an axis are about sqrt h times the values above. They
give the cut, half way between them; a width within which no value falls; and the pool's share of ones, from
the noisy mean of the axis, whose noise has the deviation of the sketch over N.

**An axis of a number** is offered twice: as a whole, with a score by the mean of D_v, and with
cuts in its tails (docs/decisions/009). The tails matter where D_v lies beyond a threshold: a cut at the
pool's mean would leave half of the pool on the side of D_v. A cut is t deviations from the pool's noisy mean.
Its level is the share beyond the cut of the beta law on the number's domain with that mean and deviation
(docs/decisions/009). Where the noisy deviation is larger than the mean allows, as for a number that is mostly
0, that share is the mean. Without categories h is not known, and the law is normal. By Cantelli's inequality
the pool's own share is at most 1 / (1 + t^2) for any law, which bounds the score of a D_v like the pool. Cuts
beyond the largest possible value (1/2 over the least length of a centred row) are not offered.

**The third bin of a number** (fedkme.cells.directions) begins where the same law has half of the share beyond
the picked cut: D_v is mostly beyond the cut, and rows like it are told apart there. So D_v picks a number
once; where it has few rows, it may pick two cuts in one tail of a number instead.

**Projected rows** have columns of the encoded row on their menu (docs/decisions/009), whose possible values
are known: 0 and sqrt 1/2 for a category, 0 to 1 for a number, which is cut at PARTS. The means of the n
columns are decoded from the noisy mean of z, which has d numbers. With k the mean of 1/length, E z is about k
(E x - centre) R / sqrt d; E x is not negative, and the shares of the categories of one column add up to 1. So
the means follow from least squares over y = k E x >= 0 and k, with a further equation for the sum of each
categorical column, and one that keeps k near its value by the schema, with 1/8 for each number. Where most
means are near 0, d numbers are enough: on 500 columns of a census, the error of a share is .05, the largest
.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.cells.codebook import CodeBook, covariance_within, principal
from fedkme.cells.directions import MOST_OFFERED, PRESENT, Menu
from fedkme.cells.projection import Projection, ProjectionSpec
from fedkme.cells.sketch import Sketch
from fedkme.features.domain import Domain
from fedkme.tables.schema import Schema

FACTORS = 24
"""Number of eigenvectors that give F of a menu."""
WIDTH = 1.5
"""Width of a number as a whole, in deviations of the pool along its axis."""
CLOSE = 0.6
"""Correlation in the pool above which two directions are close."""
TAILS = (1.5, -1.5, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0)
"""Cuts of a number, in deviations from the pool's mean; a menu without room for all takes the first ones."""
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Cuts of a number of projected rows, as parts of its domain."""
UNSURE = 1.0
"""Sharpness of the beta law of a number of projected rows, whose deviation is not known. The variance is half
of that of a number that is 0 or 1."""
STEEP = 0.1
"""Width of a cut in a tail, in deviations: nearly a sign bit."""
ONCE = 72
"""Cells that D_v's counts carry, over all classes, from which on a number is picked once."""
SAME = 0.9
"""Correlation above which a direction is not offered, as the code book keeps one that is nearly the same."""
_EDGE = 1e-3
"""Least mean of a number in its domain, least share beyond its third bin's cut, and least k."""


def make_menu(
    sketch: Sketch, book: CodeBook, schema: Schema, picks: int, share: float, cells: int
) -> Menu | None:
    """Make the menu for a code book; None where the book has no sign bit, or no direction can be offered.

    Directions that are nearly the same as one that stays in the book are not offered.

    Args:
        sketch: noisy sketch from which the book was made.
        book: the code book.
        schema: schema of the rows.
        picks: most picks; the menu has fewer where the book has fewer bits.
        share: share of D_v's epsilon for each pick.
        cells: most cells of bins and sign bits in each class; at least those that the book has.
    """
    origin, rows = book.arrays["origin"], float(sketch.rows)
    bits = book.arrays["directions"].shape[1]
    covariance = sketch.second / rows - np.outer(origin, origin)
    least = 2.0 * max(sketch.deviation, 1e-9) / rows
    staying = book.arrays["directions"][:, : max(0, bits - picks)]
    of_axes = np.sqrt(np.maximum(np.diagonal(covariance), least))
    projected, seen = not _has_axes(book.spec), Projection(book.spec, schema).axes
    if projected:
        cuts = _column_cuts(sketch, book.spec, schema)
    else:
        cuts = _axis_cuts(sketch, schema, of_axes, MOST_OFFERED)
    vectors = np.concatenate([seen[:, [cut.axis for cut in cuts]], staying], axis=1)
    products = vectors.T @ covariance @ vectors
    deviation = np.sqrt(np.maximum(np.diagonal(products), least))
    correlation = np.abs(products) / np.outer(deviation, deviation)
    size, tails = len(cuts), np.array([cut.tail for cut in cuts])
    offered = np.flatnonzero(~(correlation[:size, size:] > SAME).any(axis=1) | (tails != 0.0))
    picks = min(picks, bits, len(offered))
    if not picks:
        return None
    starts, names = _starts(schema), _category_counts(schema)
    numbers = np.array([cut.axis if names[cut.axis] == 1 else -1 for cut in cuts])
    of_number = (numbers[:, None] == numbers) & (numbers >= 0)
    one_tail = of_number & (np.sign(tails)[:, None] * np.sign(tails) > 0) & (tails[:, None] != tails)
    once = cells * (book.cells >> bits) >= ONCE
    near = ((correlation[:size, :size] > CLOSE) & ~one_tail) | (of_number & once)
    chosen = [cuts[place] for place in offered]
    axes = tuple(cut.axis for cut in chosen)
    often = {cut.axis: cut.level for cut in cuts if names[cut.axis] > 1}
    pool = None if projected else _factors(covariance_within(sketch), axes, least)
    return Menu(
        () if projected else axes,
        np.array([cut.cut for cut in chosen]),
        np.array([cut.width for cut in chosen]),
        np.array([cut.level for cut in chosen]),
        tuple(tuple(np.flatnonzero(each).tolist()) for each in near[np.ix_(offered, offered)]),
        picks,
        share,
        max(cells, 2**bits),
        tuple(cut.further for cut in chosen),
        tuple(_names_of(cut.axis, starts, often) if cut.axis in often else () for cut in chosen),
        axes if projected else (),
        *(pool or ()),
    )


def _factors(covariance: FloatArray, axes: Sequence[int], least: float) -> tuple[FloatArray, FloatArray]:
    """F and D of `Menu`."""
    vectors = principal(covariance, FACTORS)
    lengths = np.einsum("df,de,ef->f", vectors, covariance, vectors)
    factor = vectors * np.sqrt(np.maximum(lengths, 0.0))
    rests = np.diagonal(covariance) - np.square(factor).sum(axis=1)
    return factor, np.maximum(rests[list(axes)], least)


@dataclass(frozen=True, slots=True)
class _AxisCut:
    """A candidate direction of the menu.

    Attributes:
        axis: column of the encoded row along which the direction lies.
        tail: distance of the cut from the pool's mean, in deviations; 0: the cut is not in a tail.
        cut: c, see fedkme.cells.directions.
        width: w.
        level: e.
        further: further cuts of a number, at most one.
    """

    axis: int
    tail: float
    cut: float
    width: float
    level: float
    further: tuple[float, ...] = ()


def _names_of(axis: int, starts: Sequence[int], often: Mapping[int, float]) -> tuple[int, ...]:
    """Columns of the names of one category: that of the axis first, then by their shares in the pool."""
    others = [other for other in often if starts[other] == starts[axis] and other != axis]
    return (axis, *sorted(others, key=lambda other: (-often[other], other)))


def offers_columns(spec: ProjectionSpec, schema: Schema) -> bool:
    """Check whether a menu can offer columns: rows are not projected, or means of columns can be decoded."""
    names = _category_counts(schema)
    numbers = names.count(1)
    directions = len(names) - numbers + numbers * len(PARTS)
    few = directions <= MOST_OFFERED and numbers <= spec.dimension // 2
    return _has_axes(spec) or (spec.centre == "domain" and few and numbers < len(names))


def no_picks_words(key: str) -> str:
    """Warning that says what the setting `key` = 0 costs where D_v could pick a column."""
    cost = (
        "D_v picks no column, and where one tells the target apart, as for a rare name, summaries were 3 to "
        "5 times as far from fresh rows as with picks"
    )
    return f"'{key}' = 0: {cost}. Leave out '{key}'"


def _has_axes(spec: ProjectionSpec) -> bool:
    return spec.dimension == spec.width and spec.centre == "domain"


def _category_counts(schema: Schema) -> tuple[int, ...]:
    """Number of categories behind each column of the encoded row, (n,); 1 for a number."""
    parts = (part for column in schema.columns for part in column.parts)
    return tuple(name for levels, width in parts for name in [max(1, levels)] * width)


def _starts(schema: Schema) -> tuple[int, ...]:
    """First column of the encoded row of the category, or number, behind each column, (n,)."""
    starts = list[int]()
    for levels, width in (part for column in schema.columns for part in column.parts):
        at = len(starts)
        starts += [at] * width if levels else range(at, at + width)
    return tuple(starts)


def _column_cuts(sketch: Sketch, spec: ProjectionSpec, schema: Schema) -> list[_AxisCut]:
    """Cuts of the columns of projected rows."""
    if not offers_columns(spec, schema):
        return []
    cuts = list[_AxisCut]()
    means = decoded_means(sketch, Projection(spec, schema), schema)
    for at, (names, mean) in enumerate(zip(_category_counts(schema), means.tolist(), strict=True)):
        if names > 1:
            cuts.append(_AxisCut(at, 0.0, PRESENT / 2.0, PRESENT / 4.0, mean / PRESENT - 0.5))
        else:
            law = _Law.beta(mean, UNSURE)
            cuts += [
                _AxisCut(at, part, part, STEEP * part, law.beyond(part) - 0.5, law.further(part, 1.0))
                for part in PARTS
            ]
    return cuts


def decoded_means(sketch: Sketch, projection: Projection, schema: Schema) -> FloatArray:
    """Decode the pool's mean of each column of the encoded row from the noisy mean of z, (n,).

    See "Projected rows" at the head of this module.
    """
    from scipy.optimize import nnls  # this import takes a second, which a curator's start need not wait for

    width = projection.spec.width
    blocks = [(d.start, d.start + d.levels) for d in Domain(schema).dimensions if d.levels]
    sums = np.zeros((len(blocks) + 1, width + 1))
    for row, (start, end) in zip(sums, blocks, strict=False):
        row[start:end], row[-1] = 1.0, -PRESENT
    sums[-1, -1] = 1.0
    length = sum(0.5 - 0.5 / (end - start) for start, end in blocks) + _category_counts(schema).count(1) / 8.0
    centre = projection.axes @ projection.middle
    design = np.concatenate([np.concatenate([projection.axes, -centre[:, None]], axis=1), sums])
    goal = np.concatenate([sketch.sums.sum(axis=0) / sketch.rows, np.zeros(len(blocks)), [length**-0.5]])
    solution, _ = nnls(design, goal, maxiter=20 * width)
    most = np.where(np.array(_category_counts(schema)) > 1, PRESENT, 1.0)
    means: FloatArray = np.minimum(solution[:-1] / max(float(solution[-1]), _EDGE), most)
    return means


@dataclass(frozen=True, slots=True)
class _Law:
    """Law of a number in the pool: shift + scale u, where u has a beta law on [0, 1] or a normal one.

    Attributes:
        a, b: parameters of the beta law; None: u is normal.
        shift, scale: of the number.
    """

    a: float | None
    b: float
    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def beta(cls, mean: float, sharpness: float, shift: float = 0.0, scale: float = 1.0) -> _Law:
        """Law whose u has this mean and the variance mean (1 - mean) / (1 + sharpness)."""
        middle = min(max(mean, _EDGE), 1.0 - _EDGE)
        return cls(middle * sharpness, (1.0 - middle) * sharpness, shift, scale)

    def beyond(self, value: float) -> float:
        """Share above a value."""
        from scipy.special import betaincc

        at = (value - self.shift) / self.scale
        if self.a is None:
            return 0.5 * math.erfc(at / math.sqrt(2.0))
        return float(betaincc(self.a, self.b, min(max(at, 0.0), 1.0)))

    def further(self, cut: float, side: float) -> tuple[float]:
        """Value that halves the share beyond a cut, on the upper side (1.0) or the lower side (-1.0)."""
        from scipy.special import betaincinv, ndtri

        above = self.beyond(cut)
        below = 1.0 - above / 2.0 if side > 0 else (1.0 - above) / 2.0
        below = min(max(below, _EDGE), 1.0 - _EDGE)
        at = ndtri(below) if self.a is None else np.nan_to_num(betaincinv(self.a, self.b, below))
        return (float(self.shift + self.scale * at),)


def _axis_cuts(sketch: Sketch, schema: Schema, deviation: FloatArray, room: int) -> list[_AxisCut]:
    """Cuts of all axes, at most `room` cuts."""
    origin, domain = sketch.sums.sum(axis=0) / float(sketch.rows), _Domain.from_sketch(schema, sketch)
    numbers, cuts = domain.names.count(1), list[_AxisCut]()
    tails = TAILS[: max(0, room - len(domain.names)) // max(numbers, 1)]
    for axis, names in enumerate(domain.names):
        mean, spread = float(origin[axis]), float(deviation[axis])
        if names > 1:
            cuts.append(_AxisCut(axis, 0.0, *domain.of_category(names, mean)))
            continue
        law = domain.law(mean, spread)
        cuts.append(_AxisCut(axis, 0.0, 0.0, WIDTH * spread, 0.0, law.further(0.0, 1.0)))
        for tail in tails:
            if abs(mean + tail * spread) < domain.reach:
                cut, side = tail * spread, math.copysign(1.0, tail)
                level, further = law.beyond(cut) - 0.5, law.further(cut, side)
                cuts.append(_AxisCut(axis, tail, cut, STEEP * spread, level, further))
    return cuts


@dataclass(frozen=True, slots=True)
class _Domain:
    """Domains of the axes where rows are not projected.

    Attributes:
        names: number of categories behind each axis; 1 for a number.
        inverse: h, see the head of this module; 0 without categories.
        reach: largest absolute value along the axis of a number.
    """

    names: tuple[int, ...]
    inverse: float
    reach: float

    @classmethod
    def from_sketch(cls, schema: Schema, sketch: Sketch) -> _Domain:
        """Estimate the domains from the schema and the noisy trace."""
        names = _category_counts(schema)
        of_names = np.array(names) > 1
        length = sum(0.5 * (1.0 - 1.0 / each) / each for each in names if each > 1)
        if length == 0.0:
            return cls(names, 0.0, 1.0)
        trace = float(np.diagonal(sketch.second)[of_names].sum()) / sketch.rows
        inverse = min(max(trace / length, 1.0 / (length + 0.25 * names.count(1))), 1.0 / length)
        return cls(names, inverse, min(1.0, 0.5 / math.sqrt(length)))

    def law(self, mean: float, spread: float) -> _Law:
        """Law of a number less its mean, on the axis of a number with that mean and deviation."""
        if not self.inverse:
            return _Law(None, 0.0, 0.0, spread)
        scale = math.sqrt(self.inverse)
        middle = min(max(0.5 + mean / scale, _EDGE), 1.0 - _EDGE)
        most = middle * (1.0 - middle)  # variance of a number that is 0 or 1
        sharpness = most / min(spread**2 / self.inverse, (1.0 - _EDGE) * most) - 1.0
        return _Law.beta(middle, sharpness, -0.5 * scale - mean, scale)

    def of_category(self, names: int, mean: float) -> tuple[float, float, float]:
        """Cut, width and level of the axis of a category whose column has `names` categories."""
        gap = math.sqrt(0.5 * self.inverse)
        low = -gap / names
        share = min(max((mean - low) / gap, 0.0), 1.0)
        return low + gap / 2.0 - mean, gap / 4.0, share - 0.5
