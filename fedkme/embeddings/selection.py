"""Selection of rows that represent all rows of a party, with equal weights or with other weights.

Nothing here protects privacy. Let mu be the mean embedding of N rows at each of the rows. The MMD^2 of
weighted rows to all rows is w' K w - 2 w' mu + |mu|^2.

Equal weights ("alike"): greedy choice takes, at each size, the row that makes MMD^2 least (kernel herding,
Chen, Welling and Smola 2010, with rows for points). An exchange then puts a better row in the place of a
chosen row (as in the refinement of kernel thinning, Dwivedi and Mackey 2021), until a sweep changes nothing.

Other weights: the best rows may differ, since a weight lets one row represent several. At each size the
method takes the row where the residual mu - sum_j w_j k(x_j, .) is largest, and then fits the weights of all
chosen rows again (fully corrective Frank-Wolfe on the simplex; Jaggi 2013). On MNIST, p = 200, this takes
MMD^2 to .86 of the greedy choice's; weights on the rows chosen for equal weights take it to .92. Where
clusters are few and tight, the latter is closer, so the better of the two is taken. Then rows are exchanged
one by one, which takes it to .80.

Where that takes too long, rows are chosen from a sample: mu is the mean embedding of Q rows drawn uniformly,
with a mean square error of (1 - |mu|^2) (1 / Q - 1 / N), and a quarter of the Q rows may be chosen. Weights
are then fitted on the rows chosen for equal weights: in the same time, a larger sample gains more than
another choice.

**Rows in few coordinates**, for kernels of all their pairs: inner products in float32 are exponents.

Write a row as x = c + V z + r, with c the mean of all rows, V the k leading directions of their covariance
and r the rest. Then ||x - y||^2 = ||z_x - z_y||^2 + ||r_x||^2 + ||r_y||^2 - 2 <r_x, r_y>. The last product is
dropped, so a kernel value has an error factor of exp(2 gamma <r_x, r_y>). Over all pairs of rows the mean
square of this exponent is exactly 4 gamma^2 sum_{i > k} lambda_i^2, lambda being the eigenvalues of the
covariance (E <r_x, r_y>^2 = tr C_r^2), and its mean is 0. k is the least number for which the root mean
square is below DROPPED. The exponent of a row with itself is not small: its kernel value is corrected.

With -gamma ||x||^2 and 1 as further coordinates a matrix product gives exponents, which exp then replaces in
place: a kernel value of two rows costs an inner product of k + 2 numbers, and one exp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import kernel_mean_at, rbf
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.errors import NotEnoughRowsError

DROPPED = 1.5e-3
"""Largest root mean square of the dropped exponents. On MNIST it gives k = 257 of 784, an error of mean
kernels of 4e-7 (they are .37), and a relative error of 6e-4 of a summary's MMD^2."""
MOST_LISTED = 50_000
"""Rows among which a shortlist is chosen greedily."""
NARROW = 64
"""Rows of at most so many columns keep all coordinates: there is nothing to gain."""
_BLOCK = 1024


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ShortRows:
    """Rows whose product `left @ right.T` has the exponents -gamma ||x - y||^2, but for the dropped part.

    Attributes:
        left: (N, k + 2) float32.
        right: (N, k + 2) float32.
        lacking: 1 - k(x, x), with k(x, x) computed from these coordinates, (N,).
    """

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    lacking: FloatArray

    def __len__(self) -> int:
        return len(self.left)

    def column(self, row: int) -> NDArray[np.float32]:
        """Kernel of a row with every row, (N,)."""
        values: NDArray[np.float32] = np.exp(self.left @ self.right[row])
        values[row] = 1.0
        return values

    def means(self) -> FloatArray:
        """Mean kernel of each row with all rows, itself included, (N,): the rows' mean embedding at each row.

        A block of pairs is computed once, for its rows and for its columns. Sums within a block are in
        float32, sums over blocks in float64. Time N^2 k / 2; memory a block of 1024 x 1024.
        """
        size = len(self)
        sums, room = np.zeros(size), np.empty((_BLOCK, _BLOCK), np.float32)
        ones = np.ones(_BLOCK, np.float32)
        for top in range(0, size, _BLOCK):
            above = self.left[top : top + _BLOCK]
            for first in range(top, size, _BLOCK):
                beside = self.right[first : first + _BLOCK]
                block = room[: len(above), : len(beside)]
                np.matmul(above, beside.T, out=block)
                np.exp(block, out=block)
                sums[top : top + len(above)] += block @ ones[: len(beside)]
                if first > top:
                    sums[first : first + len(beside)] += ones[: len(above)] @ block
        means: FloatArray = (sums + self.lacking) / size
        return means

    def first(self, count: int) -> tuple[FirstRows, FloatArray]:
        """The first rows, and their mean kernel with all rows, (count,), in blocks like `means`."""
        gram, sums = np.empty((count, count), np.float32), np.zeros(count)
        for first in range(0, len(self), _BLOCK):
            block = self.left[:count] @ self.right[first : first + _BLOCK].T
            np.exp(block, out=block)
            sums += block.sum(axis=1)
            gram[:, first : first + _BLOCK] = block[:, : max(count - first, 0)]
        np.fill_diagonal(gram, 1.0)
        means: FloatArray = (sums + self.lacking[:count]) / len(self)
        return FirstRows(gram), means


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class FirstRows:
    """Rows with the kernel of all their pairs in memory, (C, C) float32."""

    gram: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.gram)

    def column(self, row: int) -> NDArray[np.float32]:
        """Kernel of a row with every row, (C,)."""
        column: NDArray[np.float32] = self.gram[row]
        return column


def shorten(rows: Rows, gamma: float, whole: bool = False) -> ShortRows:
    """Make the coordinates of rows (N, n); gamma in units of 1 / squared distance; `whole` drops nothing."""
    centred = np.asarray(rows, np.float32) - np.asarray(rows, np.float64).mean(axis=0).astype(np.float32)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    whole = whole or centred.shape[1] <= NARROW or len(centred) <= centred.shape[1]
    leading = centred if whole else centred @ _directions(centred, gamma)
    rest = np.maximum(squares - np.einsum("ij,ij->i", leading, leading, dtype=np.float64), 0.0)
    if leading.shape == centred.shape:
        rest[:] = 0.0  # nothing was dropped: the rest is rounding
    left = np.empty((len(rows), leading.shape[1] + 2), np.float32)
    left[:, :-2] = leading * np.float32(np.sqrt(2.0 * gamma))
    left[:, -2] = -gamma * squares
    left[:, -1] = 1.0
    right = left.copy()
    right[:, -2], right[:, -1] = 1.0, left[:, -2]
    return ShortRows(left, right, -np.expm1(-2.0 * gamma * rest))


def _directions(centred: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
    """Leading directions of centred rows, (n, k)."""
    eigenvalues, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(centred))
    # Root mean square of the exponents where the smallest 1, 2, .. directions are dropped.
    dropped = 2.0 * gamma * np.sqrt(np.cumsum(np.maximum(eigenvalues, 0.0) ** 2))
    return np.ascontiguousarray(directions[:, dropped > DROPPED], np.float32)


SWEEPS = 5
"""Largest number of sweeps: on MNIST, p = 200, five or ten take MMD^2 to .95 of the greedy choice's."""
_DRAWN_FOR_ONE = 4
"""Sampled rows for each row that may be chosen: on MNIST 2 to 8 give the same MMD^2 in the same time."""
_GAIN = 1e-9
"""Least gain in the mean kernel for which rows are exchanged: rounding is smaller."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Selected:
    """Rows that represent all rows.

    Attributes:
        indices: indices of the rows, (p,), in the order of choice.
        weights: weights of the rows, (p,), >= 0, sum 1.
        mmd2: MMD^2 to all rows, as exact as the mean embedding (short_rows); nan if rows are a sample.
    """

    indices: IntArray
    weights: FloatArray
    mmd2: float


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """Both forms of a selection: p rows with equal weights, and p rows with other weights."""

    alike: Selected
    weighted: Selected


def select_rows(
    rows: Rows, p: int, gamma: float, sweeps: int = SWEEPS, sample: int | None = None
) -> Selection:
    """Choose p different rows for equal weights, and p for other weights.

    Time: N^2 / 2 products of a few coordinates (short_rows), which dominate where N is large. Memory: 4 N (2
        k + p)
    bytes. With a sample of Q rows: Q^2 / 4 products of n coordinates, and 20 Q n bytes.

    Args:
        rows: (N, n).
        p: 1 to N.
        gamma: gamma of the RBF kernel.
        sweeps: largest number of sweeps of exchanges.
        sample: size Q of the sample to choose from; None: choose from all rows.

    Raises:
        NotEnoughRowsError: p is not in 1 to N, or exceeds `sample`.
    """
    most = len(rows) if sample is None else min(sample, len(rows))
    if not 1 <= p <= most:
        cause = f"a selection of {p} rows was asked for and there are {most}"
        raise NotEnoughRowsError(cause, f"Ask for 1 to {most}.")
    if sample is not None:
        return _select_from_sample(rows, p, gamma, sweeps, most)
    short = shorten(rows, gamma)
    means = short.means()

    def selected(indices: IntArray, weights: FloatArray | None) -> Selected:
        gram, mean_at_rows = rbf(rows[indices], rows[indices], gamma), means[indices]
        weights = fit_simplex(gram, mean_at_rows).weights if weights is None else weights
        value = weights @ gram @ weights - 2.0 * weights @ mean_at_rows + means.mean()
        return Selected(indices, weights, max(float(value), 0.0))

    alike = choose(short, means, p, sweeps)
    weighted = min((selected(choice, None) for choice in (pursue(short, means, p), alike)), key=_mmd2)
    exchanged = selected(exchange(short, means, weighted.indices, sweeps), None)
    return Selection(selected(alike, np.full(p, 1.0 / p)), min(weighted, exchanged, key=_mmd2))


def _mmd2(selected: Selected) -> float:
    return selected.mmd2


def _select_from_sample(rows: Rows, p: int, gamma: float, sweeps: int, sample: int) -> Selection:
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    sampled = random.choice(len(rows), sample, replace=False)
    candidates, means = shorten(rows[sampled], gamma, whole=True).first(max(p, sample // _DRAWN_FOR_ONE))
    chosen = choose(candidates, means, p, sweeps)
    indices = sampled[chosen]
    weights = fit_simplex(rbf(rows[indices], rows[indices], gamma), means[chosen]).weights
    alike = np.full(p, 1.0 / p)
    return Selection(Selected(indices, alike, np.nan), Selected(indices, weights, np.nan))


def choose(short: ShortRows | FirstRows, means: FloatArray, p: int, sweeps: int) -> IntArray:
    """Choose p rows for equal weights, greedily, then exchange them one by one; of equal rows the first.

    Args:
        short: N rows.
        means: mu at each row, (N,).
        p: 1 to N.
        sweeps: largest number of sweeps of exchanges.
    """
    chosen, columns = np.empty(p, np.int64), np.empty((p, len(short)), np.float32)
    crowding, free = np.zeros(len(short)), np.ones(len(short), np.bool_)

    def best(size: int) -> int:
        return int(np.argmax(np.where(free, means - crowding / size, -np.inf)))

    def put(place: int, row: int) -> None:
        chosen[place], columns[place], free[row] = row, short.column(row), False

    for place in range(p):
        put(place, best(place + 1))
        crowding += columns[place]
    for _ in range(sweeps):
        exchanged = 0
        for place in range(p):
            row = int(chosen[place])
            free[row] = True
            crowding -= columns[place]
            other = best(p)
            if means[other] - means[row] - (crowding[other] - crowding[row]) / p > _GAIN:
                put(place, other)
                exchanged += 1
            free[chosen[place]] = False
            crowding += columns[place]
        if not exchanged:
            break
    return chosen


def shortlist(rows: Rows, validation: Rows, count: int, gamma: float) -> IntArray:
    """Choose `count` of very many rows by greedy choice for J alone, to be pruned and weighed after it.

    Of more than MOST_LISTED rows, half of so many are taken as they come, and as many of the rest as are
    nearest to D_v by their mean kernel: what is like a rare target is among them (lab/results/targets.md).

    Time: `count` products of MOST_LISTED rows with one. Kernel values are as exact as their coordinates.

    Args:
        rows: such as rows drawn from a release, (N, n).
        validation: D_v, (m, n).
        count: number of rows to choose; all rows, in order, where there are no more.
        gamma: gamma of the kernel.
    """
    if len(rows) <= count:
        return np.arange(len(rows))
    closeness, places = kernel_mean_at(rows, validation, gamma), np.arange(len(rows))
    if len(rows) > MOST_LISTED:
        first, rest = np.split(places, [MOST_LISTED // 2])
        nearest = rest[np.argsort(-closeness[rest], kind="stable")[: MOST_LISTED - len(first)]]
        places = np.concatenate([first, np.sort(nearest)])
    short, closeness = shorten(rows[places], gamma), closeness[places]
    crowding, chosen = np.zeros(len(places)), np.empty(min(count, len(places)), np.int64)
    for size in range(len(chosen)):
        gain = closeness - crowding / (size + 1)
        chosen[size] = row = int(np.argmax(gain))
        crowding += short.column(row)
        closeness[row] = -np.inf
    return places[chosen]


def pursue(short: ShortRows, means: FloatArray, p: int) -> IntArray:
    """Choose p rows for weights, each time the row with the largest residual.

    Args:
        short: N rows.
        means: mu at each row, (N,).
        p: 1 to N.
    """
    chosen, columns = np.empty(p, np.int64), np.empty((p, len(short)), np.float32)
    residual, free, weights = means.copy(), np.ones(len(short), np.bool_), np.empty(0)
    for place in range(p):
        row = int(np.argmax(np.where(free, residual, -np.inf)))
        chosen[place], free[row], columns[place] = row, False, short.column(row)
        rows = chosen[: place + 1]
        support = np.append(np.flatnonzero(weights), place)  # the previous weights are a good start
        weights = _fit_weights(columns[: place + 1, rows], means[rows], support)
        residual = means - weights.astype(np.float32) @ columns[: place + 1]
    return chosen


def exchange(short: ShortRows | FirstRows, means: FloatArray, chosen: IntArray, sweeps: int) -> IntArray:
    """Exchange chosen rows for better rows for weights, in order of ascending weight.

    A row is exchanged for the row with the largest residual of the other chosen rows, if this makes MMD^2
    smaller.

    Args:
        short: N rows.
        means: mu at each row, (N,).
        chosen: places of p rows.
        sweeps: largest number of sweeps over the chosen rows.
    """
    chosen, columns = chosen.copy(), np.array([short.column(row) for row in chosen])
    weights = _fit_weights(columns[:, chosen], means[chosen], np.arange(len(chosen)))
    for _ in range(sweeps):
        exchanged = 0
        for place in np.argsort(weights, kind="stable"):
            stay = np.flatnonzero(np.arange(len(chosen)) != place)
            stay_rows, others = chosen[stay], np.zeros(len(chosen))
            others[stay] = _fit_weights(
                columns[np.ix_(stay, stay_rows)], means[stay_rows], np.flatnonzero(weights[stay])
            )
            residual = means - others.astype(np.float32) @ columns
            residual[chosen] = -np.inf
            row = int(np.argmax(residual))
            tried, column = chosen.copy(), short.column(row)
            tried[place] = row
            gram = columns[:, tried]
            gram[place] = column[tried]
            fitted = _fit_weights(gram, means[tried], np.append(np.flatnonzero(others), place))
            before = _objective(columns[:, chosen], means[chosen], weights)
            if _objective(gram, means[tried], fitted) < before - _GAIN:
                chosen, weights, columns[place] = tried, fitted, column
                exchanged += 1
        if not exchanged:
            break
    return chosen


def _fit_weights(gram: NDArray[np.float32], target: FloatArray, support: IntArray) -> FloatArray:
    """Best weights >= 0 with a sum of at most 1, from a first support; an extra zero row takes the rest."""
    padded = np.pad(gram.astype(np.float64), (0, 1))
    support = np.append(support, len(target))
    weights: FloatArray = fit_simplex(padded, np.append(target, 0.0), support=support).weights[:-1]
    return weights


def _objective(gram: NDArray[np.float32], target: FloatArray, weights: FloatArray) -> float:
    """MMD^2 without its constant |mu|^2."""
    return float(weights @ gram @ weights - 2.0 * weights @ target)
