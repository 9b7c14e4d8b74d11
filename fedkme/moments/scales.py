"""Mean and variance of every public coordinate, as the first question of a release of moments tells them.

All of it is post-processing of noisy sums. From it follows the second question: which coordinates take part,
and how each is centred and scaled.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.moments.features import SecondMomentsSpec, ShellMoments, T

_OCCUPIED = 3.0  # a shell counts where its noisy count is so many deviations of its noise above 0
_LEAST = 1e-4  # of the mean variance: no coordinate is taken for constant
_MOST_SCALE = 1e8
_MOST_REACH = 6.0  # 1 over the mean of |z|^2: rows of a normal law in a few dimensions are hardly clipped


@dataclass(frozen=True, eq=False)
class Scales:
    """Answer to the first question, in coordinates of the schema (fedkme.moments.coordinates).

    Attributes:
        mean: (n,) of all rows.
        variance: (n,) above 0, smoothed over coordinates that are expected to vary alike.
        mean_noise: (n,) variance of the noise in each mean before it was shrunk.
    """

    mean: FloatArray
    variance: FloatArray
    mean_noise: FloatArray


def scales_of(released: FloatArray, sigma: float, features: ShellMoments) -> Scales:
    """Mean and variance by shell, added over the shells that hold more than noise.

    Args:
        released: sum of phi over all rows by N, (J,).
        sigma: deviation of the noise in each.
        features: phi.
    """
    away, raw, mean_noise, deviations = (np.empty_like(features.middle) for _ in range(4))
    released, sigma, start = released / features.weight, sigma / features.weight, 0
    for columns, radii in features.parts:
        width = columns.stop - columns.start
        table = released[start : start + len(radii) * (1 + 2 * width)].reshape(len(radii), 1 + 2 * width)
        start += table.size
        counts, first, squares = table[:, 0] / T, table[:, 1 : width + 1], table[:, width + 1 :]
        held = counts > _OCCUPIED * sigma / T
        if not held.any():
            held[0] = True  # noise alone: nothing is known but the domain
        radii = np.where(held, radii, 0.0)
        mean_noise[columns] = sigma**2 / (2.0 * T) * float((radii**2).sum())
        away[columns] = radii @ first / math.sqrt(2.0 * T)
        raw[columns] = radii**2 @ squares
        deviations[columns] = sigma * math.sqrt(float((radii**4).sum()))
    away = _shrunk(away, mean_noise, features)
    variance = _smoothed(raw - away**2, deviations, features)
    return Scales(features.middle + away, variance, mean_noise)


def affordable_width(rows: int, multiplier: float, classes: int) -> float:
    """Coordinates that the noise allows, sqrt(9 N / (m C))."""
    return 3.0 * math.sqrt(rows / (multiplier * classes))


def reach_of(spare: float) -> float:
    """1 over the mean of |z|^2 before clipping, by coordinates that noise allows over those there are."""
    return float(min(max(spare, 1.0) ** 1.5, _MOST_REACH))


def second_question(
    scales: Scales, features: ShellMoments, width: int, affordable: float
) -> SecondMomentsSpec:
    """The coordinates of most variance, each scaled by the fourth root of its variance.

    Args:
        scales: of all coordinates.
        features: phi of the first question.
        width: coordinates that take part.
        affordable: as many as the noise allows. At as many the mean of |z|^2 is 1 before clipping: about half
            of the rows are clipped, where noise and what clipping loses are balanced. With fewer coordinates
            there is less noise to balance, in their number to 1.5, and less is clipped.
    """
    reach = reach_of(affordable / width)
    order = np.lexsort((features.coordinates.rank, -scales.variance))
    chosen = np.sort(order[:width])
    # The centre is not where rows' mean is.
    root = np.sqrt(scales.variance[chosen] + scales.mean_noise[chosen])
    scale = np.sqrt(root) * math.sqrt(reach * float(root.sum()))
    return SecondMomentsSpec(
        edges=features.edges,
        chosen=tuple(chosen.tolist()),
        centre=tuple(scales.mean[chosen].tolist()),
        scale=tuple(np.minimum(scale, _MOST_SCALE).tolist()),
    )


def _shrunk(away: FloatArray, noise: FloatArray, features: ShellMoments) -> FloatArray:
    """Means, from the middle of the domain, drawn to it in each band as far as noise explains their size."""
    found = np.empty_like(away)
    for band in itertools.chain.from_iterable(features.coordinates.bands):
        squared = float((away[band] ** 2).mean())
        found[band] = away[band] * (max(0.0, 1.0 - noise[band][0] / squared) if squared > 0 else 0.0)
    return found


def _smoothed(raw: FloatArray, deviations: FloatArray, features: ShellMoments) -> FloatArray:
    """Variances without most of their noise, above 0.

    Means of the bands of a block do not rise with the frequency; each coordinate is drawn to its band's as
    far as noise explains how they differ.

    Args:
        raw: (n,) with the noise in them.
        deviations: (n,) of the noise in each, the same in a block.
        features: has the bands.
    """
    found = np.empty_like(raw)
    least = _LEAST * max(float(raw.mean()), 1e-9)
    for bands in features.coordinates.bands:
        means = _falling([float(raw[band].mean()) for band in bands], [len(band) for band in bands])
        for band, mean in zip(bands, means, strict=True):
            n = deviations[band][0]
            away = raw[band] - mean
            squared = float((away**2).mean())
            kept = max(0.0, 1.0 - n**2 / squared) if squared > 0 else 0.0
            found[band] = np.maximum(mean + kept * away, max(least, min(mean, 0.5 * n)))
    return found


def _falling(means: list[float], sizes: list[int]) -> list[float]:
    """The nearest means that do not rise, each as heavy as its size (pool adjacent violators)."""
    pools: list[tuple[float, int, int]] = []  # mean, size, how many bands
    for mean, size in zip(means, sizes, strict=True):
        count = 1
        while pools and pools[-1][0] < mean:
            other, weight, bands = pools.pop()
            mean = (mean * size + other * weight) / (size + weight)
            size, count = size + weight, count + bands
        pools.append((mean, size, count))
    return [mean for mean, _, count in pools for _ in range(count)]
