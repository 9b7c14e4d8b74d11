"""Fits of graphical models to noisy marginals: mirror descent on the junction tree (McKenna 2019).

The algorithm is that of `MirrorDescent` in the package mbi, in numpy: mbi compiles a program for each set of
cliques, half a minute on 100 pairs, and comes to the same model, as tests check. Steps have Nesterov's
momentum, which begins again where the loss does not fall (O'Donoghue and Candes 2015): on seven tables 100
steps come to the loss of 1,000 without it (lab/tried/releases.md).

A table of four and more columns has more cells than its rows tell about: `without_noise` first takes out of
it what noise explains of its interactions. `of_low_rank` does so for tables that tilt the label, `smoothed`
for tables of two columns.

**Two columns.** Let y be the counts of two columns with noise sigma in each cell, and e the counts of
independent columns with the margins of y. y - e is written in an orthonormal basis of each axis, the constant
first. Of a number the others are p_i P_k(r_i), made orthonormal from low degrees to high: p_i is the share of
code i, r_i its middle rank and P_k a polynomial of Legendre, so what changes slowly with the rank is in few
coefficients. Of a category they set each code against the others, the most frequent first.

Coefficients k in [2^a, 2^(a + 1)) of one axis and l in [2^b, 2^(b + 1)) of the other are a block. A block of
n coefficients with noise sigma and the sum of squares S shrinks by (1 - CLEAR n sigma^2 / S)+, as by James
and Stein (1961). Coefficients with a constant are the margins, which stay as they are. A table of two
categories stays where noise is less than MUCH_NOISE of what all blocks have: its dependence is in a few cells
rather than in few coefficients, and the fit, which knows no counts below 0, takes the noise of empty cells.

**Columns** of even bins, most of which are empty in a wide public range, have noise in each, and no count is
below 0. Their outer bins continue a tail (`fedkme.releases.tails`). The last fit begins at columns and pairs.

**Tables outside of the model** (`coupling`) have more noise than dependence: nearly all blocks of nearly all
of them. Of a block that does not stand out the part v / (v + sigma^2) stays. v is the variance without noise
of all such blocks of its levels, less what chance explains.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from curator.releases.marginals.model import Model, Zeros, check_size, without_zeros
from curator.releases.marginals.products import Moment, SeenProducts
from fedkme.arrays import FloatArray, IntArray, james_stein
from fedkme.features.counts import Clique, Groups, sizes_with
from fedkme.releases.counts import Measurement, StoredCounts, pooled
from fedkme.releases.tails import tables_with_tails

Tables = dict[Clique, FloatArray]
_NO_MOMENTS: Mapping[Clique, Moment] = MappingProxyType({})
_NO_BINS: Mapping[int, int] = MappingProxyType({})
_TELL = 10
_LONGER, _SHORTER, _HALF = 1.02, 0.8, 0.5
"""Factors of a step: after a fall of the loss, after a rise, and after a rise without momentum."""
_WHOLE = 3
"""Most columns of a table, and one less than the columns of an interaction, that are fitted as measured."""
CLEAR = 1.3
"""Noise that is taken out of a block, in parts of the noise that is expected in it."""
DOUBT, SURE = 6.0, 2.0
"""Noise alone stands out in a block with a chance of exp(-DOUBT); deviations of chance that are taken from a
spread of blocks."""
MUCH_NOISE = 0.1
"""Least share of noise in the dependence of two categories that are smoothed."""
_EVEN = 0.2  # of an even share, added to a code's: codes without rows have a place in the basis, too
_LEAST_SHARE = 1e-4  # of a code from which a descent begins
_LEAST_ROWS = 1.0  # of a cell from which a descent begins


def without_noise(table: FloatArray, sigma: float) -> FloatArray:
    """Shrink the interactions of three and more columns in a table with noise: post-processing.

    An orthonormal basis of each axis, the constant first (Helmert), gives coefficients with noise sigma. Of
    those that touch k >= 3 columns, m in number, one beyond sigma sqrt(2 ln m) stays (the universal threshold
    of Donoho and Johnstone 1994), and the others together shrink by (1 - m sigma^2 / sum of squares)+, as by
    James and Stein. The XOR of all columns is one coefficient.

    Args:
        table: counts with noise sigma in each cell, an axis for each column; of fewer than four columns it
            stays as it is.
        sigma: noise.

    Example:
        `without_noise(counts.reshape(2, 2, 2, 2), sigma=30.0)`
    """
    if table.ndim <= _WHOLE:
        return table
    from scipy.linalg import helmert  # the import takes time, so not at the start

    bases = [helmert(size, full=True) for size in table.shape]
    spread, touched = _turned(table, bases), (np.indices(table.shape) > 0).sum(axis=0)
    for order in range(_WHOLE, table.ndim + 1):
        part = spread[touched == order]
        small = np.abs(part) <= sigma * np.sqrt(2.0 * np.log(max(2, len(part))))
        part[small] *= james_stein(float((part[small] ** 2).sum()), small.sum() * sigma**2)
        spread[touched == order] = part
    return _turned(spread, [basis.T for basis in bases])


def of_low_rank(table: FloatArray, sigma: float) -> FloatArray:
    """Estimate of a table without its noise: interactions of few directions on each axis.

    In orthonormal bases with the constant first, the coefficients that touch a set of axes are a tensor of
    their own with noise sigma. Along each axis it keeps the directions whose singular value is above sigma
    (sqrt(rows) + sqrt(columns)), the largest of noise alone (Gavish and Donoho 2014 for two axes); the rest
    shrinks as by James and Stein.

    Args:
        table: differences of counts with noise sigma in each cell, an axis for each column.
        sigma: noise.
    """
    from scipy.linalg import helmert

    bases = [helmert(size, full=True) for size in table.shape]
    spread = _turned(table, bases)
    for touched in itertools.product((False, True), repeat=table.ndim):
        place = tuple(slice(1, None) if axis else slice(0, 1) for axis in touched)
        spread[place] = _few_directions(spread[place], sigma)
    return _turned(spread, [basis.T for basis in bases])


def _turned(table: FloatArray, bases: Sequence[FloatArray]) -> FloatArray:
    """Table in another basis of each axis."""
    for axis, basis in enumerate(bases):
        table = np.moveaxis(np.tensordot(basis, table, (1, axis)), 0, axis)
    return table


def _few_directions(part: FloatArray, sigma: float) -> FloatArray:
    """Part of a tensor in the directions that stand out of its noise, and what is left, shrunk."""
    if not part.size:
        return part
    projected, dimensions = part, 1
    for axis in range(part.ndim):
        unfolded = np.moveaxis(part, axis, 0).reshape(part.shape[axis], -1)
        left, values, _ = np.linalg.svd(unfolded, full_matrices=False)
        kept = left[:, values > sigma * sum(map(math.sqrt, unfolded.shape))]
        projected = np.moveaxis(np.tensordot(kept @ kept.T, projected, (1, axis)), 0, axis)
        dimensions *= kept.shape[1]
    rest, noise = part - projected, (part.size - dimensions) * sigma**2
    return np.asarray(projected + rest * james_stein(float((rest**2).sum()), noise))


def fit(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    rows: int,
    iterations: int,
    start: Model | None = None,
    report: Callable[[float], None] = lambda _: None,
    groups: Sequence[Groups] = (),
    orders: Mapping[int, Sequence[int]] | None = None,
    moments: Mapping[Clique, Moment] = _NO_MOMENTS,
    even: Mapping[int, int] = _NO_BINS,
) -> Model:
    """Fit the model of nearly largest likelihood (among equals, largest entropy) to noisy marginals.

    Args:
        sizes: codes of every column.
        measurements: at least one; a column without a measurement is uniform.
        rows: N, public.
        iterations: iterations of mirror descent.
        start: model whose cliques are contained in the new cliques; None: uniform. Its zeros are kept.
        report: called with the finished part of the descent, 0 to 1; an error that it raises ends the fit.
        groups: columns of groups, behind the others.
        orders: codes of each number in the order of their values, by column; None: tables of two columns are
            fitted as measured.
        moments: sums over the cells of measured pairs, by the pair.
        even: even bins of each number that has them, by column, its first codes.

    Raises:
        ConfigError: the junction tree would have more than MODEL_CELLS cells.
    """
    means = pooled(measurements)
    cliques = tuple(means)
    zeros = {} if start is None else start.zeros
    check_size(sizes, (*cliques, *zeros), groups)
    whole = sizes_with(groups, sizes)
    precision = {c: weight for c, (weight, _) in means.items()}
    target = {c: values.reshape([whole[i] for i in c]) for c, (_, values) in means.items()}
    target = {c: without_noise(table, precision[c] ** -0.5) for c, table in target.items()}
    for column, bins in even.items():
        target |= tables_with_tails(target, precision, column, bins)
    if orders is not None:
        target |= {
            c: smoothed(table, precision[c] ** -0.5, c, orders, _possible(c, table, zeros))
            for c, table in target.items()
            if len(c) == 2 and c[-1] < len(sizes)
        }
    target = {c: without_zeros(table, c, zeros) for c, table in target.items()}
    potentials = {c: np.zeros([whole[i] for i in c]) for c in cliques}
    if orders is not None:  # a descent from even tables takes long to empty cells
        potentials |= _first_potentials({c: table for c, table in target.items() if c[-1] < len(sizes)}, rows)
    if start is not None:
        potentials |= start.potentials
        for c in cliques:
            if c not in start.potentials and len(c) > _WHOLE and c[-1] < len(sizes_with(start.groups, sizes)):
                # many small cells are far from where they belong: the descent goes on from a step of scaling
                shares = np.maximum(target[c], _LEAST_ROWS) / rows
                potentials[c] = np.log(shares / np.maximum(start.probabilities(c), _LEAST_ROWS / rows))

    def evaluated(tables: Tables) -> tuple[float, Tables]:
        model = Model(sizes, tables, groups, zeros)
        counts = {c: rows * model.held(c) for c in cliques}
        slopes = {c: precision[c] * (counts[c] - target[c]) for c in cliques}
        loss = 0.5 * sum(float((slopes[c] ** 2).sum()) / precision[c] for c in cliques)
        for c, moment in moments.items():
            off = (float((moment.weights * counts[c]).sum()) - moment.value) / moment.sigma
            loss += 0.5 * off**2
            slopes[c] = slopes[c] + off / moment.sigma * moment.weights
        return loss, slopes

    step = 2.0 / (rows * max(precision.values()))
    loss, slopes = evaluated(potentials)
    before, falls = potentials, 0
    for number in range(1, iterations + 1):
        momentum = falls / (falls + 3.0)
        tried = potentials | {
            c: potentials[c] - step * slopes[c] + momentum * (potentials[c] - before[c]) for c in cliques
        }
        new_loss, new_slopes = evaluated(tried)
        if new_loss < loss:
            before, potentials, loss, slopes = potentials, tried, new_loss, new_slopes
            step, falls = step * _LONGER, falls + 1
        else:
            step *= _SHORTER if falls else _HALF
            before, falls = potentials, 0
        if number % _TELL == 0 or number == iterations:
            report(number / iterations)
    return Model(sizes, potentials, groups, zeros)


def _first_potentials(target: Tables, rows: int) -> Tables:
    """Logarithms of columns, and of the tree of pairs that tell most of each other (Chow and Liu 1968)."""
    from scipy.sparse.csgraph import minimum_spanning_tree  # the import takes time, so not at the start

    first = {c: np.log(np.maximum(t / rows, _LEAST_SHARE)) for c, t in target.items() if len(c) == 1}
    pairs, told = dict[Clique, FloatArray](), np.zeros([1 + max(map(max, target), default=0)] * 2)
    for pair, table in target.items():
        if len(pair) == 2:
            shares = np.maximum(table, _LEAST_ROWS)
            shares /= shares.sum()
            pairs[pair] = np.log(shares / np.outer(shares.sum(axis=1), shares.sum(axis=0)))
            told[pair] = float((shares * pairs[pair]).sum())
    tree = minimum_spanning_tree(-told)
    return first | {pair: table for pair, table in pairs.items() if tree[pair]}


def model_of(
    stored: StoredCounts,
    iterations: int,
    start: Model | None,
    report: Callable[[float], None] = lambda _: None,
) -> Model:
    """Fit the model of a release to its tables, and to the products of pairs that have one."""
    binning, rows, measured = stored.binning, stored.rows, (*stored.fitted, *stored.grouped)
    seen = SeenProducts.of(stored.products, stored.folded, stored.finer, binning, rows)
    cliques = {each.clique for each in measured}
    moments = {} if seen is None else {c: m for c, m in seen.moments(rows).items() if c in cliques}
    return fit(
        binning.sizes,
        measured,
        rows,
        iterations,
        start,
        report,
        stored.groups,
        binning.orders,
        moments,
        binning.even_bins,
    )


def _possible(clique: Clique, table: FloatArray, zeros: Zeros) -> FloatArray | None:
    """Cells of a pair that may have rows; None: all."""
    possible = without_zeros(np.ones_like(table), clique, zeros)
    return None if possible.all() else possible


def smoothed(
    table: FloatArray,
    sigma: float,
    clique: Clique,
    orders: Mapping[int, Sequence[int]],
    possible: FloatArray | None = None,
) -> FloatArray:
    """Shrink the dependence in counts of two columns; see the module.

    Args:
        table: counts with noise, an axis for each column.
        sigma: deviation of the noise in each cell.
        clique: the two columns.
        orders: codes of each number in the order of their values, by column.
        possible: 1 in each cell that may have rows, and 0 where public rules say that none has; None: all 1.
    """
    mass = max(float(table.sum()), 1.0)
    margins = [np.maximum(table.sum(axis=1 - axis), 0.0) for axis in (0, 1)]
    one, two = (margin / max(float(margin.sum()), 1e-9) for margin in margins)
    apart = mass * np.outer(one, two)
    if possible is not None:
        apart = fitted_margins(apart * possible, mass * one, mass * two)
    rest = table - apart if possible is None else (table - apart) * possible
    noise = (len(one) - 1) * (len(two) - 1) * sigma**2
    if orders.keys().isdisjoint(clique) and noise < MUCH_NOISE * float((rest**2).sum()):
        return table
    return np.asarray(apart + Blocks.of(rest, (one, two), clique, orders).shrunk(sigma))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Coefficients of a table of two columns, by blocks; see the module.

    Attributes:
        bases: orthonormal functions of each column's codes.
        spread: coefficients.
    """

    bases: tuple[FloatArray, FloatArray]
    spread: FloatArray

    @classmethod
    def of(
        cls,
        rest: FloatArray,
        margins: Sequence[FloatArray],
        clique: Clique,
        orders: Mapping[int, Sequence[int]],
    ) -> Blocks:
        """Blocks of differences of counts, by the columns' shares and the codes of numbers in their order."""
        first, second = (_basis(p, orders.get(c)) for p, c in zip(margins, clique, strict=True))
        return cls((first, second), first.T @ rest @ second)

    def each(self) -> Iterator[tuple[tuple[int, int], FloatArray]]:
        """Blocks by their two levels, as views."""
        ends = [[*(2**level for level in range(10) if 2**level < size), size] for size in self.spread.shape]
        for a, (top, bottom) in enumerate(itertools.pairwise(ends[0])):
            for b, (left, right) in enumerate(itertools.pairwise(ends[1])):
                yield (a, b), self.spread[top:bottom, left:right]

    def shrunk(self, sigma: float, spreads: Mapping[tuple[int, int], float] | None = None) -> FloatArray:
        """The differences with less noise.

        Args:
            sigma: deviation of the noise in each cell.
            spreads: variance of coefficients without noise, by levels, that a block has unless it stands out;
                None: each block tells of itself.
        """
        for levels, block in self.each():
            kept = james_stein(float((block**2).sum()), CLEAR * block.size * sigma**2)
            if spreads is not None and not stands_out(block, sigma):
                spread = spreads.get(levels, 0.0)
                kept = spread / (spread + sigma**2)
            block *= kept
        return np.asarray(self.bases[0] @ self.spread @ self.bases[1].T)


def stands_out(block: FloatArray, sigma: float) -> bool:
    """Check a block for what noise has with a chance of exp(-DOUBT) (Laurent and Massart 2000)."""
    chance = block.size + 2.0 * math.sqrt(block.size * DOUBT) + 2.0 * DOUBT
    return float((block**2).sum()) > chance * sigma**2


def spreads_of(tables: Iterable[tuple[Blocks, float]]) -> dict[tuple[int, int], float]:
    """Variance without noise of the coefficients that do not stand out, by levels, from blocks and sigmas."""
    excess: defaultdict[tuple[int, int], float] = defaultdict(float)
    weight: defaultdict[tuple[int, int], float] = defaultdict(float)
    for blocks, sigma in tables:
        for levels, block in blocks.each():
            if not stands_out(block, sigma):
                excess[levels] += (float((block**2).sum()) - block.size * sigma**2) / sigma**4
                weight[levels] += block.size / sigma**4
    chance = {levels: SURE * math.sqrt(2.0 * square) for levels, square in weight.items()}
    return {levels: max(0.0, excess[levels] - chance[levels]) / weight[levels] for levels in weight}


def _basis(shares: FloatArray, order: Sequence[int] | None) -> FloatArray:
    """Orthonormal functions of a column's codes, (codes, functions); see the module."""
    size = len(shares)
    places: IntArray = np.argsort(-shares, kind="stable") if order is None else np.asarray(order)
    ordered = shares[places]
    if order is None:
        functions = np.eye(size) - ordered[:, None]
    else:
        ranks = 2.0 * np.cumsum(ordered) - ordered - 1.0
        functions = np.polynomial.legendre.legvander(ranks, size)[:, 1:] * (ordered + _EVEN / size)[:, None]
    start = np.concatenate([np.ones((size, 1)), functions[:, : size - 1], np.eye(size)], axis=1)
    basis = np.empty((size, size))
    basis[places] = np.linalg.qr(start)[0][:, :size]
    return basis


def fitted_margins(table: FloatArray, one: FloatArray, two: FloatArray) -> FloatArray:
    """Scale rows and columns of a table to margins, as far as its zeros allow (Deming and Stephan 1940)."""
    for _ in range(50):
        table = table * (one / np.maximum(table.sum(axis=1), 1e-9))[:, None]
        table = table * (two / np.maximum(table.sum(axis=0), 1e-9))
    return table
