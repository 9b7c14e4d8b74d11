"""Means from released tables of counts: the best linear unbiased estimate, with its exact law.

Let y_c = M_c x + sigma_c z be the table over columns c, x the counts of all rows and z standard normal. Split
tables over S by their columns, R^S = sum over A in S of V_A: V_A are the functions of the columns A alone
that have mean 0 along each of them. These spaces are orthogonal, so the parts of one table are independent,
and each part A of y_c is the part of x's marginal over A, times 1/sqrt(n), with noise sigma_c, n being the
codes of c's other columns together. Hence parts can be combined one by one: with

    q_A = sum over measured c with A in c of 1 / (sigma_c^2 n)

and p_A the mean, by these weights, of the y_c summed down to A, over N, the mean of a function h is estimated
by sum_A <h_A, p_A>, h_A its part in V_A, with noise of covariance sum_A <g_A, h_A> / (q_A N^2). Gauss and
Markov: no unbiased linear estimate is better. The part of no column is N, public, and has no noise. (The same
split makes the mechanism of Xiao and others 2023, ResidualPlanner.)

A function that needs a part which no measured table has is not in the span of what was released; but a
nullable number and its gap can be taken apart, as an empty cell holds a public value (`taken_apart`).

**Bins.** A number is counted by bins. Within a cell a function is taken at its mean over values spread
evenly on the column's scale; by how much it differs from that there, times the mass of the cell, is what
cannot be seen. An atom is a bin with one value. What is about one number alone is answered by fine bins
(`fedkme.releases.fine`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedkme.answers.evidence import Law
from fedkme.answers.functions import Function, columns_of, number_and_gap, taken_apart
from fedkme.arrays import FloatArray
from fedkme.errors import QuestionError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique
from fedkme.releases.counts import StoredCounts
from fedkme.releases.fine import FineShares
from fedkme.tables.axis import Axis
from fedkme.tables.columns import Numeric
from fedkme.tables.schema import Category, Schema

MOST_POINTS = 2**22
"""Values of a question's columns together at which its functions are computed."""
_PIECES = 8
_WHOLE = 16
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class _Points:
    """Values of a column in each of its codes, and the share of the code that each stands for: (codes, s)."""

    values: FloatArray
    shares: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Marginal over some columns, estimated from all tables that hold it.

    Attributes:
        table: shares of rows, in the shape of the columns.
        variance: of the noise of a coefficient of its part.
    """

    table: FloatArray
    variance: float


class CountEvidence:
    """The `Evidence` of a release of marginals."""

    method = "released counts"

    def __init__(self, release: StoredCounts) -> None:
        self._release = release
        self._binning = release.binning
        self._place = {name: place for place, name in enumerate(self._binning.names)}
        self._columns = columns_of(release.schema)
        self._parts: dict[Clique, _Part | None] = {}
        self._fine = {each.clique[0]: each for each in release.fine}
        self.finer = release.finer
        """Coding of numbers by fine bins."""

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""
        return self._release.schema

    @property
    def rows(self) -> int:
        """N, public."""
        return self._release.rows

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Means of functions with their noise; see `Evidence.law`."""
        if (pairs := self._number_and_gap(functions)) is not None:
            parts = [self._law(each, coefficients) for each in zip(*pairs, strict=True)]
            if not any(part.reason for part in parts):
                # Noise in the parts of two columns is independent.
                return Law(
                    parts[0].means + parts[1].means,
                    parts[0].covariance + parts[1].covariance,
                    parts[0].unseen + parts[1].unseen,
                )
        found = self._law(functions, coefficients)
        if not math.isnan(found.unseen):
            return found
        apart = self._law([taken_apart(each, self.schema) for each in functions], coefficients)
        return found if math.isnan(apart.unseen) else apart

    def _number_and_gap(self, functions: Sequence[Function]) -> list[tuple[Function, Function]] | None:
        """Functions of one nullable number and its gap, taken apart, where the number has fine bins."""
        names = set().union(*(function.columns for function in functions))
        for gap in self.schema.columns:
            if isinstance(gap, Category) and gap.gaps_of is not None and names == {gap.name, gap.gaps_of}:
                number = self._columns[gap.gaps_of]
                if isinstance(number, Numeric) and self._is_fine((self._place[number.name],)):
                    assert number.missing is not None
                    return [number_and_gap(f, number.name, number.missing, gap.name) for f in functions]
        return None

    def _law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        clique = self._clique(functions)
        grid = self._grid(clique, functions)
        at = [self._on(function, clique, grid) for function in functions]
        tables = [_means(values, grid) for values in at]
        if (fine := self.fine(clique)) is not None:
            values, middle = _combined(coefficients, at), _combined(coefficients, tables)
            away = np.abs(values - middle[:, None]).max(axis=1)
            return Law(*fine.law(tables), min(max(float(away @ fine.shares), 0.0), float(away.max())))
        means, covariance = np.zeros(len(tables)), np.zeros((len(tables), len(tables)))
        for columns, parts in _split(tables, clique):
            needed = max(float(np.abs(part).max()) for part in parts) > _NOTHING * _size(tables)
            if not needed:
                continue
            known = self._part(columns)
            if known is None:
                return Law(means, covariance, math.nan, self._missing(columns))
            means += [float((part * known.table).sum()) for part in parts]
            flat = np.array([part.ravel() for part in parts])
            covariance += known.variance * (flat @ flat.T)
        return Law(means, covariance, self._unseen(at, tables, coefficients, clique, grid))

    def mean(self, function: Function) -> tuple[float, bool]:
        """Mean of a function as far as it can be seen; see `Evidence.mean`."""
        if (pairs := self._number_and_gap([function])) is not None:
            (number, told), (gap, known) = map(self.mean, pairs[0])
            return number + gap, told and known
        clique = self._clique([function])
        grid = self._grid(clique, [function])
        if (fine := self.fine(clique)) is not None:
            return float(_means(self._on(function, clique, grid), grid) @ fine.shares), True
        ways = (self._on(each, clique, grid) for each in (function, taken_apart(function, self.schema)))
        found = [self._seen(_means(way, grid), clique) for way in ways]
        return next((each for each in found if each[1]), found[0])

    def _seen(self, table: FloatArray, clique: Clique) -> tuple[float, bool]:
        """Mean of a function by cells, and whether all of it was seen."""
        total, whole = 0.0, True
        for columns, (part,) in _split([table], clique):
            known = self._part(columns)
            if known is not None:
                total += float((part * known.table).sum())
            elif float(np.abs(part).max()) > _NOTHING * _size([table]):
                whole = False
        return total, whole

    def _unseen(
        self,
        at: Sequence[FloatArray],
        tables: Sequence[FloatArray],
        coefficients: Sequence[float],
        clique: Clique,
        grid: Sequence[_Points],
    ) -> float:
        """Mass of each cell times the most by which the combination differs from its mean there."""
        values = _combined(coefficients, at)
        middle = _combined(coefficients, tables)
        spread = np.abs(values - np.reshape(middle, _twice(middle)))
        away: FloatArray = np.max(spread, axis=tuple(range(1, 2 * len(grid), 2)))
        if not away.size or float(away.max()) <= _NOTHING * _size(tables):
            return 0.0
        seen, whole = self._seen(away, clique)
        return min(max(seen, 0.0), float(away.max())) if whole else float(away.max())

    def _clique(self, functions: Sequence[Function]) -> Clique:
        names = set().union(*(function.columns for function in functions))
        return tuple(sorted(self._place[name] for name in names))

    def _grid(self, clique: Clique, functions: Sequence[Function]) -> list[_Points]:
        """Values at which functions are computed, for each column."""
        cuts = {
            self._place[name]: sorted(set().union(*(f.cuts.get(name, frozenset()) for f in functions)))
            for name in set().union(*(function.columns for function in functions))
        }
        binning = self.finer if self._is_fine(clique) else self._binning
        cells = math.prod(binning.sizes[column] for column in clique)
        if cells <= MOST_POINTS:
            for pieces in (_PIECES, 3, 1):
                grid = [self._points(column, binning, cuts[column], pieces) for column in clique]
                if math.prod(points.values.size for points in grid) <= MOST_POINTS:
                    return grid
        raise QuestionError(
            f"the columns of a question have {cells} cells together, which is too many",
            "Ask about fewer columns at a time.",
        )

    def _is_fine(self, clique: Clique) -> bool:
        return len(clique) == 1 and clique[0] in self._fine

    def fine(self, clique: Clique) -> FineShares | None:
        """Shares of a number by fine bins; None where it was not counted so, or there are more columns."""
        if not self._is_fine(clique):
            return None
        counted, within = self._fine[clique[0]], self.finer.within(clique[0], self._binning)
        known, codes = self._part(clique), self._binning.sizes[clique[0]]
        coarse = np.full(codes, 1.0 / codes)
        if known is not None:
            coarse += known.table - known.table.mean()
        variance = math.inf if known is None else known.variance
        return FineShares(counted.values / self.rows, counted.sigma / self.rows, within, coarse, variance)

    def _points(self, place: int, binning: Binning, cuts: Sequence[float], pieces: int) -> _Points:
        column, size = self._columns[binning.names[place]], binning.sizes[place]
        if not isinstance(column, Numeric):
            return _Points(np.arange(size, dtype=np.float64)[:, None], np.ones((size, 1)))
        edges = binning.edges(column).tolist()
        axis, atoms, last = column.axis, column.atoms, edges[-1]
        bins = [
            _bin(axis, atoms, start, end, end == last, tuple(c for c in cuts if start < c < end), pieces)
            for start, end in itertools.pairwise(edges)
        ]
        bins += [(np.array([atom]), np.ones(1)) for atom in atoms]
        values = np.zeros((len(bins), max(len(values) for values, _ in bins)))
        shares = np.zeros_like(values)
        for row, (own, parts) in enumerate(bins):
            values[row, : len(own)], values[row, len(own) :] = own, own[-1]
            shares[row, : len(own)] = parts
        return _Points(values, shares)

    def _on(self, function: Function, clique: Clique, grid: Sequence[_Points]) -> FloatArray:
        """Values of a function, codes and points of each column being two axes after one another."""
        shape = [1] * (2 * len(grid))
        values: dict[str, FloatArray] = {}
        for axis, (place, points) in enumerate(zip(clique, grid, strict=True)):
            own = shape.copy()
            own[2 * axis : 2 * axis + 2] = points.values.shape
            values[self._binning.names[place]] = points.values.reshape(own)
        whole = [side for points in grid for side in points.values.shape]
        return np.broadcast_to(np.asarray(function.of(values), np.float64), whole)

    def _part(self, columns: Clique) -> _Part | None:
        if columns not in self._parts:
            self._parts[columns] = self._combined(columns)
        return self._parts[columns]

    def _combined(self, columns: Clique) -> _Part | None:
        """All tables that hold some columns, summed down to them and averaged by precision."""
        sizes, total, weights = self._binning.sizes, np.zeros(()), 0.0
        if not columns:
            return _Part(np.ones(()), 0.0)
        for measured in self._release.measurements:
            if not set(columns) <= set(measured.clique):
                continue
            table = measured.values.reshape([sizes[c] for c in measured.clique])
            others = tuple(axis for axis, c in enumerate(measured.clique) if c not in columns)
            spread = math.prod(sizes[c] for c in measured.clique if c not in columns)
            weight = 1.0 / (max(measured.sigma, 1e-12) ** 2 * spread)
            total, weights = total + weight * table.sum(axis=others), weights + weight
        if not weights:
            return None
        return _Part(total / (weights * self.rows), 1.0 / (weights * self.rows**2))

    def _missing(self, columns: Clique) -> str:
        names = " and ".join(self._binning.names[column] for column in columns)
        together = " together" if len(columns) > 1 else ""
        return f"not in the span of what was released: {names} were not counted{together}"


def _combined(coefficients: Sequence[float], tables: Sequence[FloatArray]) -> FloatArray:
    found: FloatArray = np.sum([a * each for a, each in zip(coefficients, tables, strict=True)], axis=0)
    return found


def _means(values: FloatArray, grid: Sequence[_Points]) -> FloatArray:
    """Mean of a function over each cell, (codes of each column)."""
    for axis in reversed(range(len(grid))):
        shares = grid[axis].shares
        shape = [1] * values.ndim
        shape[2 * axis : 2 * axis + 2] = shares.shape
        values = (values * shares.reshape(shape)).sum(axis=2 * axis + 1)
    return values


def _twice(table: FloatArray) -> list[int]:
    """Shape of a table with an axis of length 1 after each."""
    return [side for own in np.shape(table) for side in (own, 1)]


def _split(tables: Sequence[FloatArray], clique: Clique) -> Iterator[tuple[Clique, list[FloatArray]]]:
    """Parts of tables over a clique, for each set of its columns, in the shape of these."""
    axes = range(len(clique))
    for size in range(len(clique) + 1):
        for kept in itertools.combinations(axes, size):
            parts = []
            for table in tables:
                part = table.mean(axis=tuple(axis for axis in axes if axis not in kept))
                for axis in range(size):
                    part = part - part.mean(axis=axis, keepdims=True)
                parts.append(part)
            yield tuple(clique[axis] for axis in kept), parts


def _size(tables: Sequence[FloatArray]) -> float:
    return max(1e-300, *(float(np.abs(table).max()) for table in tables))


@lru_cache(maxsize=2**13)
def _bin(
    axis: Axis,
    atoms: tuple[float, ...],
    start: float,
    end: float,
    last: bool,
    cuts: tuple[float, ...],
    pieces: int,
) -> tuple[FloatArray, FloatArray]:
    """Values of the bin [start, end) but atoms, with the share of it that each stands for; 0 for its ends.

    Kept, as most bins of a question have no cut and are the same in the next.
    """
    values, shares = _inside(axis, start, end, last, cuts, pieces)
    kept = ~np.isin(values, atoms)  # no row of this bin has the value of an atom
    left = float(shares[kept].sum())
    return (values[kept], shares[kept] / left) if left else (values[:1], np.ones(1))


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
