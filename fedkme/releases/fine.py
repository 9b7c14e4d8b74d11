"""Shares of a number by fine bins: one estimate from a fine and a coarse table of counts.

Let y be the fine counts divided by N, with noise of deviation s in each cell. Let x be the coarse shares,
with noise of covariance v (I - J/K) for K cells (`fedkme.answers.counts`; the shares add up to 1). Coarse
cell c has m_c fine cells, whose y add up to S_c with variance m_c s^2. Weighted by precision, the share of c
is S_c + w_c (x_c - S_c) with w_c = m_c s^2 / (m_c s^2 + v), and its fine cells share the difference evenly.
Let h be a function whose average over all fine cells is 0 (the average of a function has no noise, as N is
public), and H_c the mean of h over the fine cells of c. Then the mean of h is estimated by

    sum_i y_i (h_i - w_c H_c) + sum_c w_c H_c x_c.

This estimate is linear in the released numbers and unbiased, and its covariance follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class FineShares:
    """Fine and coarse shares of one number.

    Attributes:
        fine: (n,) shares of the fine cells, with noise.
        sigma: standard deviation of the noise in each fine share.
        within: (n,) coarse cell of each fine cell; a coarse cell without fine cells can hold no row.
        coarse: (K,) shares of the coarse cells, with noise; the shares add up to 1.
        variance: v of the coarse shares; infinite where these were not measured.
    """

    fine: FloatArray
    sigma: float
    within: NDArray[np.int64]
    coarse: FloatArray
    variance: float

    @cached_property
    def _sizes(self) -> FloatArray:
        return np.maximum(np.bincount(self.within, minlength=len(self.coarse)), 1).astype(np.float64)

    @cached_property
    def _weights(self) -> FloatArray:
        own = self._sizes * self.sigma**2
        return np.asarray(own / (own + self.variance)) if own.any() else np.zeros_like(own)

    def _summed(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.within, values, len(self.coarse)).astype(np.float64)

    @cached_property
    def shares(self) -> FloatArray:
        """Estimated shares of the fine cells, (n,); unbiased, so some may be below 0."""
        more = self._weights * (self.coarse - self._summed(self.fine)) / self._sizes
        shares = self.fine + more[self.within]
        return np.asarray(shares + (1.0 - shares.sum()) / len(shares))

    def law(self, functions: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Estimate means of functions of a fine cell, (n,) each, with the covariance of their noise."""
        means, own, other = list[float](), list[FloatArray](), list[FloatArray]()
        for each in functions:
            middle = float(each.mean())
            away = each - middle
            coarse = self._weights * self._summed(away) / self._sizes
            own.append(away - coarse[self.within])
            other.append(coarse - coarse.mean())
            means.append(middle + float(own[-1] @ self.fine) + float(coarse @ self.coarse))
        fine, rough = np.array(own), np.array(other)
        variance = self.variance if np.isfinite(self.variance) else 0.0
        return np.array(means), self.sigma**2 * (fine @ fine.T) + variance * (rough @ rough.T)

    def drawn(self, codes: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw a fine cell within each coarse cell of `codes`, (k,), by the estimated shares.

        The shares in a coarse cell are shrunk towards their mean as far as noise explains their differences
        (James and Stein).
        """
        drawn = np.zeros_like(codes)
        for code in np.unique(codes):
            inside, members = np.flatnonzero(self.within == code), codes == code
            if not len(inside):
                continue  # no row can be in this cell
            middle = float(self.shares[inside].mean())
            away = self.shares[inside] - middle
            noise = max(len(inside) - 1, 0) * self.sigma**2
            factor = max(0.0, 1.0 - noise / max(float(away @ away), 1e-300))
            chances = np.maximum(middle + factor * away, 0.0)
            total = chances.sum()
            chances = chances / total if total > 0 else np.full(len(inside), 1.0 / len(inside))
            drawn[members] = generator.choice(inside, int(members.sum()), p=chances)
        return drawn
