"""Rows in which each two numbers go together as their released product says.

A model draws column after column: the codes of a column are dealt to rows that are alike in the columns of
one table, at random. Who gets which code changes no count of that table. So rows take their codes in the
order of a key: noise plus a combination of scores of numbers that were drawn before and are not in the table.
The weights are those for which the products of scores come out as released (like Iman and Conover 1982, who
permute whole columns). Every table of the model keeps its counts.

Then each number takes a fine bin within its code, dealt to the rows of this code by a key, too. Its weights
are those of a normal law: let R be the correlations that the released products of ranks say, and z normal
quantiles of ranks. Given the other numbers, the logarithm of z_c's density has the slope -sum_j R^-1_cj z_j,
so within a code in which z_c has the deviation w the key is noise - w sum_j R^-1_cj z_j. This keeps every
table, and gives back what codes of some width hide, but no more: rows that were dealt to make up for what the
noise of a table had hidden lay on lines within its cells.

Products have noise: of what they say beyond the rows that are there, the part is kept that noise does not
explain, by the spread of all pairs (empirical Bayes) or by the size of one (James and Stein 1961). The score
of a code is the mean score of its fine bins. All of this is post-processing of released sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from curator.releases.marginals.model import systematic
from curator.releases.marginals.products import scores_of_codes
from fedkme.answers.counts import CountEvidence
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.counts import SCORE_STEPS
from fedkme.releases.counts import StoredCounts
from fedkme.releases.fine import FineShares

_STEPS, _CLOSE = 12, 0.1
"""Most steps of the search for weights; gap of the products that is close enough, in deviations of noise."""
_SWEEPS = 2
"""Times that each number's fine bins are dealt again."""
_LEAST_EIGENVALUE, _LEAST_RANK = 0.05, 0.002  # of correlations with noise; of the rank of a fine bin
_LEAST_FREE = 0.02
"""Variance of a score among rows that are alike, added to steps: little can be coupled within such rows."""
_MOST_WEIGHT = 4.0
"""Most deviation of the weighted scores in a key, beside a noise of 1."""


@dataclass(frozen=True, eq=False)
class _Deal:
    """A column's codes to be dealt to rows.

    Attributes:
        score: score of each code, rising.
        weights: weights of the codes for each cell of rows that are alike, (cells, codes).
        parent: cell of each row.
        columns: standardised scores of other numbers, (rows, others).
        noise: random part of each row's key.
        levels: random number of each cell.
    """

    score: FloatArray
    weights: FloatArray
    parent: IntArray
    columns: FloatArray
    noise: FloatArray
    levels: FloatArray

    @cached_property
    def _by_rank(self) -> IntArray:
        """Codes by cell and by rank of the key, the same for every key."""
        drawn = systematic(self.weights, self.parent, self.noise, self.levels)
        return np.asarray(drawn[np.lexsort((drawn, self.parent))])

    def dealt(self, key: FloatArray) -> tuple[IntArray, FloatArray]:
        """Codes in the order of the key, and their mean products with the other numbers."""
        drawn = np.empty_like(self._by_rank)
        drawn[np.argsort(self.parent * (4.0 * float(np.abs(key).max())) + key)] = self._by_rank
        return drawn, self.columns.T @ self.score[drawn] / len(drawn)

    def fitted(self, drawn: IntArray, have: FloatArray, wanted: FloatArray, doubt: FloatArray) -> IntArray:
        """Codes for which the products are nearest to the wanted ones.

        Args:
            drawn: codes in the order of noise alone.
            have: their products.
            wanted: products to have.
            doubt: deviation of the noise in each.
        """
        cells = len(self.weights)
        free = self.columns - _means(self.columns, self.parent, cells)[self.parent]
        score = self.score[drawn]
        own = score - _means(score[:, None], self.parent, cells)[self.parent, 0]
        spread, width = free.T @ free / len(free), math.sqrt(float(own @ own) / len(own)) + 1e-9
        best, weights = (math.inf, drawn), np.zeros(len(wanted))
        for _ in range(_STEPS):
            gap = wanted - have
            if (size := float(np.linalg.norm(gap / doubt))) < best[0]:
                best = (size, drawn)
            if size < _CLOSE * math.sqrt(len(gap)):
                break
            length = math.sqrt(1.0 + float(weights @ spread @ weights))
            weights += np.linalg.solve(spread + _LEAST_FREE * np.eye(len(gap)), gap) * (length / width)
            weights *= min(1.0, _MOST_WEIGHT / max(math.sqrt(float(weights @ spread @ weights)), 1e-300))
            drawn, have = self.dealt(self.noise + free @ weights)
        return best[1]


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
    """

    scores: Mapping[int, FloatArray]
    orders: Mapping[int, Sequence[int]]
    fine_scores: Mapping[int, FloatArray]
    fine_orders: Mapping[int, Sequence[int]]
    fine: Mapping[int, FineShares]
    products: Mapping[tuple[int, int], float]
    noise: float
    shown: Mapping[int, float]

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
        others = {other: self.scores[other][codes[:, other]] for other in earlier if other in self.scores}
        others = {other: score for other, score in others.items() if score.std() > 1e-6}
        if column not in self.scores or not others:
            return None
        order = np.asarray(self.orders[column])
        noise, levels = generator.normal(size=len(codes)), generator.random(len(joint))
        columns, centres, units = _standardised(others)
        deal = _Deal(self.scores[column][order], joint[:, order], parent, columns, noise, levels)
        drawn, have = deal.dealt(noise)
        shown = self.shown[column] * np.array([self.shown[other] for other in others])
        excess = shown * (self._of(column, others) - centres * deal.score[drawn].mean()) / units - have
        doubt, own = self.noise / units, max(float(deal.score[drawn].std()), 1e-6)
        wanted = have + own * _clear(excess / own, doubt / own)
        return np.asarray(order[deal.fitted(drawn, have, wanted, doubt)])

    def fine_codes(self, codes: IntArray, generator: np.random.Generator) -> dict[int, IntArray]:
        """Draw the fine bin of every number that was counted by fine bins, by column; see the module."""
        drawn = {column: shares.drawn(codes[:, column], generator) for column, shares in self.fine.items()}
        scores = {
            column: of[drawn[column] if column in drawn else codes[:, column]]
            for column, of in self.fine_scores.items()
        }
        columns = [column for column, score in scores.items() if score.std() > 1e-6]
        if len(columns) < 2:
            return drawn
        weights = -np.linalg.inv(self._normal_correlations([scores[column] for column in columns], columns))
        normal = {column: _normal(self.fine_scores[column]) for column in columns}
        values = {c: normal[c][drawn[c] if c in drawn else codes[:, c]] for c in columns}
        for column in [*(column for column in columns if column in self.fine)] * _SWEEPS:
            place, order = columns.index(column), np.asarray(self.fine_orders[column])
            chances = self.fine[column].chances(codes[:, column])[:, order]
            width = _deviations(normal[column][order], chances)[codes[:, column]]
            others = [other for other in columns if other != column]
            pull = np.stack([values[other] for other in others], axis=1) @ np.delete(weights[place], place)
            noise, levels = generator.normal(size=len(codes)), generator.random(len(chances))
            score = self.fine_scores[column][order]
            deal = _Deal(score, chances, codes[:, column], np.zeros((len(codes), 0)), noise, levels)
            drawn[column] = order[deal.dealt(noise + width * pull)[0]]
            values[column] = normal[column][drawn[column]]
        return drawn

    def _normal_correlations(self, scores: Sequence[FloatArray], columns: Sequence[int]) -> FloatArray:
        """Correlations of the normal law that has the released correlations of ranks, (columns, columns)."""
        spread, centres = (np.array([of(score) for score in scores]) for of in (np.std, np.mean))
        places = np.triu_indices(len(columns), 1)
        means = np.array([self.products[pair] for pair in itertools.combinations(columns, 2)])
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


def _means(values: FloatArray, cells: IntArray, count: int) -> FloatArray:
    """Mean of each column of values in each cell, (cells, columns)."""
    rows = np.maximum(np.bincount(cells, minlength=count), 1)
    return np.stack([np.bincount(cells, column, minlength=count) / rows for column in values.T], axis=1)


def coupling_of(stored: StoredCounts) -> Coupling | None:
    """Coupling by the products of a release; None where it has none."""
    products, evidence = stored.products, CountEvidence(stored)
    if products is None:
        return None
    scores, fine_scores, fine = dict[int, FloatArray](), dict[int, FloatArray](), dict[int, FineShares]()
    shown = dict[int, float]()
    for each in products.ranks:
        shown[each.column] = 1.0
        scores[each.column] = fine_scores[each.column] = np.array(each.of) / SCORE_STEPS
        if (shares := evidence.fine((each.column,))) is not None:
            fine[each.column], of = shares, fine_scores[each.column]
            scores[each.column], shown[each.column] = scores_of_codes(
                of, shares.within, shares.denoised + 1e-9, len(shares.coarse)
            )
    means, noise = products.rank_means(stored.rows), products.sigma / stored.rows
    orders, fine_orders = stored.binning.orders, stored.finer.orders
    return Coupling(scores, orders, fine_scores, fine_orders, fine, means, noise, shown)
