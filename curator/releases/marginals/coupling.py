"""Rows in which pairs go together as released products and tables outside of the model say.

A model draws column after column: the codes of a column are dealt to rows that are alike in the columns of
one table. Who gets which code changes no count of that table. So chances are tilted within such rows
(`tilt.Chances`) until products of scores come out as released, and so do counts with columns that were drawn
before and that no table of the model holds with this one. What a released table has beyond the rows shrinks
block by block (`descent`): a block that stands out by its own size, any other by how far the blocks of all
such pairs are spread beyond noise. Every table of the model keeps its counts.

Then each number takes a fine bin within its code, dealt to the rows of this code by a key. Its weights
are those of a normal law: let R be the correlations that the released products of ranks say, and z normal
quantiles of ranks. Given the other numbers, the logarithm of z_c's density has the slope -sum_j R^-1_cj z_j,
so within a code in which z_c has the deviation w the key is noise - w sum_j R^-1_cj z_j. This keeps every
table, and gives back what codes of some width hide, but no more: rows that were dealt to make up for what the
noise of a table had hidden lay on lines within its cells.

A category k that a table holds with z_c adds the slope of the logarithm of P(k | z_c), from the bin below to
the bin above. Differences of shares of the two bins shrink by their noise (James and Stein). The shares are
those of the rows that are made.

Products have noise: of what they say beyond the rows that are there, the part is kept that noise does not
explain, by the spread of all pairs (empirical Bayes) or by the size of one (James and Stein 1961). The score
of a code is the mean score of its fine bins. All of this is post-processing of released sums.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator.releases.marginals.descent import Blocks, fitted_margins, spreads_of
from curator.releases.marginals.model import Model, systematic
from curator.releases.marginals.products import ToldRanks, ranked, scores_of_codes
from curator.releases.marginals.tilt import Chances, WantedProduct, WantedTable, one_hot
from fedkme.answers.counts import CountEvidence
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.counts import Clique
from fedkme.releases.counts import StoredCounts, pooled
from fedkme.releases.fine import FineShares

_SWEEPS = 2
"""Times that each number's fine bins are dealt again."""
_LEAST_EIGENVALUE, _LEAST_RANK = 0.05, 0.002  # of correlations with noise; of the rank of a fine bin
_STEEPEST = 0.95  # of the difference of two shares over their sum


@dataclass(frozen=True, eq=False)
class Coupling:
    """Products of scores that rows are drawn to have.

    Attributes:
        scores: score of each code, by the number's column.
        orders: codes in the order of their numbers, by column.
        fine_scores: score of each fine bin, by column.
        fine_orders: fine bins in the order of their numbers, by column.
        fine: shares of numbers by fine bins, by column.
        products: mean product of two numbers' scores, by their columns, ascending.
        noise: deviation of the noise in each.
        shown: part of a score's variance that codes show, by column.
        tables: noise in the share of a cell of a number's table with another column, by both.
        outside: shares of pairs that no table of the model holds, with the noise in each.
        spreads: variance of what the model lacks of these pairs, by levels of blocks.
    """

    scores: Mapping[int, FloatArray]
    orders: Mapping[int, Sequence[int]]
    fine_scores: Mapping[int, FloatArray]
    fine_orders: Mapping[int, Sequence[int]]
    fine: Mapping[int, FineShares]
    products: Mapping[tuple[int, int], float]
    noise: float
    shown: Mapping[int, float]
    tables: Mapping[int, Mapping[int, float]]
    outside: Mapping[Clique, tuple[FloatArray, float]]
    spreads: Mapping[tuple[int, int], float]

    def draw(
        self,
        column: int,
        earlier: Sequence[int],
        codes: IntArray,
        joint: FloatArray,
        parent: IntArray,
        generator: np.random.Generator,
    ) -> IntArray | None:
        """Draw a column's codes; None where it has nothing to be coupled with.

        Args:
            column: the column.
            earlier: columns that are drawn already and that no table with this column holds.
            codes: codes of all columns so far, (rows, columns).
            joint: weights of the codes for each cell of rows that are alike, (cells, codes).
            parent: cell of each row.
            generator: source of random numbers.
        """
        used, place = np.unique(parent, return_inverse=True)
        total = joint[used].sum(axis=1, keepdims=True)
        shares = np.where(total > 0.0, joint[used] / np.maximum(total, 1e-300), 1.0 / joint.shape[1])
        chances = Chances(place, shares[place])
        score = self.scores.get(column, np.zeros(joint.shape[1]))
        moments = self._moments(column, earlier, codes, chances.chances)
        if moments:
            chances = chances.having(moments, (), score)
        tables = self._tables(column, earlier, codes, chances.chances)
        if not moments and not tables:
            return None
        if tables:
            chances = chances.having(moments, tables, score)
        others: list[IntArray | FloatArray] = [each.codes for each in tables]
        return chances.drawn([*others, *(each.column for each in moments)], generator)

    def _moments(
        self, column: int, earlier: Sequence[int], codes: IntArray, chances: FloatArray
    ) -> list[WantedProduct]:
        """Wanted products of a column's scores with those of numbers that are drawn already."""
        others = {other: self.scores[other][codes[:, other]] for other in earlier if other in self.scores}
        others = {other: score for other, score in others.items() if score.std() > 1e-6}
        if column not in self.scores or not others:
            return []
        score, (columns, centres, units) = self.scores[column], _standardised(others)
        means, shown = chances @ score, np.array([self.shown[other] for other in others])
        have = columns.T @ means / len(means)
        released = self.shown[column] * shown * (self._of(column, others) - centres * means.mean()) / units
        own = math.sqrt(max(float((chances @ score**2).mean() - means.mean() ** 2), 1e-12))
        doubt = self.noise / units / own
        wanted = have + own * _clear((released - have) / own, doubt)
        return [WantedProduct(each, want) for each, want in zip(columns.T, wanted.tolist(), strict=True)]

    def _tables(
        self, column: int, earlier: Sequence[int], codes: IntArray, chances: FloatArray
    ) -> list[WantedTable]:
        """Wanted counts of a column with earlier ones, of pairs that no table of the model holds.

        What the released table has beyond the rows' shrinks by its noise, as in `descent`.
        """
        tables = list[WantedTable]()
        for other in earlier:
            pair = min(column, other), max(column, other)
            if pair not in self.outside:
                continue
            (shares, noise), spreads = self.outside[pair], {} if pair in self.products else self.spreads
            cells = one_hot(codes[:, other], len(shares) if other < column else shares.shape[1])
            have = cells @ chances / len(codes)
            rest = (shares if other < column else shares.T) - have
            margins = have.sum(axis=1), have.sum(axis=0)
            more = Blocks.of(_centred(rest), margins, (other, column), self.orders).shrunk(noise, spreads)
            if np.abs(more).sum() > 1e-6:
                wanted = fitted_margins(np.maximum(have + more, 0.0) * (have > 0.0) + 1e-15, *margins)
                tables.append(WantedTable(codes[:, other], cells, wanted * len(codes)))
        return tables

    def fine_codes(self, codes: IntArray, generator: np.random.Generator) -> dict[int, IntArray]:
        """Draw the fine bin of every number that was counted by fine bins, by column; see the module."""
        drawn = {column: shares.drawn(codes[:, column], generator) for column, shares in self.fine.items()}
        scores = {
            column: of[drawn[column] if column in drawn else codes[:, column]]
            for column, of in self.fine_scores.items()
        }
        columns = sorted(column for column, score in scores.items() if score.std() > 1e-6)
        weights = -np.linalg.inv(self._normal_correlations([scores[column] for column in columns], columns))
        np.fill_diagonal(weights, 0.0)
        normal = {column: _normal(self.fine_scores[column]) for column in columns}
        values = {c: normal[c][drawn[c] if c in drawn else codes[:, c]] for c in columns}
        numbers = [column for column in columns if column in self.fine]
        slopes = {column: self._slopes(column, normal[column], codes) for column in numbers}
        for column in numbers * (_SWEEPS if self.products else 1):
            place, order = columns.index(column), np.asarray(self.fine_orders[column])
            chances = self.fine[column].chances(codes[:, column])[:, order]
            width = _deviations(normal[column][order], chances)[codes[:, column]]
            pull = slopes[column] + np.stack([values[other] for other in columns], axis=1) @ weights[place]
            noise, levels = generator.normal(size=len(codes)), generator.random(len(chances))
            drawn[column] = order[systematic(chances, codes[:, column], noise + width * pull, levels)]
            values[column] = normal[column][drawn[column]]
        return drawn

    def _slopes(self, column: int, normal: FloatArray, codes: IntArray) -> FloatArray:
        """Sum, over a number's tables with categories, of the slope of log P(category | number), (rows,)."""
        fine, total = self.fine[column], np.zeros(len(codes))
        bins = np.arange(len(fine.coarse) - fine.atoms)
        low, high = np.maximum(bins - 1, 0), np.minimum(bins + 1, bins[-1])
        mass = np.bincount(fine.within, fine.denoised + 1e-9, len(fine.coarse))
        middles = np.bincount(fine.within, (fine.denoised + 1e-9) * normal, len(fine.coarse)) / mass
        apart = np.maximum(middles[high] - middles[low], 1e-3)[:, None]
        for other, noise in self.tables[column].items():
            table = np.zeros((len(fine.coarse), int(codes[:, other].max()) + 1))
            np.add.at(table, (codes[:, column], codes[:, other]), 1.0 / len(codes))
            rows = np.maximum(table.sum(axis=1, keepdims=True), 1.0 / len(codes))
            shares, doubt = table / rows, (noise / rows) ** 2
            rise, doubt = shares[high] - shares[low], doubt[high] + doubt[low]
            rise = rise * np.maximum(1.0 - doubt / np.maximum(rise**2, 1e-300), 0.0)
            steep = rise / np.maximum(shares[high] + shares[low], 1e-9)
            slopes = np.zeros_like(table)
            slopes[bins] = 2.0 * np.arctanh(np.clip(steep, -_STEEPEST, _STEEPEST)) / apart
            total += slopes[codes[:, column], codes[:, other]]
        return total

    def _normal_correlations(self, scores: Sequence[FloatArray], columns: Sequence[int]) -> FloatArray:
        """Correlations of the normal law that has the released correlations of ranks, (columns, columns)."""
        pairs = [*itertools.combinations(columns, 2)] if self.products else []
        if not pairs:
            return np.eye(len(columns))
        spread, centres = (np.array([of(score) for score in scores]) for of in (np.std, np.mean))
        places = np.triu_indices(len(columns), 1)
        means = np.array([self.products[pair] for pair in pairs])
        units = np.outer(spread, spread)[places]
        ranks = _clear((means - np.outer(centres, centres)[places]) / units, self.noise / units)
        matrix = np.eye(len(columns))
        matrix[places] = 2.0 * np.sin(np.pi / 6.0 * np.clip(ranks, -1.0, 1.0))
        values, vectors = np.linalg.eigh(matrix + matrix.T - np.eye(len(columns)))
        whole = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
        units = np.sqrt(np.diag(whole))
        return np.asarray(whole / np.outer(units, units))

    def _of(self, column: int, others: Mapping[int, FloatArray]) -> FloatArray:
        return np.array([self.products[min(column, other), max(column, other)] for other in others])


def _normal(scores: FloatArray) -> FloatArray:
    """Normal quantiles of scores by rank."""
    from scipy.special import ndtri  # the import takes time, so not at the start

    return np.asarray(ndtri(np.clip((scores + 1.0) / 2.0, _LEAST_RANK, 1.0 - _LEAST_RANK)))


def _deviations(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Deviation of values by the weights of each row, (cells,)."""
    mass = np.maximum(weights.sum(axis=1), 1e-300)
    means = weights @ values / mass
    return np.asarray(np.sqrt(np.maximum(weights @ values**2 / mass - means**2, 0.0)))


def _standardised(others: Mapping[int, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Columns of mean 0 and variance 1, with their means and deviations."""
    columns = np.stack([*others.values()], axis=1)
    centres, units = columns.mean(axis=0), columns.std(axis=0)
    return (columns - centres) / units, centres, units


def _clear(excess: FloatArray, doubt: FloatArray) -> FloatArray:
    """Part of excesses of correlations that their noise does not explain."""
    variances, squares = doubt**2, np.maximum(excess**2, 1e-300)
    precision = variances**-2
    spread = max(0.0, float(precision @ (squares - variances)) / float(precision.sum()))
    return np.asarray(excess * np.maximum(spread / (spread + variances), 1.0 - variances / squares))


def coupling_of(stored: StoredCounts, model: Model) -> Coupling | None:
    """Coupling by the products of a release and by its tables; None where it has no number by fine bins."""
    products, evidence = stored.products, CountEvidence(stored)
    scores, fine_scores, fine = dict[int, FloatArray](), dict[int, FloatArray](), dict[int, FineShares]()
    shown = dict[int, float]()
    orders, fine_orders = stored.binning.orders, stored.finer.orders
    for (column,) in (measurement.clique for measurement in stored.fine):
        if (shares := evidence.fine((column,))) is not None:
            fine[column] = shares
            fine_scores[column] = ranked(shares.denoised, fine_orders[column])
    if products is None and not fine and not stored.others:
        return None
    told = ToldRanks({}, {}, 0.0)
    if products is not None:
        told = ToldRanks.of(products, stored.folded, stored.finer, stored.rows)
    for column, ranks in told.ranks.items():
        shown[column] = 1.0
        scores[column] = fine_scores[column] = ranks
        if (shares := fine.get(column)) is not None:
            scores[column], shown[column] = scores_of_codes(
                ranks, shares.within, shares.denoised + 1e-9, len(shares.coarse)
            )
    tables = {column: _noise_of_tables(stored, column, scores) for column in fine}
    outside = _outside(stored)
    blocks = list[tuple[Blocks, float]]()
    for pair, (table, sigma) in outside.items():
        if pair in told.means:
            continue
        have = model.probabilities(pair)
        margins = have.sum(axis=1), have.sum(axis=0)
        blocks.append((Blocks.of(_centred(table - have), margins, pair, orders), sigma))
    return Coupling(
        scores,
        orders,
        fine_scores,
        fine_orders,
        fine,
        told.means,
        told.noise,
        shown,
        tables,
        outside,
        spreads_of(blocks),
    )


def _noise_of_tables(stored: StoredCounts, column: int, scored: Collection[int]) -> dict[int, float]:
    """Noise in a cell's share of a number's table with each column that no product couples it with."""
    precisions, sizes = dict[int, float](), stored.binning.sizes
    for each in stored.fitted:
        for other in set(each.clique) - {column, *scored} if column in each.clique else ():
            cells = math.prod(sizes[c] for c in each.clique) / (sizes[column] * sizes[other])
            precisions[other] = precisions.get(other, 0.0) + (stored.rows / each.sigma) ** 2 / cells
    return {other: precision**-0.5 for other, precision in precisions.items()}


def _outside(stored: StoredCounts) -> dict[Clique, tuple[FloatArray, float]]:
    """Shares of the pairs to which the model is not fitted, by precision, and the noise in each."""
    sizes, rows = stored.binning.sizes, stored.rows
    pairs = pooled([each for each in stored.others if len(each.clique) == 2])
    return {
        pair: (table.reshape([sizes[c] for c in pair]) / rows, precision**-0.5 / rows)
        for pair, (precision, table) in pairs.items()
    }


def _centred(table: FloatArray) -> FloatArray:
    """Table whose rows and columns have the mean 0."""
    return np.asarray(table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean())
