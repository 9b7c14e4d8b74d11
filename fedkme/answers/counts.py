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

**Bins.** A number is counted by bins, and rows lie anywhere in theirs. The least and the most that rows
of a cell can make of a function are functions of the cell, so their means are estimated as any other's:
without bias, with exact noise (`Between`). The estimate itself takes a function at its mean over values
spread evenly on the column's scale. An atom is a bin with one value. What is about one number alone is
answered by fine bins (`fedkme.releases.fine`). Where the least and the most need a table that was not
measured, the rows may all lie in the cell where they are farthest from the mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from fedkme.answers.evidence import Law, Spread, outside, rows_together
from fedkme.answers.functions import Function, columns_of, combined, number_and_gap, taken_apart
from fedkme.answers.intervals import Between, Bound, Released
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
_MOST_CELLS = 64


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
        self._cells: dict[tuple[int, bool, tuple[float, ...], int], _Points] = {}
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

    @property
    def together(self) -> int:
        """Rows of one person, or group, at most."""
        return rows_together(self.schema, self._release.settings)

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Means of functions with their noise; see `Evidence.law`."""
        if (pairs := self._number_and_gap(functions)) is not None:
            parts = [self._law(each, coefficients) for each in zip(*pairs, strict=True)]
            if not any(part.reason for part in parts):
                return _added(*parts)
        found = self._law(functions, coefficients)
        if not found.reason:
            return found
        apart = self._law([taken_apart(each, self.schema) for each in functions], coefficients)
        return found if apart.reason else apart

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a combination: the most that its cells allow; see `Evidence.spread`."""
        law = self.law([combined(coefficients, functions).square], [1.0])
        if law.reason:
            return Spread(law.reach, Bound(law.reach), told=False)
        most, middle = law.whole.most.most(), law.whole.middle.estimate
        bound = Bound(min(max(most.value, 0.0), law.reach), most.doubt)
        return Spread(max(middle, 0.0), bound, told=True)

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
        values, middle = _combined(coefficients, at), _combined(coefficients, tables)
        within = tuple(range(1, 2 * len(grid), 2))
        gaps = [middle - values.min(axis=within), values.max(axis=within) - middle]
        reach = float(np.abs(values).max())
        hidden = max(float(gap.max()) for gap in gaps) > _NOTHING * _size(tables)
        found = self._linear(clique, [*tables, *gaps] if hidden else tables, len(tables))
        if isinstance(found, str):
            return replace(outside(len(tables), found), reach=reach)
        means, covariance, seen = found
        count, weights = len(tables), np.array(coefficients)

        def figure(below: float, above: float, middle: float = 1.0) -> Released:
            """The middle less its gap to the least, and more that to the most, so many times."""
            if not (hidden and seen):
                variance = max(float(weights @ covariance[:count, :count] @ weights), 0.0)
                public = below * float(gaps[0].max()) + above * float(gaps[1].max()) if hidden else 0.0
                value = middle * float(weights @ means[:count])
                return Released(value + public, middle * math.sqrt(variance))
            on = np.append(middle * weights, [below, above])
            return Released(float(on @ means), math.sqrt(max(float(on @ covariance @ on), 0.0)))

        whole = Between(figure(0, 0), figure(-1, 0), figure(0, 1), _no_noise(figure(1, 1, 0), reach))
        return Law(means[:count], covariance[:count, :count], whole, reach)

    def _linear(
        self, clique: Clique, tables: Sequence[FloatArray], needed: int
    ) -> tuple[FloatArray, FloatArray, bool] | str:
        """Means of functions of a cell with the covariance of their noise, and whether all of them were seen.

        Returns:
            These, or why one of the first `needed` is not told.
        """
        if (fine := self.fine(clique)) is not None:
            return *fine.law(list(tables)), True
        means, covariance, seen = np.zeros(len(tables)), np.zeros((len(tables), len(tables))), True
        least = _NOTHING * _size(tables)
        for columns, parts in _split(tables, clique):
            there = [float(np.abs(part).max()) > least for part in parts]
            if not any(there):
                continue
            known = self._part(columns)
            if known is None:
                if any(there[:needed]):
                    return self._missing(columns)
                seen = False
                continue
            means += [float((part * known.table).sum()) for part in parts]
            flat = np.array([part.ravel() for part in parts])
            covariance += known.variance * (flat @ flat.T)
        return means, covariance, seen

    def _clique(self, functions: Sequence[Function]) -> Clique:
        names = set().union(*(function.columns for function in functions))
        return tuple(sorted(self._place[name] for name in names))

    def _grid(self, clique: Clique, functions: Sequence[Function]) -> list[_Points]:
        """Values at which functions are computed, for each column."""
        cuts = {
            self._place[name]: tuple(sorted(set().union(*(f.cuts.get(name, frozenset()) for f in functions))))
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

    def _points(self, place: int, binning: Binning, cuts: tuple[float, ...], pieces: int) -> _Points:
        key = place, binning is self.finer, cuts, pieces
        if key not in self._cells:
            if len(self._cells) >= _MOST_CELLS:
                self._cells.clear()
            self._cells[key] = self._cells_of(place, binning, cuts, pieces)
        return self._cells[key]

    def _cells_of(self, place: int, binning: Binning, cuts: tuple[float, ...], pieces: int) -> _Points:
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


def _no_noise(figure: Released, reach: float) -> Released:
    """The same, as public where it has noise of rounding alone."""
    return Released(figure.estimate) if figure.deviation <= _NOTHING * reach else figure


def _added(one: Law, other: Law) -> Law:
    """Law of the sums of functions of two columns, whose noise is independent."""

    def both(a: Released, b: Released) -> Released:
        return Released(a.estimate + b.estimate, math.hypot(a.deviation, b.deviation))

    names = [each.name for each in fields(Between)]
    whole = Between(*(both(getattr(one.whole, name), getattr(other.whole, name)) for name in names))
    return Law(one.means + other.means, one.covariance + other.covariance, whole, one.reach + other.reach)


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
