"""Weighted points as a distribution, to draw rows from; post-processing of a release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.embeddings.weighted_points import WeightedPoints, distance
from fedkme.errors import DataError


@dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """Points with non-negative weights that sum to 1, for learners that take sample weights.

    Attributes:
        points: the released locations with their new weights.
        negative: sum of |w| over the released weights below 0.
        moved: RKHS distance between these points and the released points.
    """

    points: WeightedPoints
    negative: float
    moved: float


def distribution(points: WeightedPoints, gamma: float) -> Distribution:
    """The nearest distribution on the same locations, in the RKHS.

    Learners cannot use negative weights: most learners refuse them, and others may maximise a loss. Without
    negative weights the mass that they cancel would remain. So the weights are fitted again with w >= 0 and
    sum w = 1, closest to the released function. The embedding of the private rows is the embedding of a
    distribution, so the fit takes away noise rather than signal. Weights that are a distribution stay.
    """
    weights = points.weights
    negative = float(-weights[weights < 0].sum())
    if not negative and abs(float(weights.sum()) - 1.0) < 1e-9:
        return Distribution(points, 0.0, 0.0)
    gram = rbf(points.points, points.points, gamma)
    fitted = fit_simplex(gram, gram @ weights).weights
    nearest = WeightedPoints(points.points, fitted)
    return Distribution(nearest, negative, distance(nearest, points, gamma))


def resample(points: WeightedPoints, count: int, seed: int) -> NDArray[np.int64]:
    """Indices of `count` equally weighted draws, (count,): for learners without sample weights.

    Systematic: a point of weight w appears floor(count w) or ceil(count w) times, and count w on average.

    Raises:
        DataError: a negative weight, or a sum other than 1; take `distribution` first.
    """
    weights = points.weights
    if (weights < 0).any() or abs(float(weights.sum()) - 1.0) > 1e-6 or count < 1:
        raise DataError(
            "these weights are no distribution to draw from", "Draw from `distribution` of the points."
        )
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    ticks = (np.arange(count) + rng.random()) / count
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), ticks)
    return np.minimum(places, len(weights) - 1).astype(np.int64)
