"""An owner's part of a summary by cells: choosing the rows that fill an order, by design.

The choice depends on the owner's own rows and its order, and the order is a function of private releases. The
picked rows themselves leave. They are always as many as were ordered, or all rows of the owner, so that their
number says nothing: an owner without rows in the ordered cells fills the order with its other rows.

Owners pick rows whose span holds D_v. Whoever holds D_v weighs the rows received, so what counts is not the
mean of the rows picked but how far mu_v, the mean embedding of D_v, is from their span. The owner knows of
D_v what its order says: a law w over its own rows. As a sample of n rows of that law, D_v has mu_v = m + f,
with the law's mean m = sum_y w_y k(y, .) and a fluctuation f of mean 0 and covariance C / n, C = sum_y w_y
k(y, .) (x) k(y, .) - m (x) m. Let P project out the span of the rows S picked so far, k_S(x, y) = <P k(x, .),
P k(y, .)> and m_S(x) = (P m)(x). The expected squared distance of mu_v to the span is

    E ||P mu_v||^2 = (1 - 1/n) ||P m||^2 + (1/n) sum_y w_y k_S(y, y),

and the row x takes the part along P k(x, .) / sqrt(k_S(x, x)) out of it:

    [(1 - 1/n) m_S(x)^2 + (1/n) sum_y w_y k_S(x, y)^2] / k_S(x, x).

Each next row is the argmax of that, with n = DRAWS, whatever |D_v| is, and three changes: 1 - 1/n is left
out; m_S(x) counts where it is positive, for weights are not negative; RIDGE is added to k_S(x, x), so that a
row which S nearly holds is not taken for the direction of what rounding leaves of it.

**Work.** Candidates, and the rows y of the second sum, are drawn by w where an owner has more than CANDIDATES
and ANCHORS rows; the mean is over all rows. A pick costs one kernel column and two products with what was
computed before: with g = k_S(., s) / sqrt(k_S(s, s)), k_S(x, y) falls by g(x) g(y), and so

    sum_y w_y k_S(x, y)^2  falls by  2 g(x) sum_y w_y k_S(x, y) g(y) - g(x)^2 sum_y w_y g(y)^2.

Numbers of rows and columns alone say how much it is.
"""

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.directives import FillOrder
from fedkme.embeddings.kernels import kernel_sum_at, rbf
from fedkme.errors import DataError
from fedkme.privacy.noise import NoiseSource


def cell_weights(cells: IntArray, order: FloatArray) -> FloatArray:
    """Weight of each own row in the target: its cell's share of the order, spread evenly over the cell.

    Args:
        cells: cell of each own row, (m_j,).
        order: A_j, (B,), >= 0; shares of cells without rows of the owner are left out.

    Returns:
        (m_j,) adding up to 1; uniform if the owner has no row in any ordered cell.
    """
    sizes = np.bincount(cells, minlength=len(order))
    share = np.where(sizes > 0, order, 0.0)
    total = float(share.sum())
    if total <= 0.0:
        return np.full(len(cells), 1.0 / max(len(cells), 1))
    weights: FloatArray = (share / total / np.maximum(sizes, 1))[cells]
    return weights


DRAWS = 200
"""n: rows of D_v, as far as its fluctuation goes."""
RIDGE = 1e-3
CANDIDATES = 2000
"""Number of candidate rows; twice the order if that is more."""
ANCHORS = 700
NEARBY = 1e-7
"""Weight of m(x) k_S(x, x) in a gain: once the span has all rows of the law, the rows most like the law fill
the order."""
_ELSEWHERE = 1e-9
"""Weight, in the draw of candidates, of rows outside the ordered cells: drawn if rows in the cells are too
few."""
_HELD = 1e-10
"""A row with a smaller squared distance to the span counts as inside: picking it does not change the gains of
others."""
_DESIGN_DIGITS = 10
"""Gains are compared to so many decimals: equal rows tie, and a tie goes to the lowest index on every
host."""


def candidates_for(rows: int, count: int) -> int:
    """Number of candidates for an order of `count` out of `rows` rows."""
    return min(rows, max(CANDIDATES, 2 * count))


def design(rows: Rows, weights: FloatArray, count: int, gamma: float, drawn: IntArray, seed: int) -> IntArray:
    """Pick rows by the rule above, after the drawn rows.

    Args:
        rows: own rows, encoded, (m_j, n).
        weights: w, (m_j,), >= 0, adding up to 1.
        count: n_j, with the drawn rows.
        gamma: gamma of the kernel.
        drawn: indices of rows that go in any case, (u,): S begins with them.
        seed: public seed of the draw of candidates and anchors. It protects nothing: a repeated order must
            get the same rows, also from another process.

    Returns:
        (min(n_j, m_j),) indices, the drawn ones first, all different.

    Raises:
        DataError: a row is not finite.
    """
    if not np.isfinite(rows).all():
        raise DataError("rows to pick from are not finite", "Encode rows by the public schema.")
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 0xD5])))
    picks = min(count, len(rows))
    pool = _pool(weights, candidates_for(len(rows), count), drawn, random)
    anchors, shares = _anchors(weights, random)
    span = Span(
        rows[pool], rows[anchors], shares, kernel_sum_at(rows[pool], rows, weights, gamma), picks, gamma
    )
    for place in np.searchsorted(pool, drawn[:picks]).tolist():
        span.add(place)
    while span.size < picks:
        span.add(int(np.argmax(span.gains())))
    return pool[span.picked]


class Span:
    """Span of the rows picked among candidates, with the residual kernel and mean outside the span.

    Attributes:
        size: rows picked.
    """

    def __init__(
        self, points: Rows, anchors: Rows, shares: FloatArray, mean: FloatArray, most: int, gamma: float
    ) -> None:
        """Begin with no row picked.

        Args:
            points: candidates, (c, n).
            anchors: the rows y of the second sum, (a, n).
            shares: w_y of each, (a,).
            mean: m at the candidates, (c,).
            most: rows that will be picked at most.
            gamma: gamma of the kernel.
        """
        self.size = 0
        self._points, self._gamma, self._shares = np.asarray(points, np.float64), gamma, shares
        self._kernel = rbf(points, anchors, gamma)
        self._law, self._mean = mean, mean.copy()
        self._own = np.ones(len(points))
        self._spread = np.square(self._kernel) @ shares
        self._free = np.ones(len(points), dtype=np.bool_)
        self._order = np.empty(most, dtype=np.int64)
        self._at_points, self._at_anchors = np.zeros((most, len(points))), np.zeros((most, len(anchors)))

    @property
    def picked(self) -> IntArray:
        """Places of the candidates picked, (size,), in the order of picking."""
        return self._order[: self.size]

    def gains(self) -> FloatArray:
        """Fall of the expected squared distance with each candidate, (c,); -inf for picked candidates."""
        reached = np.square(np.maximum(self._mean, 0.0)) + np.maximum(self._spread, 0.0) / DRAWS
        own = np.maximum(self._own, 0.0)
        gain = np.round(reached / (own + RIDGE) + NEARBY * self._law * own, _DESIGN_DIGITS)
        return np.where(self._free, gain, -np.inf)

    def add(self, place: int) -> None:
        """Pick a candidate."""
        before, residual = slice(self.size), max(float(self._own[place]), 0.0)
        components = self._at_points[before, place]
        scale = 1.0 / np.sqrt(residual) if residual > _HELD else 0.0
        column = rbf(self._points, self._points[[place]], self._gamma)[:, 0]
        at_points = (column - components @ self._at_points[before]) * scale
        at_anchors = (self._kernel[place] - components @ self._at_anchors[before]) * scale
        moved = self._shares * at_anchors
        shift = self._kernel @ moved - (self._at_anchors[before] @ moved) @ self._at_points[before]
        self._spread += at_points * (at_points * float(moved @ at_anchors) - 2.0 * shift)
        self._mean -= at_points * (float(self._mean[place]) * scale)
        self._own -= np.square(at_points)
        self._at_points[self.size], self._at_anchors[self.size] = at_points, at_anchors
        self._order[self.size], self._free[place] = place, False
        self.size += 1


def _pool(weights: FloatArray, count: int, drawn: IntArray, random: np.random.Generator) -> IntArray:
    """Draw `count` candidates, the drawn rows among them; ascending indices, (count,).

    Without replacement, by weight (Efraimidis and Spirakis 2006): the least of Exp(1) / weight.
    """
    key = -np.log1p(-random.random(len(weights))) / (weights + _ELSEWHERE)
    key[drawn] = -1.0
    return np.sort(np.argsort(key, kind="stable")[:count])


def _anchors(weights: FloatArray, random: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Indices and weights of the rows y: all rows, or one row per 1/ANCHORS of the total weight."""
    if len(weights) <= ANCHORS:
        return np.arange(len(weights)), weights
    marks = (np.arange(ANCHORS) + random.random(ANCHORS)) / ANCHORS
    reached = np.cumsum(weights)
    places = np.searchsorted(reached, marks * reached[-1], side="right")
    return np.minimum(places, len(weights) - 1), np.full(ANCHORS, 1.0 / ANCHORS)


def drawn_rows(rows: int, count: int, noise: NoiseSource) -> IntArray:
    """Draw `count` out of `rows` rows uniformly without replacement; indices, (count,)."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    return np.argsort(noise.uniform(rows), kind="stable")[:count]


def fill_order(
    rows: Rows, cells: IntArray, order: FillOrder, drawn: IntArray, gamma: float, seed: int
) -> IntArray:
    """Choose the rows to send: first the drawn rows, then rows that match the ordered cells.

    Args:
        rows: own rows, encoded, (m_j, n).
        cells: cell of each row, (m_j,).
        order: n_j, and shares over B cells.
        drawn: indices of the rows that are sent in any case, (u,), u <= n_j.
        gamma: gamma of the kernel.
        seed: public seed of the samples, see `design`.

    Returns:
        (min(n_j, m_j),) indices, all different.
    """
    weights = cell_weights(cells, order.shares)
    return design(rows, weights, order.count, gamma, drawn, seed)
