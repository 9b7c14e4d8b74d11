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
Far cells of a number hold few rows and much of the noise. For any t, min(f, t) is at most f in every row, and
max(f, t) at least f: the least and the most value of fine bins are cut so, where few rows are (`_cut`).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedkme.answers.evidence import Law, ScoredPair, Spread, added, outside, rows_together, scored_pair
from fedkme.answers.functions import Function, columns_of, combined, number_and_gap, taken_apart
from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure
from fedkme.answers.points import CellPoints, OnGrid, cell_means, cell_points, points_of_bin
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
_PIECES = 8
"""Pieces of a bin at which functions are computed."""
_NOTHING = 1e-9  # relative size of rounding error
_FAR_SHARES = (1e-9, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Shares of rows beyond which bounds of a number by fine bins may be cut."""
_MOST_CACHED, _MOST_GRIDS = 64, 2


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
        self._on_grids: dict[tuple[Function, ...], OnGrid] = {}
        self.finer = release.finer
        """Coding of numbers by fine bins."""

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
        if (pairs := self._number_and_gap(functions)) is not None:
            parts = [self._law(each, coefficients) for each in zip(*pairs, strict=True)]
            if not any(part.reason for part in parts):
                return added(*parts)
        law = self._law(functions, coefficients)
        if not law.reason:
            return law
        apart = self._law([taken_apart(each, self.schema) for each in functions], coefficients)
        return law if apart.reason else apart

    def scored(self, one: str, two: str) -> ScoredPair | None:
        """Scores of two numbers by fine bins whose product was released."""
        return None if self._release.products is None else scored_pair(self, self._release.products, one, two)

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
        law = self.law([combined(coefficients, functions).square], [1.0])
        if law.reason:
            return Spread(law.reach, DoubtfulBound(law.reach), measured=False)
        most, middle = law.whole.most.most(), law.whole.middle.estimate
        bound = DoubtfulBound(min(max(most.value, 0.0), law.reach), most.doubt)
        return Spread(max(middle, 0.0), bound, measured=True)

    def _number_and_gap(self, functions: Sequence[Function]) -> list[tuple[Function, Function]] | None:
        """Split functions of one nullable number and its gap where the number has fine bins; else None."""
        names = set().union(*(function.columns for function in functions))
        for gap, number in self.schema.gaps:
            if names == {gap.name, number.name} and self._is_fine((self._place[number.name],)):
                assert number.missing is not None
                return [number_and_gap(f, number.name, number.missing, gap.name) for f in functions]
        return None

    def _law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        on_grid = self._on_grid(functions)
        clique, at, tables = on_grid.clique, on_grid.values, on_grid.means
        values, middle = _combined(coefficients, at), _combined(coefficients, tables)
        within = tuple(range(1, 2 * len(clique), 2))
        gaps = [middle - values.min(axis=within), values.max(axis=within) - middle]
        reach = float(np.abs(values).max())
        hidden = max(float(gap.max()) for gap in gaps) > _NOTHING * _size(tables)
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

        whole = Between(figure(0, 0), figure(-1, 0), figure(0, 1), _no_noise(figure(1, 1, 0), reach))
        if hidden and (fine := self.fine(clique)) is not None:
            ends = values.min(axis=within), values.max(axis=within)
            whole = _with_cut_ends(whole, fine, middle, *ends)
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
        least = _NOTHING * _size(tables)
        for columns, parts in _split(tables, clique):
            present = [float(np.abs(part).max()) > least for part in parts]
            if not any(present):
                continue
            marginal = self._marginal(columns)
            if marginal is None:
                if any(present[:needed]):
                    return self._missing(columns)
                complete = False
                continue
            means += [float((part * marginal.table).sum()) for part in parts]
            flat = np.array([part.ravel() for part in parts])
            covariance += marginal.variance * (flat @ flat.T)
        return means, covariance, complete

    def _on_grid(self, functions: Sequence[Function]) -> OnGrid:
        """Values of functions at the grid; the last are kept, as an interval asks for them many times."""
        key = tuple(functions)
        on_grid = self._on_grids.pop(key, None)
        if on_grid is None:
            clique = self._clique(functions)
            grid = self._grid(clique, functions)
            values = [self._values_on(function, clique, grid) for function in functions]
            on_grid = OnGrid(clique, values, [cell_means(each, grid) for each in values])
        self._on_grids[key] = on_grid
        if len(self._on_grids) > _MOST_GRIDS:
            del self._on_grids[next(iter(self._on_grids))]
        return on_grid

    def _clique(self, functions: Sequence[Function]) -> Clique:
        names = set().union(*(function.columns for function in functions))
        return tuple(sorted(self._place[name] for name in names))

    def _grid(self, clique: Clique, functions: Sequence[Function]) -> list[CellPoints]:
        """Choose the values of each column at which functions are computed."""
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


def _with_cut_ends(
    whole: Between, fine: FineShares, middle: FloatArray, least: FloatArray, most: FloatArray
) -> Between:
    """Take bounds of a function of a fine cell that are cut where few rows are: they have less noise."""
    below, above = _cut(fine, least), _cut(fine, -most)
    low, high = np.minimum(least, below), np.maximum(most, -above)
    means, covariance = fine.law([low, high, high - low, np.clip(middle, -above, below)])
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist()
    figures = [ReleasedFigure(*each) for each in zip(means.tolist(), deviations, strict=True)]
    return replace(whole, least=figures[0], most=figures[1], gap=figures[2], inner=figures[3])


def _cut(fine: FineShares, values: FloatArray) -> float:
    """Cut of a lower bound for which its mean less two deviations is largest, by the denoised shares."""
    order = np.argsort(values)
    above = 1.0 - np.cumsum(fine.denoised[order])
    places = np.minimum(np.searchsorted(-above, np.negative(_FAR_SHARES)), len(order) - 1)
    cuts: list[float] = [math.inf, *values[order[places]].tolist()]
    lower = [np.minimum(values, cut) for cut in cuts]
    noise = np.sqrt(np.maximum(np.diag(fine.law(lower)[1]), 0.0))
    return cuts[int(np.argmax(np.array(lower) @ fine.denoised - 2.0 * noise))]


def _no_noise(figure: ReleasedFigure, reach: float) -> ReleasedFigure:
    """Figure without its noise where the noise is rounding error alone."""
    return ReleasedFigure(figure.estimate) if figure.deviation <= _NOTHING * reach else figure


def _combined(coefficients: Sequence[float], tables: Sequence[FloatArray]) -> FloatArray:
    total: FloatArray = np.sum([a * each for a, each in zip(coefficients, tables, strict=True)], axis=0)
    return total


def _split(tables: Sequence[FloatArray], clique: Clique) -> Iterator[tuple[Clique, list[FloatArray]]]:
    """Parts in V_A of tables over a clique, for each set A of its columns; an axis for each column of A."""
    axes = range(len(clique))
    for size in range(len(clique) + 1):
        for chosen in itertools.combinations(axes, size):
            parts = []
            for table in tables:
                part = table.mean(axis=tuple(axis for axis in axes if axis not in chosen))
                for axis in range(size):
                    part = part - part.mean(axis=axis, keepdims=True)
                parts.append(part)
            yield tuple(clique[axis] for axis in chosen), parts


def _size(tables: Sequence[FloatArray]) -> float:
    return max(1e-300, *(float(np.abs(table).max()) for table in tables))
