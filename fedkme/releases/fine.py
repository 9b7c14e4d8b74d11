"""Shares of a number by fine bins: a fine and a coarse table of counts as one estimate.

Let y be the fine counts over N, with noise s in each cell, and x the coarse shares, with variance v (I - J/K)
for K cells (`fedkme.answers.counts`; they add up to 1). Coarse cell c holds m_c fine ones, whose y add up to
S_c with variance m_c s^2. Weighed by precision, c holds S_c + w_c (x_c - S_c), w_c = m_c s^2 / (m_c s^2 + v),
and its fine cells share the difference evenly. The mean of a function h, whose average over all fine cells is
0 (the rest has no noise, N being public), is therefore

    sum_i y_i (h_i - w_c H_c) + sum_c w_c H_c x_c,    H_c the sum of h over the cells of c, over m_c,

linear in what was released, without bias, and with a covariance that follows.
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
        fine: (n,), with noise.
        sigma: deviation of the noise in each.
        within: (n,) coarse cell of each fine one; each has one at least, unless nobody can be in it.
        coarse: (K,), with noise; they add up to 1.
        variance: v of it; infinite where it was not counted.
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
        """Shares of the fine cells, (n,); without bias, some below 0."""
        more = self._weights * (self.coarse - self._summed(self.fine)) / self._sizes
        found = self.fine + more[self.within]
        return np.asarray(found + (1.0 - found.sum()) / len(found))

    def law(self, functions: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Means of functions of a fine cell, (n,) each, and the covariance of their noise."""
        means, own, other = list[float](), list[FloatArray](), list[FloatArray]()
        for each in functions:
            middle = float(each.mean())
            away = each - middle
            coarse = self._weights * self._summed(away) / self._sizes
            own.append(away - coarse[self.within])
            other.append(coarse - coarse.mean())
            means.append(middle + float(own[-1] @ self.fine) + float(coarse @ self.coarse))
        fine, rough = np.array(own), np.array(other)
        known = self.variance if np.isfinite(self.variance) else 0.0
        return np.array(means), self.sigma**2 * (fine @ fine.T) + known * (rough @ rough.T)

    def drawn(self, codes: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw a fine cell for each coarse one, (k,), by what is known of those in it.

        Shares of a coarse cell are drawn to their mean as far as noise explains how they differ (James and
        Stein).
        """
        found = np.zeros_like(codes)
        for code in np.unique(codes):
            inside, members = np.flatnonzero(self.within == code), codes == code
            if not len(inside):
                continue  # nobody can be in it
            middle = float(self.shares[inside].mean())
            away = self.shares[inside] - middle
            noise = max(len(inside) - 1, 0) * self.sigma**2
            kept = max(0.0, 1.0 - noise / max(float(away @ away), 1e-300))
            chances = np.maximum(middle + kept * away, 0.0)
            total = chances.sum()
            chances = chances / total if total > 0 else np.full(len(inside), 1.0 / len(inside))
            found[members] = generator.choice(inside, int(members.sum()), p=chances)
        return found
