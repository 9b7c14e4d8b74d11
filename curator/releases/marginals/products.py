"""Products of scores: one question that tells how each two numbers go together.

Rough tables of pairs say little of a correlation: their noise is spread over hundreds of cells. Once numbers
are counted by fine bins, each fine bin has two scores: a multiple of its rank, cut at -1 and 1, and one that
rises with its value, cut at far quantiles. One question asks for the sums of u_i u_j over all rows, for each
two numbers and each kind of score. Squares of scores follow from the fine counts, means also from one sum
each.

**Privacy.** Relation: replace one row, N public. All products of k scores in [-1, 1] move by k in L2 at most,
whatever the scores (fedkme.features.counts has the proof): two kinds of k and k' scores with noise sigma cost
mu^2 = (k^2 + k'^2) / sigma^2, where k' counts the score of 1, too. This adds to the costs of tables
(`budget`). An owner computes the bound from the question itself, which holds no more than MOST_SCORES scores
of its schema's codes (fedkme.sums.values). Scores follow from noisy counts that are on disk: post-processing.
Whether the question is asked follows from public numbers.

**Steep ranks.** Scores in [-1, 1] cost the same however steep they are, and steep ones vary more. Let two
numbers have a normal copula with correlation r, and let a_n and c_n be the coefficients of a score by
normalised Hermite polynomials of the normal score. The mean product of two scores is sum_n a_n c_n r^n
(Mehler 1866), for any scores and ties. It rises with r, so a released product tells r, and r the mean product
of ranks (`ToldRanks`), with .65 of the noise that a product of ranks would have.

**What products tell of a model's pairs.** Of two numbers with a normal copula the L1 distance to a model is
2 / pi of the error of their correlation, to first order: E |x y| = 2 / pi. Rows are dealt to have most of it
anyway (`coupling`), so less counts. The square less noise and one deviation of it stands for the rough
table of a pair where that would tell less (`rounds`). It sees no dependence that neither rises nor falls.

**Scores of values.** u = (x - a) / b in the middle of a fine bin, cut to [-1, 1]. Wide ends tell of all rows,
narrow ones have less noise beside the variance of u. Of a few quantiles the ends are those for which the
noise of a correlation and the sine of the angle between u and x are least, by the denoised fine counts. Rows
without the number are left out of these, and their stand-in value has the mean score, if no more than a
thousandth of the variance is lost. One more score is 1 for every row: its products are the sums of all
others, so means have the noise of one sum and not of all fine bins (`fedkme.releases.fine`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedkme.answers.correlations import BOUND
from fedkme.answers.functions import columns_of
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, Clique, NumberScores
from fedkme.releases.counts import Measurement, Products, valued
from fedkme.releases.fine import denoised
from fedkme.sums.values import MOST_SCORES
from fedkme.tables.names import Category
from fedkme.tables.numbers import Numeric

PRODUCTS_SHARE, MOST_PRODUCTS_SHARE, PRODUCTS_NOISE = 0.05, 0.1, 0.05
"""Share of the budget for products of scores. Where the noise of a rank correlation with this share is above
PRODUCTS_NOISE, the share is as many times as large, up to the most."""
STEEP = 1.5
"""Slope of a score by its rank where the noise of a rank correlation, with the usual share, is above
PRODUCTS_NOISE: there less noise is worth more than laws that are not normal cost. Elsewhere it is 1."""
TELLING = 0.15
"""Most noise of a rank correlation for which products are asked."""
FEW_APART = 0.001
"""Part of a score's variance up to which the numbers at a stand-in value may lose it."""
_L1 = 0.4  # of E |x y| = 2 / pi of normal numbers: rows are dealt to have the correlation, without a table
_RANK_VARIANCE = 1.0 / 3.0  # of scores that are even on [-1, 1]
_TERMS, _CORRELATIONS = 40, np.linspace(-0.999, 0.999, 1999)
_FAR_QUANTILES = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


@dataclass(frozen=True)
class ProductsPlan:
    """Question for products of scores.

    Attributes:
        ranks: scores by rank, of all numbers.
        values: scores by value, of all numbers or of those without gaps; none where there are fewer than two.
        sigma: noise of each sum, of scores in [-1, 1].
    """

    ranks: tuple[NumberScores, ...]
    values: tuple[NumberScores, ...]
    sigma: float

    @property
    def cost(self) -> float:
        """mu^2 of the question."""
        return products_cost(self.sigma, len(self.ranks), valued(len(self.values)))


@dataclass(frozen=True, eq=False)
class Moment:
    """Sum over all rows of a function of two columns' codes, with noise.

    Attributes:
        weights: value of the function in each cell.
        value: the sum.
        sigma: deviation of the noise.
    """

    weights: FloatArray
    value: float
    sigma: float


@dataclass(frozen=True, eq=False)
class ToldRanks:
    """Products of ranks that products of steeper scores tell; see the module.

    Attributes:
        ranks: rank of each fine bin, by the number's column.
        means: mean product of two numbers' ranks, by their columns, ascending.
        noise: deviation of the noise in each, of numbers that hardly correlate; less of others.
    """

    ranks: Mapping[int, FloatArray]
    means: Mapping[tuple[int, int], float]
    noise: float

    @classmethod
    def of(cls, products: Products, fine: Sequence[Measurement], finer: Binning, rows: int) -> ToldRanks:
        """Read the products of a release of N rows, by the fine counts of its numbers."""
        counts, columns = {each.clique[0]: each for each in fine}, columns_of(finer.coded)
        asked = {each.column: np.array(each.of) / SCORE_STEPS for each in products.ranks}
        ranks, of_scores, of_ranks = (dict[int, FloatArray]() for _ in range(3))
        for place, scores in asked.items():
            order, atoms = list(finer.orders[place]), len(_numeric(columns, finer.names[place]).singles)
            shares = _shares(counts.get(place), len(scores), atoms)
            ranks[place] = ranked(shares, order)
            of_scores[place] = _hermite(scores[order], shares[order])
            of_ranks[place] = _hermite(ranks[place][order], shares[order])
        noise = products.sigma / rows
        if all(np.abs(asked[place] - ranks[place]).max() * SCORE_STEPS <= 0.5 + 1e-6 for place in asked):
            return cls(asked, products.rank_means(rows), noise)
        means, slopes = dict[tuple[int, int], float](), list[float]()
        powers = _CORRELATIONS[:, None] ** np.arange(_TERMS)
        for pair, mean in products.rank_means(rows).items():
            steep, rank = (of[pair[0]] * of[pair[1]] for of in (of_scores, of_ranks))
            means[pair] = float(np.interp(mean, powers @ steep, powers @ rank))
            slopes.append(float(rank[1]) / max(float(steep[1]), 1e-9))
        return cls(ranks, means, float(np.mean(slopes)) * noise)


def _hermite(scores: FloatArray, shares: FloatArray) -> FloatArray:
    """Coefficients of scores, in order, by normalised Hermite polynomials of the normal score."""
    from scipy.special import ndtri  # the import takes time, so not at the start

    ends = ndtri(np.clip(np.cumsum(shares)[:-1], 1e-9, 1.0 - 1e-9))
    steps = np.diff(scores) * np.exp(-(ends**2) / 2.0) / math.sqrt(2.0 * math.pi)
    coefficients, last, now = [float(scores @ shares)], np.zeros_like(ends), np.ones_like(ends)
    for n in range(1, _TERMS):
        coefficients.append(float(steps @ now) / math.sqrt(n))
        last, now = now, (ends * now - math.sqrt(n - 1) * last) / math.sqrt(n)
    return np.array(coefficients)


@dataclass(frozen=True, eq=False)
class SeenProducts:
    """Products of scores by rank, as the codes of tables see them.

    Attributes:
        scores: mean score of each code, by the number's column.
        shown: part of a score's variance that codes show, by column.
        means: mean product of two numbers' scores, by their columns, ascending.
        noise: deviation of the noise in each.
    """

    scores: Mapping[int, FloatArray]
    shown: Mapping[int, float]
    means: Mapping[tuple[int, int], float]
    noise: float

    @classmethod
    def of(
        cls,
        products: Products | None,
        fine: Sequence[Measurement],
        finer: Binning,
        binning: Binning,
        rows: int,
    ) -> SeenProducts | None:
        """Score the codes of tables by the fine counts; None without products."""
        if products is None:
            return None
        counts, columns = {each.clique[0]: each for each in fine}, columns_of(finer.coded)
        scores, shown = dict[int, FloatArray](), dict[int, float]()
        told = ToldRanks.of(products, fine, finer, rows)
        for place, bins in told.ranks.items():
            atoms = len(_numeric(columns, finer.names[place]).singles)
            mass = _shares(counts.get(place), len(bins), atoms) + 1e-9
            within = finer.within(place, binning)
            scores[place], shown[place] = scores_of_codes(bins, within, mass, binning.sizes[place])
        return cls(scores, shown, told.means, told.noise)

    def moments(self, rows: int) -> dict[Clique, Moment]:
        """Products as sums over the cells of each pair's table.

        Within codes of some width numbers go together, too: codes have the part of a product that they show.
        """
        return {
            (one, two): Moment(
                np.outer(self.scores[one], self.scores[two]),
                self.shown[one] * self.shown[two] * mean * rows,
                self.noise * rows,
            )
            for (one, two), mean in self.means.items()
        }

    def error(self, pair: tuple[int, ...], shares: FloatArray) -> float:
        """Estimate the L1 distance of a model's table over two numbers from the rows', both of sum 1."""
        first, second = pair
        one = self.scores[first] - shares.sum(axis=1) @ self.scores[first]
        two = self.scores[second] - shares.sum(axis=0) @ self.scores[second]
        unit = math.sqrt(float(shares.sum(axis=1) @ one**2) * float(shares.sum(axis=0) @ two**2))
        if not unit > 0.0:
            return 0.0
        seen = self.shown[first] * self.shown[second]
        excess = (seen * self.means[first, second] - float(one @ shares @ two)) / unit
        return _L1 * math.sqrt(max(0.0, excess**2 - (1.0 + math.sqrt(2.0)) * (seen * self.noise / unit) ** 2))


def scores_of_codes(
    of: FloatArray, within: IntArray, mass: FloatArray, codes: int
) -> tuple[FloatArray, float]:
    """Mean score of each code by its fine bins, and the part of the scores' variance that codes show."""
    total = np.maximum(np.bincount(within, mass, codes), 1e-12)
    scores = np.bincount(within, mass * of, codes) / total
    variances = [float(np.cov(s, aweights=w, ddof=0)) for s, w in ((scores, total), (of, mass))]
    return scores, variances[0] / max(variances[1], 1e-12)


def products_cost(sigma: float, *counts: int) -> float:
    """mu^2 of products with noise sigma, of blocks of so many scores in [-1, 1]."""
    return (math.hypot(*counts) / sigma) ** 2


def products_sigma(cost: float, *counts: int) -> float:
    """Noise of the products that have this `products_cost`."""
    return math.hypot(*counts) / math.sqrt(cost)


def _noise(rows: int, total: float, ranks: int, values: int) -> float:
    """Noise of a rank correlation of N public rows, of the usual share of a budget mu^2 = total."""
    return products_sigma(PRODUCTS_SHARE * total, ranks, valued(values)) / (_RANK_VARIANCE * max(rows, 1))


def _scored(finer: Binning, rows: int, total: float) -> tuple[list[int], list[int]]:
    """Numbers with scores by rank, and those with scores by value: all, or two or more without gaps.

    Numbers with gaps have scores by value where ranks are told well with these, too.
    """
    nullable = _nullable(finer)
    numbers = [place for place, order in finer.orders.items() if len(order) > 1]
    if _noise(rows, total, len(numbers), len(numbers)) <= PRODUCTS_NOISE:
        return numbers, numbers
    whole = [place for place in numbers if finer.names[place] not in nullable]
    return numbers, whole if len(whole) > 1 else []


def _nullable(finer: Binning) -> set[str | None]:
    """Names of the numbers that may have gaps."""
    return {each.gaps_of for each in finer.schema.columns if isinstance(each, Category)}


def products_share(finer: Binning, rows: int, total: float) -> float:
    """Share of the budget, mu^2 = total, for products of scores of N public rows."""
    noise = _noise(rows, total, *map(len, _scored(finer, rows, total)))
    return min(MOST_PRODUCTS_SHARE, PRODUCTS_SHARE * max(1.0, noise / PRODUCTS_NOISE))


def plan_products(
    finer: Binning, fine: Sequence[Measurement], rows: int, total: float, cost: float
) -> ProductsPlan | None:
    """Choose the scores of all numbers by their fine counts.

    Args:
        finer: coding of numbers by fine bins.
        fine: noisy counts of numbers by fine bins; a number of few values has none.
        rows: N.
        total: mu^2 of the whole release.
        cost: mu^2 of the question.

    Returns:
        The question; None where it would tell little.
    """
    columns, counts = columns_of(finer.coded), {each.clique[0]: each for each in fine}
    numbers, with_values = _scored(finer, rows, total)
    if not len(numbers) >= 2 or len(numbers) + valued(len(with_values)) > MOST_SCORES:
        return None
    sigma, nullable = products_sigma(cost, len(numbers), valued(len(with_values))), _nullable(finer)
    if sigma > TELLING * _RANK_VARIANCE * rows:
        return None
    ranks, values = list[NumberScores](), list[NumberScores]()
    steep = STEEP if _noise(rows, total, len(numbers), len(with_values)) > PRODUCTS_NOISE else 1.0
    for place in numbers:
        column = _numeric(columns, finer.names[place])
        order = np.asarray(finer.orders[place])
        counted = counts.get(place)
        shares = _shares(counted, len(order), len(column.singles))
        slope = steep if counted is not None else 1.0  # shares that nobody counted need not be even
        ranks.append(NumberScores(place, _steps(slope * _ranks(shares[order]), order)))
        if place in with_values:
            gap = finer.stand_in(place) if finer.names[place] in nullable else None
            if counted is not None and gap is not None:
                shares = _without_gaps(counted, order, gap, len(column.singles))
            of_bins = counted.sigma / rows if counted is not None else 0.0
            scores = _values(np.sort(finer.middles(column)), shares[order], sigma / rows, of_bins)
            if gap is not None:
                scores = _neutral(scores, shares[order], int(np.flatnonzero(order == gap)[0]))
            values.append(NumberScores(place, _steps(scores, order)))
    return ProductsPlan(tuple(ranks), tuple(values), sigma)


def _numeric(columns: Mapping[str, object], name: str) -> Numeric:
    column = columns[name]
    assert isinstance(column, Numeric)
    return column


def _steps(scores: FloatArray, order: IntArray) -> tuple[int, ...]:
    """Whole scores of the codes, from scores in [-1, 1] in order."""
    of = np.zeros(len(order), dtype=np.int64)
    of[order] = np.rint(np.clip(scores, -1.0, 1.0) * SCORE_STEPS).astype(np.int64)
    return tuple(of.tolist())


def _shares(counted: Measurement | None, codes: int, atoms: int) -> FloatArray:
    """Denoised shares of a number's codes; even ones where it was not counted."""
    if counted is None:
        return np.full(codes, 1.0 / codes)
    bins = counted.values[: codes - atoms]
    mass = max(float(bins.sum()), 0.0)
    shares = np.concatenate(
        [mass * denoised(bins, mass, counted.sigma), np.maximum(counted.values[codes - atoms :], 0.0)]
    )
    total = float(shares.sum())
    return shares / total if total > 0.0 else np.full(codes, 1.0 / codes)


def _without_gaps(counted: Measurement, order: IntArray, stand_in: int, atoms: int) -> FloatArray:
    """Denoised shares of a number's codes: that of a stand-in value has as many rows as those beside it."""
    at, values = int(np.flatnonzero(order == stand_in)[0]), counted.values.copy()
    beside = order[[place for place in (at - 1, at + 1) if 0 <= place < len(order)]]
    values[stand_in] = min(values[stand_in], float(values[beside].mean()))
    shares = _shares(replace(counted, values=values), len(order), atoms)
    shares[stand_in] = min(shares[stand_in], float(shares[beside].mean()))
    return np.asarray(shares / max(float(shares.sum()), 1e-300))


def _neutral(scores: FloatArray, shares: FloatArray, stand_in: int) -> FloatArray:
    """Scores with the mean one for the code of a stand-in value, if few rows have that number itself."""
    mean = float(shares @ scores)
    away = float(shares[stand_in]) * (scores[stand_in] - mean) ** 2
    few = away <= FEW_APART * float(shares @ (scores - mean) ** 2)
    return np.where(np.arange(len(scores)) == stand_in, mean, scores) if few else scores


def ranked(shares: FloatArray, order: Sequence[int]) -> FloatArray:
    """Middle rank of each code, in [-1, 1], from shares of codes and their order."""
    ranks = np.empty(len(shares))
    ranks[np.asarray(order)] = _ranks(shares[np.asarray(order)])
    return ranks


def _ranks(shares: FloatArray) -> FloatArray:
    """Middle rank of each code, in [-1, 1]."""
    return 2.0 * (np.cumsum(shares) - shares / 2.0) - 1.0


def _values(middles: FloatArray, shares: FloatArray, noise: float, of_bins: float) -> FloatArray:
    """Cut values of codes, in [-1, 1]; see the module."""
    seen = of_bins * (shares > 0.0)  # noise of each share, as far as an angle's bound has it
    below, best, least = np.cumsum(shares), np.linspace(-1.0, 1.0, len(middles)), math.inf
    other = middles - shares @ middles
    spread = float(shares @ other**2)
    ends = list[tuple[float, float]]()
    for far in _FAR_QUANTILES:
        places = np.searchsorted(below, [far + 1e-9, min(1.0 - far, float(below[-1]) * (1.0 - 1e-9))])
        low, high = middles[np.minimum(places, len(middles) - 1)].tolist()
        ends.append((low, high))
    for low, high in ends:
        if not high > low or not spread > 0.0:
            continue
        scores = np.clip((2.0 * middles - low - high) / (high - low), -1.0, 1.0)
        one = scores - shares @ scores
        variance = float(shares @ one**2)
        if not variance > 0.0:
            continue
        missed = (other - float(shares @ (one * other)) / variance * one) ** 2
        bound = (float(shares @ missed) + BOUND * float(np.linalg.norm(seen * missed))) / spread
        if (length := 2.0 * noise / variance + math.sqrt(bound)) < least:
            best, least = scores, length
    return best
