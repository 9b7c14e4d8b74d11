"""Mean and variance of every public coordinate, from the first question of a release of moments.

Both are post-processing of noisy sums. The second question follows from them: the coordinates that take part,
with a centre and a scale for each.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, james_stein
from fedkme.moments.features import SecondMomentsSpec, ShellMoments, T

_OCCUPIED = 3.0  # deviations of its noise by which the count of a shell exceeds 0 where the shell has rows
_LEAST = 1e-4  # least variance over the mean variance: no coordinate is taken for constant
_MOST_SCALE = 1e8
_MOST_REACH = 6.0  # at 1 / (mean of |z|^2) = 6, few rows of a normal law in a few dimensions are clipped


@dataclass(frozen=True, eq=False)
class Scales:
    """Answer to the first question, in coordinates of the schema (fedkme.moments.coordinates).

    Attributes:
        mean: (n,) mean of all rows.
        variance: (n,) variance, above 0, smoothed over coordinates whose variances are expected to be alike.
        mean_noise: (n,) variance of the noise in each mean before shrinking.
    """

    mean: FloatArray
    variance: FloatArray
    mean_noise: FloatArray


def scales_of(released: FloatArray, sigma: float, features: ShellMoments) -> Scales:
    """Estimate mean and variance of each coordinate, from the shells whose counts exceed their noise.

    Args:
        released: sum of phi over all rows, divided by N, with noise, (J,).
        sigma: standard deviation of the noise in each entry.
        features: phi.
    """
    away, raw, mean_noise, deviations = (np.empty_like(features.middle) for _ in range(4))
    released, sigma, start = released / features.weight, sigma / features.weight, 0
    for columns, radii in features.parts:
        width = columns.stop - columns.start
        table = released[start : start + len(radii) * (1 + 2 * width)].reshape(len(radii), 1 + 2 * width)
        start += table.size
        counts, first, squares = table[:, 0] / T, table[:, 1 : width + 1], table[:, width + 1 :]
        occupied = counts > _OCCUPIED * sigma / T
        if not occupied.any():
            occupied[0] = True  # noise alone: nothing is known but the domain
        radii = np.where(occupied, radii, 0.0)
        mean_noise[columns] = sigma**2 / (2.0 * T) * float((radii**2).sum())
        away[columns] = radii @ first / math.sqrt(2.0 * T)
        raw[columns] = radii**2 @ squares
        deviations[columns] = sigma * math.sqrt(float((radii**4).sum()))
    away = _shrunk(away, mean_noise, features)
    variance = _smoothed(raw - away**2, deviations, features)
    return Scales(features.middle + away, variance, mean_noise)


def affordable_width(rows: int, multiplier: float, classes: int) -> float:
    """Number of coordinates that the noise allows, sqrt(9 N / (m C)), for the noise multiplier m."""
    return 3.0 * math.sqrt(rows / (multiplier * classes))


def reach_of(spare: float) -> float:
    """1 over the mean of |z|^2 before clipping; `spare` is the affordable width over the width."""
    return float(min(max(spare, 1.0) ** 1.5, _MOST_REACH))


def second_question(
    scales: Scales, features: ShellMoments, width: int, affordable: float
) -> SecondMomentsSpec:
    """Ask for the coordinates of largest variance, each scaled by the fourth root of its variance.

    Args:
        scales: mean and variance of all coordinates.
        features: phi of the first question.
        width: number of coordinates that take part.
        affordable: number of coordinates that the noise allows. If so many take part, the mean of |z|^2 is 1
            before clipping: about half of the rows are clipped, which balances the noise against the loss by
            clipping. With fewer coordinates the noise falls, as their number to the power 1.5, and less is
            clipped.
    """
    reach = reach_of(affordable / width)
    order = np.lexsort((features.coordinates.rank, -scales.variance))
    chosen = np.sort(order[:width])
    # The noise in the mean is a distance between the centre and the mean of the rows.
    root = np.sqrt(scales.variance[chosen] + scales.mean_noise[chosen])
    scale = np.sqrt(root) * math.sqrt(reach * float(root.sum()))
    return SecondMomentsSpec(
        edges=features.edges,
        chosen=tuple(chosen.tolist()),
        centre=tuple(scales.mean[chosen].tolist()),
        scale=tuple(np.minimum(scale, _MOST_SCALE).tolist()),
    )


def _shrunk(away: FloatArray, noise: FloatArray, features: ShellMoments) -> FloatArray:
    """Means less the middle of the domain, shrunk in each band as far as noise explains their size."""
    shrunk = np.empty_like(away)
    for band in itertools.chain.from_iterable(features.coordinates.bands):
        shrunk[band] = away[band] * james_stein(float((away[band] ** 2).mean()), noise[band][0])
    return shrunk


def _smoothed(raw: FloatArray, deviations: FloatArray, features: ShellMoments) -> FloatArray:
    """Variances without most of their noise, above 0.

    The means of the bands of a block are made not to rise with the frequency. The variance of each coordinate
    is shrunk towards the mean of its band as far as noise explains the difference.

    Args:
        raw: (n,) variances with noise.
        deviations: (n,) standard deviations of that noise, equal within a block.
        features: feature map, which has the bands.
    """
    smoothed = np.empty_like(raw)
    least = _LEAST * max(float(raw.mean()), 1e-9)
    for bands in features.coordinates.bands:
        means = _falling([float(raw[band].mean()) for band in bands], [len(band) for band in bands])
        for band, mean in zip(bands, means, strict=True):
            n = deviations[band][0]
            away = raw[band] - mean
            factor = james_stein(float((away**2).mean()), n**2)
            smoothed[band] = np.maximum(mean + factor * away, max(least, min(mean, 0.5 * n)))
    return smoothed


def _falling(means: list[float], sizes: list[int]) -> list[float]:
    """Nearest means that do not rise, each weighted by its size (pool adjacent violators)."""
    pools: list[tuple[float, int, int]] = []  # mean, size, number of bands
    for mean, size in zip(means, sizes, strict=True):
        count = 1
        while pools and pools[-1][0] < mean:
            other, weight, bands = pools.pop()
            mean = (mean * size + other * weight) / (size + weight)
            size, count = size + weight, count + bands
        pools.append((mean, size, count))
    return [mean for mean, _, count in pools for _ in range(count)]
