"""Means from released tables of counts: the best linear unbiased estimate, with its exact law.

Let y_c = M_c x + sigma_c z be the table over columns c; x holds the counts of all rows, z is standard normal.
Split tables over columns S by R^S = sum over A in S of V_A, where V_A holds the functions of the
columns A alone that have mean 0 along each of these columns. The spaces V_A are orthogonal, so the parts of
one table are independent. Let n be the number of codes of c's columns outside of A, all together. Part A of
y_c is part A of x's marginal over A, times 1/sqrt(n), with noise sigma_c. So each part can be estimated by
itself: let

    q_A = sum over measured c with A in c of 1 / (sigma_c^2 n)

and let p_A be the mean, by these weights, of the y_c summed down to A, divided by N. With h_A the part of a
function h in V_A, the mean of h is estimated by sum_A <h_A, p_A>, and the noise of the means of g and h has
the covariance sum_A <g_A, h_A> / (q_A N^2). By Gauss and Markov, no unbiased linear estimate is better. The
part of no column is N, which is public and has no noise. (The mechanism of Xiao and others 2023,
ResidualPlanner, rests on the same split.)

The release gives no mean of a function that needs a part which no measured table has. But a nullable number
and its gap can be separated, as an empty cell holds a public value (`taken_apart`).

**Bins.** A number is counted by bins, and rows may lie anywhere in their bins. The least and the most value
that a function takes in a cell are functions of the cell. So their means are estimated like those of any
other function: without bias, with exact noise (`Between`). The estimate itself averages a function over
values spread evenly over the bin, on the column's scale. An atom is a bin with one value. Questions about one
number alone are answered by fine bins (`fedkme.releases.fine`). Where the least and the most value need a
table that was not measured, the bounds allow all rows to lie in the cell that is farthest from the mean.
Far cells of a number hold few rows and much of the noise. A function that is nowhere below f has a mean at
least as large, and may have less noise: the least and the most value of fine bins are replaced by the best
such functions (`with_best_ends`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedkme.answers.evidence import Law, ScoredNumbers, ScoredPair, Spread, added, outside, rows_together
from fedkme.answers.functions import Function, columns_of, combined, number_and_gap, taken_apart
from fedkme.answers.intervals import NOTHING, Between, DoubtfulBound, ReleasedFigure, with_best_ends
from fedkme.answers.points import (
    CellPoints,
    OnGrid,
    cell_means,
    cell_points,
    combined_tables,
    largest,
    points_of_bin,
    split,
)
from fedkme.arrays import FloatArray
from fedkme.errors import QuestionError
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, Clique
from fedkme.releases.counts import StoredCounts
from fedkme.releases.fine import FineShares, ToldMean
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema

MOST_POINTS = 2**22
"""Most points at which the functions of a question are computed."""
_PIECES = (8, 3, 1)
"""Pieces of a bin at which functions are computed: the most that leave few points."""
_MOST_CACHED, _MOST_GRIDS, _MOST_PARTS = 64, 6, 16

_Parts: TypeAlias = list[tuple[Function, ...]]


@dataclass(frozen=True, eq=False, slots=True)
class _Marginal:
    """Marginal over some columns, estimated from all tables that include the columns.

    Attributes:
        table: shares of rows, one axis for each column.
        variance: variance of the noise of a coefficient in V_A; see the module.
    """

    table: FloatArray
    variance: float


class CountEvidence:
    """`Evidence` from a release of marginals."""

    method = "released counts"

    def __init__(self, release: StoredCounts) -> None:
        self._release = release
        self._binning = release.binning
        self._place = {name: place for place, name in enumerate(self._binning.names)}
        self._columns = columns_of(self.schema)
        self._marginals: dict[Clique, _Marginal | None] = {}
        self._cells: dict[tuple[int, bool, tuple[float, ...], int], CellPoints] = {}
        self._fine = {each.clique[0]: each for each in release.folded}
        self._fine_shares: dict[int, FineShares] = {}
        self._parts: dict[tuple[Function, ...], _Parts] = {}
        self._ways: dict[tuple[int, tuple[Function, ...]], Callable[[tuple[Function, ...]], _Parts]] = {}
        self._on_grids: dict[tuple[Function, ...], OnGrid] = {}
        self.finer = release.finer
        """Coding of numbers by fine bins."""
        self._scored = None if release.products is None else ScoredNumbers(self, release.products)

    @property
    def schema(self) -> Schema:
        """Schema of the rows, with the values that have codes of their own as atoms."""
        return self._binning.coded

    @property
    def rows(self) -> int:
        """N, public."""
        return self._release.rows

    @property
    def together(self) -> int:
        """Largest number of rows of one person, or of one group."""
        return rows_together(self.schema, self._release.settings)

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Estimate means of functions; see `Evidence.law`."""
        key = tuple(functions)
        if key not in self._parts:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            self._parts[key] = self._told_parts(key, key)
        return self._added(self._parts[key], coefficients)

    def _added(self, parts: _Parts, coefficients: Sequence[float]) -> Law:
        laws = [self._law(each, coefficients) for each in parts]
        return laws[0] if len(laws) == 1 else added(*laws)

    def _told_parts(self, functions: tuple[Function, ...], asked: tuple[Function, ...]) -> _Parts:
        """Functions whose laws add up to that of some others, in the first way that the release tells.

        The way is found once for all functions that follow from the same that were asked about.
        """
        key = len(functions), asked
        if key in self._ways:
            return self._ways[key](functions)
        if len(self._ways) >= _MOST_PARTS:
            self._ways.clear()
        for way in (self._number_and_gap, _as_they_are, self._taken_apart):
            parts = way(functions)
            if parts and not any(map(self._reason, map(self._on_grid, parts))):
                self._ways[key] = way
                return parts
        self._ways[key] = _as_they_are
        return [functions]

    def untold(self, functions: Sequence[Function]) -> str:
        """Reason why the release does not give means of functions; see `Evidence.untold`."""
        whole = self._untold(tuple(functions))
        for way in (self._number_and_gap, self._taken_apart) if whole else ():
            parts = way(tuple(functions))
            if parts and not any(map(self._untold, parts)):
                return ""
        return whole

    def _untold(self, functions: tuple[Function, ...]) -> str:
        """Reason for these functions as they are, by one point of each piece of a cell."""
        return self._reason(self._computed(functions, (1,)))

    def _reason(self, on: OnGrid) -> str:
        """Reason why the release does not give means of functions of a cell; empty: it gives them."""
        told = "" if self._is_fine(on.clique) else self.linear(on.clique, on.means, len(on.means))
        return told if isinstance(told, str) else ""

    def _taken_apart(self, functions: tuple[Function, ...]) -> _Parts:
        return [tuple(taken_apart(each, self.schema) for each in functions)]

    def scored(self, one: str, two: str) -> ScoredPair | None:
        """Scores of two numbers by fine bins whose product was released."""
        return None if self._scored is None else self._scored.pair(one, two)

    def shares(self, place: int) -> FineShares | None:
        """Shares of a number by fine bins, or by its own bins where it has few values; None: not counted."""
        return self.fine((place,)) or self._alone(place)

    def _alone(self, place: int) -> FineShares | None:
        """Shares of a number of few values by its own bins; None where it was not counted."""
        marginal = self._marginal((place,))
        if marginal is None:
            return None
        shares = 1.0 / marginal.table.size + marginal.table - marginal.table.mean()
        cells, deviation = np.arange(shares.size), math.sqrt(marginal.variance)
        return FineShares(shares, deviation, cells, shares, math.inf, self.finer.count_atoms(place))

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a combination, bounded by the most that its cells allow; see `Evidence.spread`."""
        square = (combined(coefficients, functions).square,)
        law = self._added(self._told_parts(square, functions), [1.0])
        if law.reason:
            return Spread(law.reach, DoubtfulBound(law.reach), measured=False)
        most, middle = law.whole.most.most(), law.whole.middle.estimate
        bound = DoubtfulBound(min(max(most.value, 0.0), law.reach), most.doubt)
        return Spread(max(middle, 0.0), bound, measured=True)

    def _number_and_gap(self, functions: tuple[Function, ...]) -> _Parts:
        """Split functions of one nullable number and its gap where the number has fine bins; else nothing."""
        names = set().union(*(function.columns for function in functions))
        for gap, number in self.schema.gaps:
            if names == {gap.name, number.name} and self._is_fine((self._place[number.name],)):
                assert number.missing is not None
                pairs = [number_and_gap(f, number.name, number.missing, gap.name) for f in functions]
                return list(zip(*pairs, strict=True))
        return []

    def _law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        on_grid = self._on_grid(functions)
        clique, at, tables = on_grid.clique, on_grid.values, on_grid.means
        values, middle = combined_tables(coefficients, at), combined_tables(coefficients, tables)
        within = tuple(range(1, 2 * len(clique), 2))
        gaps = [middle - values.min(axis=within), values.max(axis=within) - middle]
        reach = float(np.abs(values).max())
        hidden = max(float(gap.max()) for gap in gaps) > NOTHING * largest(tables)
        estimates = self.linear(clique, [*tables, *gaps] if hidden else tables, len(tables))
        if isinstance(estimates, str):
            return replace(outside(len(tables), estimates), reach=reach)
        means, covariance, complete = estimates
        count, weights = len(tables), np.array(coefficients)

        def figure(below: float, above: float, middle: float = 1.0) -> ReleasedFigure:
            """Combine the middle with its gaps to the least and the most, by these coefficients."""
            if not (hidden and complete):
                variance = max(float(weights @ covariance[:count, :count] @ weights), 0.0)
                public = below * float(gaps[0].max()) + above * float(gaps[1].max()) if hidden else 0.0
                value = middle * float(weights @ means[:count])
                return ReleasedFigure(value + public, middle * math.sqrt(variance))
            on = np.append(middle * weights, [below, above])
            return ReleasedFigure(float(on @ means), math.sqrt(max(float(on @ covariance @ on), 0.0)))

        gap = figure(1, 1, 0).unless_rounding(reach)
        whole = Between(figure(0, 0), figure(-1, 0), figure(0, 1), gap, hidden=hidden)
        if (fine := self.fine(clique)) is not None:
            whole = with_best_ends(whole, fine, values.min(axis=within), values.max(axis=within))
        return Law(means[:count], covariance[:count, :count], whole, reach)

    def linear(
        self, clique: Clique, tables: Sequence[FloatArray], needed: int
    ) -> tuple[FloatArray, FloatArray, bool] | str:
        """Estimate means of functions of a cell, of which the first `needed` are required.

        Returns:
            Means, the covariance of their noise, and whether the release gives all means; or the reason why
            it does not give a required one.
        """
        if (fine := self.fine(clique)) is not None:
            return *fine.law(list(tables)), True
        means, covariance, complete = np.zeros(len(tables)), np.zeros((len(tables), len(tables))), True
        least = NOTHING * largest(tables)
        for columns, parts in split(tables, clique):
            flat = parts.reshape(len(tables), -1)
            present = np.abs(flat).max(axis=1) > least
            if not present.any():
                continue
            marginal = self._marginal(columns)
            if marginal is None:
                if present[:needed].any():
                    return self._missing(columns)
                complete = False
                continue
            means += (flat * marginal.table.ravel()).sum(axis=1)
            covariance += marginal.variance * (flat @ flat.T)
        return means, covariance, complete

    def _on_grid(self, functions: Sequence[Function]) -> OnGrid:
        """Values of functions at the grid; the last are kept, as an interval asks for them many times."""
        key = tuple(functions)
        self._on_grids[key] = on_grid = self._on_grids.pop(key, None) or self._computed(functions)
        if len(self._on_grids) > _MOST_GRIDS:
            del self._on_grids[next(iter(self._on_grids))]
        return on_grid

    def _computed(self, functions: Sequence[Function], pieces: Sequence[int] = _PIECES) -> OnGrid:
        clique = self._clique(functions)
        grid = self._grid(clique, functions, pieces)
        values = [self._values_on(function, clique, grid) for function in functions]
        return OnGrid(clique, values, [cell_means(each, grid) for each in values])

    def _clique(self, functions: Sequence[Function]) -> Clique:
        names = set().union(*(function.columns for function in functions))
        return tuple(sorted(self._place[name] for name in names))

    def _grid(self, clique: Clique, functions: Sequence[Function], most: Sequence[int]) -> list[CellPoints]:
        """Choose the values of each column at which functions are computed."""
        cuts = {
            self._place[name]: tuple(sorted(set().union(*(f.cuts.get(name, frozenset()) for f in functions))))
            for name in set().union(*(function.columns for function in functions))
        }
        binning = self.finer if self._is_fine(clique) else self._binning
        cells = math.prod(binning.sizes[column] for column in clique)
        if cells <= MOST_POINTS:
            for pieces in most:
                grid = [self._points(column, binning, cuts[column], pieces) for column in clique]
                if math.prod(points.values.size for points in grid) <= MOST_POINTS:
                    return grid
        raise QuestionError(
            f"the columns of a question have {cells} cells together; the limit is {MOST_POINTS}",
            "Ask about fewer columns at a time.",
        )

    def _is_fine(self, clique: Clique) -> bool:
        return len(clique) == 1 and clique[0] in self._fine

    def fine(self, clique: Clique) -> FineShares | None:
        """Shares of a number by fine bins; None for several columns, or without a count by fine bins."""
        if not self._is_fine(clique):
            return None
        if clique[0] not in self._fine_shares:
            self._fine_shares[clique[0]] = self._shares_of(clique)
        return self._fine_shares[clique[0]]

    def _shares_of(self, clique: Clique) -> FineShares:
        counted, within = self._fine[clique[0]], self.finer.within(clique[0], self._binning)
        marginal, codes = self._marginal(clique), self._binning.sizes[clique[0]]
        coarse, variance = np.full(codes, 1.0 / codes), math.inf
        if marginal is not None:
            coarse, variance = coarse + marginal.table - marginal.table.mean(), marginal.variance
        fine, sigma = counted.values / self.rows, counted.sigma / self.rows
        atoms, told = self.finer.count_atoms(clique[0]), self._told(clique[0])
        return FineShares(fine, sigma, within, coarse, variance, atoms, counted.parts, told)

    def _told(self, place: int) -> ToldMean | None:
        """Mean of a number's score by value; None where it was not released."""
        products = self._release.products
        scores = {} if products is None else {each.column: each.of for each in products.values}
        if products is None or place not in scores:
            return None
        mean = products.value_mean(place, None, self.rows)
        return ToldMean(np.array(scores[place]) / SCORE_STEPS, mean, products.sigma / self.rows)

    def _points(self, place: int, binning: Binning, cuts: tuple[float, ...], pieces: int) -> CellPoints:
        key = place, binning is self.finer, cuts, pieces
        if key not in self._cells:
            if len(self._cells) >= _MOST_CACHED:
                self._cells.clear()
            self._cells[key] = self._cells_of(place, binning, cuts, pieces)
        return self._cells[key]

    def _cells_of(self, place: int, binning: Binning, cuts: tuple[float, ...], pieces: int) -> CellPoints:
        column, size = self._columns[binning.names[place]], binning.sizes[place]
        if not isinstance(column, Numeric):
            return CellPoints(np.arange(size, dtype=np.float64)[:, None], np.ones((size, 1)))
        edges = binning.edges(column)
        last = len(edges) - 2

        def points(code: int) -> tuple[FloatArray, FloatArray]:
            start, end = edges[code : code + 2].tolist()
            own = tuple(cut for cut in cuts if start < cut < end)
            return points_of_bin(column.axis, column.singles, start, end, code == last, own, pieces)

        if not cuts:
            bins = [points(code) for code in range(last + 1)]
            return cell_points(bins + [(np.array([atom]), np.ones(1)) for atom in column.singles])
        inside = np.unique(np.searchsorted(edges, [cut for cut in cuts if cut not in edges])) - 1
        even = self._points(place, binning, (), pieces)  # a cut changes its own bin alone
        return even.replaced({code: points(code) for code in inside.tolist() if 0 <= code <= last})

    def _values_on(self, function: Function, clique: Clique, grid: Sequence[CellPoints]) -> FloatArray:
        """Values of a function at the grid: two axes for each column, its codes and their points."""
        shape = [1] * (2 * len(grid))
        values: dict[str, FloatArray] = {}
        for axis, (place, points) in enumerate(zip(clique, grid, strict=True)):
            own = shape.copy()
            own[2 * axis : 2 * axis + 2] = points.values.shape
            values[self._binning.names[place]] = points.values.reshape(own)
        whole = [side for points in grid for side in points.values.shape]
        return np.broadcast_to(np.asarray(function.of(values), np.float64), whole)

    def _marginal(self, columns: Clique) -> _Marginal | None:
        if columns not in self._marginals:
            self._marginals[columns] = self._averaged(columns)
        return self._marginals[columns]

    def _averaged(self, columns: Clique) -> _Marginal | None:
        """Average all tables that include the columns, summed down to these, by precision; None: no table."""
        sizes, total, weights = self._binning.sizes, np.zeros(()), 0.0
        if not columns:
            return _Marginal(np.ones(()), 0.0)
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
        return _Marginal(total / (weights * self.rows), 1.0 / (weights * self.rows**2))

    def _missing(self, columns: Clique) -> str:
        names = " and ".join(self._binning.names[column] for column in columns)
        together = " together" if len(columns) > 1 else ""
        return f"not in the span of what was released: {names} were not counted{together}"


def _as_they_are(functions: tuple[Function, ...]) -> _Parts:
    return [functions]
