"""Tails of a number by its noisy counts.

The last run of a number's fine cells holds a tail: a few cells with rows, and many without. The noise of
these cells together hides how far rows go. The tail is supposed to be a generalized Pareto distribution,
which tails come near to beyond a far quantile (Pickands 1975): even up to an end with shape -1, exponential
with 0, heavy above 0. For a grid of shapes and scales, Bayes' rule weighs how well the distribution fits what
was released: the shares of the runs beside this one, which have little noise, and the cells. Each cell gets
its mean share. So cells of mere noise leave a tail that continues the runs beside them.

Where the cells clearly tell of something else, as of a value that many rows have, they have the shares that
cells of any other run have (`fedkme.releases.fine`). A peak far away that noise hides is lost.

**Even bins** (`with_tails`) beyond the last one that clearly has rows continue those before it in the same
way. Else noise fills them, as no count is below 0: in a wide range, a third of 1,000 rows.

All of this reads noisy counts and public numbers alone: post-processing, which costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.features.counts import Clique

SHAPES = {-1.0: 0.15, -0.5: 0.15, -0.25: 0.25, 0.0: 0.2, 0.2: 0.1, 0.4: 0.1, 0.6: 0.05}
"""Shapes of the distribution, and their weights beforehand."""
MISFIT = 0.1
"""Relative deviation of a run's share from the distribution's, besides noise."""
CLEARLY = 8.0
"""Logarithm of the likelihood ratio above which the cells hold something else than a tail."""
CLEAR_BIN = 3.0
"""Deviations of noise from which a bin clearly has rows."""
OTHERS = 3.0
"""Deviations of noise beyond which the rows of outer bins together are not those of a tail."""
BESIDE = 3
"""Runs or bins beside an end that tell of its tail."""
_SCALES, _LEAST_SCALE = 48, 0.25  # scales of a shape; least scale, in cells


def tail_shares(
    cells: FloatArray,
    deviations: FloatArray,
    runs: FloatArray,
    lengths: FloatArray,
    noise: float,
    others: FloatArray,
) -> FloatArray:
    """Share of each cell of a run at an end, (n,), from inside to the end, that adds up to 1; see the module.

    Args:
        cells: (n,) shares of the cells, with noise.
        deviations: (n,) deviation of the noise in each.
        runs: (r,) shares of the runs beside this one, the farthest first, then of this one.
        lengths: (r - 1,) cells of the runs beside it.
        noise: deviation of the noise in each share of a run.
        others: (n,) shares of the cells as any other run has them, which add up to 1.
    """
    mass, count, beside = float(runs[-1]), len(cells), len(lengths)
    if count < 2 or not mass > 0.0:
        return others
    law, score = _laws(np.concatenate([lengths, np.ones(count)]))
    inside = law[:, beside:]
    own = inside.sum(axis=1)
    have = np.column_stack([law[:, :beside], own]) * runs.sum()
    score = score + _fit(runs, have, noise**2 + (MISFIT * have) ** 2)
    shares = inside / np.maximum(own, 1e-300)[:, None]
    score = np.where(own > 0.0, score + _fit(cells, mass * shares, deviations**2), -np.inf)
    tail = _posterior(score) @ shares
    gain = _fit(cells, mass * others, deviations**2) - _fit(cells, mass * tail, deviations**2)
    return others if gain > CLEARLY else np.asarray(tail)


def with_tails(bins: FloatArray, noise: float) -> FloatArray:
    """Counts of even bins; beyond the first and the last that clearly have rows, a tail in place of noise.

    Args:
        bins: (n,) counts in order, with noise.
        noise: deviation of the noise in each.
    """
    seen = np.flatnonzero(bins > CLEAR_BIN * noise)
    if not len(seen):
        return bins
    smoothed = bins.copy()
    for way, outer in ((-1, int(seen[0])), (1, len(bins) - 1 - int(seen[-1]))):
        if outer > 1:
            ordered = smoothed[::way]
            start = len(bins) - outer
            beside = ordered[max(start - BESIDE, 0) : start]
            ordered[start:] = _continued(np.maximum(beside, 0.0), ordered[start:].copy(), noise)
    return smoothed


def tables_with_tails(
    tables: Mapping[Clique, FloatArray], precisions: Mapping[Clique, float], column: int, bins: int
) -> dict[Clique, FloatArray]:
    """Tables with a number, after its outer bins got the counts of its tails; dependences stay as they were.

    Args:
        tables: counts with noise, by columns; an axis for each.
        precisions: 1 / sigma^2 of each table.
        column: number of even bins.
        bins: its bins, which are its first codes.
    """
    own = {c: np.moveaxis(table, c.index(column), 0) for c, table in tables.items() if column in c}
    weights = {c: precisions[c] * len(table) / table.size for c, table in own.items()}
    if not own:
        return {}
    total = sum(weights.values())
    margin = (
        sum(weight * own[c].reshape(len(own[c]), -1).sum(axis=1) for c, weight in weights.items()) / total
    )
    smooth = with_tails(margin[:bins], total**-0.5)
    changed = np.flatnonzero(smooth != margin[:bins])
    smoothed = dict[Clique, FloatArray]()
    for c, each in own.items() if len(changed) else ():
        table, others = each.copy(), np.maximum(each.sum(axis=0), 0.0)
        more = smooth[changed] - each[changed].reshape(len(changed), -1).sum(axis=1)
        table[changed] += np.multiply.outer(more, others / max(float(others.sum()), 1e-9))
        smoothed[c] = np.moveaxis(table, 0, c.index(column))
    return smoothed


def _continued(beside: FloatArray, outer: FloatArray, noise: float) -> FloatArray:
    """Counts of outer bins that continue those beside them; as they are where they clearly have others."""
    law, score = _laws(np.ones(len(beside) + len(outer)))
    own = law[:, : len(beside)].sum(axis=1, keepdims=True)
    have = law * beside.sum() / own
    near, far = have[:, : len(beside)], have[:, len(beside) :]
    noises = np.full(len(outer), noise**2)
    score = score + _fit(beside, near, noise**2 + (MISFIT * near) ** 2) + _fit(outer, far, noises)
    tail = _posterior(score) @ far
    more = abs(float(outer.sum() - tail.sum()))
    return outer if more > OTHERS * noise * math.sqrt(len(outer)) else np.asarray(tail)


def _laws(lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Share of each run of cells by each distribution, (laws, runs), and the logarithm of its prior."""
    places = np.concatenate([[0.0], np.cumsum(lengths)])
    scales = np.geomspace(_LEAST_SCALE, 2.0 * places[-1], _SCALES)[:, None]
    laws = list[FloatArray]()
    for shape in SHAPES:
        beyond = _beyond(places / scales, shape)
        laws.append((beyond[:, :-1] - beyond[:, 1:]) / (1.0 - beyond[:, -1:]))
    return np.concatenate(laws), np.log(np.repeat([*SHAPES.values()], _SCALES))


def _fit(counts: FloatArray, laws: FloatArray, variances: FloatArray) -> FloatArray:
    """Logarithm of the likelihood of counts by each law, (laws,)."""
    return np.asarray(-0.5 * ((counts - laws) ** 2 / variances + np.log(variances)).sum(axis=-1))


def _posterior(scores: FloatArray) -> FloatArray:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def _beyond(places: FloatArray, shape: float) -> FloatArray:
    """Share of a generalized Pareto distribution of scale 1 beyond each place."""
    if shape == 0.0:
        return np.exp(-places)
    return np.asarray(np.maximum(1.0 + shape * places, 0.0) ** (-1.0 / shape))
