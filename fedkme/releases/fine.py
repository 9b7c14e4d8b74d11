"""Shares of a number by fine bins: one estimate from a fine and a coarse table of counts.

Let y be the fine counts divided by N, with noise of deviation s in each cell. Let x be the coarse shares,
with noise of covariance v (I - J/K) for K cells (`fedkme.answers.counts`; the shares add up to 1). Coarse
cell c has m_c fine cells, whose y add up to S_c with variance m_c s^2. Weighted by precision, the share of c
is S_c + w_c (x_c - S_c) with w_c = m_c s^2 / (m_c s^2 + v), and its fine cells share the difference evenly.
Let h be a function whose average over all fine cells is 0 (the average of a function has no noise, as N is
public), and H_c the mean of h over the fine cells of c. Then the mean of h is estimated by

    sum_i y_i (h_i - w_c H_c) + sum_c w_c H_c x_c.

Where the mean m of a score u of the cells was released, too, with noise of deviation t (`ToldMean`), an
estimate of another mean with the covariance c with that of u, of variance q, moves by c / (q + t^2) of what m
differs by: the best linear unbiased one of both. Rows are drawn to have that mean: chances within coarse
cells are tilted by exp(lambda u).

A fine cell in which k counts were added up (`parts`) is k cells here, of which only the sum is known. This
estimate is linear in the released numbers and unbiased, and its covariance follows.


**Denoised shares** (`denoised`), for rows and bins: a run of cells is halved again and again. Its halves are
alike (each cell has as much as any other), one of them is empty, or any difference up to the run's mass is as
likely. By Bayes' rule, given noise of deviation sigma in each cell, the halves differ by the mean of the
first and the last case; or one half gets everything, where this is likeliest. The prior odds of an empty half
grow with the cells of the run, and are small on the side where more rows are beside it: within bins of some
width rows are spread, while a column's public range is often far wider than its values, and the noise of a
hundred empty cells must not become rows.

**Bins from fine counts** (`run_starts`). Even bins tell little of a number of which most rows lie in a few.
Its bins are then runs of fine cells: the column is cut, again and again, where the smaller of the two sides
has the most rows, until there are enough runs, or a side would have few rows or not clearly more than noise.
The outermost rows of a long run at an end get a run of their own, by its tail (`tails`).
All of this reads noisy counts and public numbers alone: post-processing, which costs nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.releases.tails import BESIDE, tail_shares

LEAST_RUN, CLEAR = 1 / 4, 2.0
"""Least size of a run: for its share in runs of equal size, and in deviations of the noise of its cells."""
WORTH_MORE = 1.5
"""Least number of even bins that a merged bin must be worth."""
LONG_RUN, FAR_PART = 1 / 4, 0.25
"""Share of all cells from which a run at an end is cut in two, and share of its rows in the outer part."""
WIDE_RUN = 24
"""Cells of a run from which an empty half is the likelier case beforehand; the odds grow with the cube."""
FAR_SIDE = 0.01
"""Factor on the odds that the half of a run is empty beside which there are more rows."""

MOST_TILT = 4.0
"""Largest logarithm by which a told mean changes the odds of a cell whose score is 1 larger."""
_NO_ROOM = 1e9  # less than any density


def denoised(counts: FloatArray, mass: float, sigma: float, lean: int = 0) -> FloatArray:
    """Share of each cell of a run, (n,), that adds up to 1; see the module.

    Args:
        counts: counts or shares of the cells, with noise.
        mass: their sum, at least 0.
        sigma: deviation of the noise in each.
        lean: side where more rows are beside the run, -1 or 1 for the left and the right; 0: unknown.
    """
    size, half = len(counts), len(counts) // 2
    if size == 1 or mass <= 0.0:
        return np.full(size, 1.0 / size)
    alike = mass * (2 * half - size) / size
    difference = float(counts[:half].sum() - counts[half:].sum())
    if sigma > 0.0:
        noise = sigma * math.sqrt(size)
        cases = np.array([alike, mass, -mass])
        odds = np.exp(-0.5 * ((difference - cases) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi))
        odds[1:] *= (size / WIDE_RUN) ** 3
        if lean:
            odds[2 if lean < 0 else 1] *= FAR_SIDE
        unlike, middle = _between(difference, noise, mass)
        likeliest = int(odds.argmax())
        if likeliest and odds[likeliest] > unlike:
            difference = float(cases[likeliest])
        else:
            total = float(odds[0]) + unlike
            difference = (float(odds[0]) * alike + unlike * middle) / total if total > 0.0 else middle
    left = min(max(0.5 + 0.5 * difference / mass, 0.0), 1.0)
    sides = ((left, counts[:half]), (1.0 - left, counts[half:]))
    return np.concatenate([share * denoised(side, share * mass, sigma, lean) for share, side in sides])


def _between(seen: float, noise: float, most: float) -> tuple[float, float]:
    """Likelihood and posterior mean of a number in [-most, most], any as likely, that was seen with noise."""
    ends = np.array([-most - seen, most - seen]) / (noise * math.sqrt(2.0))
    inside = 0.5 * (math.erf(ends[1]) - math.erf(ends[0]))
    if inside < 1e-12:  # seen far outside
        return 0.0, min(max(seen, -most), most)
    tilt = noise / math.sqrt(2.0 * math.pi) * float(np.exp(-(ends[0] ** 2)) - np.exp(-(ends[1] ** 2)))
    return inside / (2.0 * most), seen + tilt / inside


def run_starts(counts: FloatArray, sigma: float, runs: int) -> tuple[int, ...]:
    """Cut fine cells into runs; see the module.

    Args:
        counts: (n,) counts or shares of the cells, with noise.
        sigma: deviation of the noise in each.
        runs: most runs.

    Returns:
        First cell of every run after the first.
    """
    mass = max(float(counts.sum()), 0.0)
    below = np.concatenate([[0.0], np.cumsum(denoised(counts, mass, sigma))])
    ends, noise = [0, len(counts)], CLEAR * sigma / max(mass, sigma, 1e-300)
    while len(ends) <= runs:
        most, cut = LEAST_RUN / runs, 0
        for start, end in itertools.pairwise(ends):
            left, right = below[start + 1 : end] - below[start], below[end] - below[start + 1 : end]
            cells = np.arange(1, end - start)
            smaller = np.minimum(left, right)
            smaller[smaller < noise * np.sqrt(np.where(left < right, cells, end - start - cells))] = 0.0
            if smaller.size and smaller.max() > most:
                most, cut = float(smaller.max()), start + 1 + int(smaller.argmax())
        if not cut:
            break
        ends = sorted([*ends, cut])
    return tuple(ends[1:-1])


def worth_merging(
    counts: FloatArray, within: NDArray[np.int64], sigma: float, runs: int
) -> tuple[int, ...] | None:
    """Cut fine cells into runs where these tell clearly more of a number than its even bins; else None.

    Bins of shares p are worth 1 / sum p^2 bins. Even bins stay where they are worth half of the runs, or
    where runs are not worth clearly more: of a number that has one value in nearly all rows neither kind
    tells more, and the even bins of its other values would be lost. The squares of even bins are estimated
    without bias: noise alone has large squares, and would be taken for a number in few bins.

    Args:
        counts: (n,) counts of the fine cells, with noise.
        within: (n,) even bin of each fine cell.
        sigma: deviation of the noise in each fine cell.
        runs: most runs, without the outer part of a long run at either end.

    Returns:
        First cell of every run after the first.
    """
    mass, even = float(counts.sum()), np.bincount(within, counts)
    if mass < 1.0:  # own values have all rows, or noise says so
        return None
    squares = (float(even @ even) - len(counts) * sigma**2) / mass**2
    if runs * squares <= 2.0:
        return None
    starts = run_starts(counts, sigma, runs)
    merged = np.add.reduceat(denoised(counts, mass, sigma), (0, *starts))
    if not starts or WORTH_MORE * float(merged @ merged) > squares:
        return None
    return _with_far_runs(counts, sigma, starts)


def _with_far_runs(counts: FloatArray, sigma: float, starts: tuple[int, ...]) -> tuple[int, ...]:
    """Cut the outer part off each long run at an end, by its tail (`tails`)."""
    ends = [0, *starts, len(counts)]
    more, beside = list[int](), min(BESIDE, len(starts) // 2)
    for way in (-1, 1):
        ordered, places = counts[::way], ends if way > 0 else [len(counts) - end for end in reversed(ends)]
        length = places[-1] - places[-2]
        if not beside or length < LONG_RUN * len(counts):
            continue
        runs = np.add.reduceat(ordered, places[:-1])[-beside - 1 :]
        if FAR_PART * runs[-1] < CLEAR * sigma:
            continue
        cells = ordered[places[-2] :]
        lengths = np.diff(places).astype(np.float64)[-beside - 1 : -1]
        tail = tail_shares(
            cells,
            np.full(length, sigma),
            runs,
            lengths,
            sigma * math.sqrt(float(lengths.mean())),
            denoised(cells, float(runs[-1]), sigma),
        )
        cut = int(np.searchsorted(np.cumsum(tail), 1.0 - FAR_PART)) + 1
        if cut < length:
            more.append(places[-2] + cut if way > 0 else len(counts) - places[-2] - cut)
    return tuple(sorted({*starts, *more}))


@dataclass(frozen=True, eq=False, slots=True)
class ToldMean:
    """Mean of a score of fine cells, released besides their counts.

    Attributes:
        scores: (n,) score of each fine cell.
        mean: mean over all rows, with noise.
        sigma: standard deviation of that noise.
    """

    scores: FloatArray
    mean: float
    sigma: float


@dataclass(frozen=True, eq=False)
class FineShares:
    """Fine and coarse shares of one number.

    Attributes:
        fine: (n,) shares of the fine cells, with noise.
        sigma: standard deviation of the noise in each fine share.
        within: (n,) coarse cell of each fine cell; a coarse cell without fine cells can hold no row.
        coarse: (K,) shares of the coarse cells, with noise; the shares add up to 1.
        variance: v of the coarse shares; infinite where these were not measured.
        atoms: number of cells at the end that are values of their own.
        parts: number of counts that were added up in each fine cell; None: 1 each.
        told: mean of a score of the number; None: it was not released.
    """

    fine: FloatArray
    sigma: float
    within: NDArray[np.int64]
    coarse: FloatArray
    variance: float
    atoms: int = 0
    parts: NDArray[np.int64] | None = None
    told: ToldMean | None = None

    @cached_property
    def _parts(self) -> FloatArray:
        return np.ones(len(self.fine)) if self.parts is None else self.parts.astype(np.float64)

    @cached_property
    def _sizes(self) -> FloatArray:
        return np.maximum(self._summed(self._parts), 1.0)

    @cached_property
    def _weights(self) -> FloatArray:
        own = self._sizes * self.sigma**2
        return np.asarray(own / (own + self.variance)) if own.any() else np.zeros_like(own)

    @cached_property
    def _inside(self) -> FloatArray:
        """Membership of fine cells in coarse cells, (n, K), 1 or 0."""
        return np.asarray(np.arange(len(self.coarse)) == self.within[:, None], np.float64)

    def _summed(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.within, values, len(self.coarse)).astype(np.float64)

    @cached_property
    def shares(self) -> FloatArray:
        """Estimated shares of the fine cells, (n,); unbiased, so some may be below 0."""
        if self.told is not None:
            return self.law([*np.eye(len(self.fine))])[0]
        more = self._weights * (self.coarse - self._summed(self.fine)) / self._sizes
        shares = self.fine + self._parts * more[self.within]
        return np.asarray(shares + self._parts * ((1.0 - shares.sum()) / self._parts.sum()))

    def without(self, cell: int, part: float) -> FineShares:
        """Shares of the rows that are left without a known part of all rows, which is in one fine cell."""
        left, coarse = 1.0 - part, np.arange(len(self.coarse)) == self.within[cell]
        told = self.told
        if told is not None:
            mean = (told.mean - part * float(told.scores[cell])) / left
            told = replace(told, mean=mean, sigma=told.sigma / left)
        return replace(
            self,
            fine=(self.fine - part * (np.arange(len(self.fine)) == cell)) / left,
            sigma=self.sigma / left,
            coarse=(self.coarse - part * coarse) / left,
            variance=self.variance / left**2,
            told=told,
        )

    def law(self, functions: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Estimate means of functions of a fine cell, (n,) each, with the covariance of their noise."""
        if self.told is None:
            return self._counted(functions)
        means, covariance = self._counted([*functions, self.told.scores])
        gain = covariance[:-1, -1] / (covariance[-1, -1] + self.told.sigma**2)
        means = means[:-1] + gain * (self.told.mean - means[-1])
        return means, covariance[:-1, :-1] - np.outer(gain, covariance[-1, :-1])

    def _counted(self, functions: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Means and covariance by the counts alone."""
        table = np.array(functions)
        middles = table @ self._parts / float(self._parts.sum())
        away = table - middles[:, None]
        coarse = self._weights * ((away * self._parts) @ self._inside) / self._sizes
        own, other = away - coarse[:, self.within], coarse - coarse.mean(axis=1, keepdims=True)
        means = middles + own @ self.fine + coarse @ self.coarse
        variance = self.variance if np.isfinite(self.variance) else 0.0
        own_noise = self.sigma**2 * ((own * self._parts) @ own.T)
        return means, own_noise + variance * (other @ other.T)

    def drawn(self, codes: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw a fine cell within each coarse cell of `codes`, (k,), by the denoised shares."""
        drawn, chances = np.zeros_like(codes), self.chances(codes)
        for code in np.unique(codes):
            members = codes == code
            if (total := float(chances[code].sum())) > 0.0:  # else no row can be in this cell
                drawn[members] = generator.choice(len(self.fine), int(members.sum()), p=chances[code] / total)
        return drawn

    def chances(self, codes: NDArray[np.int64]) -> FloatArray:
        """Denoised shares of the fine cells within each coarse cell of `codes`, (K, n)."""
        chances = np.zeros((len(self.coarse), len(self.fine)))
        for code in np.unique(codes):
            inside = np.flatnonzero(self.within == code)
            if len(inside):
                chances[code, inside] = self._tail_in(code, inside, float((codes == code).mean()))
        return chances if self.told is None else self._tilted(chances, codes)

    def _tilted(self, chances: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
        """Tilt chances within coarse cells until rows with these codes have the score's mean."""
        assert self.told is not None
        used, scores = np.bincount(codes, minlength=len(chances)) / len(codes), self.told.scores
        used *= chances.sum(axis=1) > 0.0
        have = float(used @ chances @ scores / max(used.sum(), 1e-300))
        _, ((counted,),) = self._counted([scores])
        wanted = have + counted / (counted + self.told.sigma**2) * (self.told.mean - have)
        low, high = -MOST_TILT, MOST_TILT
        while high - low > 1e-3:
            middle = (low + high) / 2.0
            tilted = chances * np.exp(middle * scores)
            tilted /= np.maximum(tilted.sum(axis=1, keepdims=True), 1e-300)
            low, high = (middle, high) if used @ tilted @ scores < wanted * used.sum() else (low, middle)
        return tilted

    @cached_property
    def denoised(self) -> FloatArray:
        """Denoised shares of the fine cells, (n,): none is below 0, and cells of mere noise have none."""
        shares, noise = np.zeros(len(self.fine)), np.sqrt(self._variances(self._sizes))
        for code in range(len(self.coarse)):
            inside = np.flatnonzero(self.within == code)
            mass = float(self.shares[inside].sum())
            if mass > CLEAR * noise[code]:
                shares[inside] = mass * self._denoised_in(code, inside, mass)
        return np.asarray(shares / max(float(shares.sum()), 1e-300))

    def deviation(self, values: FloatArray) -> float:
        """Deviation of the noise in the mean of a function of a cell that is 0 in cells of mere noise."""
        seen = self.denoised > 0.0
        parts = self._parts * seen
        sizes = np.maximum(self._summed(parts), 1.0)
        values = values - float(self.denoised @ values)
        middles = self._summed(parts * values) / sizes
        rest = values - middles[self.within]
        own = self.sigma**2 * float(parts @ rest**2)
        return math.sqrt(own + float(self._variances(sizes) @ middles**2))

    def _variances(self, sizes: FloatArray) -> FloatArray:
        """Variance of the noise in the share of each coarse cell, of so many fine cells."""
        own = sizes * self.sigma**2
        return own if math.isinf(self.variance) else own * self.variance / (own + self.variance)

    def _tail_in(self, code: int, inside: NDArray[np.int64], expected: float) -> FloatArray:
        """Shares of cells within a coarse cell, as rows are drawn: at either end by `tails`."""
        denoised, bins = self._denoised_in(code, inside, expected), len(self.coarse) - self.atoms
        beside = min(BESIDE, (bins - 1) // 2)
        if code not in (0, bins - 1) or not beside or not self.sigma > 0.0:
            return denoised
        way = 1 if code else -1
        near = np.arange(code - way * beside, code + way, way)
        order = slice(None, None, way)
        tail = tail_shares(
            self.shares[inside][order],
            self.sigma * np.sqrt(self._parts[inside][order]),
            self._summed(self.shares)[near],
            np.bincount(self.within, minlength=len(self.coarse))[near[:-1]].astype(np.float64),
            math.sqrt(float(self._variances(self._sizes)[near].max())),
            denoised[order],
        )
        return tail[order]

    def _denoised_in(self, code: int, inside: NDArray[np.int64], expected: float) -> FloatArray:
        """Denoised shares within a coarse cell; `expected`: its share where its own count is mostly noise."""
        density = self._summed(self.shares) / self._sizes
        # beyond the bounds there is no room
        beside = np.pad(density[: len(density) - self.atoms], 1, constant_values=-_NO_ROOM)
        shares, lean, mass = self.shares[inside], 0, float(self.shares[inside].sum())
        if len(inside) > 1:
            lean = int(np.sign(beside[code + 2] - beside[code]))
        if mass < self.sigma * math.sqrt(len(inside)):  # mostly noise: the rows that are drawn say more
            mass = expected
        return denoised(shares, mass, self.sigma, lean)
